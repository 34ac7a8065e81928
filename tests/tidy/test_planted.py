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


def wrong_with(fault: dict[str, Any], text: str) -> str | None:
    """The reason why a fault cannot be planted in its file or found by a test; None if it can."""
    if fault.keys() != {"covers", "bug", "file", "find", "replace", "tests"}:
        return "other keys"
    if text.count(fault["find"]) != 1:
        return f"{fault['find']!r} is there {text.count(fault['find'])} times"
    tests = [test.partition("::") for test in fault["tests"]]
    missing = [name for path, _, name in tests if name and name.partition("[")[0] not in functions_of(path)]
    return f"no tests {missing}" if missing or not tests else None


def parse_with_faults(text: str, faults: list[dict[str, Any]]) -> None:
    """A fault is planted together with others, as long as its text is there once: few parses for many faults."""
    while faults:
        planted, together, later = text, [], []
        for fault in faults:
            if planted.count(fault["find"]) == 1:
                planted = planted.replace(fault["find"], fault["replace"])
                together.append(fault)
            else:
                later.append(fault)
        try:
            ast.parse(planted)
        except SyntaxError:  # Two of them may leave a function without a statement.
            for fault in together:
                ast.parse(text.replace(fault["find"], fault["replace"]))
        faults = later


def test_each_can_be_planted() -> None:
    by_file: dict[str, list[dict[str, Any]]] = {}
    for fault in FAULTS:
        by_file.setdefault(fault["file"], []).append(fault)
    for file, faults in by_file.items():
        text = (ROOT / "src" / "kcore" / file).read_text(encoding="utf-8")
        wrong = {f"{fault['covers']}: {fault['bug']}": wrong_with(fault, text) for fault in faults}
        assert {bug: why for bug, why in wrong.items() if why} == {}, file
        parse_with_faults(text, faults)


def test_a_fault_that_cannot_be_planted_is_found() -> None:
    fault = {
        "covers": "A1",
        "bug": "b",
        "file": "f",
        "find": "x + 1",
        "replace": "x",
        "tests": ["tests/tidy/test_size.py::test_size"],
    }
    assert wrong_with(fault, "y = x + 1") is None
    assert wrong_with(fault, "y = x + 1 + x + 1") and wrong_with(fault, "y = x")
    assert wrong_with(fault | {"tests": []}, "y = x + 1")
    assert wrong_with(fault | {"tests": ["tests/tidy/test_size.py::test_none"]}, "y = x + 1")
    other = fault | {"find": "y =", "replace": "y = ("}
    with pytest.raises(SyntaxError):
        parse_with_faults("y = x + 1", [fault, other])
    parse_with_faults(
        "if x:\n    a\n    b", [fault | {"find": "    a\n", "replace": ""}, fault | {"find": "    b", "replace": ""}]
    )
    with pytest.raises(SyntaxError):  # In a second round, since the first has changed its text.
        parse_with_faults("y = x + 1", [fault, fault | {"replace": "x ("}])


def test_every_bug_has_one() -> None:
    listed = tomllib.loads((ROOT / "tests" / "citations.toml").read_text(encoding="utf-8"))
    assumptions = {item for item in listed["KIP-380"] if item.startswith("assumption")}
    wanted = listed["bugs"].keys() | assumptions | listed["raft bugs"].keys() | listed["KIP-595"].keys()
    wanted |= listed["KRaft controller"].keys() | listed["directories"].keys()
    wanted |= listed["forwarding in ZooKeeper mode"].keys()
    wanted |= listed["KIP-858"].keys() | listed["KIP-858, the controller"].keys()
    assert sorted(wanted - {fault["covers"] for fault in FAULTS}) == []
