"""Kafka's message schemas as classes: facts without bytes, one file an API family.

`from kcore.schema import FetchRequest` reads the file of that family alone; `__init__.pyi` lists all for type checkers.
"""

from typing import Any

from kcore.schema.index import MESSAGES as MESSAGES
from kcore.schema.index import message_class as message_class


def __getattr__(name: str) -> Any:
    if name in MESSAGES:
        return MESSAGES[name]
    raise AttributeError(f"module 'kcore.schema' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*globals(), *MESSAGES]
