"""Elections that are asked for, in a request or in ZooKeeper, and those that balance leaders."""

import pytest

from controller.zk import admin
from controller.zk.admin import alter_partition, small
from controller.zk.tree import Cluster
from kcore import schema
from kcore.controller.zk import events
from kcore.controller.zk.effects import Send, SendResponse
from kcore.metadata.zookeeper import znodes
from kcore.metadata.zookeeper.znode_operations import ReadNodes, WriteStates
from kcore.protocol_errors import Errors
from kcore.schema.partitions import TopicPartitions

PATH = znodes.PREFERRED_REPLICA_ELECTION


def unbalanced(**config: object) -> Cluster:
    """t-0 and t-1 prefer broker 1, which is back in their ISRs, and are led by 2; t-2 and t-3 are where they belong."""
    cluster = small([1, 2, 3], [1, 2, 4], [2, 3, 4], [3, 4, 2], **config)
    cluster.unregister(1)
    cluster.run()
    cluster.register(1)
    cluster.run()
    alter_partition(cluster, 2, [2, 3, 1], partition=0)
    alter_partition(cluster, 2, [2, 4, 1], partition=1)
    cluster.requests()
    cluster.effects.clear()
    return cluster


def elect(
    cluster: Cluster, partitions: dict[str, list[int]] | None, *, kind: int = 0
) -> dict[tuple[str, int], tuple[Errors, str | None]]:
    """The outcome for each partition."""
    named = partitions and [TopicPartitions(topic=name, partitions=each) for name, each in partitions.items()]
    request = schema.ElectLeadersRequest(election_type=kind, topic_partitions=named)
    response = admin.ask(cluster, request)
    assert response.error_code == Errors.NONE
    return {
        (topic.topic, each.partition_id): (Errors(each.error_code), each.error_message)
        for topic in response.replica_election_results
        for each in topic.partition_result
    }


def leaders(cluster: Cluster) -> list[int]:
    return [cluster.state("t", partition)[0] for partition in range(len(cluster.active.table))]


@pytest.mark.covers("story 4")
@pytest.mark.recorded
def test_step_4_of_the_story_the_preferred_leaders_are_back() -> None:
    cluster = admin.recorded(3)
    assert elect(cluster, None) == {("t1", 2): (Errors.NONE, None)}
    assert admin.subjects(cluster) == admin.recorded_subjects(4)


def test_preferred_leaders_of_all_partitions() -> None:
    cluster = unbalanced()
    assert leaders(cluster) == [2, 2, 2, 3]
    assert elect(cluster, None) == {("t", 0): (Errors.NONE, None), ("t", 1): (Errors.NONE, None)}
    assert leaders(cluster) == [1, 1, 2, 3]
    assert [type(each) for each in cluster.effects] == [WriteStates, Send, SendResponse], "one batch of each"


def test_each_named_partition_is_answered() -> None:
    cluster = unbalanced()
    alter_partition(cluster, 2, [2, 4], partition=1)
    cluster.active.topics_to_be_deleted.add("deleted")
    cluster.write_topic("deleted", [1, 2])
    cluster.run()
    assert elect(cluster, {"t": [0, 1, 2, 9], "deleted": [0], "nowhere": [0]}) == {
        ("t", 0): (Errors.NONE, None),
        ("t", 1): (
            Errors.PREFERRED_LEADER_NOT_AVAILABLE,
            "Failed to elect leader for partition t-1 under strategy PreferredReplicaPartitionLeaderElectionStrategy",
        ),
        ("t", 2): (Errors.ELECTION_NOT_NEEDED, None),
        ("t", 9): (Errors.UNKNOWN_TOPIC_OR_PARTITION, "The partition does not exist."),
        ("deleted", 0): (Errors.INVALID_TOPIC_EXCEPTION, "The topic is being deleted"),
        ("nowhere", 0): (Errors.UNKNOWN_TOPIC_OR_PARTITION, "The partition does not exist."),
    }
    assert leaders_of_t(cluster) == [1, 2, 2, 3]


def test_an_election_of_all_leaves_topics_out_that_are_being_deleted() -> None:
    """kafka-leader-election --all-topic-partitions ends with exit code 1 if one of those answered has an error."""
    cluster = unbalanced()
    cluster.write_topic("deleted", [1, 2])
    cluster.run()
    cluster.active.topics_to_be_deleted.add("deleted")
    for kind in (0, 1):
        assert ("deleted", 0) not in elect(cluster, None, kind=kind)
    assert elect(cluster, {"deleted": [0]}) == {
        ("deleted", 0): (Errors.INVALID_TOPIC_EXCEPTION, "The topic is being deleted")
    }


def leaders_of_t(cluster: Cluster) -> list[int]:
    return [cluster.state("t", partition)[0] for partition in range(4)]


def test_only_an_unclean_election_takes_a_replica_outside_the_isr() -> None:
    cluster = small([1, 2], [2, 3])
    alter_partition(cluster, 1, [1])
    cluster.unregister(1)
    cluster.run()
    assert cluster.state("t", 0)[:2] == (-1, (1,))
    assert elect(cluster, {"t": [0]})["t", 0][0] is Errors.PREFERRED_LEADER_NOT_AVAILABLE
    assert cluster.state("t", 0)[0] == -1
    cluster.requests()
    assert elect(cluster, {"t": [0, 1]}, kind=1) == {
        ("t", 0): (Errors.NONE, None),
        ("t", 1): (Errors.ELECTION_NOT_NEEDED, None),
    }
    assert cluster.state("t", 0)[:2] == (2, (2,))
    assert cluster.active.table.state(0).leader_recovery_state == 1, "it recovers (KIP-704)"
    assert cluster.active.decisions.unclean is False, "for this election alone"
    assert cluster.story() == [("UpdateMetadata", [2, 3, 4], ["t-0"]), ("LeaderAndIsr", [2], ["t-0"])]


def test_nobody_is_left_to_elect_even_uncleanly() -> None:
    cluster = small([1], brokers=[1, 2])
    cluster.unregister(1)
    cluster.run()
    [(error, message)] = elect(cluster, {"t": [0]}, kind=1).values()
    assert error is Errors.ELIGIBLE_LEADERS_NOT_AVAILABLE
    assert message and message.endswith("OfflinePartitionLeaderElectionStrategy(true)")


def test_an_election_of_no_known_kind() -> None:
    response = admin.ask(small([1]), schema.ElectLeadersRequest(election_type=2))
    assert response.error_code == Errors.INVALID_REQUEST


def test_the_znode_is_taken_up_removed_and_watched_again() -> None:
    cluster = unbalanced()
    for partitions, expected in (([("t", 0), ("gone", 0)], [1, 2, 2, 3]), ([("t", 1)], [1, 1, 2, 3])):
        cluster.tree.create(PATH, znodes.encode_isr_change(partitions))
        cluster.run()
        assert PATH not in cluster.tree.nodes
        assert leaders(cluster) == expected


def test_a_znode_that_makes_no_sense_is_removed() -> None:
    cluster = unbalanced()
    cluster.tree.create(PATH, b"[]")
    cluster.run()
    assert PATH not in cluster.tree.nodes


def test_what_was_asked_of_the_last_controller_is_done_after_a_failover() -> None:
    cluster = unbalanced()
    cluster.run(events.SessionLost())
    cluster.tree.create(PATH, znodes.encode_isr_change([("t", 1)]))
    cluster.elect()
    assert leaders(cluster) == [2, 1, 2, 3]
    assert PATH not in cluster.tree.nodes


@pytest.mark.covers("article G.3")
@pytest.mark.parametrize(("percentage", "expected"), [(10, [1, 1, 2, 3]), (99, [1, 1, 2, 3]), (100, [2, 2, 2, 3])])
def test_leaders_are_balanced_where_more_than_the_percentage_is_elsewhere(percentage: int, expected: list[int]) -> None:
    cluster = unbalanced(leader_imbalance_per_broker_percentage=percentage)
    cluster.run(events.AutoPreferredReplicaLeaderElection())
    assert leaders(cluster) == expected


@pytest.mark.covers("A22")
def test_balancing_is_one_election_for_all_brokers() -> None:
    # KAFKA-10794: no map of all partitions for each partition or broker.
    cluster = unbalanced()
    cluster.run(events.AutoPreferredReplicaLeaderElection())
    assert [type(each) for each in cluster.effects] == [WriteStates, Send]
    assert not any(isinstance(each, ReadNodes) for each in cluster.effects)


def test_balancing_leaves_topics_that_are_being_deleted_alone() -> None:
    cluster = unbalanced()
    cluster.active.topics_to_be_deleted.add("t")
    cluster.run(events.AutoPreferredReplicaLeaderElection())
    assert leaders(cluster) == [2, 2, 2, 3]


def test_without_partitions_there_is_nothing_to_elect() -> None:
    cluster = small()
    assert elect(cluster, None) == elect(cluster, None, kind=1) == {}
    cluster.tree.create(PATH, znodes.encode_isr_change([("t", 0)]))
    cluster.run(events.AutoPreferredReplicaLeaderElection())
    assert PATH not in cluster.tree.nodes
    assert cluster.requests() == []
