"""The contents of requests: every version, live leaders, moves, offline replicas, topics that stand apart."""

from typing import Any

import numpy as np
import pytest

import kcore
from controller.zk.clusters import EPOCHS, as_json, cluster, kind_of, replayed, states_of
from kcore.controller.zk.decision import Decision
from kcore.controller.zk.events import BrokerFailed, BrokerStarted, ControlledShutdown, PreferredElection
from kcore.controller.zk.requests.versions import request_versions
from kcore.controller.zk.zk_controller import ZkController
from kcore.errors import UnsupportedVersionError
from kcore.metadata.table.broker_table import Endpoint
from kcore.metadata.table.changes import UnwrittenChanges

# (inter.broker.protocol.version, LeaderAndIsr, UpdateMetadata, StopReplica)
LEVELS = [
    ("0.8.2", 0, 0, 0),
    ("0.9.0", 0, 1, 0),
    ("0.10.0-IV0", 0, 1, 0),
    ("0.10.0-IV1", 0, 2, 0),
    ("0.10.0", 0, 2, 0),
    ("0.10.1-IV2", 0, 2, 0),
    ("0.10.2-IV0", 0, 3, 0),
    ("0.10.2.1", 0, 3, 0),
    ("0.11.0", 0, 3, 0),
    ("1.0-IV0", 1, 4, 0),
    ("2.1", 1, 4, 0),
    ("2.2-IV0", 2, 5, 1),
    ("2.3.1", 2, 5, 1),
    ("2.4-IV0", 3, 5, 1),
    ("2.4-IV1", 4, 6, 2),
    ("2.5", 4, 6, 2),
    ("2.6-IV0", 4, 6, 3),
    ("2.8-IV0", 4, 6, 3),
    ("2.8-IV1", 5, 7, 3),
    ("3.2-IV0", 6, 7, 3),
    ("3.4-IV0", 7, 8, 4),
    ("3.9", 7, 8, 4),
    ("3.9.1", 7, 8, 4),
]


@pytest.mark.parametrize(("level", *("leader_and_isr", "update_metadata", "stop_replica")), LEVELS)
def test_versions(level: str, leader_and_isr: int, update_metadata: int, stop_replica: int) -> None:
    assert request_versions(level) == (leader_and_isr, update_metadata, stop_replica)


@pytest.mark.parametrize("level", ["4.0", "4.0-IV3", "3.10", "0.7.0", "0.9", "2", "", "2.2-", "2.2-IV", "latest"])
def test_levels_that_no_zookeeper_controller_has(level: str) -> None:
    with pytest.raises(UnsupportedVersionError):
        request_versions(level)


@pytest.mark.parametrize("level", [level for level, *_ in LEVELS])
def test_every_version_says_the_same(level: str) -> None:
    table = cluster(("a", 0, [3, 1, 2], [3, 1], 3), ("b", 5, [1, 3], [1, 3], 1)).table
    controller = ZkController(9, 7, table, inter_broker_protocol=level)
    decision = controller.on_controlled_shutdown(ControlledShutdown(3, -1))
    controller.replay(decision)
    requests = controller.requests(decision)
    sent = {(kind_of(each), broker): each for each in requests for broker in each.broker_ids.tolist()}
    assert [each.version for each in requests] == [controller.versions[k] for k in (1, 0, 0, 0, 2)]
    for (kind, broker), request in sent.items():
        read = kcore.decode_columns(request.message, request.version, request.fanout().bytes_for(EPOCHS[broker]))
        names = list(read.topic_states.topic_name)
        first_epoch = {"LeaderAndIsr": 2, "UpdateMetadata": 5, "StopReplica": 1}[kind]
        assert read.broker_epoch == (EPOCHS[broker] if request.version >= first_epoch else -1)
        assert (read.controller_id, read.controller_epoch) == (9, 7)
        only = {("StopReplica", 3): ["b"], ("LeaderAndIsr", 2): ["a"], ("LeaderAndIsr", 3): ["a"]}
        assert names == only.get((kind, broker), ["a", "b"])
        if kind == "LeaderAndIsr":
            assert read.topic_states.partition_states.leader.tolist() == [1] * len(names)
            assert (read.live_leaders.broker_id.tolist(), list(read.live_leaders.host_name)) == ([1], ["host-1"])
        if kind == "UpdateMetadata" and request.version == 0:
            assert list(read.live_brokers.v0_host) == ["host-1", "host-2", "host-3", "host-4"]


def test_version_0_gets_the_plaintext_listener() -> None:
    table = cluster(("t", 0, [1, 2], [1, 2], 1)).table
    plain, inner = Endpoint(5, "plain", "PLAINTEXT", 0), Endpoint(6, "inner", "SSL", 1)
    table.brokers.endpoints = [(inner, plain), (inner,), (), (plain,)]
    controller = ZkController(9, 7, table, inter_broker_protocol="0.8.2")
    decision = controller.on_broker_failed(BrokerFailed([4]))
    [*_, (_, _, metadata)] = [each for each in replayed(controller, decision) if each[0] == "UpdateMetadata"]
    assert [(each["v0Host"], each["v0Port"]) for each in metadata["liveBrokers"]] == [("plain", 5), ("", -1), ("", -1)]


@pytest.mark.covers("A9")
def test_one_of_each_kind_a_broker_in_order_with_its_own_epoch() -> None:
    pairs = [[1 + k % 4, 1 + (k + 1) % 4] for k in range(24)]
    controller = cluster(*(("abc"[k % 3], k // 3, pair, pair, pair[0]) for k, pair in enumerate(pairs)))
    decision = controller.on_broker_failed(BrokerFailed([2]))
    controller.replay(decision)
    requests = controller.requests(decision)
    kinds = [kind_of(each) for each in requests]
    assert kinds == ["UpdateMetadata", "LeaderAndIsr", "LeaderAndIsr"], "the leaders' addresses come first (KAFKA-4443)"
    for each in requests:
        assert each.broker_epochs.tolist() == [EPOCHS[broker] for broker in each.broker_ids.tolist()]
    assert [each.broker_ids.tolist() for each in requests] == [[1, 3, 4], [1], [3]]
    for each in requests:
        names = [topic["topicName"] for topic in as_json(each)["topicStates"]]
        assert len(names) == len(set(names)), "a topic's partitions stand together"
    for each in requests[1:]:
        [broker] = each.broker_ids.tolist()
        lost = {f"{'abc'[k % 3]}-{k // 3}" for k, pair in enumerate(pairs) if 2 in pair and broker in pair}
        assert set(states_of(as_json(each))) == lost


def test_states_moves_and_live_leaders() -> None:
    controller = cluster(("a", 0, [3, 1, 2], [3, 1, 2], 3), ("b", 2, [3, 2, 1], [3, 2], 3), ("c", 0, [3, 1], [3], 3))
    table = controller.table
    table.adding, table.removing = {1: (0,)}, {0: (1, 0)}
    requests = replayed(controller, controller.on_broker_failed(BrokerFailed([3])))
    sent = {(kind, receivers[0]): request for kind, receivers, request in requests}
    states = states_of(sent["LeaderAndIsr", 1])
    assert states["a-0"] == {
        "partitionIndex": 0,
        "controllerEpoch": 7,
        "leader": 1,
        "leaderEpoch": 6,
        "isr": [1, 2],
        "partitionEpoch": 21,
        "replicas": [3, 1, 2],
        "addingReplicas": [],
        "removingReplicas": [2, 1],
        "isNew": False,
        "leaderRecoveryState": 0,
    }
    assert (states["b-2"]["addingReplicas"], states["b-2"]["removingReplicas"]) == ([1], [])
    assert (states["c-0"]["leader"], states["c-0"]["isr"]) == (-1, [3])
    for broker in (1, 2):
        leaders = sent["LeaderAndIsr", broker]["liveLeaders"]
        assert sorted((each["brokerId"], each["hostName"], each["port"]) for each in leaders) == [
            (1, "host-1", 9001),
            (2, "host-2", 9002),
        ]
    assert states_of(sent["UpdateMetadata", 1])["a-0"] == {
        "partitionIndex": 0,
        "controllerEpoch": 7,
        "leader": 1,
        "leaderEpoch": 6,
        "isr": [1, 2],
        "zkVersion": 21,
        "replicas": [3, 1, 2],
        "offlineReplicas": [3],
    }


def test_live_leaders_are_those_of_the_receivers_partitions() -> None:
    controller = cluster(("a", 0, [3, 1], [3, 1], 3), ("b", 0, [3, 2], [3, 2], 3), ("c", 0, [2, 3, 4], [2, 3], 2))
    requests = replayed(controller, controller.on_broker_failed(BrokerFailed([3])))
    named = {
        receivers[0]: [each["brokerId"] for each in request["liveLeaders"]]
        for kind, receivers, request in requests
        if kind == "LeaderAndIsr"
    }
    assert named == {1: [1], 2: [2], 4: [2]}


@pytest.mark.parametrize(("recovery", "field"), [(0, ""), (1, '"leader_recovery_state":1,')])
def test_state_writes(recovery: int, field: str) -> None:
    controller = cluster(("a", 0, [1, 2], [1, 2], 1), ("b", 7, [1, 2], [1, 2], 1))
    changes = UnwrittenChanges(
        rows=np.array([1], np.int32),
        leaders=np.array([2], np.int32),
        isr_offsets=np.array([0, 2], np.int32),
        isr=np.array([2, 1], np.int32),
        leader_epochs=np.array([6], np.int32),
        partition_epochs=np.array([20], np.int32),
        recovery=np.array([recovery], np.int8),
    )
    [write] = controller.state_writes(Decision(changes))
    assert (write.path, write.expected_version) == ("/brokers/topics/b/partitions/7/state", 20)
    wanted = f'{{"controller_epoch":7,"leader":2,"version":1,{field}"leader_epoch":6,"isr":[2,1]}}'
    assert write.data.decode() == wanted


@pytest.mark.parametrize(
    "event",
    [BrokerFailed([3]), ControlledShutdown(3, 103), PreferredElection(), BrokerStarted(4, 900)],
    ids=lambda event: type(event).__name__,
)
def test_replay_twice_is_replay_once(event: Any) -> None:
    controller = cluster(("a", 0, [3, 1], [3, 1], 3), ("b", 0, [1, 3, 4], [3, 1], 3), live=(1, 2, 3))
    handlers = {
        BrokerFailed: controller.on_broker_failed,
        ControlledShutdown: controller.on_controlled_shutdown,
        PreferredElection: controller.on_preferred_election,
        BrokerStarted: controller.on_broker_started,
    }
    decision = handlers[type(event)](event)
    once = replayed(controller, decision)
    assert once and replayed(controller, decision) == once
