"""Outcomes of single scenarios and of all pairs, against the slow twin."""

import numpy as np
import pytest

from kcore.errors import ArgumentError, TableError
from kcore.metadata.table.partition_table import PartitionTable
from kcore.whatif import Scenario, what_if
from kcore.whatif.after_loss import after_loss
from kcore.whatif.effects import KINDS
from kcore.whatif.outcome import health_of, outcome_of
from kcore.whatif.pairs import all_pairs
from kcore.whatif.scenario import directories_of
from reference import what_if as twin
from replication.kraft_tables import directory_uuid
from seeds import seeds
from whatif.scenes import KraftScene, ZooKeeperScene

SEEDS = seeds(6, 60)


def check(scene: KraftScene | ZooKeeperScene, brokers: list[int], directories: dict[int, int]) -> None:
    scenario = Scenario.of(brokers, directories=[directory_uuid(each) for each in directories])
    brokers = [*brokers, *scene.without_directories({*brokers}, directories)]
    got = outcome_of(scene.cluster, scenario)
    counts, leaders = twin.lose(scene.partitions, scene.live, {*brokers}, directories, scene.decide)
    row = got.as_row()
    assert {kind: row[kind] for kind in KINDS} == {kind: counts.get(kind, 0) for kind in KINDS}
    assert got.leaders == leaders
    assert got.after.most_leaders == max(leaders.values(), default=0)
    assert [len(got.rows(kind)) for kind in KINDS[4:]] == [counts.get(kind, 0) for kind in KINDS[4:]]
    check_after(scene, scenario, brokers, directories)


def check_after(
    scene: KraftScene | ZooKeeperScene, scenario: Scenario, brokers: list[int], directories: dict[int, int]
) -> None:
    """The cluster after the loss has the twin's decision for each partition, and the lost brokers are not live."""
    found = after_loss(scene.cluster, scenario)
    moving = {p["topic"] for p in scene.partitions if p["adding"] or p["removing"]}
    for row, p in enumerate(scene.partitions):
        gone = twin.gone_of(p, {*brokers}, directories)
        if isinstance(scene, KraftScene):
            wanted = scene.decide_in_turn(p, brokers, directories)
        else:
            wanted = scene.decide(p, gone) if gone else p
        state = found.table.registration(row)
        assert (state.leader, [*state.isr]) == (wanted["leader"], [*wanted["isr"]])
        # A reassignment that completes may change a topic's replication factor, which caps min.insync.replicas.
        is_plain = isinstance(scene, KraftScene) and p["topic"] not in moving
        assert not is_plain or [*state.elr] == [*wanted["elr"]]
    if len(brokers) == 1 and not directories:
        assert health_of(found, found.leaders__b, found.live__b) == outcome_of(scene.cluster, scenario).after
    assert not {*found.live_ids()} & {*brokers}
    assert not {*directories_of(found.table)} & {*scenario.directories}


@pytest.mark.parametrize("seed", SEEDS)
def test_lost_brokers_and_directories_of_kraft(seed: int) -> None:
    scene = KraftScene(seed)
    owners = {each: broker for broker, listed in scene.state["directories"].items() for each in listed}
    some = dict([*owners.items()][:3])
    for brokers in ([3], [5, 0, 16]):
        check(scene, brokers, {})
        check(scene, brokers, some)
    check(scene, [], owners)


@pytest.mark.parametrize("seed", SEEDS)
def test_lost_brokers_of_zookeeper_mode(seed: int) -> None:
    scene = ZooKeeperScene(seed)
    for brokers in ([3], [5, 0, 16], [8, 9]):
        check(scene, brokers, {})


@pytest.mark.parametrize("seed", seeds(2, 10))
@pytest.mark.parametrize("kind", [KraftScene, ZooKeeperScene])
def test_pairs_are_as_both_losses_together(kind: type[KraftScene | ZooKeeperScene], seed: int) -> None:
    scene = kind(seed)
    pairs = all_pairs(scene.cluster).as_rows()
    live = sorted(scene.live)
    wanted = [(one, two) for at, one in enumerate(live) for two in live[at + 1 :]]
    assert [(each["broker"], each["other_broker"]) for each in pairs] == wanted
    for each in pairs:
        both = outcome_of(scene.cluster, Scenario.of([each["broker"], each["other_broker"]])).as_row()
        names = (*KINDS, "most_loaded", "most_leaders", "skew")
        assert {name: each[name] for name in names} == {name: both[name] for name in names}


def four() -> PartitionTable:
    return PartitionTable.from_arrays([[0, 1, 2], [1, 2, 0], [2, 3, -1], [3, -1, -1]])


def test_an_outcome_in_figures() -> None:
    asked = what_if(four(), release="4.3.1", min_isr=2)
    found = asked.lose([2, 3])
    assert (found.partitions, found.new_without_leader, found.new_under_min_isr) == (4, 2, 2)
    assert (found.at_risk, found.without_replica, found.moved_leaders) == (2, 2, 0)
    assert found.leaders == {0: 1, 1: 1} and found.after.skew == 1.0
    assert found.rows("without_leader").tolist() == [2, 3]
    assert asked.health.without_leader == 0, "nothing has changed"
    worst = asked.pairs().worst(1)[0]
    assert (worst["broker"], worst["other_broker"], worst["at_risk"]) == (2, 3, 2)


def test_the_broker_that_is_fenced_last_is_in_the_elr() -> None:
    asked = what_if(PartitionTable.from_arrays([[0, 1, 2]]), release="4.4.0", min_isr=2, elr=True)
    for order, elr in (((1, 2), (2,)), ((2, 1), (1,))):
        state = asked.after_loss(order).cluster.table.registration(0)
        assert (state.leader, state.isr, state.elr) == (0, (0,), elr)


def test_losses_follow_each_other() -> None:
    one = what_if(four(), release="4.3.1", min_isr=1)
    both = one.after_loss([0]).after_loss([1])
    assert both.cluster.table.leader__p.tolist() == [2, 2, 2, 3]
    assert both.lose([2]).new_without_leader == 2 and both.cluster.live_ids() == [2, 3]
    assert one.health.without_leader == 0, "nothing has changed"


def test_an_unclean_election_loses_records() -> None:
    table = PartitionTable.from_arrays([[0, 1]], isr=[[0, -1]])
    clean, unclean = (what_if(table, release="4.3.1", unclean=each).lose([0]) for each in (False, True))
    assert (clean.new_without_leader, clean.unclean_leaders, clean.at_risk) == (1, 0, 1)
    assert (unclean.new_without_leader, unclean.unclean_leaders, unclean.at_risk) == (0, 1, 1)


def test_lost_brokers_are_not_elected() -> None:
    table = PartitionTable.from_arrays([[0, 1, 2]] * 5)
    for release in ("3.9.1", "4.3.1"):
        assert what_if(table, release=release).lose([0, 1]).leaders == {2: 5}


@pytest.mark.parametrize(
    ("given", "error", "text"),
    [
        ({"brokers": [7]}, TableError, "no broker 7 in the cluster; there are 0, 1, 2, 3"),
        ({"racks": ["a"]}, TableError, "no broker is in rack 'a'; no broker has a rack"),
        ({"directories": [directory_uuid(9)]}, TableError, "has registered log directory"),
        ({}, ArgumentError, "nothing is lost"),
        ({"brokers": ["x"]}, ArgumentError, "a whole number, not 'x'"),
        ({"brokers": 3}, ArgumentError, "brokers are a list, not 3"),
        ({"directories": ["x"]}, ArgumentError, "a log directory is the directory.id of its meta.properties"),
    ],
)
def test_a_loss_that_cannot_be(given: dict[str, object], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        what_if(four()).lose(**given)  # type: ignore[arg-type]


def test_a_table_is_not_changed_by_questions() -> None:
    table = four()
    before = table.copy()
    asked = what_if(table, min_isr=2)
    asked.pairs(), asked.restart_plan(), asked.each_broker(), asked.restart_risks()
    assert table == before and np.array_equal(table.leader__p, before.leader__p)
