"""Error messages that would not fit a response: names in them may be as long as a string of the wire can be.

Kafka's own response of that kind cannot be written, and its client gets none.
"""

from collections.abc import Sequence
from functools import cache
from typing import Final

from kcore.schema.structure import Message, Struct

MOST_BYTES: Final = 32_767  # Of a string on the wire.
KEPT: Final = 1_000  # Characters of a message that is longer; each has four bytes at most.
MESSAGE: Final = "error_message"


def fitting(response: Message) -> Message:
    """The response, with such messages cut short; it is changed in place."""
    if _has_messages(type(response)):
        _cut(type(response), [response])
    return response


@cache
def _has_messages(kind: type[Struct]) -> bool:
    return any(each.name == MESSAGE for each in kind.__fields__) or bool(_nested(kind))


@cache
def _nested(kind: type[Struct]) -> dict[str, type[Struct]]:
    """The lists of a struct whose elements have messages, and what these are."""
    elements = {each.name: each.type.element for each in kind.__fields__ if each.type.element is not None}
    structs = {name: each.struct for name, each in elements.items() if each.struct is not None}
    return {name: each for name, each in structs.items() if _has_messages(each)}


def _cut(kind: type[Struct], nodes: Sequence[Struct]) -> None:
    """All nodes of one kind together: a response may have a hundred thousand."""
    if any(each.name == MESSAGE for each in kind.__fields__):
        for node in [each for each in nodes if getattr(each, MESSAGE) is not None]:
            text: str = getattr(node, MESSAGE)
            if 4 * len(text) > MOST_BYTES and len(text.encode()) > MOST_BYTES:
                setattr(node, MESSAGE, f"{text[:KEPT]}...")
    for name, inner in _nested(kind).items():
        _cut(inner, [each for node in nodes for each in getattr(node, name) or ()])
