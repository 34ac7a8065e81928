"""The two elections of the article, in bulk and one by one."""

import pytest

from kcore.replication.elect import elect
from kcore.replication.elect_one import LeaderAndIsr, elect_one
from replication.small_tables import as_dicts, table_of

ASSIGNED, IN_SYNC = [1, 2, 3, 4, 5], [1, 2, 3]
BROKERS = [1, 2, 3, 4, 5, 6, 7]


@pytest.mark.parametrize(
    ("live", "unclean", "leader", "isr"),
    [
        pytest.param([2, 3, 5], False, 2, [2, 3], marks=pytest.mark.covers("article election 1"), id="1"),
        pytest.param([4, 6, 7], True, 4, [4], marks=pytest.mark.covers("article election 2"), id="2"),
        # The article leaves this open: forbidding it keeps the data, without a leader.
        pytest.param([4, 6, 7], False, None, None, marks=pytest.mark.covers("article election 2"), id="forbidden"),
    ],
)
def test_the_worked_elections(live: list[int], unclean: bool, leader: int | None, isr: list[int] | None) -> None:
    partition = {
        "replicas": ASSIGNED,
        "isr": IN_SYNC,
        "adding": [],
        "removing": [],
        "leader": 1,
        "leader_epoch": 7,
        "partition_epoch": 9,
        "recovery": 0,
    }
    table = table_of([partition], BROKERS, {*live}, set())
    elections = elect(table, "offline", rows=[0], unclean=unclean, level="3.9.1")
    state = LeaderAndIsr(leader=1, isr=tuple(IN_SYNC), leader_epoch=7, partition_epoch=9)
    after = elect_one("offline", ASSIGNED, state, live=live, unclean=unclean)
    if leader is None or isr is None:
        assert (elections.failed.tolist(), after) == ([0], None)
        return
    [found] = as_dicts(elections).values()
    assert (found["leader"], found["isr"], found["leader_epoch"]) == (leader, isr, 8)
    assert after is not None and (after.leader, after.isr, after.leader_epoch) == (leader, tuple(isr), 8)
