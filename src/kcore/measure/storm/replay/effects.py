"""Finds what each cause of a recording changed: the recorded states of partitions after it, and the brokers with them.

Consequences have no time of their own in a replay: their changes belong to the cause in the same batch. A cause that
takes a broker out of service has them before itself, every other cause has them behind itself, as Kafka writes them.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from kcore.measure.storm.replay.causes import events_of
from kcore.measure.storm.replay.events import (
    Cause,
    ConfigsAltered,
    Consequence,
    DirectoriesLost,
    Event,
    MissedHeartbeats,
    NotReplayed,
    Partition,
    Registration,
    TopicsDeleted,
    Unregistration,
)
from kcore.measure.storm.replay.partition_states import Begin, Epochs, epochs_of, growth, row_of, state_of
from kcore.measure.storm.replay.trace import LogBatch
from kcore.metadata.image.image import ClusterImage
from kcore.metadata.table.partition_state import PartitionRegistration
from kcore.schema.configs import ConfigResourceType
from kcore.schema.metadata_records_topics import PartitionChangeRecord, PartitionRecord

_LEAVES: Final = MissedHeartbeats | Registration | DirectoriesLost | Unregistration


class Effect(NamedTuple):
    """The recorded state of a partition after an event. The epochs count from the recording's begin."""

    partition: Partition
    leader: int
    isr: frozenset[int]
    replicas: tuple[int, ...]
    epochs: Epochs


@dataclass(slots=True)
class Step:
    """A cause with its effects. `brokers`: those of the changed partitions, before and after the event."""

    event: Event
    cause: Cause
    effects: dict[Partition, Effect] = field(default_factory=dict)
    brokers: set[int] = field(default_factory=set)

    def add(self, changes: Iterable["_Change"]) -> None:
        """Adds changed partitions."""
        for change in changes:
            self.effects[change.effect.partition] = change.effect
            self.brokers |= change.brokers


class _Change(NamedTuple):
    offset: int
    effect: Effect
    brokers: set[int]


def effect_of(image: ClusterImage, partition: Partition, state: PartitionRegistration, begin: Begin) -> Effect:
    """The state of a partition, with epochs since the begin."""
    epochs = growth(image, partition, state, begin)
    return Effect(partition, state.leader, frozenset(state.isr), state.replicas, epochs)


def steps_of(before: ClusterImage, batches: Iterable[LogBatch]) -> list[Step]:
    """The causes in the batches with their effects. `before`: the state before the first batch."""
    image, classified, begin = before.copy(), before.copy(), epochs_of(before)
    steps: list[Step] = []
    for batch in batches:
        found = _steps_of_batch([*events_of(classified, [batch])], steps, image, batch, begin)
        steps += found
    return steps


def _steps_of_batch(
    events: list[Event], earlier: list[Step], image: ClusterImage, batch: LogBatch, begin: Begin
) -> list[Step]:
    found: list[Step] = []
    brokers = [_brokers_of_topics(image, event) for event in events]
    changes = _changes(image, batch, begin)
    waiting: list[_Change] = []  # Changes by consequences whose cause is not found yet.
    for event, concerned in zip(events, brokers, strict=True):
        own = [each for each in changes if each.offset <= event.offset]
        changes = changes[len(own) :]
        if isinstance(what := event.what, NotReplayed | Consequence):
            waiting += own
            continue
        if waiting and found and not isinstance(what, _LEAVES):
            found[-1].add(waiting)
            waiting = []
        step = Step(event, what, brokers=concerned)
        step.add([*waiting, *own])
        waiting = []
        found.append(step)
    if waiting and (steps := found or earlier):
        steps[-1].add(waiting)
    return found


def _changes(image: ClusterImage, batch: LogBatch, begin: Begin) -> list[_Change]:
    """The changed partitions of a batch in order; applies the batch to the image."""
    found = []
    for offset, record in batch.records:
        if not isinstance(record, PartitionRecord | PartitionChangeRecord):
            image.apply(record, offset)
            continue
        topic_row = image.topics.row_of_id(record.topic_id)
        assert topic_row is not None, f"a record of the unknown topic {record.topic_id}"
        partition = Partition(image.topics.names[topic_row] or "", record.partition_id)
        before = state_of(image, partition)
        image.apply(record, offset)
        after = image.table.registration(row_of(image, partition))
        brokers = {*after.replicas, *(before.replicas if before else ())}
        found.append(_Change(offset, effect_of(image, partition, after, begin), brokers))
    return found


def _brokers_of_topics(image: ClusterImage, event: Event) -> set[int]:
    """The brokers with replicas of topics that an event deletes, or whose settings it changes."""
    match event.what:
        case TopicsDeleted(names=names):
            pass
        case ConfigsAltered(settings=settings):
            names = tuple(each.resource_name for each in settings if each.resource_type == ConfigResourceType.TOPIC)
        case _:
            return set()
    found: set[int] = set()
    for name in names:
        if name in image.topics:
            for row in image.table.rows_of_topic(name).tolist():
                found.update(image.table.registration(row).replicas)
    return found
