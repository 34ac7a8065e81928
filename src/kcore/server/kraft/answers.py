"""Responses of the controller on their way out."""

import asyncio

from kcore.controller.kraft.long_messages import fitting
from kcore.controller.rules.error_responses import in_version
from kcore.net.framed import Encoded, encoded
from kcore.schema.structure import Message


async def in_turns(response: Message, version: int) -> Encoded:
    """The bytes of a response as its version can have it; other events come in between where it is large."""
    for _ in fitting(response):
        await asyncio.sleep(0)
    return await encoded(in_version(response, version), version)
