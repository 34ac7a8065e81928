"""Error messages that would not fit a response: names in them may be as long as a string of the wire can be.

Kafka's own response of that kind cannot be written, and its client gets none.
"""

from collections.abc import Iterator, Sequence
from functools import cache
from typing import Final

from kcore.schema.structure import Message, Struct

MOST_BYTES: Final = 32_767  # Of a string on the wire.
KEPT: Final = 1_000  # Characters of a message that is longer; each has four bytes at most.
MESSAGE: Final = "error_message"
AT_ONCE: Final = 20_000  # Messages: some milliseconds.


def fitting(response: Message) -> Iterator[None]:
    """Cuts such messages of the response short, in place, part by part: it may have a million of them."""
    return _cut(type(response), [response])


@cache
def _has_messages(kind: type[Struct]) -> bool:
    return any(each.name == MESSAGE for each in kind.__fields__) or bool(_nested(kind))


@cache
def _nested(kind: type[Struct]) -> dict[str, type[Struct]]:
    """The lists of a struct whose elements have messages, and what these are."""
    elements = {each.name: each.type.element for each in kind.__fields__ if each.type.element is not None}
    structs = {name: each.struct for name, each in elements.items() if each.struct is not None}
    return {name: each for name, each in structs.items() if _has_messages(each)}


def _cut(kind: type[Struct], nodes: Sequence[Struct]) -> Iterator[None]:
    """All nodes of one kind together."""
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
