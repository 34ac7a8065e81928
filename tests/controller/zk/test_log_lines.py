"""The controller logs one line per event with ids and counts, and one line per partition if enabled."""

from typing import Any

import pytest

from controller.zk import admin
from controller.zk.admin import answer_stops, ask, small
from controller.zk.clusters import columns_of
from controller.zk.tree import Cluster
from kcore import schema
from kcore.controller.zk import events
from kcore.controller.zk.log_lines import PartitionsChanged, Topics
from kcore.metadata.zookeeper import znodes
from kcore.protocol_errors import Errors
from kcore.schema import LeaderAndIsrResponse
from kcore.schema.leader_and_isr import LeaderAndIsrPartitionError, LeaderAndIsrTopicError
from kcore.schema.partitions import ReassignablePartition, ReassignableTopic
from kcore.schema.topics import CreatableTopic, DeleteTopicState


def started(*partitions: list[int], **config: Any) -> Cluster:
    cluster = small(*partitions, **config)
    cluster.log_lines()
    return cluster


def epochs(cluster: Cluster) -> dict[int, int]:
    return {broker: admin.epoch_of(cluster, broker) for broker in cluster.active.table.brokers.ids.tolist()}


def test_a_broker_dies_comes_back_and_bounces() -> None:
    cluster = started([1, 2], [1, 3], [2, 1], [1])
    before = epochs(cluster)
    cluster.unregister(1)
    cluster.run()
    assert cluster.log_lines() == [
        f"broker 1 (epoch {before[1]}) died; live: brokers 2, 3, 4",
        "broker 1 failed: 2 partitions moved to another leader, 1 partition offline, "
        "1 ISR changed under the same leader",
    ]
    epoch = cluster.register(1)
    cluster.run()
    assert cluster.log_lines() == [
        f"broker 1 (epoch {epoch}) registered; live: brokers 1, 2, 3, 4",
        "broker 1 started: 1 partition online again",
    ]
    cluster.tree.delete(znodes.broker_path(4))
    again = cluster.register(4)
    cluster.unregister(3)
    new = cluster.register(5)
    cluster.run()
    assert cluster.log_lines()[0] == (
        f"broker 5 (epoch {new}) registered, broker 4 (epoch {again}) bounced, broker 3 (epoch {before[3]}) died; "
        "live: brokers 1, 2, 4, 5"
    )


def test_a_line_for_each_partition_if_asked_for() -> None:
    cluster = started([1, 2], [1])
    cluster.unregister(1)
    cluster.run()
    [changed] = [each for each in cluster.notices if isinstance(each, PartitionsChanged)]
    assert [*changed.details()] == [
        "t-0: leader 1 to 2, leader epoch 1, ISR [2]",
        "t-1: leader 1 to -1, leader epoch 1, ISR [1]",
    ]


def test_an_isr_that_a_leader_changed_is_a_detail() -> None:
    cluster = started([1, 2, 3])
    admin.alter_partition(cluster, 1, [1, 2])
    [notice] = cluster.notices
    assert (str(notice), notice.level) == ("AlterPartition of broker 1: 1 ISR changed under the same leader", "detail")
    assert cluster.log_lines() == []


def test_topics_are_created_grow_and_are_deleted() -> None:
    cluster = started()
    topics = [CreatableTopic(name=name, num_partitions=3, replication_factor=2) for name in ("b", "a")]
    ask(cluster, schema.CreateTopicsRequest(topics=topics, timeout_ms=1000))
    assert cluster.log_lines() == ["2 topics of 6 partitions created: a, b", "new partitions: 6 partitions created"]
    cluster.write_topic("grown", [1, 2])
    cluster.run()
    cluster.log_lines()
    cluster.write_topic("grown", [1, 2], [2, 3], [3, 1])
    cluster.run()
    assert cluster.log_lines() == [
        "topic grown has 2 partitions more: 3",
        "new partitions: 2 partitions created",
    ]
    request = schema.DeleteTopicsRequest(topics=[DeleteTopicState(name=name) for name in ("a", "b")], timeout_ms=60_000)
    ask(cluster, request, 6)
    answer_stops(cluster)
    assert cluster.log_lines() == [
        "2 topics of 6 partitions to be deleted: a, b",
        "2 topics of 6 partitions deleted: a, b",
    ]


def test_a_deletion_that_waits_says_for_what_once() -> None:
    cluster = started([1, 2])
    cluster.unregister(2)
    cluster.run()
    cluster.log_lines()
    cluster.tree.create(znodes.delete_topic_path("t"))
    cluster.run()
    answer_stops(cluster)
    assert cluster.log_lines() == [
        "1 topic of 1 partition to be deleted: t",
        "1 topic of 1 partition cannot be deleted yet: a broker with replicas is not live, "
        "or failed to delete a replica: t",
    ]
    cluster.register(2)
    cluster.run()
    answer_stops(cluster)
    assert cluster.log_lines()[-1] == "1 topic of 1 partition deleted: t"


def test_a_reassignment_begins_and_ends() -> None:
    cluster = started([1, 2], [1, 2])
    moves = [ReassignablePartition(partition_index=index, replicas=[3, 2]) for index in (0, 1)]
    topics = [ReassignableTopic(name="t", partitions=moves)]
    ask(cluster, schema.AlterPartitionReassignmentsRequest(topics=topics))
    assert cluster.log_lines() == ["2 reassignments begun: t-0, t-1", "reassignment: 2 leader epochs raised"]
    admin.alter_partition(cluster, 1, [1, 2, 3])
    assert cluster.log_lines() == [
        "reassignment: 1 partition moved to another leader",
        "reassignment: 1 ISR changed under the same leader",
        "1 reassignment ended: t-0",
    ]
    cluster.run(events.SessionLost())
    cluster.elect()
    assert "1 reassignment under way since before this controller: t-1" in cluster.log_lines()


def test_elections() -> None:
    cluster = started([1, 2], [1])
    cluster.unregister(1)
    cluster.run()
    cluster.log_lines()
    cluster.register(1)
    cluster.run()
    admin.alter_partition(cluster, 2, [2, 1])
    cluster.log_lines()
    ask(cluster, schema.ElectLeadersRequest(topic_partitions=None))
    assert cluster.log_lines() == [
        "preferred election of 1 partition, requested by a client: 1 partition moved to another leader"
    ]
    cluster.tree.create(
        znodes.config_path("topics", "t"), znodes.encode_config({"unclean.leader.election.enable": "true"})
    )
    admin.alter_partition(cluster, 1, [1])
    cluster.log_lines()
    cluster.unregister(1)
    cluster.run()
    assert cluster.log_lines()[-1] == (
        "broker 1 failed: 1 partition moved to another leader, 1 partition offline, "
        "1 of them led from outside the ISR (unclean)"
    )
    details = [line for each in cluster.notices for line in each.details()]
    assert not details
    ask(cluster, schema.ElectLeadersRequest(election_type=1, topic_partitions=None))
    assert cluster.log_lines() == ["unclean election of 1 partition, requested by a client: no replica can be elected"]


def test_a_log_directory_fails_and_is_back() -> None:
    cluster = started([1, 2], [2, 1])

    def answer(*codes: Errors) -> None:
        table = cluster.active.table
        results = [LeaderAndIsrPartitionError(partition_index=k, error_code=code) for k, code in enumerate(codes)]
        topic = LeaderAndIsrTopicError(topic_id=table.topics.ids[table.topics.row("t")], partition_errors=results)
        response = columns_of(LeaderAndIsrResponse(topics=[topic]))
        cluster.run(events.LeaderAndIsrResponseReceived(1, admin.epoch_of(cluster, 1), response))

    cluster.tree.create_sequential("/log_dir_event_notification/log_dir_event_", znodes.encode_log_dir_event(1))
    cluster.run()
    assert cluster.log_lines() == ["broker 1 reported a failed log directory; LeaderAndIsr is sent again"]
    answer(Errors.KAFKA_STORAGE_ERROR, Errors.KAFKA_STORAGE_ERROR)
    assert cluster.log_lines() == [
        "log directory of broker 1 failed: 2 replicas offline",
        "log directory of broker 1 failed: 1 partition moved to another leader, 1 ISR changed under the same leader",
    ]
    answer(Errors.NONE, Errors.KAFKA_STORAGE_ERROR)
    assert cluster.log_lines() == ["broker 1: 1 replica on failed log directories are back"]


def test_a_controlled_shutdown() -> None:
    cluster = started([1, 2], [1])
    cluster.run(admin.controlled_shutdown(5, 1, -1))
    assert cluster.log_lines() == [
        "controlled shutdown of broker 1: 1 partition moved to another leader",
        "controlled shutdown of broker 1: it still leads 0 partitions",
    ]
    cluster.run(admin.controlled_shutdown(6, 9, -1))
    assert cluster.log_lines() == ["controlled shutdown of broker 9 (epoch -1) is refused: BROKER_NOT_AVAILABLE"]


def test_a_failover_tells_what_it_finds() -> None:
    cluster = started([1, 2], [1])
    cluster.run(events.SessionLost())
    cluster.unregister(1)
    cluster.elect()
    assert cluster.log_lines() == [
        "failover, replicas that are offline: 1 partition moved to another leader, 1 partition offline"
    ]


def test_unwritten_changes_are_not_logged() -> None:
    cluster = started([1, 2])

    def depose(effect: object) -> None:
        cluster.before = lambda effect: None
        cluster.depose()

    cluster.unregister(1)
    cluster.before = depose
    cluster.run()
    assert [line for line in cluster.log_lines() if "leader" in line] == []


@pytest.mark.parametrize("count", [10, 12])
def test_a_line_names_few(count: int) -> None:
    notice = Topics("deleted", {f"t{each}": 2 for each in range(count)})
    assert str(notice).startswith(f"{count} topics of {2 * count} partitions deleted: t0, t1, ")
    assert len(str(notice)) < 120
    assert ("more" in str(notice)) == (count > 10)
    assert len([*notice.details()]) == count
