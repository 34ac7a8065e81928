"""The state machine of partitions as a table: Kafka's table, compared with the decisions."""

import numpy as np
import pytest

from controller.zk.tree import Cluster
from kcore.controller.zk.state_changes import (
    PARTITION_TRANSITIONS,
    IllegalTransitionError,
    PartitionState,
    check_partitions,
    partition_states,
)

P = PartitionState


def test_every_state_can_be_left_and_reached() -> None:
    assert {*PartitionState} == {before for all_of in PARTITION_TRANSITIONS.values() for before in all_of}
    assert {*PartitionState} == PARTITION_TRANSITIONS.keys()
    assert all(PARTITION_TRANSITIONS.values())


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
