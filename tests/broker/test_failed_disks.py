"""A disk fails: no acknowledged record is lost, and waiting requests are answered."""

import pytest

from broker.cluster import KEY, led
from kcore.broker.replicas.offsets import on_list_offsets
from kcore.broker.replicas.partition import TopicSettings
from kcore.broker.replicas.replica import Role
from kcore.constants import LEADER_DURING_DELETE
from kcore.protocol_errors import Errors
from kcore.schema.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic


@pytest.mark.parametrize("role", ["leader", "follower"])
def test_a_full_disk(role: str) -> None:
    """No acknowledged record is lost: failed appends were not acknowledged."""
    cluster = led()
    cluster.produce(1, b"a")
    cluster.run()
    broken = 1 if role == "leader" else 2
    cluster.log(broken).fails = True
    request = cluster.produce(1, b"b")
    cluster.run()
    assert [failed.key for failed in cluster.failed_logs] == [KEY]
    assert cluster.partition(broken).role is Role.OFFLINE
    assert cluster.leader_and_isr(broken) == [Errors.KAFKA_STORAGE_ERROR]
    assert cluster.stop_replica(broken, delete=True) == Errors.KAFKA_STORAGE_ERROR
    if role == "leader":
        assert cluster.code(request) is Errors.KAFKA_STORAGE_ERROR
        assert cluster.fetch(1, 0).error_code == Errors.KAFKA_STORAGE_ERROR
        cluster.elect(2, [2, 3], 2, 3)
        assert cluster.values(2) == [b"a"]
    else:
        cluster.elect(1, [1, 3], 1, 3)
        cluster.run()
        assert cluster.values(1) == [b"a", b"b"]


def test_a_disk_that_fails_when_those_who_wait_look() -> None:
    """Each request is answered once, though the failure wakes all while one is checked."""
    cluster = led(min_insync_replicas=2)
    cluster.elect(1, [1])
    assert cluster.fetch(1, 0, wait_ms=5_000) is None
    assert cluster.fetch(1, 0, wait_ms=5_000) is None
    waiting = [cluster.requests - 1, cluster.requests]
    cluster.produce(1, b"a", acks=1)
    cluster.log(1).fails = True
    cluster.brokers[1].set_settings("t", TopicSettings(min_insync_replicas=1), cluster.now_ms)
    cluster.perform(1)
    assert [cluster.fetched(each).error_code for each in waiting] == [Errors.KAFKA_STORAGE_ERROR] * 2
    assert [failed.key for failed in cluster.failed_logs] == [KEY]


@pytest.mark.parametrize("broker_id", [1, 2])
def test_a_replica_that_is_offline_is_made_nowhere_else(broker_id: int) -> None:
    """Though another log directory would have room for it."""
    cluster = led()
    cluster.produce(1, b"a")
    cluster.run()
    broker, received = cluster.brokers[broker_id], cluster.partition(broker_id).received
    assert received is not None
    broker.go_offline(KEY)
    assert broker.become(KEY, received, cluster.now_ms) is Errors.KAFKA_STORAGE_ERROR
    assert cluster.leader_and_isr(broker_id) == [Errors.KAFKA_STORAGE_ERROR]
    found = cluster.partition(broker_id)
    assert found.role is Role.OFFLINE and found.log is None


def test_a_full_request_leaves_replicas_on_failed_disks_alone() -> None:
    cluster = led()
    broker = cluster.brokers[2]
    broker.go_offline(("stray", 3))
    cluster.epoch += 1
    cluster.leader_and_isr(2, type_=2)
    assert broker.partitions["stray", 3].role is Role.OFFLINE


def test_replicas_that_are_offline_are_known_until_they_are_not() -> None:
    cluster = led()
    broker = cluster.brokers[1]
    [row] = broker.cluster.table.rows_of_topic("t").tolist()
    assert broker.cluster.offline_replicas(row) == set()
    cluster.update_metadata(offline=[3, 2])
    assert broker.cluster.offline_replicas(row) == {2, 3}
    cluster.leader, leader = LEADER_DURING_DELETE, cluster.leader
    cluster.update_metadata(offline=[3])
    cluster.leader = leader
    cluster.update_metadata()
    assert broker.cluster.offline_replicas(row) == set()


def test_a_disk_that_cannot_be_searched_by_time() -> None:
    cluster = led()
    cluster.log(1).fails = True
    asked = ListOffsetsPartition(partition_index=0, timestamp=5)
    request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name="t", partitions=[asked])])
    [topic] = on_list_offsets(cluster.brokers[1], request, 9).topics
    cluster.perform(1)
    assert topic.partitions[0].error_code == Errors.KAFKA_STORAGE_ERROR
    assert [failed.key for failed in cluster.failed_logs] == [KEY]
