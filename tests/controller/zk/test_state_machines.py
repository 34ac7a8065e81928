"""The state machines as tables: Kafka's tables, compared with the decisions."""

import numpy as np
import pytest

from controller.zk.tree import Cluster
from kcore.controller.zk.state_changes import (
    PARTITION_TRANSITIONS,
    REPLICA_TRANSITIONS,
    IllegalTransitionError,
    PartitionState,
    ReplicaState,
    check_partitions,
    check_replica,
    diagram,
    partition_states,
)

P, R = PartitionState, ReplicaState


def test_every_state_can_be_left_and_reached() -> None:
    for table in (PARTITION_TRANSITIONS, REPLICA_TRANSITIONS):
        assert {*table} == {before for all_of in table.values() for before in all_of} | {*table}
        assert all(table.values())


@pytest.mark.parametrize(
    ("before", "after", "legal"),
    [
        (R.ONLINE_REPLICA, R.OFFLINE_REPLICA, True),
        (R.OFFLINE_REPLICA, R.REPLICA_DELETION_STARTED, True),
        (R.ONLINE_REPLICA, R.REPLICA_DELETION_STARTED, False),
        (R.REPLICA_DELETION_SUCCESSFUL, R.NON_EXISTENT_REPLICA, True),
        (R.REPLICA_DELETION_STARTED, R.NON_EXISTENT_REPLICA, False),
        (R.NON_EXISTENT_REPLICA, R.ONLINE_REPLICA, False),
    ],
)
def test_replicas(before: ReplicaState, after: ReplicaState, legal: bool) -> None:
    if legal:
        check_replica("t-0 on 1", before, after)
        return
    with pytest.raises(IllegalTransitionError, match=rf"t-0 on 1: {before.name} to {after.name}"):
        check_replica("t-0 on 1", before, after)


def cluster() -> Cluster:
    made = Cluster()
    for broker in (1, 2):
        made.register(broker)
    made.write_topic("t", [1, 2], [3, 2], [3], [2, 1])
    made.write_state("t", 0, 1, [1, 2])
    made.write_state("t", 1, -1, [3])
    made.write_state("t", 3, 2, [2, 1])
    made.elect()
    return made


def test_partition_states_follow_from_the_table() -> None:
    made = cluster()
    rows = np.arange(4, dtype=np.int32)
    table, decisions = made.active.table, made.active.decisions
    wanted = [P.ONLINE_PARTITION, P.OFFLINE_PARTITION, P.NEW_PARTITION, P.ONLINE_PARTITION]
    assert partition_states(table, rows, decisions.situation()).tolist() == wanted
    decisions.offline_dirs[2] = {3}
    assert partition_states(table, rows, decisions.situation())[3] == P.OFFLINE_PARTITION
    table.remove_topic("t")
    assert {*partition_states(table, rows, decisions.situation()).tolist()} == {P.NON_EXISTENT_PARTITION}


def test_an_illegal_transition_tells_its_story() -> None:
    made = cluster()
    rows = np.array([0], np.int32)
    before, after = np.array([P.ONLINE_PARTITION], np.int8), np.array([P.NEW_PARTITION], np.int8)
    with pytest.raises(IllegalTransitionError, match=r"topic='t', partition=0.*ONLINE_PARTITION to NEW_PARTITION"):
        check_partitions(made.active.table, rows, before, after)


def test_the_diagram_has_every_transition_once() -> None:
    lines = diagram(PARTITION_TRANSITIONS).splitlines()
    assert lines[0] == "stateDiagram-v2"
    assert len({*lines}) == 1 + sum(map(len, PARTITION_TRANSITIONS.values())) == len(lines)
    assert "    OfflinePartition --> NonExistentPartition" in lines
