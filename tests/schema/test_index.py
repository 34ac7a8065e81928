"""The index matches the files, and the stubs for type checkers match the classes at run time."""

import ast
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import kcore.schema
from kcore.schema import index
from kcore.schema.structure import Message

FOLDER = Path(index.__file__).parent
FILES = {path.stem for path in FOLDER.glob("*.py")}
NO_FAMILIES = {"catalogue", "documentation", "__init__", "index", "kinds", "structure", "versions"}


def test_every_file_is_a_family_or_a_dialect() -> None:
    assert {*index.FAMILIES, *index.DIALECTS} == FILES - NO_FAMILIES
    assert {path.parent.name for path in FOLDER.glob("*/*.py")} == {"coordinators"}  # Records that no index names.


@pytest.mark.parametrize("family", index.FAMILIES)
def test_a_family_has_the_messages_that_the_index_names(family: str) -> None:
    module = import_module(f"kcore.schema.{family}")
    own = [value for value in vars(module).values() if getattr(value, "__module__", "") == module.__name__]
    messages = {value.__name__ for value in own if isinstance(value, type) and issubclass(value, Message)}
    assert messages == set(index.FAMILIES[family])


@pytest.mark.parametrize("by_number", [index.REQUESTS, index.METADATA_RECORDS], ids=["requests", "records"])
def test_numbers_are_those_of_the_classes(by_number: index.Lazy[int]) -> None:
    assert {number: message.api_key for number, message in by_number.items()} == {n: n for n in by_number}


def test_the_later_of_two_apis_has_their_number() -> None:
    assert index.REQUESTS[74].__name__ == "ListConfigResourcesRequest"
    assert kcore.schema.MESSAGES["ListClientMetricsResourcesRequest"].api_key == 74


def test_the_stub_lists_every_message() -> None:
    stub = Path(index.__file__).with_name("__init__.pyi").read_text(encoding="utf-8")
    listed = {
        (node.module, alias.name)
        for node in ast.parse(stub).body
        if isinstance(node, ast.ImportFrom) and node.module != "kcore.schema.index"
        for alias in node.names
    }
    assert listed == {(f"kcore.schema.{family}", name) for family, names in index.FAMILIES.items() for name in names}


def test_messages_are_attributes_of_the_package() -> None:
    assert kcore.schema.FetchRequest is kcore.schema.MESSAGES["FetchRequest"]
    assert "FetchRequest" in dir(kcore.schema)
    assert vars(kcore.schema)[kcore.schema.FetchRequest.__name__] is kcore.schema.FetchRequest  # Resolved only once.
    assert len(dir(kcore.schema)) == len({*dir(kcore.schema)})
    missing = "FetchRequests"
    with pytest.raises(AttributeError, match=missing):
        getattr(kcore.schema, missing)


def test_a_family_is_read_when_it_is_used() -> None:
    code = (
        "import sys, kcore.schema as schema; before = 'kcore.schema.fetch' in sys.modules;"
        "schema.FetchRequest; print(before, 'kcore.schema.fetch' in sys.modules, 'kcore.schema.acls' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "True", "False"]
