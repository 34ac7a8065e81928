"""UpdateMetadata requests, one after the other, make the same table as one full request at the end."""

import numpy as np
import pytest

import kcore
import story
from kcore.metadata.table.partition_table import PartitionTable
from kcore.metadata.zookeeper.merge import merge
from kcore.types import Uuid


def update(
    *states: tuple[str, int, int, list[int], list[int]], live: tuple[int, ...] = (1, 2, 3)
) -> kcore.wire.Columns:
    """An UpdateMetadata of (topic, partition, leader, ISR, replicas)."""
    names = list(dict.fromkeys(state[0] for state in states))
    topics = [
        {
            "topicName": name,
            "topicId": str(Uuid(bytes([len(name)] * 16))),
            "partitionStates": [
                dict(partitionIndex=p, controllerEpoch=7, leader=leader, leaderEpoch=3, isr=isr, zkVersion=5)
                | dict(replicas=replicas, offlineReplicas=[])
                for topic, p, leader, isr, replicas in states
                if topic == name
            ],
        }
        for name in names
    ]
    brokers = [{"id": broker, "endpoints": [], "rack": None} for broker in live]
    head = dict(controllerId=1, isKRaftController=False, controllerEpoch=1, brokerEpoch=9)
    message = kcore.from_json("UpdateMetadataRequest", 8, head | {"topicStates": topics, "liveBrokers": brokers})
    return kcore.decode_columns("UpdateMetadataRequest", 8, kcore.encode(message, 8))


def states(table: PartitionTable) -> dict[tuple[str, int], object]:
    rows = np.flatnonzero(table.topic_row__p >= 0).tolist()
    return {(state.topic, state.partition): state for state in map(table.state, rows)}


def merged(*requests: kcore.wire.Columns) -> PartitionTable:
    table = PartitionTable.from_columns(update(live=()))
    for request in requests:
        merge(table, request)
    for row in range(len(table.brokers)):
        expected = np.flatnonzero((table.replicas__ps == row).any(axis=1))
        assert table.index.rows(row).tolist() == expected.tolist()
    return table


def test_known_partitions_change_and_unknown_ones_get_rows() -> None:
    first = update(("a", 0, 1, [1, 2], [1, 2]), ("a", 1, 2, [2], [2, 3]))
    second = update(("a", 1, 3, [3], [3, 1]), ("b", 4, 2, [2, 1], [2, 1]), ("b", 6, 1, [1], [1]), live=(1, 3))
    table = merged(first, second)
    whole = update(
        ("a", 0, 1, [1, 2], [1, 2]),
        ("a", 1, 3, [3], [3, 1]),
        ("b", 4, 2, [2, 1], [2, 1]),
        ("b", 6, 1, [1], [1]),
        live=(1, 3),
    )
    assert states(table) == states(PartitionTable.from_columns(whole))
    assert table.brokers.ids[table.brokers.live].tolist() == [1, 3]


def test_a_topic_being_deleted_goes() -> None:
    table = merged(update(("a", 0, 1, [1], [1]), ("b", 0, 2, [2], [2])), update(("a", 0, -2, [1], [1])))
    assert [key for key in states(table)] == [("b", 0)]
    merge(table, update(("a", 0, 3, [3], [3])))
    assert sorted(states(table)) == [("a", 0), ("b", 0)]


def test_a_topic_without_partitions_is_no_deletion_of_another() -> None:
    table = merged(update(("a", 0, 1, [1], [1]), ("bb", 0, 1, [1], [1])))
    topics = update(("bb", 0, -2, [1], [1])).topic_states
    both = kcore.wire.Columns(
        "UpdateMetadataRequest",
        topic_states=kcore.wire.Rows(
            np.array([0, 2], np.int32),
            topic_name=kcore.wire.Strings.of(["a", "bb"]),
            topic_id=np.concatenate([np.full((1, 16), 1, np.uint8), topics.topic_id]),
            partition_states=kcore.wire.Rows(np.array([0, 0, 1], np.int32), **topics.partition_states._columns),
        ),
    )
    merge(table, both)
    assert sorted(states(table)) == [("a", 0)]


def test_topic_ids_come_with_an_upgrade_and_go_with_a_downgrade() -> None:
    def nameless(leader: int) -> kcore.wire.Columns:
        request = update(("a", 0, leader, [1], [1]))
        del request.topic_states._columns["topic_id"]
        return request

    table = merged(nameless(1))
    known = []
    for request in (update(("a", 0, 2, [1], [1])), nameless(3)):
        merge(table, request)
        known.append((any(table.topics.ids[0]), table.state(0).leader))
    assert known == [(True, 2), (False, 3)]


def test_a_topic_made_again_starts_anew() -> None:
    again = update(("a", 0, 1, [1], [1]))
    again.topic_states._columns["topic_id"] = np.full((1, 16), 9, np.uint8)
    table = merged(update(("a", 0, 1, [1], [1]), ("a", 1, 1, [1], [1])), again)
    assert sorted(states(table)) == [("a", 0)]


def test_live_brokers_alone() -> None:
    table = merged(update(("a", 0, 1, [1], [1])), update(live=(2,)))
    assert len(states(table)) == 1
    assert table.brokers.ids[table.brokers.live].tolist() == [2]


@pytest.mark.parametrize("receiver", [1, 2, 3])
def test_all_requests_that_a_real_broker_received(receiver: int) -> None:
    table = merged()
    for request in story.all_requests(receiver):
        if request["api"] == "UPDATE_METADATA":
            merge(table, story.columns("UpdateMetadataRequest", request))
    wanted = story.table({1: 6, 2: 7, 3: 7}[receiver])
    assert {key: vars_of(state) for key, state in states(table).items()} == {
        key: vars_of(state) for key, state in states(wanted).items()
    }


def vars_of(state: object) -> tuple[object, ...]:
    # Not the controller epoch: after a failover requests carry the new one before any state node does.
    names = ("replicas", "isr", "leader", "leader_epoch", "partition_epoch")
    return tuple(getattr(state, name) for name in names)
