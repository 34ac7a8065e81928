"""Describes a recording without a replay: events by kind and minute, the busiest minutes, failures and their spread."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from kcore.measure.storm.replay.events import (
    Consequence,
    ControlledShutdown,
    DirectoriesLost,
    Event,
    MissedHeartbeats,
    NotReplayed,
    Partition,
    Unfenced,
    name_of,
    size_of,
)
from kcore.measure.storm.replay.partition_causes import PartitionCause
from kcore.measure.storm.replay.recording import Recording, text_of
from kcore.metadata.image.image import ClusterImage

MINUTE_MS: Final = 60_000
BUSIEST: Final = 5
TOGETHER_MS: Final = 60_000  # Failures that are at most so far apart belong to one incident.


@dataclass(frozen=True, slots=True)
class KindCount:
    """The events of one kind, and the topics, partitions, settings or brokers in them."""

    kind: str
    events: int
    items: int
    why: str = ""  # Why a replay leaves these events out.


@dataclass(frozen=True, slots=True)
class Minute:
    """The events of one minute by kind, with consequences."""

    time: str
    events: int
    kinds: dict[str, int]


@dataclass(frozen=True, slots=True)
class Incident:
    """Failures that happened together."""

    time: str
    seconds: float  # from the first failure to the last
    failures: dict[str, int]  # by kind
    brokers: tuple[int, ...]
    racks: tuple[str, ...]
    partitions: int  # that the controller changed because of the failures
    unfenced_s: float | None  # from the first failure until the last of the brokers was unfenced; None if one was not


@dataclass(frozen=True, slots=True)
class Description:
    """The content of a recording."""

    trace: str
    begin: str
    end: str
    seconds: float
    records: int
    brokers: int  # at the end
    topics: int
    partitions: int
    has_snapshot: bool
    problem: str
    causes: list[KindCount] = field(default_factory=list)
    consequences: list[KindCount] = field(default_factory=list)
    not_replayed: list[KindCount] = field(default_factory=list)
    minutes: list[Minute] = field(default_factory=list)
    busiest: list[Minute] = field(default_factory=list)
    incidents: list[Incident] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        """Plain values by name."""
        return asdict(self)


def describe(recording: Recording, *, has_snapshot: bool = False, problem: str = "") -> Description:
    """Counts the events of a recording."""
    image, events = recording.after, recording.events
    minutes = _minutes(events)
    by_count = sorted(minutes, key=lambda each: -each.events)
    return Description(
        recording.name,
        text_of(recording.from_ms),
        text_of(recording.to_ms),
        (recording.to_ms - recording.from_ms) / 1_000,
        sum(len(batch.records) for batch in recording.batches),
        len([*image.brokers]),
        len(image.topic_ids),
        image.table.partition_count,
        has_snapshot,
        problem,
        _kinds(recording.causes),
        _kinds([each for each in events if isinstance(each.what, Consequence)]),
        _kinds([each for each in events if isinstance(each.what, NotReplayed)]),
        minutes,
        by_count[:BUSIEST],
        _incidents(events, image),
    )


def _kinds(events: Sequence[Event]) -> list[KindCount]:
    counts, items, why = Counter[str](), Counter[str](), dict[str, str]()
    for event in events:
        name = name_of(event.what)
        counts[name] += 1
        items[name] += size_of(event.what)
        why[name] = event.what.why if isinstance(event.what, NotReplayed) else ""
    return [KindCount(name, count, items[name], why[name]) for name, count in counts.most_common()]


def _minutes(events: Sequence[Event]) -> list[Minute]:
    found: dict[int, Counter[str]] = {}
    for event in events:
        found.setdefault(event.time_ms // MINUTE_MS, Counter())[name_of(event.what)] += 1
    return [
        Minute(text_of(minute * MINUTE_MS, to_minute=True), kinds.total(), dict(kinds.most_common()))
        for minute, kinds in sorted(found.items())
    ]


def _incidents(events: Sequence[Event], image: ClusterImage) -> list[Incident]:
    groups: list[list[Event]] = []
    for event in events:
        if isinstance(event.what, MissedHeartbeats | ControlledShutdown | DirectoriesLost):
            if groups and event.time_ms - groups[-1][-1].time_ms <= TOGETHER_MS:
                groups[-1].append(event)
            else:
                groups.append([event])
    return [_incident(group, events, image) for group in groups]


def _incident(group: Sequence[Event], events: Sequence[Event], image: ClusterImage) -> Incident:
    first, last = group[0], group[-1]
    failed = [
        each.what for each in group if isinstance(each.what, MissedHeartbeats | ControlledShutdown | DirectoriesLost)
    ]
    ended = {each.broker_id for each in failed if not isinstance(each, DirectoriesLost)}
    times = {each.time_ms for each in group}
    changed: set[Partition] = set()
    unfenced: dict[int, int] = {}
    for event in events:
        what = event.what
        if isinstance(what, Unfenced) and what.broker_id in ended and event.time_ms >= last.time_ms:
            unfenced.setdefault(what.broker_id, event.time_ms)
        if not isinstance(what, Consequence):
            continue
        if what.kind == PartitionCause.LEAVING.value and event.time_ms in times:
            changed.update(what.partitions)
    brokers = tuple(sorted({each.broker_id for each in failed}))
    racks = {found.rack for each in brokers if (found := image.brokers.get(each)) and found.rack}
    is_whole = unfenced.keys() == ended
    return Incident(
        text_of(first.time_ms),
        (last.time_ms - first.time_ms) / 1_000,
        dict(Counter(each.kind for each in failed).most_common()),
        brokers,
        tuple(sorted(racks)),
        len(changed),
        (max(unfenced.values(), default=first.time_ms) - first.time_ms) / 1_000 if is_whole else None,
    )
