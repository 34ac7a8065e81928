"""When a replay does each event, and the earlier events that it waits for."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from kcore.measure.storm.replay.effects import Effect, Step
from kcore.measure.storm.replay.events import (
    Cause,
    ConfigsAltered,
    DirectoriesAssigned,
    Elected,
    Event,
    FeaturesUpdated,
    IsrsChanged,
    Partition,
    PartitionsAdded,
    ProducerIdsAllocated,
    QuotasAltered,
    Reassigned,
    TopicsCreated,
    TopicsDeleted,
)
from kcore.schema.configs import ConfigResourceType

BROKER: Final = "broker"
TOPIC: Final = "topic"
SETTINGS: Final = "settings"
Subject = tuple[str, str]  # A kind of object, and its name.
CLUSTER: Final[Subject] = ("cluster", "")


@dataclass(frozen=True, slots=True)
class Planned:
    """An event of a replay."""

    due_ms: float  # after the replay's begin
    event: Event
    cause: Cause
    effects: Mapping[Partition, Effect]
    shared: frozenset[Subject]  # The objects whose state the controller's decision depends on.


def subjects_of(cause: Cause) -> list[Subject]:
    """The brokers, topics or settings that an event changes."""
    match cause:
        case TopicsCreated():
            names = [each.name for each in cause.topics]
        case TopicsDeleted():
            names = [*cause.names]
        case PartitionsAdded():
            names = [cause.topic]
        case IsrsChanged():
            names = [each.partition.topic for each in cause.changes]
        case Reassigned():
            names = [each.topic for each in cause.moves]
        case Elected():
            names = [each.topic for each in cause.partitions]
        case DirectoriesAssigned():
            names = [each.topic for each in cause.directories]
        case ConfigsAltered():
            found = (
                (TOPIC if each.resource_type == ConfigResourceType.TOPIC else SETTINGS, each.resource_name)
                for each in cause.settings
            )
            return [*dict.fromkeys(found)]
        case FeaturesUpdated() | QuotasAltered() | ProducerIdsAllocated():
            return [(cause.kind, "")]
        case _:
            return [(BROKER, str(cause.broker_id))]
    return [(TOPIC, name) for name in dict.fromkeys(names)]


def owned_by(cause: Cause) -> list[Subject]:
    """The objects that no other event changes or depends on at the same time.

    Levels of features, and settings of brokers and of the cluster, may change every decision.
    """
    subjects = subjects_of(cause)
    if isinstance(cause, FeaturesUpdated) or any(kind == SETTINGS for kind, _ in subjects):
        return [*subjects, CLUSTER]
    return subjects


def schedule(steps: Sequence[Step], from_ms: int, speed: float) -> list[Planned]:
    """The causes with their due times, in the order of the recording."""
    return [
        Planned((step.event.time_ms - from_ms) / speed, step.event, step.cause, step.effects, _shared_by(step))
        for step in steps
    ]


def _shared_by(step: Step) -> frozenset[Subject]:
    brokers = {*step.brokers}
    if isinstance(step.cause, DirectoriesAssigned | ProducerIdsAllocated):
        brokers.add(step.cause.broker_id)
    return frozenset({CLUSTER, *((BROKER, str(each)) for each in brokers)} - {*owned_by(step.cause)})


class Order:
    """Keeps the recorded order of events that concern the same objects.

    An event waits for the last earlier event that owns one of its objects, and for the later events that share an
    object that the event owns. So a broker changes its state only between the events of its partitions.
    """

    def __init__(self) -> None:
        self._owners: dict[Subject, asyncio.Task[None]] = {}
        self._sharers: dict[Subject, set[asyncio.Task[None]]] = {}

    def earlier(self, planned: Planned) -> set[asyncio.Task[None]]:
        """The unfinished tasks that the event waits for."""
        owned = owned_by(planned.cause)
        found = {self._owners[each] for each in (*owned, *planned.shared) if each in self._owners}
        for each in owned:
            found |= self._sharers.get(each, set())
        return _unfinished(found)

    def add(self, planned: Planned, task: asyncio.Task[None]) -> None:
        """Adds the task of an event, which is later than all added before."""
        for each in owned_by(planned.cause):
            self._owners[each] = task
            self._sharers.pop(each, None)
        for each in planned.shared:
            self._sharers[each] = {*_unfinished(self._sharers.get(each, ())), task}


def _unfinished(tasks: Iterable[asyncio.Task[None]]) -> set[asyncio.Task[None]]:
    return {each for each in tasks if not each.done()}
