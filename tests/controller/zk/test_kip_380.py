"""The four assumptions that KIP-380 found broken, and the bugs of its neighbourhood, on the machine."""

from typing import Any

import numpy as np
import pytest

from controller.zk import admin
from controller.zk.clusters import states_of
from controller.zk.tree import Cluster, endpoint
from kcore.controller.zk import events
from kcore.controller.zk.effects import Send
from kcore.controller.zk.requests.batch import RequestBatch
from kcore.metadata.zookeeper import znodes
from kcore.protocol_errors import Errors


def cluster(*brokers: int, **config: Any) -> Cluster:
    """Active, over topic t with partitions [1,2,3], [2,3,1], [3,1,2]."""
    made = Cluster(**config)
    for broker in brokers or (1, 2, 3):
        made.register(broker)
    made.write_topic("t", [1, 2, 3], [2, 3, 1], [3, 1, 2])
    made.elect()
    made.sent.clear()
    return made


def shut_down(made: Cluster, broker: int, epoch: int, request_id: int = 1) -> Any:
    made.run(admin.controlled_shutdown(request_id, broker, epoch))
    return made.answers[request_id]


def epoch_of(made: Cluster, broker: int) -> int:
    return made.tree.nodes[znodes.broker_path(broker)].czxid


def bounce(made: Cluster, broker: int) -> int:
    """Gone and back before the controller looks: one watch fires, and the children are the same."""
    made.unregister(broker)
    return made.register(broker)


@pytest.mark.covers("assumption 1", "A2")
def test_assumption_1_what_was_meant_for_an_earlier_incarnation_is_marked_so() -> None:
    # A2: the broker must recognise a StopReplica of its shutdown that arrives after its bounce.
    made = cluster()
    old = epoch_of(made, 3)
    shut_down(made, 3, old)
    stops = [each for each in made.sent if each.message.__name__ == "StopReplicaRequest"]
    assert [each.broker_epochs.tolist() for each in stops] == [[old]]
    made.sent.clear()
    new = bounce(made, 3)
    made.run()
    epochs = {epoch for each in made.sent for broker, epoch in pairs(each) if broker == 3}
    assert epochs == {new} and new > old
    assert not [each for each in made.sent if each.message.__name__ == "StopReplicaRequest"]


def pairs(request: Any) -> list[tuple[int, int]]:
    return list(zip(request.broker_ids.tolist(), request.broker_epochs.tolist(), strict=True))


@pytest.mark.covers("assumption 2", "A3")
def test_assumption_2_a_retried_shutdown_of_the_last_incarnation_moves_nothing() -> None:
    # A3
    made = cluster()
    old = epoch_of(made, 3)
    bounce(made, 3)
    made.run()
    before, effects = dict(made.tree.nodes), len(made.effects)
    assert shut_down(made, 3, old).error_code == Errors.STALE_BROKER_EPOCH
    assert made.tree.nodes == before
    assert not any(isinstance(effect, Send) for effect in made.effects[effects:])
    assert not made.active.table.brokers.shutting_down.any()


@pytest.mark.covers("A5")
@pytest.mark.parametrize("offset", [0, 1000], ids=["equal", "newer than known"])
def test_a_shutdown_of_this_incarnation_or_a_newer_one_is_accepted(offset: int) -> None:
    # A5: only a lower epoch is stale; -1 is from before KIP-380.
    made = cluster()
    assert shut_down(made, 3, epoch_of(made, 3) + offset).error_code == 0
    assert shut_down(cluster(), 3, -1).error_code == 0


@pytest.mark.covers("assumption 3", "A1")
def test_assumption_3_the_first_leader_and_isr_after_a_start_holds_everything() -> None:
    # A1, KAFKA-7235: the broker takes the first one for all it hosts, and writes its checkpoint by it.
    made = cluster()
    made.write_topic("u", *[[1, 3]] * 5)
    made.run()
    made.sent.clear()
    bounce(made, 3)
    made.run()
    orders = [states_of(request) for kind, to, request in made.requests() if kind == "LeaderAndIsr" and to == [3]]
    assert len(orders) == 1
    assert set(orders[0]) == {"t-0", "t-1", "t-2", *(f"u-{k}" for k in range(5))}


@pytest.mark.covers("A21")
def test_leader_and_isr_is_never_cut_update_metadata_is() -> None:
    # A21: linkedin PR 519; but a cut LeaderAndIsr would break assumption 3.
    made = cluster()
    decisions = made.active.decisions
    batch = RequestBatch(1000, 1, decisions.table, decisions.versions, max_partitions=2)
    batch.add_to_replicas(np.arange(3, dtype=np.int32))
    made.sent = batch.requests()
    story = made.story()
    assert [names for kind, _, names in story if kind == "UpdateMetadata"] == [["t-0", "t-1"], ["t-2"]]
    assert [names for kind, _, names in story if kind == "LeaderAndIsr"] == [["t-0", "t-1", "t-2"]] * 3


@pytest.mark.covers("assumption 4", "A4")
def test_assumption_4_a_bounce_that_nobody_saw_is_a_failure_and_a_start() -> None:
    # A4: the old incarnation leaves the ISRs first, then the new one receives all states.
    made = cluster()
    bounce(made, 3)
    made.run()
    assert made.state("t", 2) == (1, (1, 2), 1)
    story = made.story()
    failed = [("UpdateMetadata", [1, 2]), ("LeaderAndIsr", [1]), ("LeaderAndIsr", [2])]
    started = [("UpdateMetadata", [3]), ("UpdateMetadata", [1, 2]), ("LeaderAndIsr", [3])]
    assert [each[:2] for each in story] == failed + started


def test_the_same_incarnation_changes_nothing() -> None:
    made = cluster()
    made.run(events.BrokerChange())
    assert made.sent == []


@pytest.mark.covers("A4")
def test_new_bounced_and_dead_brokers_of_one_event_are_distinguished() -> None:
    made = cluster(1, 2, 3)
    made.register(4)
    bounce(made, 3)
    made.unregister(2)
    made.run()
    table = made.active.table
    live = dict(zip(table.brokers.ids.tolist(), table.brokers.live.tolist(), strict=True))
    assert live == {1: True, 2: False, 3: True, 4: True}
    assert made.state("t", 0) == (1, (1,), 2)
    receivers = [(kind, to) for kind, to, _ in made.requests()]
    assert receivers[0] == ("UpdateMetadata", [4])
    assert receivers[-2:] == [("LeaderAndIsr", [1]), ("LeaderAndIsr", [3])]


def test_a_bounced_brokers_lost_directories_are_forgotten() -> None:
    made = cluster()
    made.active.offline_dirs[3] = {0}
    bounce(made, 3)
    made.run()
    assert made.active.offline_dirs == {}


@pytest.mark.covers("A8")
def test_a_broker_that_shuts_down_still_gets_leader_and_isr() -> None:
    # A8, KAFKA-7482: the controller sends it the new leaders, so that it redirects clients to them.
    made = cluster()
    shut_down(made, 3, epoch_of(made, 3))
    orders = {to[0]: states_of(request) for kind, to, request in made.requests() if kind == "LeaderAndIsr"}
    assert orders[3]["t-2"]["leader"] == 1
    assert set(orders[3]) == {"t-2"}, "it gets StopReplica for its followers"


@pytest.mark.covers("B9")
def test_a_broker_that_shuts_down_leaves_the_isrs_in_a_new_leader_epoch() -> None:
    # KAFKA-15021: by it a leader knows at once that it need not wait for this follower.
    made = cluster()
    shut_down(made, 3, epoch_of(made, 3))
    assert made.state("t", 0) == (1, (1, 2), 1)
    orders = {to[0]: states_of(request) for kind, to, request in made.requests() if kind == "LeaderAndIsr"}
    assert (orders[1]["t-0"]["isr"], orders[1]["t-0"]["leaderEpoch"]) == ([1, 2], 1)


@pytest.mark.covers("A20")
def test_topics_that_are_being_deleted_block_no_shutdown() -> None:
    # A20, linkedin f19b6935d
    made = cluster(1, 2, 3)
    made.write_topic("gone", [3, 1])
    made.run()
    made.unregister(1)
    made.run()
    assert made.state("gone") == (3, (3,), 1)
    made.active.topics_to_be_deleted.add("gone")
    before = made.tree.nodes[znodes.state_path("gone", 0)]
    assert shut_down(made, 3, epoch_of(made, 3)).remaining_partitions == []
    assert made.tree.nodes[znodes.state_path("gone", 0)] == before


def test_a_single_replica_cannot_be_moved_and_holds_nobody_up() -> None:
    made = cluster()
    made.write_topic("single", [3])
    made.run()
    assert shut_down(made, 3, epoch_of(made, 3)).remaining_partitions == []
    assert made.state("single") == (3, (3,), 0)


def test_what_cannot_be_moved_is_named() -> None:
    made = cluster(3)
    answer = shut_down(made, 3, epoch_of(made, 3))
    left = [(each.topic_name, each.partition_index) for each in answer.remaining_partitions]
    assert left == [("t", 0), ("t", 1), ("t", 2)]


@pytest.mark.covers("A19")
def test_a_joining_broker_sends_others_only_its_own_partitions() -> None:
    # A19, KAFKA-7537: O(its own), not O(cluster) for each of the others.
    made = cluster(1, 2)
    made.write_topic("u", [1, 2], [2, 1])
    made.run()
    made.sent.clear()
    made.register(3)
    made.run()
    own, everything = ["t-0", "t-1", "t-2"], ["t-0", "t-1", "t-2", "u-0", "u-1"]
    assert made.story() == [
        ("UpdateMetadata", [3], everything),
        ("UpdateMetadata", [1, 2], own),
        ("LeaderAndIsr", [3], own),
    ]


def test_update_metadata_lists_the_controller_that_is_no_broker() -> None:
    made = cluster()
    bounce(made, 3)
    made.run()
    shown = [request["liveBrokers"] for kind, _, request in made.requests() if kind == "UpdateMetadata"]
    assert {broker["id"] for broker in shown[-1]} == {1, 2, 3, 1000}
    [listed] = [broker for broker in shown[-1] if broker["id"] == 1000]
    assert [(each["host"], each["port"]) for each in listed["endpoints"]] == [("host-1000", 10000)]


def test_changed_endpoints_are_sent_without_partitions() -> None:
    made = cluster()
    moved = endpoint(3)._replace(port=1)
    data = made.tree.nodes[znodes.broker_path(3)].data.replace(b"9003", b"1")
    made.tree.set_data(znodes.broker_path(3), data)
    made.run()
    [(kind, to, request)] = made.requests()
    assert (kind, to, request["topicStates"]) == ("UpdateMetadata", [1, 2, 3], [])
    assert moved in made.active.table.brokers.endpoints[made.active.table.brokers.row(3)]
    made.tree.set_data(znodes.broker_path(3), data)
    made.run()
    assert made.sent == [], "the same endpoints change nothing"
