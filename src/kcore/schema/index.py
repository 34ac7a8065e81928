"""Every message by name, found by walking the classes."""

from collections.abc import Iterator

from kcore.errors import UnknownMessageError
from kcore.schema import controlled_shutdown, headers, leader_and_isr, stop_replica, update_metadata
from kcore.schema.structure import Message

FAMILIES = (controlled_shutdown, headers, leader_and_isr, stop_replica, update_metadata)


def _walk() -> Iterator[type[Message]]:
    for family in FAMILIES:
        for value in vars(family).values():
            if isinstance(value, type) and issubclass(value, Message) and value is not Message:
                yield value


MESSAGES: dict[str, type[Message]] = {message.__name__: message for message in _walk()}
REQUESTS: dict[int, type[Message]] = {m.api_key: m for m in MESSAGES.values() if m.__name__.endswith("Request")}


def message_class(name: str | type[Message]) -> type[Message]:
    """The class of that name (or the class itself); UnknownMessageError names what there is."""
    if isinstance(name, type):
        return name
    try:
        return MESSAGES[name]
    except KeyError:
        raise UnknownMessageError(f"no message is called {name!r}; there are {', '.join(sorted(MESSAGES))}") from None
