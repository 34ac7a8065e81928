"""Log directories fail on brokers that live."""

from typing import Any

import pytest

from controller.zk import admin
from controller.zk.clusters import columns_of, states_of
from controller.zk.tree import TOPIC_ID, Cluster
from kcore.controller.zk import events
from kcore.metadata.zookeeper import znodes
from kcore.protocol_errors import Errors
from kcore.schema import LeaderAndIsrResponse
from kcore.schema.leader_and_isr import LeaderAndIsrPartitionError, LeaderAndIsrTopicError

LOST, FINE = Errors.KAFKA_STORAGE_ERROR, Errors.NONE


def cluster(**config: Any) -> Cluster:
    made = Cluster(**config)
    for broker in (1, 2, 3):
        made.register(broker)
    made.write_topic("t", [1, 2, 3], [2, 1], [1])
    made.elect()
    made.sent.clear()
    return made


def answer(made: Cluster, broker: int, codes: dict[int, int], *, epoch: int | None = None, error: int = 0) -> None:
    """The broker's answer to a LeaderAndIsr."""
    results = [LeaderAndIsrPartitionError(partition_index=k, error_code=code) for k, code in codes.items()]
    topic = LeaderAndIsrTopicError(topic_id=TOPIC_ID, partition_errors=results)
    known = made.active.table.brokers
    epoch = int(known.epochs[known.row(broker)]) if epoch is None else epoch
    response = LeaderAndIsrResponse(error_code=error, topics=[topic])
    made.run(events.LeaderAndIsrResponseReceived(broker, epoch, columns_of(response)))


def test_replicas_on_a_lost_directory_lead_no_more_and_leave_the_isr() -> None:
    made = cluster()
    answer(made, 1, {0: LOST, 1: LOST, 2: LOST})
    assert made.state("t", 0) == (2, (2, 3), 1)
    assert made.state("t", 1) == (2, (2,), 1)
    assert made.state("t", 2) == (-1, (1,), 1)
    sent = made.requests()
    orders = {to[0]: set(states_of(request)) for kind, to, request in sent if kind == "LeaderAndIsr"}
    assert orders == {2: {"t-0", "t-1"}, 3: {"t-0"}}
    [(to, stopped)] = [(to, states_of(request)) for kind, to, request in sent if kind == "StopReplica"]
    assert to == [1] and not any(state["deletePartition"] for state in stopped.values())
    [shown] = [states_of(request) for kind, _, request in sent if kind == "UpdateMetadata"]
    assert {name: state["offlineReplicas"] for name, state in shown.items()} == {"t-0": [1], "t-1": [1], "t-2": [1]}


def test_only_the_lost_directory_is_concerned() -> None:
    made = cluster()
    answer(made, 1, {0: LOST, 1: FINE, 2: FINE})
    assert made.state("t", 0) == (2, (2, 3), 1)
    assert made.state("t", 1) == (2, (2, 1), 0)
    assert made.active.offline_dirs == {1: {0}}


def test_the_same_failure_twice_changes_nothing() -> None:
    made = cluster()
    answer(made, 1, {0: LOST})
    made.sent.clear()
    answer(made, 1, {0: LOST})
    assert made.sent == [] and made.state("t", 0) == (2, (2, 3), 1)


def test_a_replica_that_is_found_again_is_online() -> None:
    made = cluster()
    answer(made, 1, {0: LOST})
    answer(made, 1, {0: FINE})
    assert made.active.offline_dirs == {}


@pytest.mark.parametrize("error", [Errors.STALE_CONTROLLER_EPOCH, Errors.STALE_BROKER_EPOCH])
def test_after_11_and_77_nothing_is_sent_again(error: Errors) -> None:
    made = cluster()
    answer(made, 1, {0: LOST}, error=error)
    assert made.sent == [] and made.active.offline_dirs == {}


def test_an_equal_leader_epoch_changes_nothing() -> None:
    # Every failover sends states again; brokers answer 11 for each partition under a top-level 0.
    made = cluster()
    answer(made, 1, {0: Errors.STALE_CONTROLLER_EPOCH})
    assert made.sent == [] and made.active.is_active


def test_an_answer_of_the_incarnation_before_says_nothing_of_this_one() -> None:
    made = cluster()
    old = made.tree.nodes[znodes.broker_path(1)].czxid
    made.unregister(1)
    made.register(1)
    made.run()
    made.sent.clear()
    answer(made, 1, {0: LOST}, epoch=old)
    assert made.sent == [] and made.active.offline_dirs == {}


def test_a_replica_on_a_lost_directory_is_not_elected_when_another_broker_dies() -> None:
    made = cluster()
    answer(made, 1, {0: LOST, 2: LOST})
    made.unregister(2)
    made.run()
    assert made.state("t", 0) == (3, (3,), 2)
    made.unregister(3)
    made.run()
    assert made.state("t", 0) == (-1, (3,), 3), "broker 1 lives, and its replica does not"
    made.register(2)
    made.run()
    assert made.state("t", 0) == (-1, (3,), 3)
    assert made.state("t", 2) == (-1, (1,), 1)
    made.register(3)
    made.run()
    assert made.state("t", 0) == (3, (3,), 4)


def test_brokers_that_noted_a_failure_are_asked_with_a_leader_and_isr() -> None:
    made = cluster()
    for broker in (1, 3, 1):
        made.tree.create_sequential("/log_dir_event_notification/log_dir_event_", znodes.encode_log_dir_event(broker))
    made.run()
    assert made.story() == [("LeaderAndIsr", [1], ["t-0", "t-1", "t-2"]), ("LeaderAndIsr", [3], ["t-0"])]
    assert not made.tree.children[znodes.LOG_DIR_EVENT_NOTIFICATION]
    made.tree.create_sequential("/log_dir_event_notification/log_dir_event_", znodes.encode_log_dir_event(2))
    made.run()
    assert made.story() == [("LeaderAndIsr", [2], ["t-0", "t-1"])], "the watch is set again"


def test_partitions_by_name_below_version_5() -> None:
    made = cluster(inter_broker_protocol="2.7")
    results = [LeaderAndIsrPartitionError(topic_name="t", partition_index=0, error_code=LOST)]
    epoch = made.tree.nodes[znodes.broker_path(1)].czxid
    response = LeaderAndIsrResponse(partition_errors=results)
    made.run(events.LeaderAndIsrResponseReceived(1, epoch, columns_of(response, 4)))
    assert made.state("t", 0) == (2, (2, 3), 1)


def test_the_last_member_on_a_lost_directory_does_not_lead_because_its_broker_lives() -> None:
    made = cluster()
    made.unregister(2)
    made.run()
    assert made.state("t", 1) == (1, (1,), 1)
    answer(made, 1, {1: LOST})
    assert made.state("t", 1) == (-1, (1,), 2)
    made.register(2)
    made.run()
    assert made.state("t", 1) == (-1, (1,), 2)


def test_an_unclean_leader_has_its_directory() -> None:
    made = cluster(unclean_leader_election_enable=True)
    for broker in (1, 3):
        made.unregister(broker)
        made.run()
        made.register(broker)
        made.run()
    assert made.state("t", 0)[:2] == (2, (2,))
    answer(made, 1, {0: LOST})
    made.unregister(2)
    made.run()
    assert made.state("t", 0)[:2] == (3, (3,)), "broker 1 would be the first"


def test_preferred_replicas_on_lost_directories_stay_as_they_are() -> None:
    made = cluster()
    answer(made, 1, {1: LOST})
    made.unregister(2)
    made.run()
    made.register(2)
    made.run()
    state = made.state("t", 0)
    made.active.offline_dirs[1] = {0}
    decision = made.active.decisions.on_preferred_election(events.PreferredElection())
    assert 0 not in decision.changes.rows and made.state("t", 0) == state


def test_a_shutdown_does_not_move_leaders_to_lost_directories() -> None:
    made = cluster()
    made.active.offline_dirs[1] = {1}
    epoch = made.tree.nodes[znodes.broker_path(2)].czxid
    made.run(admin.controlled_shutdown(1, 2, epoch))
    assert [each.partition_index for each in made.answers[1].remaining_partitions] == [1]
    assert made.state("t", 0)[0] == 1 and made.state("t", 1)[0] == 2
