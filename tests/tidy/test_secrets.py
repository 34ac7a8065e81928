"""No generated `repr` shows a field with the name of a secret: a repr ends up in logs and errors."""

import collections
import dataclasses
import importlib
import inspect
import pkgutil
import re
from collections.abc import Iterator
from types import ModuleType
from typing import Any, NamedTuple

import pytest

import kcore
from kcore.schema.index import MESSAGES
from kcore.schema.kinds import Kind

SOUNDS = re.compile(r"password|secret|salt|hmac|stored_key|server_key|token_key|auth_bytes|jaas|^key$|^options$")
HOLDS = re.compile(r"\b(str|bytes|dict|Mapping)\b")
NO_SECRETS = {  # By class and field, and what it is.
    ("Record", "key"): "of a record in a log, whose value is shown as well",
    ("DecodedRecord", "key"): "of a record in a log",
    ("PeerVersions", "by_key"): "API keys",
}
NOT_IMPORTED = ("kcore.spark", "kcore.__main__")  # A Spark of its own, and a command.


def modules() -> Iterator[ModuleType]:
    for each in pkgutil.walk_packages(kcore.__path__, "kcore."):
        if not each.name.startswith(NOT_IMPORTED):
            yield importlib.import_module(each.name)


def shown(kind: type) -> dict[str, str]:
    """The fields that its `repr` shows, with their types."""
    if dataclasses.is_dataclass(kind):
        has_repr = kind.__dataclass_params__.repr  # type: ignore[attr-defined]
        return {each.name: str(each.type) for each in dataclasses.fields(kind) if each.repr and has_repr}
    if issubclass(kind, tuple) and hasattr(kind, "_fields"):
        is_pythons = kind.__repr__.__code__.co_filename == collections.__file__  # type: ignore[attr-defined]
        return {name: str(kind.__annotations__.get(name)) for name in kind._fields if is_pythons}
    return {}


def suspects(kind: type) -> list[tuple[str, str]]:
    fields = shown(kind).items()
    found = [name for name, type_ in fields if SOUNDS.search(name) and HOLDS.search(type_) and "tuple[str" not in type_]
    return [(kind.__name__, name) for name in found if (kind.__name__, name) not in NO_SECRETS]


@pytest.mark.long
def test_the_fields_of_classes() -> None:
    classes = [
        each
        for module in modules()
        for each in vars(module).values()
        if inspect.isclass(each) and each.__module__ == module.__name__
    ]
    assert len(classes) > 1_000
    assert [suspect for each in classes for suspect in suspects(each)] == []


@dataclasses.dataclass
class Careless:
    user: str
    password: str


class CarelessTuple(NamedTuple):
    token_key: str | None


def test_a_careless_class_is_found() -> None:
    assert suspects(Careless) == [("Careless", "password")]
    assert suspects(CarelessTuple) == [("CarelessTuple", "token_key")]


def structs(kind: Any) -> Iterator[Any]:
    yield kind
    for each in kind.__fields__:
        inner = each.type.element if each.type.kind is Kind.ARRAY else each.type
        if inner.struct is not None:
            yield from structs(inner.struct)


def test_the_fields_of_messages() -> None:
    texts = (Kind.BYTES, Kind.STRING)
    for struct in (struct for message in MESSAGES.values() for struct in structs(message)):
        for each in struct.__fields__:
            if each.type.kind in texts and SOUNDS.search(each.name) and each.name != "key":
                assert each.options.secret, f"{struct.__name__}.{each.name}"
