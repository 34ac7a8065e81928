"""Storms of running controllers: settings that the run reads from them, and settings that it does not guess."""

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable, Iterator
from random import Random

import numpy as np
import pytest

from kcore.errors import TargetError
from kcore.measure.hollow.fleet import Fleet, Options
from kcore.measure.hollow.histograms import histogram
from kcore.measure.hollow.isr import lacking
from kcore.measure.hollow.quorum_client import Quorum
from kcore.measure.processes.kcore_quorum import KcoreQuorum
from kcore.measure.processes.listening import listening_pids
from kcore.measure.storm import run_storm as run
from kcore.measure.storm.kraft.kraft_storm import Sizes, Storm
from kcore.measure.storm.kraft.running_controllers import controller_pids, session_timeout_ms
from kcore.measure.storm.kraft.scenarios import SCENARIOS
from kcore.measure.storm.report_rows import Row
from kcore.measure.storm.storm_plan import StormPlan
from kcore.metadata.table.partition_table import PartitionTable

SESSION_MS = 1_500
BEAT_S = 0.1


@pytest.fixture(scope="module")
def controller() -> Iterator[KcoreQuorum]:
    """One of kcore's whose session time-out is not the default."""
    with KcoreQuorum(properties=f"broker.session.timeout.ms={SESSION_MS}") as started:
        yield started


def stormed(controller: KcoreQuorum, body: Callable[[Storm], Awaitable[None]], **options: object) -> None:
    """A storm of three brokers against the controller."""

    async def main() -> None:
        quorum = Quorum(controller.bootstrap, random=Random())
        await quorum.open()
        settings = Options(heartbeat_s=BEAT_S, **options)  # type: ignore[arg-type]
        try:
            async with Fleet(quorum, random=Random(), options=settings) as fleet:
                for broker_id in (1, 2, 3):
                    fleet.add(broker_id)
                storm = Storm(quorum, fleet, Sizes(3, 90, 30), Random(1), prefix=f"{Random().getrandbits(40):x}-")
                await storm.restore([*fleet.brokers.values()])
                await body(storm)
                if storm.topics:
                    storm.sizes = Sizes(deleted_share=1.0)
                    await SCENARIOS["delete-topics"](storm)
        finally:
            await quorum.close()

    asyncio.run(main())


def ran(controller: KcoreQuorum, **options: object) -> tuple[list[Row], list[str]]:
    plan = StormPlan(
        targets=(controller.bootstrap[0],), brokers=(3,), partitions=(90,), racks=0, heartbeat_s=BEAT_S, **options
    )  # type: ignore[arg-type]
    plan.check()
    rows: list[Row] = []
    lines: list[str] = []
    assert run.run(plan, rows, lines.append) == []
    return rows, lines


def test_the_session_time_out_is_asked_and_the_process_is_found_by_its_port(controller: KcoreQuorum) -> None:
    rows, lines = ran(controller, scenarios=("broker-lost",))
    lost = rows[-1]
    assert (lost["scenario"], lost["error"], lost["work_unknown"]) == ("broker-lost", None, "")
    assert 0 < lost["session_ms"] <= SESSION_MS  # The default, 9 s, would be longer than the whole scenario.
    assert lost["session_ms"] <= lost["last_ms"]
    assert lost["controller_cpu_s"] > 0 and lost["controller_rss_mb"] > 0
    assert not any("not known" in line for line in lines)


@pytest.mark.long
def test_a_controller_that_does_not_tell_its_session_time_out_leaves_the_work_blank(
    controller: KcoreQuorum, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def silent(quorum: Quorum) -> int:
        raise TargetError("controller 7 does not tell it: give --session-timeout MS")

    monkeypatch.setattr(run, "session_timeout_ms", silent)
    rows, lines = ran(controller, scenarios=("broker-lost",))
    assert (rows[-1]["session_ms"], rows[-1]["valid"]) == (-1.0, True)
    assert rows[-1]["work_unknown"] == "controller 7 does not tell it: give --session-timeout MS"
    assert any("the work of lost brokers will not be known: controller 7" in line for line in lines)
    rows, lines = ran(controller, scenarios=("broker-lost",), session_timeout_ms=SESSION_MS)
    assert 0 < rows[-1]["session_ms"] <= SESSION_MS and not rows[-1]["work_unknown"]


def test_a_session_time_out_that_the_controller_does_not_have_is_refused(controller: KcoreQuorum) -> None:
    rows, _ = ran(controller, scenarios=("broker-lost",), session_timeout_ms=SESSION_MS // 2)
    leader_id = controller.nodes[0].node_id
    message = f"--session-timeout {SESSION_MS // 2}: controller {leader_id} has {SESSION_MS} ms: leave it out"
    assert {row["error"] for row in rows} == {message}


def test_what_is_asked_for_is_refused_where_it_cannot_be_known(controller: KcoreQuorum) -> None:
    async def body() -> None:
        quorum = Quorum(controller.bootstrap, random=Random())
        await quorum.open()
        try:
            assert await session_timeout_ms(quorum) == SESSION_MS
            assert controller_pids(quorum, ()) == controller.pids()
            assert controller_pids(quorum, controller.pids()) == controller.pids()
            with pytest.raises(TargetError, match=rf"^--pid {os.getpid()} does not listen at .*, but process \d+$"):
                controller_pids(quorum, [os.getpid()])
            with pytest.raises(TargetError, match=r"^--pid 4194305: there is no such process"):
                controller_pids(quorum, [4_194_305])
            quorum.leader_id = 7  # It answers for itself alone.
            with pytest.raises(TargetError, match=r"session.timeout.ms \(.*\): give --session-timeout MS"):
                await session_timeout_ms(quorum)
        finally:
            await quorum.close()

    asyncio.run(body())
    with pytest.raises(TargetError, match=r"^192\.0\.2\.1:9093 is on another machine$"):
        listening_pids(["192.0.2.1:9093"])
    with pytest.raises(TargetError, match=r"^no process of this user listens at 127\.0\.0\.1:1$"):
        listening_pids(["127.0.0.1:1"])


def test_brokers_that_only_count_come_back_into_their_isrs(controller: KcoreQuorum) -> None:
    """Otherwise the next scenario may choose a broker that has nothing to lose."""

    async def body(storm: Storm) -> None:
        await SCENARIOS["create"](storm)
        for name in ("controlled-shutdown", "broker-lost"):
            storm.random = Random(3)
            result = await SCENARIOS[name](storm)
            assert result.valid and result.changes >= result.expected_least > 0
            assert len(lacking(await storm.state(), [1, 2, 3])) == 0

    stormed(controller, body, counts_only=True)


def test_a_scenario_that_changes_less_than_the_state_before_says_is_invalid(
    controller: KcoreQuorum, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broker that left its ISRs before, as one that only counts did: the shutdown is quick, and changes nothing."""

    async def body(storm: Storm) -> None:
        await SCENARIOS["create"](storm)
        before = await storm.state()
        leader_of = [int(before.brokers.ids[row]) for row in before.leader__p.tolist() if row >= 0]
        stopped = storm.fleet.brokers[1]
        await storm.fleet.shut_down([stopped], storm.timeout_s)
        await storm.fleet.start([stopped], clean=True)
        await storm.fleet.unfenced([stopped], storm.timeout_s)
        await storm.settled()

        async def stale() -> PartitionTable:
            return before

        monkeypatch.setattr(Storm, "state", lambda _: stale())
        monkeypatch.setattr(storm.random, "sample", lambda live, count: live)
        monkeypatch.setattr(Storm, "restore", lambda *_, **__: stale())
        result = await SCENARIOS["controlled-shutdown"](storm)
        monkeypatch.undo()
        await storm.restore([stopped], clean=True)
        assert (result.valid, result.changes) == (False, 0)
        assert result.invalid.startswith(f"0 changes, and {leader_of.count(1):,} to ")

    stormed(controller, body, counts_only=True)


def test_heartbeats_that_were_due_while_the_controller_did_not_answer_count(controller: KcoreQuorum) -> None:
    """The brokers send none of them; without them one late heartbeat a broker would stand beside thousands of good."""
    stop_s = 1.0  # Shorter than the session.

    async def body(storm: Storm) -> None:
        [pid] = controller.pids()
        storm.fleet.histograms()
        os.kill(pid, signal.SIGSTOP)
        try:
            await asyncio.sleep(stop_s)
        finally:
            os.kill(pid, signal.SIGCONT)
        await storm.settled()
        sent = storm.fleet.counters()["heartbeats"]
        await storm.until("a heartbeat", lambda: storm.fleet.counters()["heartbeats"] >= sent + 6)
        latency = histogram(storm.fleet.histograms()[0])
        slow = int(latency[np.arange(len(latency)) >= _bucket_of(stop_s / 2)].sum())
        # Each of three brokers would have sent one every 100 ms: those due in the first half waited for half of it.
        assert slow >= 3 * (stop_s / 2 / BEAT_S - 2)

    stormed(controller, body)


def _bucket_of(seconds: float) -> int:
    """The first bucket of the histogram with durations that are surely longer."""
    from kcore.measure.hollow.histograms import percentile_ms

    return next(at for at in range(2048) if percentile_ms(np.eye(1, 2048, at, dtype=np.int64)[0], 1.0) > seconds * 1e3)
