"""Truncates error messages of responses that are too long for the wire.

A message may quote a name from the request, which may be as long as a string on the wire can be. Kafka cannot encode
the longer message, and its client gets no response; kcore truncates the message.
"""

from collections.abc import Iterator, Sequence
from functools import cache
from typing import Final

from kcore.net.limits.work_in_parts import next_turn
from kcore.schema.structure import Message, Struct

MOST_BYTES: Final = 32_767  # UTF-8 bytes in the longest string on the wire.
KEPT: Final = 1_000  # Characters that remain of a longer message; each has at most four bytes.
MESSAGE: Final = "error_message"
AT_ONCE: Final = 500  # Structs that are checked in one step, which takes a tenth of a millisecond.


def fitting(response: Message) -> Iterator[None]:
    """Truncates error messages that are too long, in place. Each step does a part: there may be a million messages."""
    return _cut(type(response), [response])


@cache
def _has_messages(kind: type[Struct]) -> bool:
    return any(each.name == MESSAGE for each in kind.__fields__) or bool(_nested(kind))


@cache
def _nested(kind: type[Struct]) -> dict[str, type[Struct]]:
    """The list fields of `kind` whose elements may contain error messages, each with the class of its elements."""
    elements = {each.name: each.type.element for each in kind.__fields__ if each.type.element is not None}
    structs = {name: each.struct for name, each in elements.items() if each.struct is not None}
    return {name: each for name, each in structs.items() if _has_messages(each)}


def _cut(kind: type[Struct], nodes: Sequence[Struct]) -> Iterator[None]:
    """Truncates the messages in `nodes`, which are all of class `kind`, and in their nested lists."""
    has_message = any(each.name == MESSAGE for each in kind.__fields__)
    for begin in range(0, len(nodes), AT_ONCE):
        if begin:
            yield
        part = nodes[begin : begin + AT_ONCE]
        if has_message:
            _cut_these(part)
        for name, inner in _nested(kind).items():
            yield from _cut(inner, [each for node in part for each in getattr(node, name) or ()])


def _cut_these(nodes: Sequence[Struct]) -> None:
    for node in [each for each in nodes if getattr(each, MESSAGE) is not None]:
        text: str = getattr(node, MESSAGE)
        if 4 * len(text) > MOST_BYTES and len(text.encode()) > MOST_BYTES:
            setattr(node, MESSAGE, f"{text[:KEPT]}...")


async def made_to_fit(response: Message) -> None:
    """Truncates messages that are too long; the event loop runs other work between parts of a large response."""
    for _ in fitting(response):
        await next_turn()
