"""Replays a recording on each target: starts it, makes the first state, plays the events, and compares the ends."""

import asyncio
import time
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Final

from kcore.collector import rare_collections
from kcore.errors import KcoreError, PlanError, TargetError
from kcore.measure.hollow.fleet import Fleet, Options, cluster_of
from kcore.measure.hollow.histograms import NOT_KNOWN
from kcore.measure.hollow.quorum_client import Quorum
from kcore.measure.hollow.timeline import Timeline
from kcore.measure.processes.controller_quorum import ControllerQuorum
from kcore.measure.processes.local_process import usage_of
from kcore.measure.processes.probe import build_of
from kcore.measure.processes.target import Target
from kcore.measure.report.build import Build
from kcore.measure.storm.kraft.kraft_storm import Sizes, Storm
from kcore.measure.storm.kraft.running_controllers import session_timeout_ms
from kcore.measure.storm.replay.compare_states import (
    EndState,
    Group,
    decision_differences,
    decisions_of,
    end_differences,
)
from kcore.measure.storm.replay.effects import steps_of
from kcore.measure.storm.replay.events import (
    Consequence,
    Event,
    MissedHeartbeats,
    NotReplayed,
    Registration,
    name_of,
)
from kcore.measure.storm.replay.initial_state import restore, set_levels
from kcore.measure.storm.replay.partition_states import epochs_of
from kcore.measure.storm.replay.player import Played, Player
from kcore.measure.storm.replay.recording import Recording
from kcore.measure.storm.replay.schedule import Subject, schedule, subjects_of
from kcore.measure.storm.replay.trace import trace_of
from kcore.measure.storm.run_security import RunSecurity, read_client
from kcore.measure.storm.storm_plan import check_processes
from kcore.measure.storm.targets import started
from kcore.metadata.image.image import ClusterImage
from kcore.types import Int64s
from kcore.wire.records import decode_records

LogLine = Callable[[str], None]

_SESSION_MS: Final = 9_000  # Kafka's default of broker.session.timeout.ms.
_LEAST_SESSION_MS: Final = 3_000
_MOST_SESSION_MS: Final = 600_000
_BEATS: Final = 4.5  # Heartbeats in a session, as with Kafka's defaults.
_SETTLE_S: Final = 2.0  # After the last event, for decisions of the controller that no event leads to.
_PROGRESS: Final = 10  # Lines about progress.
_MILLIS: Final = 1e6
_NS: Final = 1_000_000_000


@dataclass(frozen=True, slots=True)
class ReplayOptions:
    """The options of a replay, for all targets."""

    speed: float = 1.0
    controllers: int = 1
    heap: str = "2g"
    session_timeout_ms: int = 0  # of started controllers; 0: as recorded by default, divided by the speed
    command_config: str = ""
    timeout_s: float = 120.0

    def check(self) -> None:
        """PlanError for the first impossible option."""
        check_processes(self.controllers, self.heap)
        if self.session_timeout_ms and not 1_000 <= self.session_timeout_ms <= _MOST_SESSION_MS:
            raise PlanError(f"--session-timeout {self.session_timeout_ms} is not from 1000 to {_MOST_SESSION_MS}")

    @property
    def session_ms(self) -> int:
        """The session time-out of the controllers that the replay starts."""
        return self.session_timeout_ms or max(_LEAST_SESSION_MS, int(_SESSION_MS / self.speed))


@dataclass(slots=True)
class EventResult:
    """One event on a target. Times are in ms; -1 if not known."""

    kind: str
    time_ms: int  # in the trace
    late_ms: float  # between the due time and the moment at which the event was done
    answered_ms: float = NOT_KNOWN  # from then until the controller had answered
    known_ms: float = NOT_KNOWN  # from then until the last live broker knew the event's last record
    errors: list[str] = field(default_factory=list)
    deviation: str = ""


@dataclass(slots=True)
class TargetReplay:
    """The replay on one target."""

    target: str
    build: Build
    error: str = ""
    planned: int = 0  # The events to replay; 0 before the target is ready.
    is_whole: bool = False  # Whether all events were replayed, and the ends were compared.
    events: list[EventResult] = field(default_factory=list)
    seconds: float = 0.0
    problems: list[str] = field(default_factory=list)  # How the first state or its levels differ, and why.
    same_ends: int = 0
    ends: list[Group] = field(default_factory=list)
    same_decisions: int = 0
    decisions: list[Group] = field(default_factory=list)
    false_fencings: int = 0
    controller_cpu_s: float = NOT_KNOWN
    controller_rss_mb: float = NOT_KNOWN
    peak_events_s: int = 0  # The most events that the controller answered within one second.


def replay(
    recording: Recording,
    targets: Sequence[Target],
    options: ReplayOptions,
    results: list[TargetReplay],
    log_line: LogLine,
) -> None:
    """Replays the recording on one target after the other, and adds a result for each; a failed one has an error.

    After Ctrl-C the results have the events that were replayed until then.
    """
    results += [TargetReplay(target.name, Build(target.text)) for target in targets]
    for target, result in zip(targets, results, strict=True):
        try:
            result.build = build_of(target, options.heap)
            lines = (f"broker.session.timeout.ms={options.session_ms}", "auto.leader.rebalance.enable=false")
            mine = replace(target, properties=(*lines, *target.properties)) if target.is_started else target
            made = RunSecurity.made(target.security)
            with started(mine, options.controllers, options.heap, (), made) as processes, rare_collections():
                run = _Run(recording, target, options, processes, made, result, log_line)
                asyncio.run(run.run())
        except (KcoreError, OSError) as error:
            result.error = str(error)
            log_line(f"{target.name}: {error}")


class _Run:
    """The replay on one running target."""

    def __init__(
        self,
        recording: Recording,
        target: Target,
        options: ReplayOptions,
        processes: ControllerQuorum | None,
        made: RunSecurity,
        result: TargetReplay,
        log_line: LogLine,
    ) -> None:
        self.recording, self.target, self.options, self.processes = recording, target, options, processes
        self.result, self.log_line = result, log_line
        self.client = read_client(options.command_config) if target.addresses else made.client

    async def run(self) -> None:
        bootstrap = self.processes.bootstrap if self.processes else self.target.addresses
        quorum = Quorum(bootstrap, random=Random(), client_id="kcore-replay", security=self.client)
        try:
            await quorum.open()
            await self._check_empty(quorum)
            session_ms = await session_timeout_ms(quorum)
            heartbeat_s = session_ms / _BEATS / 1_000
            fleet = Fleet(quorum, random=Random(), options=Options(heartbeat_s, keeps_log=True))
            async with fleet:
                await fleet.watch()
                await self._play(quorum, fleet, session_ms)
        finally:
            await quorum.close()

    async def _check_empty(self, quorum: Quorum) -> None:
        image = await cluster_of(quorum, Random())
        if [*image.brokers] or image.topic_ids:
            raise TargetError(
                f"{self.target.name} has {len([*image.brokers]):,} brokers and {len(image.topic_ids):,} topics: a "
                "replay needs a cluster without brokers and topics"
            )

    async def _play(self, quorum: Quorum, fleet: Fleet, session_ms: int) -> None:
        for broker_id, directories in _brokers_in(self.recording).items():
            fleet.add(broker_id, directories=directories)
        player = Player(quorum, fleet, session_s=session_ms / 1_000)
        storm = Storm(quorum, fleet, Sizes(), Random(), timeout_s=self.options.timeout_s)
        recording, result = self.recording, self.result
        self.log_line(f"{self.target.name}: making the state at the trace's begin")
        result.problems += await set_levels(recording.levels, player)
        result.problems += await restore(recording.before, player, storm)
        await storm.settled()
        begin_offset = fleet.observer.end_offset
        steps = steps_of(recording.before, recording.batches)
        planned = schedule(steps, recording.from_ms, self.options.speed)
        result.planned = len(planned)
        cpu_s = self._cpu_s()
        begun_s = time.monotonic()
        try:
            await player.play(planned, self._progress(len(planned)))
            await asyncio.sleep(_SETTLE_S)
            await storm.settled()
            result.is_whole = True
        finally:  # Ctrl-C keeps what was measured, too.
            result.seconds = time.monotonic() - begun_s
            if cpu_s >= 0:
                result.controller_cpu_s = self._cpu_s() - cpu_s
            self._judge(fleet, player, begin_offset)

    def _progress(self, count: int) -> Callable[[int], None]:
        step = max(1, count // _PROGRESS)

        def on_progress(done: int) -> None:
            if done % step == 0:
                self.log_line(f"{self.target.name}: {done:,} of {count:,} events")

        return on_progress

    def _cpu_s(self) -> float:
        """The CPU seconds of the controllers so far, NOT_KNOWN if they are not ours; notes their peak memory."""
        used = [usage_of(pid) for pid in (self.processes.pids() if self.processes else ())]
        known = [each for each in used if each]
        if not known:
            return NOT_KNOWN
        self.result.controller_rss_mb = sum(each.peak_rss_bytes for each in known) / 1e6
        return sum(each.cpu_s for each in known)

    def _judge(self, fleet: Fleet, player: Player, begin_offset: int) -> None:
        """Adds the figures of the events that are done; compares ends and decisions if all are."""
        recording, result = self.recording, self.result
        image = ClusterImage()
        batches = [*trace_of(self.target.name, decode_records(b"".join(fleet.observer.log or ()))).batches()]
        for batch in batches:
            if batch.offset < begin_offset:
                for offset, record in batch.records:
                    image.apply(record, offset)
        begun = epochs_of(image)
        mine = decisions_of(image, [each for each in batches if each.offset >= begin_offset])
        result.events = _results(player, mine.events, fleet.timeline)
        result.peak_events_s = _peak(player.played)
        fencings = false_fencings(player.played, mine.events)
        result.false_fencings = sum(fencings.values())
        result.problems += [_fenced_too_often(*each) for each in sorted(fencings.items())]
        if not result.is_whole:
            return
        theirs = decisions_of(recording.before.copy(), recording.batches)
        reasons = player.deviations
        recorded_end = EndState(recording.after, epochs_of(recording.before))
        target_end = EndState(fleet.observer.image, begun)
        result.same_ends, result.ends = end_differences(recorded_end, target_end, reasons)
        result.same_decisions, result.decisions = decision_differences(theirs, mine, reasons)


def _brokers_in(recording: Recording) -> dict[int, int]:
    """The brokers of a recording, with their number of directories."""
    found = {each: max(1, len(recording.before.brokers[each].directories)) for each in recording.before.brokers}
    for event in recording.events:
        if isinstance(what := event.what, Registration):
            found.setdefault(what.broker_id, max(1, len(what.directories)))
    return found


def false_fencings(played: Sequence[Played], events: Iterable[Event]) -> Counter[int]:
    """By broker, how often the target fenced it without a cause. `events`: those in the target's log.

    A hollow broker does not see this: its next heartbeat ends the fencing.
    """
    found = Counter(each.what.broker_id for each in events if isinstance(each.what, MissedHeartbeats))
    found.subtract(each.planned.cause.broker_id for each in played if isinstance(each.planned.cause, MissedHeartbeats))
    return +found


def _fenced_too_often(broker_id: int, count: int) -> str:
    times = "once" if count == 1 else f"{count:,} times"
    return (
        f"the target fenced broker {broker_id} {times} without a cause in the trace, because its heartbeats came too "
        "late: give a longer --session-timeout"
    )


def _results(player: Player, events: Sequence[Event], timeline: Timeline) -> list[EventResult]:
    """The figures of each event that is done.

    Its records are those of the target's next event of the same kind and subject.
    """
    offsets: dict[tuple[str, Subject], list[int]] = {}
    for event in events:
        if isinstance(cause := event.what, Consequence | NotReplayed):
            continue
        for subject in subjects_of(cause):
            offsets.setdefault((cause.kind, subject), []).append(event.offset)
    knowledge = timeline.by_broker()
    found = []
    for each in player.played:
        planned = each.planned
        kind = planned.cause.kind
        ends = [own.pop(0) for each_of in subjects_of(planned.cause) if (own := offsets.get((kind, each_of)))]
        if not each.done_ns:
            continue
        result = EventResult(
            name_of(planned.cause),
            planned.event.time_ms,
            (each.begun_ns - each.due_ns) / _MILLIS,
            (each.done_ns - each.begun_ns) / _MILLIS,
            errors=each.errors,
            deviation=each.deviation,
        )
        if ends and (known_ns := _last_known(max(ends), each.begun_ns, player.lives, knowledge)):
            result.known_ms = max(0, known_ns - each.begun_ns) / _MILLIS
        found.append(result)
    return found


def _last_known(
    offset: int,
    begun_ns: int,
    lives: Mapping[int, Sequence[Sequence[int]]],
    knowledge: Mapping[int, tuple[Int64s, Int64s]],
) -> int:
    """When the last broker knew the record at `offset`, of those that ran from then on; 0 if none knows it."""
    latest_ns = 0
    for row, (marks, times_ns) in knowledge.items():
        at = bisect_right(marks, offset)
        if at == len(marks):
            continue
        known_ns = int(times_ns[at])
        if any(begin <= begun_ns and (not end or known_ns <= end) for begin, end in lives.get(row, ())):
            latest_ns = max(latest_ns, known_ns)
    return latest_ns


def _peak(played: Sequence[Played]) -> int:
    """The most events whose answers came within one second."""
    done = sorted(each.done_ns for each in played if each.done_ns)
    return max((at + 1 - bisect_right(done, ns - _NS) for at, ns in enumerate(done)), default=0)
