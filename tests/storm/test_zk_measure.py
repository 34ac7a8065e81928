"""Measures of a scenario in ZooKeeper mode, over a fake fleet that is a list of requests."""

import asyncio
import time
from collections.abc import Callable
from random import Random
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

from kcore.cli.measure.measured_storm import verdict
from kcore.measure.hollow.zk.receivers import Arrival
from kcore.measure.processes.target import KAFKA_ZK, KCORE_ZK, Target
from kcore.measure.report.exits import Exit
from kcore.measure.storm.expectations import Bounds
from kcore.measure.storm.phases import phases_of
from kcore.measure.storm.report_rows import different_ends, row_of
from kcore.measure.storm.report_table import troubles
from kcore.measure.storm.result import ScenarioResult
from kcore.measure.storm.storm_plan import Cell
from kcore.measure.storm.zk.zk_storm import ZkMeasure, ZkStorm
from kcore.schema import LeaderAndIsrRequest

ANY = Bounds(0, 1_000, "anything")


class Fleet:
    """Brokers 1 and 2, and the requests that came to them."""

    live = (1, 2)

    def __init__(self) -> None:
        self.found: list[tuple[int, Arrival]] = []

    def arrivals(self) -> list[tuple[int, Arrival]]:
        return self.found

    async def until(self, what: str, so: Callable[[], bool], timeout_s: float) -> None:
        assert so(), what

    async def quiet(self, quiet_s: float, timeout_s: float) -> None:
        pass


def test_requests_before_a_late_watch_count() -> None:
    fleet = Fleet()
    storm: Any = SimpleNamespace(
        fleet=fleet,
        table=[],
        controller=SimpleNamespace(usage=lambda: None),
        profile=None,
        forget=fleet.found.clear,
        timeout_s=1.0,
    )
    measure = ZkMeasure(storm, "failover", ANY)
    first_ns = time.monotonic_ns()
    for at, broker_id in enumerate(fleet.live):
        fleet.found.append((broker_id, arrival(first_ns + at * 2_000_000)))
    measure.begins_now()
    result = asyncio.run(measure.end("all requests", lambda: True))
    assert (result.requests, result.first_ms, result.last_ms) == (2, 0.0, 2.0)


def a_measure(fleet: Fleet, scenario: str = "broker-lost", bounds: Bounds = ANY) -> ZkMeasure:
    storm: Any = SimpleNamespace(
        fleet=fleet,
        table=[],
        controller=SimpleNamespace(usage=lambda: None),
        profile=None,
        forget=fleet.found.clear,
        timeout_s=1.0,
    )
    return ZkMeasure(storm, scenario, bounds)


@pytest.mark.parametrize(("least", "valid"), [(2, True), (3, False)])
def test_a_repetition_whose_requests_are_out_of_bounds_is_invalid_with_the_reason(least: int, valid: bool) -> None:
    fleet = Fleet()
    measure = a_measure(fleet, bounds=Bounds(least, 9, "a broker that leads 3"))
    fleet.found += [(broker_id, arrival(time.monotonic_ns())) for broker_id in fleet.live]
    result = asyncio.run(measure.end("all requests", lambda: True))
    reason = "2 changes, and 3 to 9 were expected: a broker that leads 3"
    assert (result.changes, result.valid, result.invalid) == (2, valid, "" if valid else reason)


def test_the_work_begins_when_the_znode_of_a_broker_that_died_is_gone() -> None:
    fleet = Fleet()
    measure = a_measure(fleet)
    measure.intended_ns -= 50_000_000
    measure.session_ended(0.01)
    assert measure.result.session_ms >= 50
    end_ns = measure.intended_ns + int(measure.result.session_ms * 1e6)
    fleet.found += [(1, arrival(end_ns + 2_000_000)), (2, arrival(end_ns + 5_000_000))]
    result = asyncio.run(measure.end("all requests", lambda: True))
    phases = phases_of(result.as_row())
    assert phases is not None and phases.noticed == 0
    assert phases.session == result.session_ms and phases.work == pytest.approx(5, abs=0.01)


def test_requests_before_a_late_watch_end_the_session() -> None:
    fleet = Fleet()
    measure = a_measure(fleet)
    measure.intended_ns -= 50_000_000
    fleet.found.append((1, arrival(measure.intended_ns + 1_000_000)))  # Unrelated: no session is so short.
    fleet.found.append((1, arrival(measure.intended_ns + 20_000_000)))
    measure.session_ended(0.01)
    assert measure.result.session_ms == 20


def test_other_ends_under_another_target_are_a_trouble() -> None:
    def row(target: str, end_state: str, repetition: int = 0, scenario: str = "create") -> dict[str, Any]:
        cell = Cell(Target.parse(target), 6, 100, repetition)
        return row_of(cell, ScenarioResult(scenario, 6, 100, 1, last_ms=1.0, end_state=end_state), 1)

    same = [row(KAFKA_ZK, "a"), row(KCORE_ZK, "a"), row(KAFKA_ZK, "b", 1), row("kafka-4.3.1", "")]
    assert different_ends(same) == []
    [line] = different_ends([*same, row(KCORE_ZK, "c", 1)])
    assert line == (
        "different ends: create, 6 x 100, repetition 2: the state in ZooKeeper is not the same under "
        "kafka-3.9.1-zk and kcore-zk"
    )
    assert line in troubles([*same, row(KCORE_ZK, "c", 1)], [])
    assert verdict(same, []) is Exit.GOOD
    assert verdict([*same, row(KCORE_ZK, "c", 1)], []) is Exit.FAILED


def arrival(at_ns: int) -> Arrival:
    return Arrival(at_ns, LeaderAndIsrRequest, 1, 10)


def test_the_broker_that_dies_is_picked_for_nothing_else() -> None:
    """Back without its leaders, a controlled shutdown of it would change nothing."""
    brokers = {each: SimpleNamespace(broker_id=each, keeps_updates=False) for each in range(4)}
    fleet: Any = SimpleNamespace(brokers=brokers, live={0, 1, 2, 3})
    controller, table = Mock(), Mock()
    storm = ZkStorm(fleet, controller, table, Random(1), lost_id=2)
    assert {storm.pick() for _ in range(50)} == {1, 3}
    fleet.live = {0, 2}
    assert storm.pick() == 2


def test_a_controller_that_is_minutes_behind_with_its_requests_is_waited_for() -> None:
    waited: list[float] = []

    class Slow(Fleet):
        async def quiet(self, quiet_s: float, timeout_s: float) -> None:
            waited.append(timeout_s)
            self.found.append((1, arrival(time.monotonic_ns())))

    asyncio.run(a_measure(Slow(), "reassign").end("the last request", lambda: True, 1750.0))
    assert waited == [1750.0]
