"""Kafka's message schemas as classes: facts without bytes, one file an API family.

`from kcore.schema import FetchRequest` reads the file of that family alone; `__init__.pyi` lists all for type checkers.
"""

from typing import Any

import kcore.schema.structure as _structure
from kcore.schema.index import MESSAGES as MESSAGES
from kcore.schema.index import message_class as message_class


def _documentation_of(struct: type[_structure.Struct]) -> str:
    from kcore.schema.documentation import documentation  # Only `help` needs it.

    return documentation(struct)


_structure.documentation_of = _documentation_of


def __getattr__(name: str) -> Any:
    if name in MESSAGES:
        return MESSAGES[name]
    raise AttributeError(f"module 'kcore.schema' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*globals(), *MESSAGES]
