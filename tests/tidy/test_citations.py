"""Every known bug, every broken assumption, every step of the article, every rule of the quorum is cited by a test."""

import ast
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

TESTS = Path(__file__).parents[1]
LISTED: dict[str, dict[str, str]] = tomllib.loads((TESTS / "citations.toml").read_text(encoding="utf-8"))
NOT_CITED = ("of no concern",)  # Sections of what no test cites, each item with the reason.
ITEMS = {item for section, items in LISTED.items() if section not in NOT_CITED for item in items}
KNOWN_BUGS = {"A": 23, "B": 12, "E": 28}


def covers(test: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[str]:
    """The citations of a test: in a mark of its own, or in one of a parameter's."""
    for decorator in test.decorator_list:
        for node in ast.walk(decorator):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "pytest.mark.covers":
                yield from (ast.literal_eval(argument) for argument in node.args)


@cache
def cited() -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for path in sorted(TESTS.rglob("test_*.py")):
        text = path.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(text)) if "pytest.mark.covers" in text else ():
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
                for item in covers(node):
                    found.setdefault(item, []).append(f"{path.relative_to(TESTS)}::{node.name}")
    return found


def test_every_item_is_cited() -> None:
    assert sorted(ITEMS - cited().keys()) == []


def test_what_is_cited_is_listed() -> None:
    assert {item: tests for item, tests in cited().items() if item not in ITEMS} == {}


def test_the_bugs_are_all_there() -> None:
    listed = [item for items in LISTED.values() for item in items]
    assert len(listed) == len({*listed})
    for group, count in KNOWN_BUGS.items():
        assert {f"{group}{number}" for number in range(1, count + 1)} <= {*listed}
    forwarding = {f"{mode} D{number}" for mode in ("KRaft", "ZooKeeper") for number in range(1, 10)}
    assert forwarding <= {*listed}
    assert all(all(texts.values()) for texts in LISTED.values())
