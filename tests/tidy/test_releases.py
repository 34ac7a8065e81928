"""Each fact of a release has one place: only `kcore.releases` names releases of Kafka."""

import ast
import re
from collections.abc import Iterator
from dataclasses import fields, replace
from pathlib import Path

import pytest

from kcore.releases.known import RELEASES
from kcore.releases.rules import Rules

PACKAGE = Path(__file__).parents[2] / "src" / "kcore"
# Kafka as a target of measurements is another subject than the rules that kcore follows.
EXEMPT = ("releases", "measure", "cli/measure")
NAMES = re.compile("|".join(re.escape(name) for name in RELEASES))


def names_a_release(text: str) -> bool:
    """True for a literal with a release's name; messages for people, which have spaces, may cite one."""
    return NAMES.search(text) is not None and " " not in text


def texts(source: str) -> Iterator[str]:
    """The string literals in code; docstrings and other strings that are statements are documentation."""
    tree = ast.parse(source)
    documentation = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in documentation:
            yield node.value


def test_only_the_releases_name_a_release() -> None:
    paths = [
        path
        for path in sorted(PACKAGE.rglob("*.py"))
        if not any(path.is_relative_to(PACKAGE / folder) for folder in EXEMPT)
    ]
    assert len(paths) > 300
    found = [(str(path.relative_to(PACKAGE)), text) for path in paths for text in texts(path.read_text("utf-8"))]
    assert [(path, text) for path, text in found if names_a_release(text)] == []


@pytest.mark.parametrize("code", ['x == "4.3.1"', 'f"kafka-4.3.1{x}"', 'call(release="3.9.1")'])
def test_a_release_in_code_is_found(code: str) -> None:
    assert any(names_a_release(text) for text in texts(f'"""4.3.1"""\n{code}  # 4.1.2'))


def test_documentation_may_name_a_release() -> None:
    assert not any(names_a_release(text) for text in texts('"""As in 4.3.1."""\nx = 1  # 4.1.2\n"""As_in_3.9.1."""'))


@pytest.mark.parametrize("name", [field.name for field in fields(Rules)])
def test_every_rule_differs_between_releases_and_is_asked(name: str) -> None:
    assert len({getattr(each.rules, name) for each in RELEASES.values()}) > 1
    asked = re.compile(rf"rules\.{name}\b")
    paths = [path for path in PACKAGE.rglob("*.py") if not path.is_relative_to(PACKAGE / "releases")]
    assert any(asked.search(path.read_text("utf-8")) for path in paths)


def test_names_of_levels_stay_from_release_to_release() -> None:
    """A release may give a level that was not stable another name; none of the known releases did."""
    *older, newest = RELEASES.values()
    for each in older:
        assert newest.version_names[: len(each.version_names)] == each.version_names
    for each in RELEASES.values():
        assert {each.oldest_version, each.default_version, *each.changed_metadata} <= {*each.version_names}
        assert replace(each).supported_features == each.supported_features
