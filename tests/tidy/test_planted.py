"""Every bug, broken assumption and rule of the quorum has a planted fault that fits the source; its tests are there."""

import ast
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
FAULTS: list[dict[str, Any]] = [
    fault
    for path in sorted((ROOT / "tests" / "planted").glob("*.toml"))
    for fault in tomllib.loads(path.read_text(encoding="utf-8"))["fault"]
]


@cache
def functions_of(path: str) -> frozenset[str]:
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    return frozenset(node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: f"{fault['covers']}: {fault['bug']}")
def test_it_can_be_planted(fault: dict[str, Any]) -> None:
    assert fault.keys() == {"covers", "bug", "file", "find", "replace", "tests"}
    text = (ROOT / "src" / "kcore" / fault["file"]).read_text(encoding="utf-8")
    assert text.count(fault["find"]) == 1
    ast.parse(text.replace(fault["find"], fault["replace"]))
    assert fault["tests"]
    for test in fault["tests"]:
        path, _, name = test.partition("::")
        assert not name or name.partition("[")[0] in functions_of(path)


def test_every_bug_has_one() -> None:
    listed = tomllib.loads((ROOT / "tests" / "citations.toml").read_text(encoding="utf-8"))
    assumptions = {item for item in listed["KIP-380"] if item.startswith("assumption")}
    wanted = listed["bugs"].keys() | assumptions | listed["raft bugs"].keys() | listed["KIP-595"].keys()
    wanted |= listed["KRaft controller"].keys() | listed["directories"].keys()
    wanted |= listed["forwarding in ZooKeeper mode"].keys()
    wanted |= listed["KIP-858"].keys() | listed["KIP-858, the controller"].keys()
    assert sorted(wanted - {fault["covers"] for fault in FAULTS}) == []
