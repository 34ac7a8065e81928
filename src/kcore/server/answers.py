"""Fits and encodes the responses of controllers."""

from kcore.controller.rules.error_responses import in_version
from kcore.controller.rules.long_messages import fitting
from kcore.net.framed_connection import Encoded, encoded
from kcore.net.limits.work_in_parts import next_turn
from kcore.schema.structure import Message


async def made_to_fit(response: Message) -> None:
    """Truncates messages that are too long; the event loop runs other work between parts of a large response."""
    for _ in fitting(response):
        await next_turn()


async def in_turns(response: Message, version: int) -> Encoded:
    """Encodes a response for its version; the event loop runs other work between parts of a large response."""
    await made_to_fit(response)
    return await encoded(in_version(response, version), version)
