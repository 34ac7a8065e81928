"""A scenario's figures, from a timeline and a log that are made up."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from random import Random
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from kcore.measure.hollow.fleet import HollowBroker, Options, State
from kcore.measure.hollow.histograms import NOT_KNOWN
from kcore.measure.hollow.timeline import Timeline
from kcore.measure.processes.local_process import Usage
from kcore.measure.storm.expectations import Bounds
from kcore.measure.storm.kraft.kraft_storm import Measure, Sizes, Storm
from kcore.measure.storm.phases import knew_after_ms, phases_of, work_ms
from kcore.measure.storm.result import ScenarioResult
from kcore.schema.metadata_records_log import NoOpRecord
from kcore.schema.metadata_records_topics import PartitionChangeRecord
from kcore.types import ZERO_UUID

MS = 1_000_000
CHANGE, NO_OP = PartitionChangeRecord.api_key, NoOpRecord.api_key


class Storms(Storm):
    """One that is always settled."""

    async def settled(self) -> None:
        pass


def made_up(brokers: int, lag_ns: int = 0) -> tuple[Storms, list[tuple[int, int]]]:
    """Brokers that run over a log of so many records; the records seen, as offset and type."""
    seen: list[tuple[int, int]] = []

    def types(from_offset: int) -> tuple[Any, Any]:
        found = np.array([each for each in seen if each[0] >= from_offset], np.int64).reshape(-1, 2)
        return found[:, 0], found[:, 1]

    lag = np.zeros(36 * 32, np.int64)
    lag[(lag_ns.bit_length() - 5) * 32 if lag_ns else 0] = 1
    observer = SimpleNamespace(end_offset=10, partitions=7, types=types, forget=seen.clear)
    members = [HollowBroker(at, at, None, (), ZERO_UUID, State.RUNNING) for at in range(brokers)]
    fleet: Any = SimpleNamespace(
        timeline=Timeline(),
        observer=observer,
        options=Options(),
        brokers={broker.broker_id: broker for broker in members},
        errors={},
        false_fencings=0,
        refused_ns=0,
        counters=lambda: {"heartbeats": len(seen), "fetches": 2 * len(seen)},
        histograms=lambda: (bytes(36 * 32 * 8), lag.tobytes()),
        clock_ns=0,
        cpu_s=lambda: 0.0,
    )
    quorum: Any = None
    return Storms(quorum, fleet, Sizes(), Random(1)), seen


def test_a_session_ends_its_time_out_after_the_last_heartbeat() -> None:
    storm, _ = made_up(3)
    storm.session_ms = 9_000

    async def body(measure: Measure) -> None:
        brokers = storm.live()
        for broker, ago_ms in zip(brokers, (1_500, 500, 0), strict=True):
            broker.last_sent_ns = measure.intended_ns - ago_ms * MS if ago_ms else 0
        measure.waits_for_sessions(brokers[:2])

    assert measured(storm, body).session_ms == 8_500  # The last broker's session.

    async def refused(measure: Measure) -> None:
        storm.fleet.refused_ns = 700 * MS

    result = measured(storm, refused)
    assert (result.session_ms, result.work_unknown) == (700.0, "")


@pytest.mark.parametrize("session_ms", [0, 9_000])
def test_the_work_is_not_known_where_the_end_of_a_session_is_not(session_ms: int) -> None:
    """Otherwise the 9 s of the session would count as the controller's work."""
    storm, _ = made_up(2)
    storm.session_ms, storm.session_unknown = session_ms, "" if session_ms else "give --session-timeout MS"

    async def body(measure: Measure) -> None:
        storm.live()[0].last_sent_ns = measure.intended_ns
        measure.waits_for_sessions(storm.live())  # The second one's last heartbeat is not known.

    result = measured(storm, body)
    assert result.session_ms == NOT_KNOWN
    assert result.work_unknown == ("the time of a lost broker's last heartbeat is not known" if session_ms
                                   else "give --session-timeout MS")  # fmt: skip
    row = result.as_row() | {"last_ms": 9_400.0, "known_ms": [9_400.0]}
    assert (phases_of(row), work_ms(row), knew_after_ms(row)) == (None, NOT_KNOWN, [])


@pytest.mark.parametrize(("changes", "valid"), [(0, False), (1, False), (2, True), (3, True), (4, False)])
def test_a_repetition_whose_changes_are_out_of_bounds_is_invalid_with_the_reason(changes: int, valid: bool) -> None:
    storm, seen = made_up(1)

    async def body(measure: Measure) -> None:
        seen.extend((10 + at, CHANGE) for at in range(changes))
        ends = [(0, 10 + at + 1, measure.intended_ns + MS) for at in range(changes)]
        batches = [(10 + at, 10 + at, 1, 50, 0, measure.intended_ns) for at in range(changes)]
        storm.fleet.timeline.add(words(*batches), words(*ends))
        storm.fleet.observer.end_offset = 10 + changes

    result = measured(storm, body, "PartitionChangeRecord", bounds=Bounds(2, 3, "a broker that leads 2 ends"))
    assert (result.expected_least, result.expected_most, result.changes) == (2, 3, changes)
    reason = f"{changes} changes, and 2 to 3 were expected: a broker that leads 2 ends"
    assert (result.valid, result.invalid) == (valid, "" if valid else reason)


def words(*rows: tuple[int, ...]) -> bytes:
    return np.array(rows, np.int64).tobytes()


ANY = Bounds(0, 1_000, "anything")


def measured(
    storm: Storm, body: Callable[[Measure], Awaitable[None]], *names: str, bounds: Bounds = ANY
) -> ScenarioResult:
    async def run() -> ScenarioResult:
        measure = Measure(storm, "made-up")
        await measure.begin(bounds)
        await body(measure)
        return await measure.end(*names)

    return asyncio.run(run())


def test_times_are_from_the_intended_moment_to_the_first_and_last_change_at_each_live_broker() -> None:
    storm, seen = made_up(4)

    async def body(measure: Measure) -> None:
        start = measure.intended_ns
        seen.extend([(10, NO_OP), (11, CHANGE), (12, CHANGE), (13, NO_OP)])
        append_ms = int(time.time() * 1000) - 10_000
        storm.fleet.timeline.add(
            words((10, 10, 1, 70, append_ms, start + 1 * MS), (11, 12, 2, 100, append_ms, start + 5 * MS)),
            words((0, 12, start + 5 * MS), *((row, 14, start + (10 + row) * MS) for row in range(3))),
        )
        storm.fleet.observer.end_offset = 14
        storm.fleet.brokers[3].state = State.OFF

    result = measured(storm, body, "PartitionChangeRecord")
    assert (result.brokers, result.partitions, result.changes) == (3, 7, 2)
    assert result.records == {"NoOpRecord": 2, "PartitionChangeRecord": 2}
    assert (result.first_ms, result.p50_ms, result.last_ms) == (5, 11, 12)
    assert result.p99_ms == pytest.approx(11.98)
    assert result.append_gap_ms == pytest.approx(10_000, abs=2_000)
    assert (result.log_begin, result.log_end, result.log_bytes, result.requests) == (10, 14, 170, 12)
    assert result.valid and result.answered_ms == NOT_KNOWN


def test_a_wave_is_timed_from_the_end_of_the_one_before() -> None:
    storm, seen = made_up(2)

    async def body(measure: Measure) -> None:
        for wave in range(2):
            start, offset = measure._wave_ns, 10 + wave
            seen.append((offset, CHANGE))
            arrivals = words((0, offset + 1, start + 3 * MS), (1, offset + 1, start + (7 + wave) * MS))
            storm.fleet.timeline.add(words((offset, offset, 1, 50, 0, start)), arrivals)
            storm.fleet.observer.end_offset = offset + 1
            await measure.wave(f"wave {wave}", "PartitionChangeRecord")
        await measure.wave("nothing", "PartitionChangeRecord")

    result = measured(storm, body, "PartitionChangeRecord")
    assert result.waves_ms == {"wave 0": 7, "wave 1": 8}
    assert result.changes == 2


def test_an_election_ends_where_the_new_epoch_begins() -> None:
    """By the time stamp of the first batch behind the old leader's last committed record, whatever that one wrote."""
    storm, seen = made_up(1)
    storm.fleet.observer.committed_of = {4: 12}.__getitem__

    async def body(measure: Measure) -> None:
        start, killed_ms = measure.intended_ns, (time.time_ns() - time.monotonic_ns() + measure.intended_ns) // MS
        seen.append((13, CHANGE))
        batches = ((11, 11, -500), (12, 12, 250), (13, 13, 400))
        appended = [(first, last, 1, 50, killed_ms + ms, start + 9 * MS) for first, last, ms in batches]
        storm.fleet.timeline.add(words(*appended), words((0, 14, start + 500 * MS)))
        storm.fleet.observer.end_offset = 14
        measure.elected(4)

    result = measured(storm, body, "PartitionRecord")
    assert result.waves_ms == {"elected": pytest.approx(250, abs=20)}


def test_without_changes_there_is_nothing_to_time() -> None:
    async def body(measure: Measure) -> None:
        pass

    result = measured(made_up(1)[0], body, "PartitionChangeRecord")
    assert (result.changes, result.first_ms, result.last_ms, result.waves_ms) == (0, NOT_KNOWN, NOT_KNOWN, {})


@pytest.mark.parametrize(("lag_ms", "valid"), [(100, True), (1_000, False)])
def test_a_run_whose_own_heartbeats_were_late_is_not_valid(lag_ms: int, valid: bool) -> None:
    async def body(measure: Measure) -> None:
        pass

    result = measured(made_up(1, lag_ms * MS)[0], body)
    assert result.valid is valid
    assert ("the load generator itself was" in result.invalid) is not valid


@pytest.mark.parametrize(("cpu_s", "found"), [(7.5, 2.5), (1.0, NOT_KNOWN)])
def test_cpu_is_not_known_where_a_process_was_replaced(cpu_s: float, found: float) -> None:
    storm, _ = made_up(1)
    usages = iter([Usage(5.0, 1, 2_000_000), Usage(cpu_s, 1, 3_000_000)])
    storm.usage = lambda: next(usages)

    async def body(measure: Measure) -> None:
        pass

    assert measured(storm, body).controller_cpu_s == found
