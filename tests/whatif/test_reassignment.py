"""The cluster after a reassignment has completed."""

import json
from typing import Any

import pytest

from kcore.errors import ArgumentError, TableError
from kcore.metadata.table.partition_table import PartitionTable
from kcore.whatif import what_if

RELEASES = pytest.mark.parametrize("release", ["3.9.1", "4.1.2", "4.3.1"])


def five() -> PartitionTable:
    """Partitions 0 and 1 on brokers 0 to 2, partition 2 on 3 and 4; of partition 1 only one replica is in sync."""
    return PartitionTable.from_arrays([[0, 1, 2], [1, 2, 0], [3, 4, -1]], isr=[[0, 1, 2], [1, -1, -1], [3, 4, -1]])


def moved(*moves: tuple[int, list[Any]]) -> str:
    partitions = [{"topic": "topic", "partition": each, "replicas": replicas} for each, replicas in moves]
    return json.dumps({"version": 1, "partitions": partitions})


@RELEASES
def test_all_new_replicas_are_in_sync_and_a_leader_stays_if_it_may(release: str) -> None:
    table = five()
    asked = what_if(table, release=release).after_reassignment(moved((1, [4, 3]), (0, [3, 0])))
    first, second, third = asked.cluster.table
    assert (first.replicas, {*first.isr}, first.leader) == ((3, 0), {0, 3}, 0)
    assert (second.replicas, {*second.isr}, second.leader) == ((4, 3), {3, 4}, 4)
    assert third == table.state(2) and not first.adding and not first.removing
    assert second.leader_epoch > table.state(1).leader_epoch
    assert table == five(), "the caller's table is as it was"


@RELEASES
def test_questions_are_about_the_new_replicas(release: str) -> None:
    asked = what_if(five(), release=release)
    assert asked.lose([3, 4]).new_without_leader == 1
    assert asked.after_reassignment(moved((2, [0, 3]))).lose([3, 4]).new_without_leader == 0
    assert asked.after_reassignment(moved((0, [4, 3]))).lose([3, 4]).new_without_leader == 2


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        (moved((0, [1]), (0, [2])), ArgumentError, "the reassignment names topic-0 twice"),
        (moved((0, [])), ArgumentError, "topic-0: 1 to 32 different replicas are wanted"),
        (moved((0, ["1"])), ArgumentError, "topic-0: a replica is a broker's id, not '1'"),
        (moved((7, [1])), TableError, "unknown partition topic-7"),
        (moved((0, [9])), TableError, "topic-0: broker 9 is not live"),
        (
            json.dumps({"partitions": [{"topic": "topic"}]}),
            ArgumentError,
            "partition 1 of the reassignment has",
        ),
    ],
)
def test_a_reassignment_that_cannot_be(text: str, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        what_if(five()).after_reassignment(text)


def test_a_broker_that_is_not_live_gets_no_replica() -> None:
    table = five()
    table.brokers.set_lost([4])
    with pytest.raises(TableError, match="broker 4 is not live, and a move there never ends"):
        what_if(table).after_reassignment(moved((0, [4])))
