"""A mapping of messages by name that prints as a table."""

from collections.abc import Iterator, Mapping
from typing import Final

from kcore.schema.index import MESSAGES, message_class
from kcore.schema.structure import Data, Message, MetadataRecord

TYPES: Final = ("request", "response", "header", "metadata", "data")


def message_type(message: type[Message]) -> str:
    """The message's type, one of TYPES, as in Kafka's schema files."""
    if issubclass(message, MetadataRecord | Data):
        return "metadata" if issubclass(message, MetadataRecord) else "data"
    return next(type_ for type_ in TYPES if message.__name__.endswith(type_.capitalize()))


class Messages(Mapping[str, type[Message]]):
    """All message classes by name, ordered by type and API key; `repr` prints them as a table."""

    def __getitem__(self, name: str) -> type[Message]:
        return message_class(name)

    def __len__(self) -> int:
        return len(MESSAGES)

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(MESSAGES, key=lambda name: (TYPES.index(message_type(self[name])), self[name].api_key)))

    def __repr__(self) -> str:
        rows = [("name", "type", "key", "versions", "flexible"), *(_row(message) for message in self.values())]
        return table(rows)


def _row(message: type[Message]) -> tuple[str, ...]:
    key = "" if message.api_key < 0 else str(message.api_key)
    return message.__name__, message_type(message), key, str(message.versions), str(message.flexible_versions)


def table(rows: list[tuple[str, ...]]) -> str:
    """The rows as lines of text; each column but the last is as wide as its widest cell."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)][:-1]
    padded = [[cell.ljust(width) for cell, width in zip(row, widths, strict=False)] + [row[-1]] for row in rows]
    return "\n".join("  ".join(cells).rstrip() for cells in padded)


messages: Final = Messages()
