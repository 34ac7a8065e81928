"""Kafka's messages as classes: fields and versions, no bytes. Each API family has a file, each message one class.

`from kcore.schema import FetchRequest` imports only that family. A test compares every class with the schema files of
Kafka's jars. When the package is built, `ci/schema_stubs.py` writes stubs for type checkers: `__init__.pyi` lists all
messages, and the stub of a family has the fields of its classes.

- `structure`: the base classes of messages and structs, and `field`.
- `kinds`, `versions`: types of fields; ranges of versions.
- `index`: all messages by name and number, and their files; `catalogue` prints them.
- `documentation`: makes the text for `help` from the comments in a family's file.
- `kip590`: a dialect that Kafka did not ship. `coordinators`: records of the coordinators' own topics.
- All other modules are families: `fetch`, `produce`, `metadata_records_topics` and so on.
"""

from typing import Any

import kcore.schema.structure as _structure
from kcore.schema.index import MESSAGES as MESSAGES
from kcore.schema.index import message_class as message_class


def _documentation_of(struct: type[_structure.Struct]) -> str:
    from kcore.schema.documentation import documentation  # Imported late: only `help` needs this module.

    return documentation(struct)


_structure.documentation_of = _documentation_of


def __getattr__(name: str) -> Any:
    if name in MESSAGES:
        return globals().setdefault(name, MESSAGES[name])  # The next access does not come here.
    raise AttributeError(f"module 'kcore.schema' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*{*globals(), *MESSAGES}]
