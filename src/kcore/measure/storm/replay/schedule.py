"""When a replay does each event, which events wait for each other, and which brokers must be in service before it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from kcore.measure.storm.replay.causes import UNFENCED
from kcore.measure.storm.replay.events import (
    Cause,
    ConfigsAltered,
    Consequence,
    ControlledShutdown,
    DirectoriesAssigned,
    DirectoriesLost,
    Elected,
    Event,
    FeaturesUpdated,
    IsrsChanged,
    MissedHeartbeats,
    NotReplayed,
    PartitionsAdded,
    ProducerIdsAllocated,
    QuotasAltered,
    Reassigned,
    Registration,
    TopicsCreated,
    TopicsDeleted,
    Unregistration,
)

_BROKER_EVENTS: Final = (
    Registration | MissedHeartbeats | ControlledShutdown | DirectoriesLost | Unregistration | ProducerIdsAllocated
)
BROKER: Final = "broker"
Subject = tuple[str, str]  # A kind of object, and its name.


@dataclass(frozen=True, slots=True)
class Planned:
    """An event of a replay."""

    due_ms: float  # after the replay's begin
    event: Event
    cause: Cause
    in_service: frozenset[int]  # Brokers that the trace's controller had unfenced before the event.
    ended: frozenset[int]  # Brokers that it had fenced, and that had not registered again.


def subjects_of(cause: Cause) -> list[Subject]:
    """The brokers or topics that an event concerns; events with a common subject follow each other."""
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
            return [*dict.fromkeys(("settings", each.resource_name) for each in cause.settings)]
        case FeaturesUpdated() | QuotasAltered():
            return [(cause.kind, "")]
        case _:
            return [(BROKER, str(cause.broker_id))]
    return [("topic", name) for name in dict.fromkeys(names)]


def brokers_of(cause: Cause) -> set[int]:
    """The brokers that take part in an event about topics or partitions."""
    match cause:
        case TopicsCreated():
            return {each for topic in cause.topics for replicas in topic.assignments.values() for each in replicas}
        case PartitionsAdded():
            return {each for replicas in cause.assignments.values() for each in replicas}
        case IsrsChanged():
            return {cause.leader, *(each for change in cause.changes for each in change.isr)}
        case Reassigned():
            return {each for replicas in cause.moves.values() for each in replicas or ()}
        case DirectoriesAssigned() | ProducerIdsAllocated():
            return {cause.broker_id}
        case _:
            return set()


def schedule(
    events: Sequence[Event], from_ms: int, speed: float, session_ms: float, unfenced: set[int]
) -> list[Planned]:
    """The causes in the order of their due times. `unfenced`: the brokers that are in service at the begin.

    A broker must end one session time-out before the recorded fencing, but not before its last recorded action.
    """
    in_service, ended, last_ms = frozenset(unfenced), frozenset[int](), dict[int, float]()
    found: list[Planned] = []
    for event in events:
        at_ms, what = (event.time_ms - from_ms) / speed, event.what
        if isinstance(what, NotReplayed):
            continue
        if isinstance(what, Consequence):
            if what.kind == UNFENCED:
                in_service |= {what.broker_id}
                last_ms[what.broker_id] = at_ms
            continue
        planned = Planned(at_ms, event, what, in_service, ended)
        if isinstance(what, MissedHeartbeats):  # Until the fencing, other brokers do not see that this one has ended.
            due_ms = max(at_ms - session_ms, last_ms.get(what.broker_id, 0.0), 0.0)
            planned = Planned(due_ms, event, what, in_service & {what.broker_id}, frozenset())
        if isinstance(what, MissedHeartbeats | ControlledShutdown):
            in_service, ended = in_service - {what.broker_id}, ended | {what.broker_id}
        elif isinstance(what, Registration | Unregistration):
            in_service, ended = in_service - {what.broker_id}, ended - {what.broker_id}
        acting = {what.broker_id} if isinstance(what, _BROKER_EVENTS) else brokers_of(what)
        last_ms |= dict.fromkeys(acting, at_ms)
        found.append(planned)
    return sorted(found, key=lambda each: each.due_ms)
