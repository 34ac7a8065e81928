"""Levels as text."""

import pytest

from kcore.errors import LevelError
from kcore.releases.known import NEWEST
from kcore.replication.levels import Level, level_of


@pytest.mark.parametrize(
    ("text", "level"),
    [
        ("3.9.1", Level(True, "3.9.1", "3.9-IV0")),
        ("zookeeper:2.8-IV1", Level(True, "3.9.1", "2.8-IV1")),
        ("4.1.2", Level(False, "4.1.2", "4.1-IV1")),
        ("3.6-IV0", Level(False, NEWEST.name, "3.6-IV0")),
        ("3.6-IV0@3.9.1", Level(False, "3.9.1", "3.6-IV0")),
        ("4.3.1", Level(False, "4.3.1", "4.3-IV0")),
        ("3.0-IV1", Level(False, "3.9.1", "3.0-IV1")),
    ],
)
def test_forms(text: str, level: Level) -> None:
    assert Level.parse(text) == level == level_of(text) == level_of(level)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "3.9.2",
        "3.9",
        "zookeeper:4.0-IV0",
        "zookeeper:3.9.1",
        "2.8-IV1",
        "3.0-IV1@4.1.2",
        "3.6-IV0@3.6",
        "4.1-IV1@3.9.1",
    ],
)
def test_other_text_is_an_error(text: str) -> None:
    with pytest.raises(LevelError):
        Level.parse(text)


@pytest.mark.parametrize(
    ("text", "recovery", "bump"),
    [("3.1-IV0", False, True), ("3.2-IV0", True, True), ("3.5-IV2", True, True), ("3.6-IV0", True, False)],
)
def test_what_came_when(text: str, recovery: bool, bump: bool) -> None:
    level = Level.parse(text)
    assert (level.leader_recovery_supported, level.epoch_bump_on_isr_shrink) == (recovery, bump)
