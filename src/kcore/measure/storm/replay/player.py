"""Plays the events of a recording on a target: each at its time, after the earlier events that it depends on."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from kcore.errors import KcoreError, TargetError
from kcore.measure.hollow.fleet import Fleet, HollowBroker, State
from kcore.measure.hollow.quorum_client import Quorum
from kcore.measure.storm.replay import requests
from kcore.measure.storm.replay.effects import Effect, effect_of
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
    Unfenced,
    Unregistration,
    name_of,
)
from kcore.measure.storm.replay.partition_states import Begin, epochs_of, row_of, state_of
from kcore.measure.storm.replay.schedule import Order, Planned
from kcore.metadata.image.image import ClusterImage
from kcore.metadata.table.partition_state import PartitionRegistration
from kcore.schema.broker_lifecycle import UnregisterBrokerRequest
from kcore.schema.producers import AllocateProducerIdsRequest
from kcore.schema.structure import Message
from kcore.types import Uuid

_POLL_S: Final = 0.005
_WAIT_SESSIONS: Final = 3.0  # So many session time-outs a replay waits for a broker, or for the brokers' own reading.
_LEAST_WAIT_S: Final = 5.0
_TRIES: Final = 3
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
    deviation: str = ""  # how the target's state after the event differs from the recorded one


class Player:
    """The brokers and administrators of a replay."""

    def __init__(self, quorum: Quorum, fleet: Fleet, *, session_s: float) -> None:
        self.quorum, self.fleet = quorum, fleet
        self.wait_s = max(_LEAST_WAIT_S, _WAIT_SESSIONS * session_s)
        self.played: list[Played] = []
        self.deviations: dict[Partition, str] = {}  # Why partitions differ; no later event compares them again.
        self.begin: Begin = {}  # The epochs of the target's partitions when the replay began.
        self.begin_ns = 0
        self.lives: dict[int, list[list[int]]] = {}  # By row, when the broker ran: begin and end in ns, 0 if it runs.
        self._lost: dict[int, list[Uuid]] = {}  # By broker, its offline directories.
        self._order = Order()
        self._shutdowns: dict[int, asyncio.Task[None]] = {}  # The last controlled shutdown of each broker.

    @property
    def image(self) -> ClusterImage:
        """The target's state, as the brokers have read it."""
        return self.fleet.observer.image

    async def play(self, planned: list[Planned], on_progress: Callable[[int], None] = lambda done: None) -> None:
        """Does all events, and returns when the target has the effects of the last one."""
        self.begin, self.begin_ns = epochs_of(self.image), time.monotonic_ns()
        tasks = []
        for at, each in enumerate(planned):
            due_ns = self.begin_ns + int(each.due_ms * _MS)
            await asyncio.sleep(max(0.0, (due_ns - time.monotonic_ns()) / _NS))
            played = Played(each, due_ns)
            self.played.append(played)
            task = asyncio.create_task(self._do(played, self._order.earlier(each)))
            self._order.add(each, task)
            tasks.append(task)
            on_progress(at + 1)
        await asyncio.gather(*tasks)
        await asyncio.gather(*self._shutdowns.values())

    async def _do(self, played: Played, earlier: set[asyncio.Task[None]]) -> None:
        """Does one event; a refusal or an error is kept with the event, and the replay goes on."""
        if earlier:
            await asyncio.wait(earlier)
        played.begun_ns = time.monotonic_ns()
        for _ in range(_TRIES):
            played.errors = await self._tried(played)
            played.done_ns = time.monotonic_ns()
            if not isinstance(played.planned.cause, IsrsChanged) or not STALE.intersection(played.errors):
                break
            await self._catch_up()  # As a real leader, which asks again when it has read the newer state.
        await self._compare(played)

    async def _tried(self, played: Played) -> list[str]:
        """Does the event; returns the errors."""
        try:
            return await self._act(played)
        except KcoreError as error:
            return [f"{type(error).__name__}: {error}"]

    async def _compare(self, played: Played) -> None:
        """Waits until the brokers have read the event's recorded effects; notes a deviation if others come instead.

        The controller has answered. So its decision is final when the brokers have read all that it has committed.
        """
        if not self._differences(played.planned):
            return
        await self._catch_up()
        for partition, difference in self._differences(played.planned).items():
            played.deviation = played.deviation or f"{partition}: {difference}"
            refused = f"refused {', '.join(played.errors)}" if played.errors else difference
            self.deviations[partition] = f"{name_of(played.planned.cause)}: {refused}"

    async def _catch_up(self) -> None:
        """Waits until the brokers have read all that is committed now; for at most `wait_s`."""
        end_ns = time.monotonic_ns() + int(self.wait_s * _NS)
        committed = (await self.quorum.describe()).high_watermark
        self.fleet.drain()
        while self.fleet.observer.end_offset < committed and time.monotonic_ns() < end_ns:
            await asyncio.sleep(_POLL_S)
            self.fleet.drain()

    def _differences(self, planned: Planned) -> dict[Partition, str]:
        """The partitions whose state is not the recorded one after the event, with what differs."""
        found = {}
        for partition, effect in planned.effects.items():
            if partition not in self.deviations and (difference := self._difference(effect)):
                found[partition] = difference
        return found

    def _difference(self, effect: Effect) -> str:
        state = state_of(self.image, effect.partition)
        if state is None:
            return "the partition does not exist"
        own = effect_of(self.image, effect.partition, state, self.begin)
        if own.replicas != effect.replicas:
            return "the target has other replicas"
        if own.isr != effect.isr:
            return "the target has another ISR"
        if own.leader != effect.leader:
            return "the target elected another leader"
        return "" if own.epochs == effect.epochs else "the target made another number of changes"

    async def _until(self, what: str, done: Callable[[], bool]) -> None:
        """Returns when the condition holds. TargetError after `wait_s`."""
        end_ns = time.monotonic_ns() + int(self.wait_s * _NS)
        while not done():
            if time.monotonic_ns() > end_ns:
                raise TargetError(f"waited {self.wait_s:g} s in vain for {what}")
            await asyncio.sleep(_POLL_S)
            self.fleet.drain()

    async def _act(self, played: Played) -> list[str]:
        """Does the event once; returns the errors in the answers."""
        match played.planned.cause:
            case Registration() as cause:
                await self.register(cause)
            case Unfenced(broker_id=broker_id):
                await self._unfence(broker_id)
            case MissedHeartbeats(broker_id=broker_id):
                await self.fleet.fence(self.fleet.brokers[broker_id], self.wait_s)
                self.end(broker_id)
            case ControlledShutdown(broker_id=broker_id):
                await self._shut_down(broker_id)
            case DirectoriesLost(broker_id=broker_id, lost=lost):
                await self._lose_directories(broker_id, lost)
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

    async def register(self, cause: Registration, *, ready: bool = False) -> None:
        """Starts a broker with the recorded rack and directories; an earlier incarnation of it ends first.

        A controlled shutdown that is under way has `wait_s` to be completed.
        Until the broker is ready, its heartbeats request that it stays fenced.
        """
        broker = self.fleet.brokers[cause.broker_id]
        if (shutdown := self._shutdowns.pop(cause.broker_id, None)) is not None:
            await asyncio.wait({shutdown}, timeout=self.wait_s)
        self.end(cause.broker_id)
        broker.rack = cause.rack
        if cause.directories:
            self.fleet.set_directories(broker, cause.directories)
        self.fleet.want_fence(broker, not ready)
        self._lost.pop(cause.broker_id, None)
        await self.fleet.start([broker], clean=cause.is_clean)
        self.lives.setdefault(broker.row, []).append([time.monotonic_ns(), 0])

    async def _unfence(self, broker_id: int) -> None:
        """Makes a broker ready; one that missed its heartbeats and did not register since sends them again."""
        broker = self.fleet.brokers[broker_id]
        self.fleet.want_fence(broker, False)
        if broker.state is State.OFF:
            self.fleet.resume(broker)
            self.lives.setdefault(broker.row, []).append([time.monotonic_ns(), 0])
        await self.fleet.unfenced([broker], self.wait_s)

    async def _shut_down(self, broker_id: int) -> None:
        """Begins a controlled shutdown; the broker ends later, when the controller allows it."""
        broker = self.fleet.brokers[broker_id]
        if broker.state is State.OFF:
            raise TargetError(f"broker {broker_id} has ended already")
        self._shutdowns[broker_id] = asyncio.create_task(self._end_by_shutdown(broker))
        await self._until(f"the controlled shutdown of broker {broker_id}", lambda: self._leaves(broker_id))

    async def _end_by_shutdown(self, broker: HollowBroker) -> None:
        try:
            await self.fleet.shut_down([broker], self.fleet.options.timeout_s)
        except TargetError:
            return  # The broker's next registration ends it.
        self.end(broker.broker_id)

    def _leaves(self, broker_id: int) -> bool:
        known = self.image.brokers.get(broker_id)
        return known is None or known.fenced or known.in_controlled_shutdown

    async def _lose_directories(self, broker_id: int, lost: tuple[Uuid, ...]) -> None:
        self._lost.setdefault(broker_id, []).extend(lost)
        for broker in self._running(broker_id):
            self.fleet.lose_directories(broker, self._lost[broker_id])
            await self._until(f"the lost directories of broker {broker_id}", lambda: self._lacks(broker_id, lost))

    def _lacks(self, broker_id: int, lost: tuple[Uuid, ...]) -> bool:
        known = self.image.brokers.get(broker_id)
        return known is None or not {*known.directories} & {*lost}

    async def _alter_partition(self, cause: IsrsChanged) -> list[str]:
        """The ISR change, by the partitions' present leaders: by the recorded one unless the target elected another."""
        by_leader: dict[int, list[tuple[int, IsrChange]]] = {}
        errors: list[str] = []
        for change in cause.changes:
            row = row_of(self.image, change.partition)
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
