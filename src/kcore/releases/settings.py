"""The types of a release's tables of settings, and short forms to write these tables."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from kcore.schema.configs import ConfigType


@dataclass(frozen=True, slots=True)
class TopicConfig:
    """One setting. `at_least`, `at_most`: bounds of a number. `among`: valid values of a text or of a list's member."""

    name: str
    kind: int  # A ConfigType of DescribeConfigs.
    default: str
    at_least: float | None = None
    at_most: float | None = None
    among: tuple[str, ...] = ()
    server: str | None = None  # The broker's setting that is the default of the topic's setting.
    server_default: bool = True  # True if the broker's setting has a default.
    is_internal: bool = False  # DescribeConfigs shows the setting only if the topic sets it.
    is_set: bool = False  # A list of distinct members that are not empty.
    ignores_case: bool = False  # `among` is compared without case.
    may_be_empty: bool = True


TopicConfigs: TypeAlias = Mapping[str, TopicConfig]


class GroupBounds(NamedTuple):
    """The bounds of a group's setting. The settings `lowest` and `highest` of server.properties replace the numbers."""

    name: str
    lowest: str  # Empty if there is no lowest value.
    at_least: int
    highest: str  # Empty if there is no highest value.
    at_most: int


def by_name(configs: Iterable[TopicConfig]) -> dict[str, TopicConfig]:
    """The settings by their names, in the same order."""
    return {each.name: each for each in configs}


def with_added(before: TopicConfigs, added: Mapping[str, Sequence[TopicConfig]]) -> dict[str, TopicConfig]:
    """The settings of an older release with the `added` ones, each behind the setting that precedes it."""
    return by_name(each for first in before.values() for each in (first, *added.get(first.name, ())))


def numbers(table: str) -> list[TopicConfig]:
    """The settings of type INT in a text: on each line a name, the default, and the lowest valid value."""
    return [
        TopicConfig(name, ConfigType.INT, default, int(lowest))
        for name, default, lowest in map(str.split, table.split("\n"))
    ]


def bounds(kind: str, setting: str, at_least: int, at_most: int) -> GroupBounds:
    """The bounds of a setting of one kind of group."""
    group = f"group.{kind}"
    return GroupBounds(f"{kind}.{setting}", f"{group}.min.{setting}", at_least, f"{group}.max.{setting}", at_most)


def bounds_of_kind(kind: str) -> tuple[GroupBounds, ...]:
    """The bounds that each kind of group has."""
    return bounds(kind, "heartbeat.interval.ms", 5000, 15000), bounds(kind, "session.timeout.ms", 45000, 60000)
