"""Finds the places of those fields of a frame that change from one frame to the next; all other bytes stay equal."""

from collections.abc import Callable, Iterable, Sequence

from kcore.schema.structure import Message
from kcore.wire.codec import encode

Frame = tuple[bytes, list[int | None]]
"""A frame with its size, and the offset of each field; None for a field that its version lacks."""


def frame(header: Message, message: Message, version: int) -> bytes:
    """A request or a response of that version with its header and its size, as it is sent."""
    body = encode(header, message.header_version(version)) + encode(message, version)
    return len(body).to_bytes(4, "big") + body


def with_places(build: Callable[..., bytes], names: Sequence[str]) -> Frame:
    """The frame that `build` makes with all these fields 0, and the fields' places.

    A field begins at the first byte that changes when the field is -1 (all bytes 255) instead of 0; None if no byte
    changes. All fields have a fixed width.
    """
    zeros = dict.fromkeys(names, 0)
    base = build(**zeros)
    places = []
    for name in names:
        other = build(**zeros | {name: -1})
        differ = (at for at, (ours, theirs) in enumerate(zip(base, other, strict=True)) if ours != theirs)
        places.append(next(differ, None))
    return base, places


def is_made_of(pattern: bytes, zeros: bytes, fields: Iterable[tuple[int | None, int, int]]) -> bool:
    """True if `pattern` is the frame `zeros` with other values. `fields`: place, value and width (bytes) of each."""
    made = bytearray(zeros)
    for at, value, width in fields:
        if at is not None:
            made[at : at + width] = value.to_bytes(width, "big", signed=True)
    return made == pattern
