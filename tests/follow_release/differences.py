"""Differences between a release of Kafka and kcore, by kind."""

from collections.abc import Iterable
from typing import Final, NamedTuple

EXAMPLES: Final = 5


class Difference(NamedTuple):
    """`kind`: what differs; `subject`: the message, decision or request; `what`: the values on both sides."""

    kind: str
    subject: str
    what: str


class Kind(NamedTuple):
    """All differences of one kind: their number, the number by subject, and the first of them."""

    name: str
    total: int
    subjects: dict[str, int]
    examples: list[str]


def by_kind(differences: Iterable[Difference]) -> list[Kind]:
    """The kinds, the most frequent first."""
    groups: dict[str, list[Difference]] = {}
    for each in differences:
        groups.setdefault(each.kind, []).append(each)
    return sorted((_kind(name, found) for name, found in groups.items()), key=lambda kind: (-kind.total, kind.name))


def _kind(name: str, found: list[Difference]) -> Kind:
    subjects: dict[str, int] = {}
    for each in found:
        subjects[each.subject] = subjects.get(each.subject, 0) + 1
    first: dict[str, Difference] = {}  # One example a subject.
    for each in found:
        first.setdefault(each.subject, each)
    examples = [f"{each.subject}: {each.what}" for each in list(first.values())[:EXAMPLES]]
    return Kind(name, len(found), dict(sorted(subjects.items(), key=lambda item: (-item[1], item[0]))), examples)
