"""Risks of restarts, groups that may restart together, and the order of a rolling restart."""

from itertools import permutations

import numpy as np
import pytest

from kcore.errors import TableError
from kcore.metadata.table.broker_table import BrokerTable
from kcore.metadata.table.partition_table import PartitionTable
from kcore.whatif import what_if
from kcore.whatif.restart_groups import Conflicts, capacities_of, divide
from kcore.whatif.restart_order import cost_of, ordered, second_moves
from kcore.whatif.restart_plan import may_restart_together, restart_plan, simulated
from kcore.whatif.what_if import WhatIf
from reference import what_if as twin
from seeds import seeds
from whatif.scenes import KraftScene, healthy


@pytest.mark.parametrize("seed", seeds(6, 40))
def test_brokers_that_may_restart_together(seed: int) -> None:
    cluster, partitions = healthy(seed, brokers=7, partitions=6)
    random = np.random.default_rng(seed)
    for _ in range(10):
        group = random.permutation(7)[: random.integers(1, 5)].tolist()
        assert may_restart_together(cluster, group) == twin.may_restart_together(partitions, {*range(7)}, {*group})


@pytest.mark.parametrize("seed", seeds(6, 40))
def test_a_plan_has_the_fewest_steps_and_no_step_goes_under_min_isr(seed: int) -> None:
    cluster, partitions = healthy(seed, brokers=6, partitions=7)
    plan = restart_plan(cluster)
    assert plan.is_fewest_steps and len(plan.steps) == twin.fewest_steps(partitions, {*range(6)})
    assert sorted(broker for step in plan.steps for broker in step.brokers) == [*range(6)]
    for step in plan.steps:
        assert step.under_min_isr == sum(plan.unavoidable.get(broker, 0) for broker in step.brokers)
        assert step.unclean_leaders == 0


@pytest.mark.parametrize("seed", seeds(3, 20))
def test_no_order_of_the_steps_moves_fewer_leaders(seed: int) -> None:
    """Where the preferred replicas lead, and each partition keeps an in-sync replica: the cost is then exact."""
    cluster, _ = healthy(seed, brokers=9, partitions=30, racks=4)
    groups = [[row for row in range(9) if row % 4 == rack] for rack in range(4)]
    found, fewest = ordered(cluster, groups)
    moves = {order: sum(step.moved_leaders for step in simulated(cluster, order)) for order in _orders(groups)}
    assert moves[_frozen(found)] == min(moves.values()) == fewest
    costs = second_moves(cluster, groups)
    first_moves = min(moves.values()) - min(cost_of(costs, order) for order in permutations(range(4)))
    assert all(
        count == first_moves + cost_of(costs, [groups.index([*group]) for group in order])
        for order, count in moves.items()
    )


def _orders(groups: list[list[int]]) -> list[tuple[tuple[int, ...], ...]]:
    return [_frozen(order) for order in permutations(groups)]


def _frozen(order: object) -> tuple[tuple[int, ...], ...]:
    return tuple(tuple(group) for group in order)  # type: ignore[attr-defined]


def test_racks_restart_one_after_the_other() -> None:
    racks = [f"r{broker % 3}" for broker in range(12)]
    replicas = [[p % 12, (p + 1) % 12, (p + 2) % 12] for p in range(60)]
    table = PartitionTable.from_arrays(replicas, brokers=BrokerTable.from_arrays(range(12), racks=racks))
    plan = what_if(table, release="4.3.1", min_isr=2).restart_plan()
    assert len(plan.steps) == plan.fewest_steps == 3
    assert {len({racks[broker] for broker in step.brokers}) for step in plan.steps} == {1}


def test_many_brokers_without_racks_restart_by_a_heuristic_with_a_bound() -> None:
    cluster, _ = healthy(5, brokers=40, partitions=300)
    conflicts = Conflicts(capacities_of(cluster), 40)
    division = divide(cluster, range(40), conflicts)
    assert sorted(row for group in division.groups for row in group) == [*range(40)]
    assert division.fewest <= len(division.groups) < 40
    assert all(conflicts.may_restart(group) for group in division.groups)
    plan = restart_plan(cluster)
    assert len(plan.steps) == len(division.groups)
    assert plan.fewest_moves <= plan.moved_leaders < 2 * plan.fewest_moves


def test_the_risks_of_a_restart() -> None:
    table = PartitionTable.from_arrays(
        [[0, -1, -1], [0, 1, -1], [0, 1, 2], [0, 1, 2], [1, 0, -1]],
        isr=[[0, -1, -1], [0, -1, -1], [0, 1, 2], [0, 1, -1], [1, 0, -1]],
    )
    risk, other, safe = what_if(table, release="4.3.1", min_isr=2).restart_risks()
    assert (risk.broker, risk.rf1_offline, risk.unavailable) == (0, 1, 1)
    assert (risk.acks_all_unavailable, risk.acks1_data_loss) == (2, 2)
    assert (risk.unclean_data_loss, risk.last_replica) == (0, 2)
    assert not risk.is_safe and other.acks_all_unavailable == 2 and safe.is_safe
    unclean = what_if(table, release="4.3.1", unclean=True).restart_risks()[0]
    assert (unclean.unavailable, unclean.unclean_data_loss) == (0, 1)


def test_nothing_is_planned_without_a_live_broker() -> None:
    table = PartitionTable.from_arrays([[0, 1]])
    table.brokers.set_lost([0, 1])
    asked: WhatIf = what_if(table)
    for question in (asked.restart_plan, asked.pairs):
        with pytest.raises(TableError, match="no broker of the cluster is live"):
            question()
    assert not asked.restart_risks() and not asked.each_broker()


@pytest.mark.parametrize("seed", seeds(4, 20))
def test_the_risks_are_the_effects_of_a_loss(seed: int) -> None:
    scene = KraftScene(seed)
    asked = WhatIf(scene.cluster)
    for risk in asked.restart_risks():
        loss = asked.lose([risk.broker])
        assert risk.rf1_offline + risk.unavailable == loss.new_without_leader
        assert risk.acks_all_unavailable <= loss.new_under_min_isr
        assert risk.unclean_data_loss == loss.unclean_leaders
        assert risk.acks1_data_loss <= loss.moved_leaders - loss.unclean_leaders
        assert risk.last_replica <= loss.new_one_in_sync
