"""Runs the hollow brokers of one process on the compiled loop, from registration to shutdown."""

import asyncio
import resource
import threading
import time
from collections.abc import Coroutine, Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from random import Random
from types import TracebackType
from typing import Any, Final

from kcore._ext import hollow as kernel
from kcore.errors import NetworkError, TargetError
from kcore.measure.hollow.frames import client_id_of, fetch_frame, heartbeat_frame
from kcore.measure.hollow.observer import Observer
from kcore.measure.hollow.quorum_client import Quorum
from kcore.measure.hollow.refusals import first_of
from kcore.measure.hollow.secured import Authenticator, loop_of
from kcore.measure.hollow.timeline import Timeline
from kcore.metadata.image.image import ClusterImage
from kcore.protocol_errors import Errors
from kcore.schema.broker_lifecycle import (
    BrokerHeartbeatRequest,
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
    Feature,
    Listener,
)
from kcore.schema.fetch import FetchRequest
from kcore.types import Uuid
from kcore.wire.frame_places import Frame

_NANOS: Final = 1_000_000_000
_FETCH_BYTES: Final = 1 << 20  # controller.quorum.fetch.max.bytes, KIP-1219
_SHUT_DOWN_AGAIN_S: Final = 0.05  # Before the second request, as BrokerLifecycleManager; then the usual interval.
_RECONNECT_S: Final = (0.05, 0.5)  # The bounds of the random pause before a reconnection.
_UNKNOWN_EPOCH: Final = -1
_WATCH_S: Final = 0.02  # The pause between two polls in `Fleet.watch`.
_NOT_KNOWN: Final = -1  # The high watermark in a response of a leader that does not know it yet.
LINKS: Final = 2  # A broker's connections: heartbeats and fetches.
OBSERVER_ID: Final = -1  # The replica id of an anonymous Fetch.


class State(Enum):
    """The state of a hollow broker."""

    OFF = "off"
    FENCED = "fenced"
    RUNNING = "running"
    SHUTTING_DOWN = "shutting down"


@dataclass(slots=True, eq=False)
class HollowBroker:
    """A hollow broker. `row` is the broker's number in the compiled loop."""

    broker_id: int
    row: int
    rack: str | None
    directories: tuple[Uuid, ...]
    incarnation_id: Uuid
    state: State = State.OFF
    epoch: int = _UNKNOWN_EPOCH
    changed: asyncio.Event = field(default_factory=asyncio.Event)  # Set at every change of `state`.
    lookups: list[int] = field(default_factory=lambda: [0, 0])  # `Quorum.lookups` at the start of each connection.
    begun_ns: list[int] = field(default_factory=lambda: [0, 0])  # The start of each connection.
    reconnecting: set[int] = field(default_factory=set)
    last_sent_ns: int = 0  # When the previous incarnation sent its last heartbeat; 0: unknown.
    offline: tuple[Uuid, ...] = ()  # The directories that the heartbeats report as offline.
    wants_fence: bool = False  # The heartbeats request that the broker stays or becomes fenced.
    deaths: int = 0  # Kills so far. A registration that is under way gives up when the count changes.
    registering: bool = False


@dataclass(frozen=True, slots=True)
class Options:
    """The settings that all hollow brokers of a fleet share."""

    heartbeat_s: float = 2.0  # broker.heartbeat.interval.ms
    timeout_s: float = 30.0
    patience: float = 1.0  # Multiplies the usual request time-outs: large clusters need longer.
    frame_bytes: int = 100 << 20
    counts_only: bool = False  # The observer keeps no image of the partitions: `--metadata count`.
    keeps_log: bool = False  # The observer keeps the fetched log.


class Fleet:
    """The hollow brokers of one quorum. Leaving `async with` stops the loop and cuts all connections, as kill -9 does.

    If a task of the fleet fails, the body of the `async with` is cancelled and a TargetError is raised.
    """

    def __init__(self, quorum: Quorum, *, random: Random, options: Options | None = None) -> None:
        self.quorum, self.options = quorum, options or Options()
        self.brokers: dict[int, HollowBroker] = {}
        self.timeline = Timeline()
        self.clock_ns = 0  # The largest error of times from other processes, whose clocks differ.
        self.lost = ""  # The reason why a process with brokers was lost; empty if none was.
        self.errors: dict[str, int] = {}
        self.false_fencings = 0  # How often the controller fenced a running broker that sent heartbeats.
        self.refused_ns = 0  # Total time that registrations waited for sessions of earlier incarnations to end.
        self._random = random
        self._by_row: list[HollowBroker] = []
        timeout_ns = int(self.options.timeout_s * self.options.patience * _NANOS)
        self._loop = loop_of(quorum.security, frame_bytes=self.options.frame_bytes, timeout_ns=timeout_ns)
        sasl = quorum.security.own_sasl
        self._authenticator = None if sasl is None else Authenticator(self._loop, sasl, self._spawn)
        self.observer = Observer(
            quorum, self._loop, counts_only=self.options.counts_only, keeps_log=self.options.keeps_log
        )
        self._thread = threading.Thread(target=self._loop.run, name="hollow brokers", daemon=True)
        self._group = asyncio.TaskGroup()
        self._tasks: set[asyncio.Task[None]] = set()
        self._ends = False  # The group takes no more tasks.

    async def __aenter__(self) -> "Fleet":
        await self._group.__aenter__()
        self._thread.start()
        asyncio.get_running_loop().add_reader(self._loop.fileno(), self._on_new_records)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        asyncio.get_running_loop().remove_reader(self._loop.fileno())
        self._ends = True
        for task in self._tasks:
            task.cancel()
        try:
            await self._group.__aexit__(kind, error, trace)
        except BaseExceptionGroup as group:
            if (first := first_of(group)) is not error:
                raise first from None
        finally:
            self._loop.stop()
            await asyncio.to_thread(self._thread.join)

    async def watch(self) -> None:
        """Reads the metadata log to its present end, as an observer that is no broker. TargetError after a time-out."""
        watcher = self._add_row(OBSERVER_ID)
        watcher.state = State.FENCED  # This state never changes, because the observer sends no heartbeats.
        self._connect(watcher, kernel.FETCHES)
        self._loop.fetch(watcher.row, True)
        end = _NOT_KNOWN
        timeout_s = self.options.timeout_s * self.options.patience
        try:
            async with asyncio.timeout(timeout_s):
                while end == _NOT_KNOWN or self.observer.end_offset < end:
                    await asyncio.sleep(_WATCH_S)
                    self.drain()
                    if end == _NOT_KNOWN:  # No answer yet, or a new leader does not know its high watermark yet.
                        end = self._loop.position(watcher.row)[2]
        except TimeoutError:
            raise TargetError(f"the metadata log could not be read within {timeout_s:g} s") from None

    # From registration to shutdown.

    def add(self, broker_id: int, *, rack: str | None = None, directories: int = 1) -> HollowBroker:
        """Adds a broker that is off. TargetError for a controller's id: the leader would refuse its fetches."""
        if broker_id in self.quorum.controller_ids:
            raise TargetError(f"a hollow broker cannot have id {broker_id}: a controller has it")
        broker = self._add_row(broker_id, rack, directories)
        self.brokers[broker_id] = broker
        return broker

    def _add_row(self, broker_id: int, rack: str | None = None, directories: int = 1) -> HollowBroker:
        assert self.quorum.versions is not None
        version, cluster_id = self.quorum.versions.choose(FetchRequest), self.quorum.cluster_id
        row = self._loop.add(
            self._heartbeat(broker_id, (), False),
            fetch_frame(client_id_of(broker_id), version, broker_id, cluster_id, _FETCH_BYTES),
            int(self.options.heartbeat_s * _NANOS),
        )
        mine = tuple(self._uuid() for _ in range(directories))
        broker = HollowBroker(broker_id, row, rack, mine, self._uuid())
        self._by_row.append(broker)
        return broker

    async def start(self, brokers: Iterable[HollowBroker], *, clean: bool = False) -> None:
        """Registers the brokers concurrently, and begins their heartbeats and fetches.

        `clean`: each registration carries the broker's previous epoch, as after a clean shutdown. TargetError if the
        controller refuses a broker, or answers too late; the latter error has the number of registered brokers.
        """
        wanted = list(brokers)
        registering = asyncio.gather(*(self._register(broker, clean) for broker in wanted))
        try:
            await registering
        except NetworkError as error:
            done = sum(broker.state in (State.FENCED, State.RUNNING) for broker in wanted)
            raise TargetError(f"{done:,} of {len(wanted):,} brokers had registered: {error}") from error

    async def unfenced(self, brokers: Iterable[HollowBroker], timeout_s: float) -> None:
        """Waits until the controller has unfenced all these brokers; TargetError after the time-out."""
        await self._await(brokers, State.RUNNING, timeout_s)

    def kill(self, brokers: Iterable[HollowBroker]) -> None:
        """Ends the brokers as kill -9 does: their connections close without a request."""
        for broker in brokers:
            broker.last_sent_ns = self._loop.heartbeat_sent(broker.row)
            self._loop.rest(broker.row)
            self._loop.fetch(broker.row, False)
            for which in (kernel.HEARTBEATS, kernel.FETCHES):
                self._loop.close(broker.row, which)
                self._end_authentication(broker.row, which)
            broker.reconnecting.clear()
            broker.deaths += 1
            broker.registering = False
            self._set(broker, State.OFF)

    async def shut_down(self, brokers: Sequence[HollowBroker], timeout_s: float) -> None:
        """Controlled shutdown: the heartbeats request it until the controller allows it, then the brokers end."""
        for broker in brokers:
            self._set(broker, State.SHUTTING_DOWN)
            self._beat(broker, want_shut_down=True)
        await asyncio.sleep(_SHUT_DOWN_AGAIN_S)
        for broker in brokers:
            if broker.state is State.SHUTTING_DOWN:
                self._beat(broker, want_shut_down=True)
        await self._await(brokers, State.OFF, timeout_s)

    def lose_directories(self, broker: HollowBroker, lost: Sequence[Uuid]) -> None:
        """Sends a heartbeat that reports these directories as offline, as all later ones do until `set_directories`."""
        broker.offline = tuple(lost)
        self._renew_heartbeat(broker)
        self._beat(broker)

    def want_fence(self, broker: HollowBroker, wants: bool) -> None:
        """Sets whether heartbeats request that the broker is fenced; a broker that runs sends one now.

        A real broker requests this from its registration until it is ready (BrokerLifecycleManager).
        """
        broker.wants_fence = wants
        self._renew_heartbeat(broker)
        if broker.state is not State.OFF:
            self._beat(broker)

    async def fence(self, broker: HollowBroker, timeout_s: float) -> None:
        """Fences a running broker by a heartbeat that requests it, then ends the broker without a shutdown."""
        if broker.state is State.RUNNING:
            self.want_fence(broker, True)
            await self._await([broker], State.FENCED, timeout_s)
        self.kill([broker])

    def resume(self, broker: HollowBroker) -> None:
        """Begins the heartbeats and fetches of an ended broker again, with its last registration."""
        self._set(broker, State.FENCED)
        self._begin(broker)

    def replace_directories(self, broker: HollowBroker, directories: int) -> tuple[Uuid, ...]:
        """Gives a stopped broker new directories after its first one; returns its `directories` directories."""
        self.set_directories(broker, (broker.directories[0], *(self._uuid() for _ in range(directories - 1))))
        return broker.directories

    def set_directories(self, broker: HollowBroker, directories: Sequence[Uuid]) -> None:
        """Sets the directories, all online, that a stopped broker has from its next start on."""
        broker.directories, broker.offline = tuple(directories), ()
        self._renew_heartbeat(broker)

    def counters(self) -> dict[str, int]:
        """The number of times that each event has happened in the loop."""
        return dict(self._loop.counters())

    def histograms(self) -> tuple[bytes, bytes]:
        """Returns the histograms of heartbeat latencies and of the loop's own lag since the last call."""
        return self._loop.histograms()

    async def sync(self) -> None:
        """Takes all events up to now from each process that runs brokers."""
        self.drain()

    def cpu_s(self) -> float:
        """The CPU seconds of this process so far."""
        used = resource.getrusage(resource.RUSAGE_SELF)
        return used.ru_utime + used.ru_stime

    async def _await(self, brokers: Iterable[HollowBroker], state: State, timeout_s: float) -> None:
        async def until(broker: HollowBroker) -> None:
            while broker.state is not state:
                broker.changed.clear()
                await broker.changed.wait()

        waiting = [broker for broker in brokers if broker.state is not state]
        try:
            async with asyncio.timeout(timeout_s):
                await asyncio.gather(*map(until, waiting))
        except TimeoutError:
            late = [broker.broker_id for broker in waiting if broker.state is not state]
            some = ", ".join(map(str, late[:5]))
            seen = ", ".join(f"{count:,} x {name}" for name, count in self.errors.items()) or "no errors"
            raise TargetError(
                f"{len(late)} brokers are not {state.value} after {timeout_s:g} s: {some} ... ({seen})"
            ) from None

    def _heartbeat(self, broker_id: int, offline: Sequence[Uuid], wants_fence: bool) -> Frame:
        assert self.quorum.versions is not None
        version = self.quorum.versions.choose(BrokerHeartbeatRequest)
        return heartbeat_frame(client_id_of(broker_id), version, broker_id, offline, wants_fence=wants_fence)

    def _renew_heartbeat(self, broker: HollowBroker) -> None:
        self._loop.set_heartbeat(broker.row, self._heartbeat(broker.broker_id, broker.offline, broker.wants_fence))

    async def _register(self, broker: HollowBroker, clean: bool) -> None:
        """Registers the broker, unless a registration already runs; a kill meanwhile cancels the registration."""
        if broker.registering:
            return
        deaths, broker.registering = broker.deaths, True
        previous = broker.epoch if clean else _UNKNOWN_EPOCH
        broker.incarnation_id = self._uuid()
        try:
            epoch = await self._registered_epoch(broker, previous, deaths)
        finally:
            if broker.deaths == deaths:
                broker.registering = False
        if broker.deaths != deaths:
            return
        broker.epoch = epoch
        if broker.state is not State.SHUTTING_DOWN:
            self._set(broker, State.FENCED)
        self._begin(broker)

    def _begin(self, broker: HollowBroker) -> None:
        """Opens the broker's connections, and begins its heartbeats and fetches."""
        broker.reconnecting.clear()  # Reconnections of the previous incarnation end by themselves.
        for which in (kernel.HEARTBEATS, kernel.FETCHES):
            self._connect(broker, which)
        self._loop.fetch(broker.row, True)
        self._beat(broker, want_shut_down=broker.state is State.SHUTTING_DOWN)

    async def _registered_epoch(self, broker: HollowBroker, previous: int, deaths: int) -> int:
        """The epoch that the controller gives; _UNKNOWN_EPOCH if the broker was killed meanwhile."""
        registration = self._registration(broker, previous)
        refused_ns = 0
        while broker.deaths == deaths:
            answer: BrokerRegistrationResponse = await self.quorum.ask(registration)
            if answer.error_code == Errors.NONE:
                self.refused_ns += time.monotonic_ns() - refused_ns if refused_ns else 0
                return answer.broker_epoch
            refused_ns = refused_ns or time.monotonic_ns()
            self._count(Errors.of(answer.error_code).name)
            if answer.error_code != Errors.DUPLICATE_BROKER_REGISTRATION:  # The old session has not ended yet.
                raise TargetError(f"broker {broker.broker_id}: registration: {Errors.of(answer.error_code).name}")
            await asyncio.sleep(0.1)
        return _UNKNOWN_EPOCH

    def _connect(self, broker: HollowBroker, which: int) -> None:
        broker.lookups[which], host = self.quorum.lookups, self.quorum.leader_host
        self._end_authentication(broker.row, which)
        broker.begun_ns[which] = self._loop.connect(broker.row, which, self.quorum.leader_address, host)

    def _end_authentication(self, row: int, which: int) -> None:
        if self._authenticator is not None:
            self._authenticator.end((row, which))

    def _registration(self, broker: HollowBroker, previous: int) -> BrokerRegistrationRequest:
        features = [
            Feature(name=each.name, min_supported_version=each.min_version, max_supported_version=each.max_version)
            for each in self.quorum.features.supported_features
        ]
        return BrokerRegistrationRequest(
            broker_id=broker.broker_id,
            cluster_id=self.quorum.cluster_id,
            incarnation_id=broker.incarnation_id,
            listeners=[Listener(name="PLAINTEXT", host="hollow", port=9092, security_protocol=0)],
            features=features,
            rack=broker.rack,
            log_dirs=[*broker.directories],
            previous_broker_epoch=previous,
        )

    def _beat(self, broker: HollowBroker, *, want_shut_down: bool = False) -> None:
        """Begins the broker's heartbeats."""
        self._loop.beat(
            broker.row,
            broker.epoch,
            time.monotonic_ns(),
            int(self.options.heartbeat_s * _NANOS),
            want_shut_down=want_shut_down,
        )

    def _set(self, broker: HollowBroker, state: State) -> None:
        broker.state = state
        broker.changed.set()

    def _uuid(self) -> Uuid:
        return Uuid(self._random.randbytes(16))

    def _count(self, error: str) -> None:
        self.errors[error] = self.errors.get(error, 0) + 1

    # The events of the loop.

    def _on_new_records(self) -> None:
        """Calls `drain` from a callback of the event loop, and passes an error on to a task."""
        try:
            self.drain()
        except Exception as error:  # A failed task ends the run; the event loop would only print this error.
            asyncio.get_running_loop().remove_reader(self._loop.fileno())
            self._spawn(_raise(error))

    def drain(self) -> None:
        """Takes the loop's events since the last call."""
        notices, bytes_, batches, arrivals = self._loop.drain()
        self.timeline.add(batches, arrivals)
        self.observer.read(bytes_, self.timeline.committed)
        for row, which, kind, when_ns, detail in notices:
            broker = self._by_row[row]
            if when_ns < broker.begun_ns[which]:
                continue  # The event belongs to an earlier connection.
            if kind == "state":
                self._on_state(broker, detail[0])
            elif kind == "error":
                self._on_error(broker, int.from_bytes(detail, "big", signed=True))
            elif kind == "answer":
                self._spawn(self._on_unusual(broker, detail))
            elif kind == "refused":
                self._spawn(_raise(TargetError(f"hollow broker {broker.broker_id} is refused: {detail.decode()}")))
            elif kind == "closed":
                self._end_authentication(row, which)
                if broker.state is not State.OFF:
                    self._count("connection closed")
                    self._spawn(self._reconnect(broker, which))
            elif self._authenticator is not None and kind == "connected":
                self._authenticator.begin((row, which), client_id_of(broker.broker_id), self.quorum.leader_address)
            elif self._authenticator is not None and kind == "heard":
                self._authenticator.on_heard((row, which), detail)

    def _on_state(self, broker: HollowBroker, flags: int) -> None:
        if broker.state is State.SHUTTING_DOWN and flags & kernel.SHOULD_SHUT_DOWN:
            self.kill([broker])
        elif broker.state in (State.FENCED, State.RUNNING):
            is_fenced = broker.state is State.RUNNING and bool(flags & kernel.FENCED)
            self.false_fencings += is_fenced and not broker.wants_fence
            self._set(broker, State.FENCED if flags & kernel.FENCED else State.RUNNING)

    def _on_error(self, broker: HollowBroker, code: int) -> None:
        """Handles a refused heartbeat: finds the new controller, or registers the broker again after a stale epoch."""
        self._count(Errors.of(code).name)
        if broker.state is State.OFF:
            return
        if code == Errors.NOT_CONTROLLER:
            self._spawn(self._reconnect(broker, kernel.HEARTBEATS))
        elif code == Errors.STALE_BROKER_EPOCH:
            self._loop.rest(broker.row)
            self._spawn(self._register(broker, clean=True))

    async def _on_unusual(self, broker: HollowBroker, frame: bytes) -> None:
        """Handles a Fetch response with an error, a divergence or a snapshot, then lets the broker fetch again."""
        incarnation_id = broker.incarnation_id
        elsewhere = await self.observer.on_unusual(broker.row, frame)
        if broker.state is State.OFF:
            return
        if elsewhere and broker.incarnation_id == incarnation_id:
            await self._reconnect(broker, kernel.FETCHES)
        self._loop.fetch(broker.row, True)

    async def _reconnect(self, broker: HollowBroker, which: int) -> None:
        """Reconnects to the active controller; the first broker that needs the address looks it up."""
        if which in broker.reconnecting:
            return
        incarnation_id = broker.incarnation_id
        broker.reconnecting.add(which)
        try:
            await asyncio.sleep(self._random.uniform(*_RECONNECT_S))
            await self.quorum.find_leader(broker.lookups[which])
        finally:
            broker.reconnecting.discard(which)
        if broker.state is State.OFF or broker.incarnation_id != incarnation_id:
            return
        self._connect(broker, which)
        if which == kernel.HEARTBEATS:
            self._beat(broker, want_shut_down=broker.state is State.SHUTTING_DOWN)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        if self._ends:
            work.close()
            return
        task = self._group.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._on_done)

    def _on_done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._ends = self._ends or (not task.cancelled() and task.exception() is not None)


async def cluster_of(quorum: Quorum, random: Random, timeout_s: float = 30.0) -> ClusterImage:
    """Reads the cluster's image from its metadata log: controllers have no other API for brokers and topics."""
    async with Fleet(quorum, random=random, options=Options(timeout_s=timeout_s)) as watcher:
        await watcher.watch()
        return watcher.observer.image


async def _raise(error: Exception) -> None:
    raise error
