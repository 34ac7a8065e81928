"""Replicas held by brokers, the random choice of brokers, and the changes that a scenario must cause."""

import asyncio
from random import Random
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from kcore.errors import TargetError
from kcore.measure.hollow.fleet import HollowBroker, Options, State
from kcore.measure.storm.expectations import Bounds, Held, Holdings, exactly, leaving
from kcore.measure.storm.kraft.kraft_storm import Sizes, Storm, replicas_of
from kcore.measure.storm.storm_plan import StormPlan
from kcore.metadata.table.broker_table import BrokerTable
from kcore.metadata.table.partition_table import PartitionTable
from kcore.types import ZERO_UUID

IDS = [10, 20, 30, 40, 50]


def a_table(random: Random, partitions: int) -> PartitionTable:
    replicas = np.array([random.sample(IDS[:4], 3) for _ in range(partitions)])
    isr = np.full((partitions, 3), -1)
    leaders = np.full(partitions, -1)
    for row in range(partitions):
        members = random.sample(replicas[row].tolist(), random.randint(1, 3))
        isr[row, : len(members)] = members
        leaders[row] = random.choice([*members, -1])
    return PartitionTable.from_arrays(
        replicas, isr=isr, leaders=leaders, brokers=BrokerTable.from_arrays(np.array(IDS))
    )


def slowly(table: PartitionTable, ids: list[int]) -> Holdings:
    """Partition by partition."""
    found = {"leaders": 0, "isrs": 0, "alone": 0, "replicas": 0}
    for row in range(len(table)):
        isr = [int(table.brokers.ids[each]) for each in table.isr__pi[row] if each >= 0]
        replicas = [int(table.brokers.ids[each]) for each in table.replicas__ps[row] if each >= 0]
        leader = int(table.leader__p[row])
        found["leaders"] += leader >= 0 and int(table.brokers.ids[leader]) in ids
        found["isrs"] += sum(each in ids for each in isr)
        found["alone"] += len(isr) == 1 and isr[0] in ids
        found["replicas"] += sum(each in ids for each in replicas)
    return Holdings(**found)


@pytest.mark.parametrize("seed", range(5))
def test_holdings_are_what_partition_by_partition_says(seed: int) -> None:
    random = Random(seed)
    table = a_table(random, 40)
    held = Held(table)
    for ids in ([], [10], [50], [10, 40], [99], IDS):
        assert held.of(ids) == slowly(table, ids)


def test_bounds_name_what_was_expected_and_why() -> None:
    held = Holdings(leaders=100, isrs=290, alone=5, replicas=300)
    message = "brokers that lead 100 partitions and have 300 replicas, 290 of them in ISRs end"
    assert leaving(held) == Bounds(100, 305, message)
    assert leaving(held).flaw(0) == f"0 changes, and 100 to 305 were expected: {message}"
    assert [leaving(held).flaw(changes) for changes in (100, 305)] == ["", ""]
    assert leaving(held, times=2).most == 610
    # Nothing to change is no measurement, even where the state says that nothing is to change.
    assert exactly(0, "moves").flaw(0) == "0 changes, and 1 were expected: moves"
    assert leaving(Holdings(0, 0, 0, 0)).flaw(0)


def a_storm(table: PartitionTable, random: Random) -> Storm:
    members = {at: HollowBroker(at, nth, None, (), ZERO_UUID, State.RUNNING) for nth, at in enumerate(IDS)}
    observer = SimpleNamespace(image=SimpleNamespace(table=table))
    fleet: Any = SimpleNamespace(brokers=members, observer=observer, options=Options())
    quorum: Any = None
    return Storm(quorum, fleet, Sizes(), random)


def test_all_targets_of_a_repetition_get_the_same_brokers_and_each_repetition_its_own() -> None:
    """Whatever else used up random numbers before: retries, jitter, other scenarios."""
    plan, table = StormPlan(seed=7), a_table(Random(1), 60)

    def chosen(repetition: int, scenario: str = "broker-lost") -> list[int]:
        storm = a_storm(table, plan.dice(repetition, scenario))
        brokers, held = asyncio.run(storm.pick(2))
        assert held == slowly(table, [broker.broker_id for broker in brokers])
        return [broker.broker_id for broker in brokers]

    assert all(chosen(repetition) == chosen(repetition) for repetition in range(10))
    assert len({tuple(chosen(repetition)) for repetition in range(10)}) > 1
    assert len({tuple(chosen(0, scenario)) for scenario in ("broker-lost", "bounce", "reassign", "assign")}) > 1


def test_requests_for_isrs_are_made_a_part_of_the_partitions_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A million requests at once would take gigabytes."""
    table = a_table(Random(1), 60)
    storm = a_storm(table, Random(1))
    asked: list[list[int]] = []

    async def alter(quorum: Any, table: Any, rows: Any, isrs: list[list[int]], brokers: Any) -> int:
        assert isrs == [replicas_of(table, row) for row in rows.tolist()]
        asked.append(rows.tolist())
        return 0

    async def settled(_: Storm) -> None:
        wanted.clear()

    wanted = [1, 4, 9, 16, 25]
    monkeypatch.setattr("kcore.measure.storm.kraft.kraft_storm.isr.alter", alter)
    monkeypatch.setattr("kcore.measure.storm.kraft.kraft_storm._ALTERED_AT_ONCE", 2)
    monkeypatch.setattr(Storm, "settled", settled)
    asyncio.run(storm.alter_isrs("to lack", lambda _: np.array(wanted, np.int32), replicas_of))
    assert asked == [[1, 4], [9, 16], [25]]


def test_a_broker_that_has_nothing_to_lose_is_not_chosen() -> None:
    table = a_table(Random(1), 60)
    for seed in range(20):
        brokers, _ = asyncio.run(a_storm(table, Random(seed)).pick(9))
        assert {broker.broker_id for broker in brokers} == set(IDS[:4])  # The fifth has no replica.
    away = PartitionTable.from_arrays(
        np.array([[10, 20]]), isr=np.array([[10, 20]]), leaders=np.array([-1]),
        brokers=BrokerTable.from_arrays(np.array(IDS)),
    )  # fmt: skip
    with pytest.raises(TargetError, match="no live broker has any leaders: there is nothing to measure"):
        asyncio.run(a_storm(away, Random(1)).pick())
    assert len(asyncio.run(a_storm(away, Random(1)).pick(3, "replicas"))[0]) == 2
