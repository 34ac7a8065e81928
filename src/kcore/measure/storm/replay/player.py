"""Plays the events of a recording on a target: each at its time, after the earlier events of its brokers and topics."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from kcore.errors import KcoreError
from kcore.measure.hollow.fleet import Fleet, HollowBroker, State
from kcore.measure.hollow.quorum_client import Quorum
from kcore.measure.storm.replay import requests
from kcore.measure.storm.replay.events import (
    ConfigsAltered,
    ControlledShutdown,
    DirectoriesAssigned,
    DirectoriesLost,
    Elected,
    FeaturesUpdated,
    IsrChange,
    IsrsChanged,
    MissedHeartbeats,
    Partition,
    PartitionsAdded,
    ProducerIdsAllocated,
    QuotasAltered,
    Reassigned,
    Registration,
    TopicsCreated,
    TopicsDeleted,
    Unregistration,
)
from kcore.measure.storm.replay.schedule import BROKER, Planned, Subject, brokers_of, subjects_of
from kcore.metadata.image.image import ClusterImage
from kcore.metadata.table.partition_state import PartitionRegistration
from kcore.schema.broker_lifecycle import UnregisterBrokerRequest
from kcore.schema.producers import AllocateProducerIdsRequest
from kcore.schema.structure import Message
from kcore.types import Uuid

_POLL_S: Final = 0.02
_WAIT_SESSIONS: Final = 3.0  # So many session time-outs an event waits for the state before it.
_LEAST_WAIT_S: Final = 5.0
_TRIES: Final = 5
_AGAIN_S: Final = 0.1
STALE: Final = frozenset(
    {"INVALID_UPDATE_VERSION", "FENCED_LEADER_EPOCH", "NEW_LEADER_ELECTED", "INELIGIBLE_REPLICA", "STALE_BROKER_EPOCH"}
)
"""Refusals of a leader that has not yet read the newest state."""
_NS: Final = 1_000_000_000
_MS: Final = 1_000_000


@dataclass(slots=True)
class Played:
    """An event that was done again. Times are by `time.monotonic_ns`."""

    planned: Planned
    due_ns: int
    begun_ns: int = 0  # when its brokers or administrators did it; later than `due_ns` if earlier events were not done
    done_ns: int = 0  # when the controller had answered
    errors: list[str] = field(default_factory=list)
    session_end_ns: int = 0  # when the session of a killed broker ended, from which on the controller could act
    deviation: str = ""  # how the target's state before the event differed from the recorded one


class Player:
    """The brokers and administrators of a replay."""

    def __init__(self, quorum: Quorum, fleet: Fleet, *, session_s: float) -> None:
        self.quorum, self.fleet, self.session_s = quorum, fleet, session_s
        self.played: list[Played] = []
        self.deviating: set[Partition] = set()  # Partitions whose state differs: no event waits for them again.
        self.deviating_brokers: set[int] = set()  # Until their next event.
        self.begin_ns = 0
        self.lives: dict[int, list[list[int]]] = {}  # By row, when the broker ran: begin and end in ns, 0 if it runs.
        self._lost: dict[int, list[Uuid]] = {}  # By broker, its offline directories.
        self._last: dict[Subject, asyncio.Task[None]] = {}
        self._acting: dict[int, set[asyncio.Task[None]]] = {}  # The events in which each broker takes part.

    @property
    def image(self) -> ClusterImage:
        """The target's state, as the brokers have read it."""
        return self.fleet.observer.image

    async def play(self, planned: list[Planned], on_progress: Callable[[int], None] = lambda done: None) -> None:
        """Does all events, and returns when the controller has answered the last one."""
        self.begin_ns = time.monotonic_ns()
        tasks = []
        for at, each in enumerate(planned):
            due_ns = self.begin_ns + int(each.due_ms * _MS)
            await asyncio.sleep(max(0.0, (due_ns - time.monotonic_ns()) / _NS))
            played = Played(each, due_ns)
            self.played.append(played)
            subjects = subjects_of(each.cause)
            earlier = {self._last[subject] for subject in subjects if subject in self._last}
            for kind, name in subjects:
                if kind == BROKER:  # A broker ends or registers after all that it takes part in.
                    earlier |= self._acting.pop(int(name), set())
            task = asyncio.create_task(self._do(played, earlier))
            self._last |= dict.fromkeys(subjects, task)
            for broker_id in brokers_of(each.cause):
                others = self._acting.setdefault(broker_id, set())
                others -= {other for other in others if other.done()}
                others.add(task)
            tasks.append(task)
            on_progress(at + 1)
        await asyncio.gather(*tasks)

    async def _do(self, played: Played, earlier: set[asyncio.Task[None]]) -> None:
        """Does one event; a refusal or an error is kept with the event, and the replay goes on."""
        if earlier:
            await asyncio.wait(earlier)
        await self._settle(played)
        played.begun_ns = time.monotonic_ns()
        if isinstance(cause := played.planned.cause, Registration | MissedHeartbeats | ControlledShutdown):
            self.deviating_brokers.discard(cause.broker_id)
        for _ in range(_TRIES):
            played.errors = await self._tried(played)
            played.done_ns = time.monotonic_ns()
            if not isinstance(cause, IsrsChanged) or not STALE.intersection(played.errors):
                return
            await asyncio.sleep(_AGAIN_S)  # As a real leader, which asks again when it has read the newer state.
            self.fleet.drain()
            await self._settle(played)

    async def _tried(self, played: Played) -> list[str]:
        """Does the event; returns the errors."""
        try:
            return await self._act(played)
        except KcoreError as error:
            return [f"{type(error).__name__}: {error}"]

    async def _settle(self, played: Played) -> None:
        """Waits until the target's brokers and partitions are as they were in the trace before the event."""
        end_ns = time.monotonic_ns() + int(max(_LEAST_WAIT_S, _WAIT_SESSIONS * self.session_s) * _NS)
        while difference := self._difference(played.planned):
            if time.monotonic_ns() > end_ns:
                played.deviation = difference
                while (broker_id := self._different_broker(played.planned)) is not None:
                    self.deviating_brokers.add(broker_id)
                if isinstance(cause := played.planned.cause, IsrsChanged):
                    self.deviating.update(change.partition for change in cause.changes)
                return
            await asyncio.sleep(_POLL_S)
            self.fleet.drain()

    def _difference(self, planned: Planned) -> str:
        """How the state before an event differs from the recorded one, in words; empty if it does not."""
        if (broker_id := self._different_broker(planned)) is not None:
            return f"broker {broker_id} is not {'un' * (broker_id in planned.in_service)}fenced, and was when recorded"
        if isinstance(cause := planned.cause, DirectoriesAssigned):
            unknown = (each for each in cause.directories if self.state_of(each) is None)
            return next((f"{each} does not exist" for each in unknown), "")
        for change in cause.changes if isinstance(cause, IsrsChanged) else ():
            if change.partition in self.deviating:
                continue
            state = self.state_of(change.partition)
            if state is None:
                return f"{change.partition} does not exist"
            if _is_done(change, state):
                continue
            if state.leader != change.leader:
                return f"{change.partition} has leader {state.leader}, and {change.leader} was recorded"
            if {*state.isr} != {*change.isr_before}:
                return f"{change.partition} has ISR {[*state.isr]}, and {[*change.isr_before]} was recorded"
        return ""

    def _different_broker(self, planned: Planned) -> int | None:
        """A broker that is fenced or unfenced otherwise than recorded, and that events wait for; None if none is."""
        for broker_id in (planned.in_service | planned.ended) - self.deviating_brokers:
            known = self.image.brokers.get(broker_id)
            if known is None or known.fenced == (broker_id in planned.in_service):
                return broker_id
        return None

    def state_of(self, partition: Partition) -> PartitionRegistration | None:
        """The target's state of a partition; None if it does not exist."""
        row = self._row(partition)
        return None if row < 0 else self.image.table.registration(row)

    def _row(self, partition: Partition) -> int:
        if partition.topic not in self.image.topics:
            return -1
        return int(self.image.table.row_at(self.image.topics.row(partition.topic), partition.partition_index))

    async def _act(self, played: Played) -> list[str]:
        """Does the event once; returns the errors in the answers."""
        match played.planned.cause:
            case Registration() as cause:
                await self.register(cause)
            case MissedHeartbeats(broker_id=broker_id):
                self.end(broker_id)
                sent_ns = self.fleet.brokers[broker_id].last_sent_ns
                played.session_end_ns = sent_ns + int(self.session_s * _NS) if sent_ns else 0
            case ControlledShutdown(broker_id=broker_id):
                await self.fleet.shut_down(self._running(broker_id), self.fleet.options.timeout_s)
                self.end(broker_id)
            case DirectoriesLost(broker_id=broker_id, lost=lost):
                self._lost.setdefault(broker_id, []).extend(lost)
                for broker in self._running(broker_id):
                    self.fleet.lose_directories(broker, self._lost[broker_id])
            case Unregistration(broker_id=broker_id):
                self.end(broker_id)
                return await self._ask(UnregisterBrokerRequest(broker_id=broker_id))
            case ProducerIdsAllocated(broker_id=broker_id):
                epoch = self._epoch(broker_id)
                return await self._ask(AllocateProducerIdsRequest(broker_id=broker_id, broker_epoch=epoch))
            case IsrsChanged() as cause:
                return await self._alter_partition(cause)
            case DirectoriesAssigned() as cause:
                broker = self.fleet.brokers[cause.broker_id]
                return await self._ask(requests.assign_directories(cause, self.image, broker))
            case _:
                return await self._ask(self._administration(played))
        return []

    async def _ask(self, request: Message) -> list[str]:
        return sorted({error.name for error in requests.errors_of(await self.quorum.ask(request))})

    def _administration(self, played: Played) -> Message:
        """The request of an administrator or a client."""
        match played.planned.cause:
            case TopicsCreated() as cause:
                return requests.create_topics(cause)
            case PartitionsAdded() as cause:
                return requests.create_partitions(cause)
            case TopicsDeleted() as cause:
                return requests.delete_topics(cause)
            case Reassigned(moves=moves):
                return requests.reassign(moves)
            case Elected() as cause:
                return requests.elect(cause)
            case FeaturesUpdated() as cause:
                return requests.update_features(cause, self.image)
            case ConfigsAltered(settings=settings):
                return requests.alter_configs(settings)
            case QuotasAltered() as cause:
                return requests.alter_quotas(cause)
            case other:
                raise AssertionError(f"no request for {other}")

    async def register(self, cause: Registration) -> None:
        """Starts a broker with the recorded rack and directories; an earlier incarnation of it ends first."""
        broker = self.fleet.brokers[cause.broker_id]
        self.end(cause.broker_id)
        broker.rack = cause.rack
        if cause.directories:
            self.fleet.set_directories(broker, cause.directories)
        self._lost.pop(cause.broker_id, None)
        await self.fleet.start([broker], clean=cause.is_clean)
        self.lives.setdefault(broker.row, []).append([time.monotonic_ns(), 0])

    async def _alter_partition(self, cause: IsrsChanged) -> list[str]:
        """The ISR change, by the partitions' present leaders: by the recorded one unless the target elected another."""
        by_leader: dict[int, list[tuple[int, IsrChange]]] = {}
        errors: list[str] = []
        for change in cause.changes:
            row = self._row(change.partition)
            state = None if row < 0 else self.image.table.registration(row)
            if state is None or state.leader not in change.isr:
                errors = ["the leader is not in the recorded ISR" if state else "the partition does not exist"]
            elif not _is_done(change, state):
                by_leader.setdefault(state.leader, []).append((row, change))
        sent = []
        for leader, found in by_leader.items():
            rows = np.array([row for row, _ in found], np.int32)
            part = IsrsChanged(leader, tuple(change for _, change in found))
            sent.append(self._ask(requests.alter_partition(part, self.image, self.fleet.brokers, leader, rows)))
        return sorted({*errors, *(error for answered in await asyncio.gather(*sent) for error in answered)})

    def end(self, broker_id: int) -> None:
        """Ends a broker, if it still runs, as kill -9 does."""
        self.fleet.kill(self._running(broker_id))
        lives = self.lives.get(self.fleet.brokers[broker_id].row)
        if lives and not lives[-1][1]:
            lives[-1][1] = time.monotonic_ns()

    def _running(self, broker_id: int) -> list[HollowBroker]:
        broker = self.fleet.brokers[broker_id]
        return [] if broker.state is State.OFF else [broker]

    def _epoch(self, broker_id: int) -> int:
        return self.fleet.brokers[broker_id].epoch


def _is_done(change: IsrChange, state: PartitionRegistration) -> bool:
    """True if the partition has the new ISR already."""
    is_there = {*state.isr} == {*change.isr} & {*state.replicas} and {*change.isr} != {*change.isr_before}
    return is_there and state.leader_recovery_state == change.leader_recovery_state
