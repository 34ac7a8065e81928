"""Assignments of many topics at once: the same as one by one, errors included."""

from random import Random

import pytest

from kcore.errors import TableError
from kcore.metadata.table.partition_state import ReplicaAssignment
from kcore.metadata.zookeeper.znode_topics import TopicAssignments, decode_topics
from kcore.metadata.zookeeper.znodes import TopicAssignment, decode_topic, encode_topic
from kcore.types import Uuid


def one_by_one(found: TopicAssignments) -> dict[str, TopicAssignment]:
    topics: dict[str, TopicAssignment] = {
        name: TopicAssignment(topic_id, {}) for name, topic_id in zip(found.names, found.topic_ids, strict=True)
    }
    for row, (topic, index) in enumerate(zip(found.topic_rows, found.partition_indexes, strict=True)):
        topics[found.names[topic]].partitions[int(index)] = ReplicaAssignment(
            tuple(broker for broker in found.replicas[row].tolist() if broker != -1),
            tuple(found.adding_replicas.get(row, ())),
            tuple(found.removing_replicas.get(row, ())),
        )
    return topics


@pytest.mark.parametrize("seed", range(20))
def test_the_same_as_one_by_one(seed: int) -> None:
    random = Random(seed)

    def assignment() -> ReplicaAssignment:
        replicas = tuple(random.sample(range(2000), random.randint(1, 5)))
        moving = random.random() < 0.1
        return ReplicaAssignment(replicas, replicas[:1] if moving else (), replicas[1:2] if moving else ())

    topics = {
        f"topic-{k}": TopicAssignment(
            random.choice([None, Uuid(random.randbytes(16))]),
            {index: assignment() for index in sorted(random.sample(range(50), random.randint(0, 30)))},
        )
        for k in range(random.randint(0, 12))
    }
    assert one_by_one(decode_topics({name: encode_topic(topic) for name, topic in topics.items()})) == topics


@pytest.mark.parametrize("moves", [b"", b',"adding_replicas":{"1":[2]}'])
def test_a_partition_without_replicas_is_none(moves: bytes) -> None:
    found = decode_topics({"t": b'{"partitions":{"0":[],"1":[2,3],"2":[]}' + moves + b"}"})
    assert (found.partition_indexes.tolist(), found.replicas.tolist()) == ([1], [[2, 3]])
    assert found.adding_replicas == ({0: [2]} if moves else {})


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b'{"partitions":3}',
        b'{"partitions":{"x":[1]}}',
        b'{"partitions":{"0":1}}',
        b'{"partitions":{"0":["1"]}}',
        b'{"partitions":{"0":[1.5]}}',
        b'{"partitions":{"0":[null]}}',
        b'{"partitions":{"0":[true]}}',
        b'{"partitions":{"0":[4294967296]}}',
        b'{"partitions":{"99999999999":[1]}}',
        b'{"partitions":{"0":[1]},"topic_id":7}',
        b'{"partitions":{"0":[1]},"topic_id":"short"}',
        b'{"partitions":{"0":[1]},"adding_replicas":{"0":["x"]}}',
        b"[" * 100_000,
    ],
)
def test_what_kafka_does_not_write_is_named(data: bytes) -> None:
    with pytest.raises(TableError):
        decode_topic("bad", data)
    with pytest.raises(TableError):
        decode_topics({"good": b'{"partitions":{"0":[1]}}', "bad": data})


def test_a_negative_broker_is_none_that_a_column_can_hold() -> None:
    """-1 pads the columns: it would remove a replica."""
    with pytest.raises(TableError, match="/brokers/topics/bad: "):
        decode_topics({"good": b'{"partitions":{"0":[1]}}', "bad": b'{"partitions":{"0":[1,-1]}}'})
