"""Brokers start: they receive all their replicas, offline partitions get leaders, other brokers get the changes."""

import pytest

from controller.zk.clusters import cluster, endpoint, led, replayed, snapshot, states_of
from kcore.controller.zk.events import BrokerFailed, BrokerStarted
from kcore.errors import TableError
from partition_states import set_state


def started(broker: int, epoch: int) -> BrokerStarted:
    return BrokerStarted(broker, epoch, [endpoint(broker)], rack=f"rack-{broker}")


@pytest.mark.covers("article E.1", "article E.2", "article E.3.2", "article E.3.3")
def test_a_broker_that_was_missed() -> None:
    controller = cluster(
        ("waiting", 0, [3, 1], [3], -1),
        ("led", 0, [1, 3], [1], 1),
        ("elsewhere", 0, [1, 2], [1, 2], 1),
        ("lost", 0, [4, 3], [4], -1),
        live=(1, 2),
    )
    before = snapshot(controller)
    decision = controller.on_broker_started(started(3, 500))
    assert snapshot(controller) == before
    requests = replayed(controller, decision)
    assert led(controller) == {
        "waiting-0": (3, (3,), 6),
        "led-0": (1, (1,), 5),
        "elsewhere-0": (1, (1, 2), 5),
        "lost-0": (-1, (4,), 5),
    }
    first, second, *others = requests
    assert (first[0], first[1], set(states_of(first[2]))) == ("UpdateMetadata", [3], set(led(controller)))
    # The others get UpdateMetadata with the partitions that are online again and the live brokers.
    assert (second[0], second[1], set(states_of(second[2]))) == (
        "UpdateMetadata",
        [1, 2],
        {"waiting-0", "led-0", "lost-0"},
    )
    for _, _, request in (first, second):
        [new] = [broker for broker in request["liveBrokers"] if broker["id"] == 3]
        assert (new["rack"], new["endpoints"][0]["host"]) == ("rack-3", "host-3")
        assert states_of(request)["led-0"]["offlineReplicas"] == []
        assert states_of(request)["lost-0"]["offlineReplicas"] == [4]
    assert [(kind, receivers, set(states_of(request))) for kind, receivers, request in others] == [
        ("LeaderAndIsr", [1], {"waiting-0"}),
        ("LeaderAndIsr", [3], {"waiting-0", "led-0", "lost-0"}),
    ]
    assert others[1][2]["brokerEpoch"] == first[2]["brokerEpoch"] == 500


def test_a_new_broker_has_no_partitions_yet() -> None:
    controller = cluster(("t", 0, [1, 2], [1, 2], 1))
    requests = replayed(controller, controller.on_broker_started(started(77, 600)))
    assert [(kind, receivers, len(states_of(request))) for kind, receivers, request in requests] == [
        ("UpdateMetadata", [77], 1),
        ("UpdateMetadata", [1, 2, 3, 4], 0),
    ]
    assert [broker["id"] for broker in requests[1][2]["liveBrokers"]] == [1, 2, 3, 4, 77]


@pytest.mark.parametrize("epoch", [104, 3])
def test_a_known_incarnation_changes_nothing(epoch: int) -> None:
    controller = cluster(("t", 0, [3, 4], [3], -1))
    assert controller.on_broker_started(started(4, epoch)).is_nothing


def test_a_bounce_is_a_failure_and_a_start() -> None:
    controller = cluster(("t", 0, [3, 1], [3, 1], 3))
    with pytest.raises(TableError, match="broker 3 bounced, 103 to 104: fail it first"):
        controller.on_broker_started(started(3, 104))
    controller.replay(controller.on_broker_failed(BrokerFailed([3])))
    requests = replayed(controller, controller.on_broker_started(started(3, 104)))
    assert led(controller) == {"t-0": (1, (1,), 6)}
    to_it = [request for _, receivers, request in requests if receivers == [3]]
    assert [request["brokerEpoch"] for request in to_it] == [104, 104]


def test_partitions_without_a_state_and_removed_topics_are_not_sent() -> None:
    controller = cluster(
        ("gone", 0, [1, 3], [1, 3], 1), ("new", 0, [1, 3], [], -1), ("t", 0, [1, 3], [1], 1), live=(1,)
    )
    controller.table.remove_topic("gone")
    set_state(controller.table, 1, leader_epoch=-1)
    requests = replayed(controller, controller.on_broker_started(started(3, 500)))
    assert {name for _, _, request in requests for name in states_of(request)} == {"t-0"}
    lengths = [[len(topic["partitionStates"]) for topic in request["topicStates"]] for _, _, request in requests]
    assert lengths == [[1]] * 3


def test_a_leader_that_is_not_live_is_not_listed() -> None:
    controller = cluster(("t", 0, [4, 3], [4], 4), ("t", 1, [1, 3], [1], 1), live=(1, 2))
    requests = replayed(controller, controller.on_broker_started(started(3, 500)))
    [request] = [request for kind, _, request in requests if kind == "LeaderAndIsr"]
    assert states_of(request)["t-0"]["leader"] == 4
    assert [leader["brokerId"] for leader in request["liveLeaders"]] == [1]
