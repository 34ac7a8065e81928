"""A user's own election rule."""

import numba
import numpy as np
import pytest

from kcore.errors import LevelError, PolicyError
from kcore.metadata.table.partition_table import PartitionTable
from kcore.replication.elect import elect
from kcore.replication.policy import election_policy
from reference import election as reference
from replication.small_tables import as_dicts, state_of, table_of

BROKERS = range(4)


def _table(live: set[int]) -> PartitionTable:
    rows = [([0, 1, 2], [0, 1, 2], 0), ([1, 0, 3], [1, 3], 1), ([0, 3], [0], 0), ([2, 1], [2, 1], 2)]
    partitions = [
        {"replicas": r, "isr": i, "leader": leader, "leader_epoch": 4, "partition_epoch": 6, "recovery": 0}
        for r, i, leader in rows
    ]
    return table_of(partitions, BROKERS, live, set())


def _last_in_sync(replicas: np.ndarray, in_sync: int, online: int) -> int:
    for back in range(1, len(replicas) + 1):
        slot = len(replicas) - back
        if (in_sync & online) >> slot & 1:
            return slot
    return -1


def _any_online(replicas: np.ndarray, in_sync: int, online: int) -> int:
    for slot in range(len(replicas)):
        if online >> slot & 1:
            return slot
    return -1


last_in_sync = election_policy(_last_in_sync)
any_online = election_policy(numba.njit(_any_online))


def test_the_policy_picks_where_the_leader_is_gone() -> None:
    elections = elect(_table({0, 1, 2, 3}), last_in_sync, leaving=[0])
    after = as_dicts(elections)
    assert {row: (p["leader"], p["isr"], p["recovery"]) for row, p in after.items()} == {
        0: (2, [1, 2], 0),
        2: (-1, [0], 0),  # No replica in sync remains: the ISR keeps its last member.
    }
    assert elections.failed.tolist() == [2]


def test_a_leader_from_outside_the_isr_makes_the_partition_recover() -> None:
    after = as_dicts(elect(_table({0, 3}), any_online, rows=[1, 2]))
    assert after[1] == {"leader": 0, "isr": [0], "leader_epoch": 5, "partition_epoch": 6, "recovery": 1}
    assert after[2] == {"leader": 0, "isr": [0], "leader_epoch": 5, "partition_epoch": 6, "recovery": 0}


def test_the_policy_sees_rows_and_masks() -> None:
    @election_policy
    def policy(replicas: np.ndarray, in_sync: int, online: int) -> int:
        fits = replicas[0] == 1 and replicas[1] == 0 and replicas[2] == 3 and in_sync == 0b101 and online == 0b110
        return 2 if fits else -1

    assert elect(_table({0, 3}), policy, rows=[1]).leaders.tolist() == [3]


def test_a_policy_over_many_partitions_does_what_its_twin_does() -> None:
    dice = np.random.default_rng(5)
    partitions = []
    for row in range(400):
        replicas = dice.permutation(6)[: dice.integers(1, 5)].tolist()
        isr = dice.permutation(replicas)[: dice.integers(1, len(replicas) + 1)].tolist()
        epochs = {"leader_epoch": row, "partition_epoch": 2 * row, "recovery": row % 2}
        partitions.append({"replicas": replicas, "isr": isr, "leader": isr[0]} | epochs)
    for live in ({0, 1, 2, 3, 4, 5}, {0, 2, 3}, {5}):
        table = table_of(partitions, range(6), live, set())
        for policy, plain in ((last_in_sync, _last_in_sync), (any_online, _any_online)):
            decided = {row: reference.policy_election(p, live, plain) for row, p in enumerate(partitions)}
            elections = elect(table, policy, rows=range(len(partitions)))
            assert as_dicts(elections) == {row: state_of(p) for row, p in decided.items() if p}
            assert elections.failed.tolist() == [row for row, p in decided.items() if p is None]


@pytest.mark.parametrize("slot", [2, 32, -300, *(pytest.param(n, marks=pytest.mark.long) for n in (3, 7, 200, -2))])
def test_a_slot_out_of_range_is_an_error_that_names_the_partition(slot: int) -> None:
    @election_policy
    def wrong(replicas: np.ndarray, in_sync: int, online: int) -> int:
        return slot

    with pytest.raises(PolicyError, match="out of range for partition row 2, which has 2 replicas"):
        elect(_table({0, 1, 2, 3}), wrong, rows=[2])


def test_a_replica_that_is_not_online_is_an_error() -> None:
    @election_policy
    def dead(replicas: np.ndarray, in_sync: int, online: int) -> int:
        return 0

    with pytest.raises(PolicyError, match="slot 0 of partition row 2, whose replica is not online"):
        elect(_table({1, 2, 3}), dead, rows=[2])


def test_what_is_no_policy() -> None:
    with pytest.raises(PolicyError, match="is a function, not str"):
        election_policy("offline")  # type: ignore[arg-type]

    @election_policy
    def wants_two(replicas: np.ndarray, in_sync: int) -> int:
        return 0

    with pytest.raises(PolicyError, match="cannot compile"):
        elect(_table({0}), wants_two, rows=[0])
    with pytest.raises(LevelError):
        elect(_table({0}), last_in_sync, rows=[0], level="4.1.2")
