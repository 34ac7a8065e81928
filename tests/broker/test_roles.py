"""The table of roles: what the article says of each action, and nothing that is not in it."""

import pytest

from kcore.broker.roles import (
    DELETE_LOG,
    REFUSE_WAITING,
    START_FETCHING,
    STOP_FETCHING,
    TRANSITIONS,
    Order,
    Role,
    next_step,
)

HELD = (Role.STARTED, Role.LEADER, Role.FOLLOWER, Role.STOPPED)


@pytest.mark.covers("article becomeLeader 1", "article becomeFollower 1", "article becomeFollower 3")
@pytest.mark.covers("article stopReplica 2.1")
@pytest.mark.parametrize("role", HELD)
def test_the_articles_actions(role: Role) -> None:
    assert next_step(role, Order.BECOME_LEADER, "") == (Role.LEADER, (STOP_FETCHING,))
    followed = next_step(role, Order.BECOME_FOLLOWER, "")
    assert followed == (Role.FOLLOWER, (STOP_FETCHING, REFUSE_WAITING, START_FETCHING))
    assert next_step(role, Order.STOP, "").role is Role.STOPPED
    assert next_step(role, Order.DELETE, "").actions[-1] == DELETE_LOG


@pytest.mark.covers("article C.2.1")
def test_a_replica_is_started_before_all_else() -> None:
    assert next_step(Role.NONE, Order.START, "").role is Role.STARTED
    assert {order for role, order in TRANSITIONS if role is Role.NONE} == {Order.START, Order.DELETE}


def test_a_failed_disk_takes_no_orders() -> None:
    assert {order for role, order in TRANSITIONS if role is Role.OFFLINE} == {Order.FAIL}
    with pytest.raises(AssertionError, match="becomeLeader to a replica that is offline: t-0"):
        next_step(Role.OFFLINE, Order.BECOME_LEADER, "t-0")
