"""Messages take keywords that type checkers and Python check, and print in bounded size."""

import ast
import copy
import importlib.util
import pickle
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import kcore
from kcore.errors import ArgumentError, KcoreError
from kcore.schema import ControlledShutdownRequest, FetchRequest, FetchResponse, LeaderAndIsrRequest
from kcore.schema.fetch import FetchableTopicResponse, FetchTopic, PartitionData
from kcore.schema.structure import Message, Struct

ROOT = Path(__file__).parents[2]


def generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("schema_stubs", ROOT / "ci" / "schema_stubs.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


STUBS = generator()


def test_an_unknown_field_is_refused_with_a_suggestion() -> None:
    with pytest.raises(ArgumentError, match=r"^FetchRequest has no field 'max_wayt_ms'; did you mean 'max_wait_ms'\?$"):
        FetchRequest(max_wayt_ms=3)  # type: ignore[call-arg]
    with pytest.raises(
        ArgumentError, match="FetchTopic has no field 'zzz'; its fields are topic, topic_id, partitions"
    ):
        FetchTopic(zzz=3)  # type: ignore[call-arg]
    with pytest.raises(ArgumentError, match=r"FetchRequest takes only keywords, such as FetchRequest\(cluster_id="):
        FetchRequest(3)  # type: ignore[call-arg]
    assert issubclass(ArgumentError, TypeError) and issubclass(ArgumentError, KcoreError)
    assert FetchRequest(max_wait_ms=3).max_wait_ms == 3


class OfAUser(ControlledShutdownRequest, versions="0-3", flexible="3+"):
    """A subclass with an `__init__` of its own."""

    __slots__ = ()

    def __init__(self, broker: int) -> None:
        super().__init__(broker_id=broker)


def test_an_init_of_a_users_own_says_itself_what_it_lacks() -> None:
    assert OfAUser(4).broker_id == 4
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'broker'") as raised:
        OfAUser()  # type: ignore[call-arg]
    assert not isinstance(raised.value, ArgumentError)


def test_a_refused_call_names_no_field_that_was_right() -> None:
    with pytest.raises(ArgumentError, match="FetchTopic has no field 'topicId'"):
        FetchTopic(topic="a", unknown_tagged_fields=(), topicId=1)  # type: ignore[call-arg]


def test_every_class_of_the_schema_has_its_fields_in_a_stub() -> None:
    """Names and types in order, read without the generator's help; `ci/schema_stubs.py` makes the stubs."""
    classes = 0
    for path in STUBS.sources():
        source, stub = (ast.parse(each.read_text(encoding="utf-8")) for each in (path, path.with_suffix(".pyi")))
        assert fields(stub) == fields(source), f"{path}: run ci/schema_stubs.py"
        classes += len(fields(source))
    assert classes > 500


def fields(tree: ast.Module) -> dict[str, list[str]]:
    """For each class: its bases and keywords, then its fields and their types."""
    found = {}
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            heads = [ast.unparse(each) for each in (*node.bases, *(keyword.value for keyword in node.keywords))]
            own = [each for each in node.body if isinstance(each, ast.AnnAssign)]
            found[node.name] = heads + [f"{ast.unparse(each.target)}: {ast.unparse(each.annotation)}" for each in own]
    return found


def test_every_message_has_a_stub() -> None:
    for message in kcore.messages.values():
        file = Path(sys.modules[message.__module__].__file__ or "")
        assert f"class {message.__name__}(" in file.with_suffix(".pyi").read_text(encoding="utf-8")


PROGRAM = """
from kcore.schema import FetchRequest
FetchRequest(max_wait_ms=3, topics=[])
FetchRequest(max_wayt_ms=3)
FetchRequest(max_wait_ms="3")
FetchRequest(3)
"""


@pytest.mark.long
def test_a_type_checker_knows_the_fields(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    command = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "--config-file=", str(program)]
    # Where the package is installed in place, mypy finds its types by the path alone. Its cache is kept: a quarter of a
    # minute without.
    environment = {"MYPYPATH": str(ROOT / "src"), "PATH": "", "MYPY_CACHE_DIR": str(ROOT / "build" / "mypy")}
    out = subprocess.run(command, capture_output=True, text=True, env=environment, check=False).stdout
    lines = [line.partition("program.py:")[2] for line in out.splitlines() if ": error: " in line]
    assert {line.partition(":")[0] for line in lines} == {"4", "5", "6"}, out
    assert 'did you mean "max_wait_ms"' in lines[0]


def test_repr_is_bounded() -> None:
    """A regression: a response of 100,000 partitions printed tens of megabytes."""
    partitions = [PartitionData(partition_index=k, records=bytes(1000)) for k in range(100_000)]
    text = repr(FetchResponse(responses=[FetchableTopicResponse(topic="t" * 1000, partitions=partitions)] * 30))
    assert len(text) < 11_000
    assert "... 99995 more]" in text and "records=<1000 bytes>" in text and "... 1000 characters" in text
    assert repr(FetchRequest(max_wait_ms=3)).startswith("FetchRequest(cluster_id=None, ")
    assert (
        repr(FetchTopic(partitions=[]))
        == "FetchTopic(topic='', topic_id=Uuid('AAAAAAAAAAAAAAAAAAAAAA'), partitions=[])"
    )


@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, lambda each: pickle.loads(pickle.dumps(each))])
def test_a_copy_of_a_message_is_equal(again: object) -> None:
    message = FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=[PartitionData(records=b"r")])])
    decoded = kcore.decode(FetchResponse, 11, kcore.encode(message, 11))
    assert again(decoded) == decoded == message  # type: ignore[operator]
    assert isinstance(LeaderAndIsrRequest(), Message | Struct)
