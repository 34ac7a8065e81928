"""Responses of controllers on their way out."""

from kcore.controller.rules.error_responses import in_version
from kcore.controller.rules.long_messages import fitting
from kcore.net.framed_connection import Encoded, encoded
from kcore.net.limits.work_in_parts import next_turn
from kcore.schema.structure import Message


async def made_to_fit(response: Message) -> None:
    """Cuts its messages short that are too long; other events come in between where it is large."""
    for _ in fitting(response):
        await next_turn()


async def in_turns(response: Message, version: int) -> Encoded:
    """The bytes of a response as its version can have it; other events come in between where it is large."""
    await made_to_fit(response)
    return await encoded(in_version(response, version), version)
