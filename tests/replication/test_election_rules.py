"""ZooKeeper mode's single-partition rules against the decisions of Kafka's own classes."""

import pytest

from kcore.errors import LevelError
from kcore.replication.elect_one import (
    LeaderAndIsr,
    elect_one,
    remove_from_isr,
)
from replication.recorded_elections import as_state, zookeeper_cases, zookeeper_live


@pytest.mark.recorded
def test_zookeeper_elections_are_kafkas() -> None:
    for case in zookeeper_cases():
        live = zookeeper_live(case)
        brokers = {"live": live, "shutting_down": case["shutting_down"], "removing": case["removing"]}
        state = None if case["no_leader_and_isr"] else as_state(case)
        level = "3.9.1" if case["recovery_supported"] else "zookeeper:3.1-IV0"
        got = elect_one(case["kind"], case["replicas"], state, **brokers, unclean=case["unclean"], level=level)
        assert got == (as_state(case["out"]) if case["out"] else None), case["i"]


def test_the_last_isr_member_stays_and_the_leader_goes() -> None:
    state = LeaderAndIsr(leader=1, isr=(1, 2), leader_epoch=5, partition_epoch=9)
    one_left = remove_from_isr(1, state)
    assert one_left == LeaderAndIsr(leader=-1, isr=(2,), leader_epoch=6, partition_epoch=9)
    assert remove_from_isr(2, one_left) == LeaderAndIsr(leader=-1, isr=(2,), leader_epoch=7, partition_epoch=9)
    assert remove_from_isr(3, state) is None


def test_elect_one_speaks_kraft_too() -> None:
    state = LeaderAndIsr(leader=2, isr=(1, 2), leader_epoch=5, partition_epoch=9)
    got = elect_one("preferred", [1, 2], state, live=[1, 2], level="4.1.2")
    assert got == LeaderAndIsr(leader=1, isr=(1, 2), leader_epoch=6, partition_epoch=10)
    assert elect_one("online", [1, 2], state, live=[1, 2], level="4.1.2") is None
    moved = elect_one("online", [1, 2], state, live=[1, 2], shutting_down=[2], level="4.1.2")
    assert moved == LeaderAndIsr(leader=1, isr=(1, 2), leader_epoch=6, partition_epoch=10)


@pytest.mark.parametrize(("kind", "level"), [("online", "3.9.1"), ("offline", "4.1.2"), ("", "3.9.1")])
def test_a_kind_that_the_level_lacks(kind: str, level: str) -> None:
    state = LeaderAndIsr(leader=2, isr=(1, 2), leader_epoch=5, partition_epoch=9)
    with pytest.raises(LevelError):
        elect_one(kind, [1, 2], state, live=[1], level=level)
