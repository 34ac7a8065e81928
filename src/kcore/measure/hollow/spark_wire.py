"""Frames the messages between driver and tasks: JSON followed by bytes, over one TCP connection per task."""

import asyncio
import json
import struct
from typing import Any, Final

from kcore.errors import DisconnectedError, FrameError

_SIZES: Final = struct.Struct(">II")
_MOST_BYTES: Final = 256 << 20  # The limit of a frame.
Message = dict[str, Any]


def pack(message: Message, *parts: bytes) -> bytes:
    """Packs a message and its parts into one frame; the JSON lists the sizes of the parts."""
    text = json.dumps(message | {"parts": [len(part) for part in parts]}).encode()
    return _SIZES.pack(len(text), sum(map(len, parts))) + text + b"".join(parts)


async def receive(reader: asyncio.StreamReader) -> tuple[Message, list[bytes]]:
    """The next message and its parts; DisconnectedError at the end, FrameError for an invalid frame."""
    try:
        sizes = _SIZES.unpack(await reader.readexactly(_SIZES.size))
        if sum(sizes) > _MOST_BYTES:
            raise FrameError(f"a frame of {sum(sizes):,} bytes")
        text, rest = await reader.readexactly(sizes[0]), await reader.readexactly(sizes[1])
    except (OSError, EOFError) as error:
        raise DisconnectedError("the other side closed the connection") from error
    try:
        message: Message = json.loads(text)
        lengths, parts, at = message.pop("parts"), [], 0
        for length in lengths:
            parts.append(rest[at : at + length])
            at += length
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise FrameError(f"invalid frame: {error}") from error
    return message, parts
