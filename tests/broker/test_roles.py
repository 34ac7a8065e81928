"""The table of roles has the article's actions and no others."""

import pytest

from broker.cluster import KEY, Cluster, led
from kcore.broker.replicas import replica
from kcore.broker.replicas.outputs import FetchFrom
from kcore.broker.replicas.replica import TRANSITIONS, Action, Order, Role, Step, next_step
from kcore.protocol_errors import Errors

HELD = (Role.STARTED, Role.LEADER, Role.FOLLOWER, Role.STOPPED)


@pytest.mark.covers("article becomeLeader 1", "article becomeFollower 1", "article becomeFollower 3")
@pytest.mark.covers("article stopReplica 2.1")
@pytest.mark.parametrize("role", HELD)
def test_the_articles_actions(role: Role) -> None:
    assert next_step(role, Order.BECOME_LEADER, "") == (Role.LEADER, (Action.STOP_FETCHING,))
    followed = next_step(role, Order.BECOME_FOLLOWER, "")
    assert followed == (Role.FOLLOWER, (Action.STOP_FETCHING, Action.REFUSE_WAITING, Action.START_FETCHING))
    assert next_step(role, Order.STOP, "").role is Role.STOPPED
    assert next_step(role, Order.DELETE, "").actions[-1] is Action.DELETE_LOG


@pytest.mark.covers("article C.2.1")
def test_a_replica_is_started_before_all_else() -> None:
    assert next_step(Role.NONE, Order.START, "").role is Role.STARTED
    assert {order for role, order in TRANSITIONS if role is Role.NONE} == {Order.START, Order.DELETE}


def test_a_failed_disk_takes_no_orders() -> None:
    assert {order for role, order in TRANSITIONS if role is Role.OFFLINE} == {Order.FAIL}
    with pytest.raises(AssertionError, match="becomeLeader to a replica that is offline: t-0"):
        next_step(Role.OFFLINE, Order.BECOME_LEADER, "t-0")


# The broker performs each action only because it is in the table.


def without(action: Action, order: Order) -> dict[tuple[Role, Order], Step]:
    return {
        key: Step(step.role, tuple(each for each in step.actions if each is not action or key[1] is not order))
        for key, step in TRANSITIONS.items()
    }


def fetches(cluster: Cluster, broker_id: int) -> bool:
    return any(KEY in fetcher.states for fetcher in cluster.brokers[broker_id].fetchers.values())


@pytest.mark.parametrize("in_table", [True, False])
def test_fetching_follows_the_table(in_table: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = led()
    assert fetches(cluster, 2) and not fetches(cluster, 1)
    if not in_table:
        monkeypatch.setattr(replica, "TRANSITIONS", without(Action.STOP_FETCHING, Order.BECOME_LEADER))
    cluster.elect(2)
    assert fetches(cluster, 2) is not in_table
    if not in_table:
        monkeypatch.setattr(replica, "TRANSITIONS", without(Action.START_FETCHING, Order.BECOME_FOLLOWER))
    cluster.elect(3)
    assert fetches(cluster, 1) is in_table


@pytest.mark.parametrize("order", [Order.STOP, Order.DELETE])
@pytest.mark.parametrize("in_table", [True, False])
def test_waiting_requests_follow_the_table(order: Order, in_table: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = led()
    cluster.paused |= {2, 3}
    request = cluster.produce(1, b"a")
    if not in_table:
        monkeypatch.setattr(replica, "TRANSITIONS", without(Action.REFUSE_WAITING, order))
    cluster.epoch += 1
    assert cluster.stop_replica(1, delete=order is Order.DELETE) == Errors.NONE
    assert cluster.code(request) == (Errors.NOT_LEADER_OR_FOLLOWER if in_table else None)


@pytest.mark.parametrize("in_table", [True, False])
def test_deletion_of_logs_follows_the_table(in_table: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = led()
    if not in_table:
        monkeypatch.setattr(replica, "TRANSITIONS", without(Action.DELETE_LOG, Order.DELETE))
    cluster.epoch += 1
    assert cluster.stop_replica(2, delete=True) == Errors.NONE
    assert (KEY in cluster.logs[2].by_key) is not in_table
    assert not fetches(cluster, 2)


def test_fetching_from_a_leader_without_followed_partitions_stops() -> None:
    cluster = led()
    broker = cluster.brokers[2]
    broker.go_offline(KEY)
    assert FetchFrom(1) in broker.take_outputs()
    assert not broker.fetchers
