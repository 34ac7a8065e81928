"""A broker asks to go: its leaders move, its followers stop, and what could not move is named."""

from typing import Any

import pytest

from controller.zk.clusters import cluster, led, replayed, snapshot, states_of
from kcore.controller.zk.decision import Decision
from kcore.controller.zk.events import ControlledShutdown
from kcore.controller.zk.zk_controller import ZkController
from kcore.protocol_errors import Errors


def shut_down(
    controller: ZkController, epoch: int = 103
) -> tuple[Decision, list[tuple[str, list[int], dict[str, Any]]]]:
    before = snapshot(controller)
    decision = controller.on_controlled_shutdown(ControlledShutdown(3, epoch))
    assert snapshot(controller) == before
    return decision, replayed(controller, decision)


@pytest.mark.covers("A8", "article F.1")
def test_leaders_move_followers_stop_and_the_rest_is_named() -> None:
    controller = cluster(
        ("led", 0, [3, 1, 2], [3, 1], 3),
        ("followed", 0, [1, 3], [1, 3], 1),
        ("behind", 4, [1, 3], [1], 1),
        ("last", 6, [3, 1], [3], 3),
        ("single", 0, [3], [3], 3),
    )
    decision, requests = shut_down(controller)
    assert led(controller) == {
        "led-0": (1, (1,), 6),
        "followed-0": (1, (1,), 6),
        "behind-4": (1, (1,), 5),
        "last-6": (3, (3,), 5),
        "single-0": (3, (3,), 5),
    }
    assert controller.table.brokers.shutting_down.tolist() == [False, False, True, False]
    assert controller.table.brokers.live.all()
    assert decision.response is not None and decision.response.error_code == Errors.NONE
    remaining = [(each.topic_name, each.partition_index) for each in decision.response.remaining_partitions]
    assert remaining == [("last", 6)], "a single replica cannot be handed over"
    assert [(kind, receivers, set(states_of(request))) for kind, receivers, request in requests] == [
        ("UpdateMetadata", [1, 2, 3, 4], {"led-0", "followed-0", "behind-4"}),
        ("LeaderAndIsr", [1], {"led-0", "followed-0"}),
        ("LeaderAndIsr", [2], {"led-0"}),
        ("LeaderAndIsr", [3], {"led-0"}),
        ("StopReplica", [3], {"followed-0", "behind-4"}),
    ]
    metadata, stop = requests[0][2], requests[-1][2]
    assert all(state["offlineReplicas"] == [3] for state in states_of(metadata).values())
    assert {broker["id"] for broker in metadata["liveBrokers"]} == {1, 2, 3, 4}, "it is still there"
    assert [(s["leaderEpoch"], s["deletePartition"]) for s in states_of(stop).values()] == [(5, False)] * 2


@pytest.mark.covers("A5")
@pytest.mark.parametrize("epoch", [103, 104, -1])
def test_this_incarnation_a_newer_one_or_an_old_broker_may(epoch: int) -> None:
    controller = cluster(("t", 0, [3, 1], [3, 1], 3))
    shut_down(controller, epoch)
    assert led(controller) == {"t-0": (1, (1,), 6)}


@pytest.mark.covers("A3", "assumption 2")
@pytest.mark.parametrize("epoch", [102, 0, -2])
def test_an_older_incarnation_moves_nothing(epoch: int) -> None:
    controller = cluster(("t", 0, [3, 1], [3, 1], 3))
    before = snapshot(controller)
    decision, requests = shut_down(controller, epoch)
    assert decision.response is not None and decision.response.error_code == Errors.STALE_BROKER_EPOCH == 77
    assert (decision.is_nothing, requests, snapshot(controller)) == (True, [], before)


@pytest.mark.parametrize("broker", [99, 4], ids=["unknown", "dead"])
def test_a_broker_that_is_not_there(broker: int) -> None:
    controller = cluster(("t", 0, [4, 1], [4, 1], 1), live=(1, 2, 3))
    decision = controller.on_controlled_shutdown(ControlledShutdown(broker, -1))
    assert decision.response is not None and decision.response.error_code == Errors.BROKER_NOT_AVAILABLE
    assert decision.is_nothing


def test_another_that_shuts_down_is_no_candidate() -> None:
    controller = cluster(("t", 0, [3, 1, 2], [3, 1, 2], 3))
    controller.table.brokers.set_shutting_down(int(controller.table.brokers.ids[0]))
    shut_down(controller)
    assert led(controller)["t-0"][0] == 2
