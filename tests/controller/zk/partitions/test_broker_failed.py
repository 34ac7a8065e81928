"""Brokers fail: the new leaders and ISRs."""

import pytest

from controller.zk.clusters import cluster, led, replayed, snapshot, states_of
from kcore.controller.zk.events import BrokerFailed
from kcore.controller.zk.zk_controller import ZkController
from partition_states import set_state


@pytest.mark.covers("article A.2", "article A.3.2")
def test_leader_follower_last_member_and_single_replica() -> None:
    controller = cluster(
        ("led", 0, [3, 1, 2], [3, 1, 2], 3),
        ("followed", 0, [1, 3], [1, 3], 1),
        ("behind", 0, [1, 3], [1], 1),
        ("last", 0, [3, 1], [3], 3),
        ("single", 0, [3], [3], 3),
        ("elsewhere", 0, [1, 2], [1, 2], 1),
    )
    before = snapshot(controller)
    decision = controller.on_broker_failed(BrokerFailed([3]))
    assert snapshot(controller) == before
    controller.replay(decision)
    assert led(controller) == {
        "led-0": (1, (1, 2), 6),
        "followed-0": (1, (1,), 6),
        "behind-0": (1, (1,), 5),
        "last-0": (-1, (3,), 6),
        "single-0": (-1, (3,), 6),
        "elsewhere-0": (1, (1, 2), 5),
    }
    assert controller.table.brokers.live.tolist() == [True, True, False, True]


@pytest.mark.covers("article A.3.2")
@pytest.mark.parametrize(("unclean", "leader", "isr"), [(False, -1, (3,)), (True, 1, (1,))])
def test_unclean_only_where_allowed(unclean: bool, leader: int, isr: tuple[int, ...]) -> None:
    controller = ZkController(9, 7, cluster(("t", 0, [3, 1], [3], 3)).table, unclean=unclean)
    controller.replay(controller.on_broker_failed(BrokerFailed([3])))
    assert led(controller) == {"t-0": (leader, isr, 6)}
    assert controller.table.leader_recovery_state__p.tolist() == [int(unclean)]


def test_several_at_once_are_no_candidates_for_each_other() -> None:
    controller = cluster(("t", 0, [3, 2, 1], [3, 2, 1], 3), ("t", 1, [2, 3], [2, 3], 2))
    requests = replayed(controller, controller.on_broker_failed(BrokerFailed([3, 2])))
    leaders = {name: leader for name, (leader, _, _) in led(controller).items()}
    assert leaders == {"t-0": 1, "t-1": -1}
    assert {receiver for _, receivers, _ in requests for receiver in receivers} == {1, 4}


@pytest.mark.parametrize("brokers", [[], [99], [4]], ids=["nobody", "unknown", "dead already"])
def test_a_known_failure_changes_nothing(brokers: list[int]) -> None:
    # Partition t-0 could elect broker 1: it must not do so because of a broker that had failed before.
    controller = cluster(("t", 0, [3, 1], [3, 1], -1), live=(1, 2))
    decision = controller.on_broker_failed(BrokerFailed(brokers))
    assert decision.is_nothing
    before = snapshot(controller)
    assert replayed(controller, decision) == []
    assert snapshot(controller) == before


def test_all_learn_which_replicas_are_offline() -> None:
    # Also where neither leader nor ISR changes, as ReplicaStateMachine does.
    controller = cluster(("t", 0, [1, 3], [1], 1), ("t", 1, [2, 1], [2, 1], 2), ("u", 0, [3, 2], [3, 2], 3))
    requests = replayed(controller, controller.on_broker_failed(BrokerFailed([3])))
    [(receivers, metadata)] = [rest for kind, *rest in requests if kind == "UpdateMetadata"]
    assert receivers == [1, 2, 4]
    assert {name: state["offlineReplicas"] for name, state in states_of(metadata).items()} == {"t-0": [3], "u-0": [3]}
    assert [broker["id"] for broker in metadata["liveBrokers"]] == [1, 2, 4]


def test_a_broker_that_was_shutting_down_is_not_any_more() -> None:
    controller = cluster(("t", 0, [1, 2], [1, 2], 1))
    controller.table.brokers.set_shutting_down(int(controller.table.brokers.ids[1]))
    controller.replay(controller.on_broker_failed(BrokerFailed([2])))
    assert not controller.table.brokers.shutting_down.any()


@pytest.mark.parametrize(("level", "recovering"), [("3.1", 0), ("3.2-IV0", 1)])
def test_an_unclean_leader_is_recovering_since_kip_704(level: str, recovering: int) -> None:
    table = cluster(("t", 0, [3, 1], [3], 3)).table
    controller = ZkController(9, 7, table, inter_broker_protocol=level, unclean=True)
    requests = replayed(controller, controller.on_broker_failed(BrokerFailed([3])))
    assert controller.table.leader_recovery_state__p.tolist() == [recovering]
    [request] = [request for kind, _, request in requests if kind == "LeaderAndIsr"]
    assert states_of(request)["t-0"].get("leaderRecoveryState", 0) == recovering


def test_a_recovering_leader_from_before_a_downgrade_is_sent_without_its_state() -> None:
    table = cluster(("t", 0, [3, 1, 2], [3, 1], 3)).table
    set_state(table, 0, leader_recovery_state=1)
    controller = ZkController(9, 7, table, inter_broker_protocol="2.2")
    requests = replayed(controller, controller.on_broker_failed(BrokerFailed([3])))
    assert [receivers for kind, receivers, _ in requests if kind == "LeaderAndIsr"] == [[1], [2]]
