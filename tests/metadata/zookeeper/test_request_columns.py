"""Tables from requests: those that brokers of a real cluster received, and made ones, in every version."""

import gzip
import json
from typing import Any

import pytest

from cases import DATA
from kcore.errors import TableError
from kcore.metadata.table.broker_table import Endpoint
from kcore.metadata.table.partition_table import PartitionState, PartitionTable
from kcore.types import Uuid
from kcore.wire.codec import encode
from kcore.wire.column_codec import decode_columns
from kcore.wire.jsonform import from_json

STORY = DATA / "samples" / "zk39-scenario" / "control-requests.jsonl.gz"
NAMES = {"UPDATE_METADATA": "UpdateMetadataRequest", "LEADER_AND_ISR": "LeaderAndIsrRequest"}


def recorded(api: str) -> list[dict[str, Any]]:
    with gzip.open(STORY, "rt", encoding="utf-8") as lines:
        return [case["request"] for case in map(json.loads, lines) if case["api"] == api]


def table_of(name: str, version: int, request: dict[str, Any]) -> PartitionTable:
    return PartitionTable.from_columns(
        decode_columns(name, version, encode(from_json(name, version, request), version))
    )


def expected(topic: str, state: dict[str, Any]) -> PartitionState:
    return PartitionState(
        topic=topic,
        partition=state["partitionIndex"],
        replicas=tuple(state["replicas"]),
        isr=tuple(state["isr"]),
        leader=state["leader"],
        leader_epoch=state["leaderEpoch"],
        partition_epoch=state.get("zkVersion", state.get("partitionEpoch")),
        controller_epoch=state["controllerEpoch"],
        leader_recovery_state=state.get("leaderRecoveryState", 0),
        adding=tuple(state.get("addingReplicas", ())),
        removing=tuple(state.get("removingReplicas", ())),
    )


@pytest.mark.parametrize("api", NAMES)
def test_every_recorded_request(api: str) -> None:
    version = {"UPDATE_METADATA": 8, "LEADER_AND_ISR": 7}[api]
    seen = 0
    for request in recorded(api):
        table = table_of(NAMES[api], version, request)
        states = [
            (topic, state)
            for topic in request["topicStates"]
            for state in topic["partitionStates"]
            if state["leader"] != -2  # Being deleted: Kafka's MetadataCache forgets it.
        ]
        assert len(table) == len(states)
        for topic, state in states:
            row = table.row_of(topic["topicName"], state["partitionIndex"])
            assert table.state(row) == expected(topic["topicName"], state)
            assert str(table.topics.ids[table.topic_row__p[row]]) == topic["topicId"]
            for broker_row in range(len(table.brokers)):
                assert (row in table.index.rows(broker_row)) == (table.brokers.ids[broker_row] in state["replicas"])
            seen += 1
        for broker in request.get("liveBrokers", ()):
            row = table.brokers.row(broker["id"])
            [listener] = broker["endpoints"]
            assert table.brokers.live[row]
            assert table.brokers.endpoints[row] == (Endpoint(listener["port"], "127.0.0.1", "PLAINTEXT", 0),)
        for leader in request.get("liveLeaders", ()):
            row = table.brokers.row(leader["brokerId"])
            assert table.brokers.live[row]
            assert table.brokers.endpoints[row] == (Endpoint(leader["port"], "127.0.0.1", "PLAINTEXT", 0),)
    assert seen > 20


def test_deleted_partitions_were_recorded() -> None:
    """The recordings have the case that the test above leaves out."""
    requests = recorded("UPDATE_METADATA")
    leaders = [
        s["leader"] for request in requests for topic in request["topicStates"] for s in topic["partitionStates"]
    ]
    assert -2 in leaders


def state(partition: int, replicas: list[int], **fields: Any) -> dict[str, Any]:
    epochs = {"controllerEpoch": 4, "leaderEpoch": 5}
    return (
        {"partitionIndex": partition, "leader": replicas[0], "isr": replicas[:1], "replicas": replicas}
        | epochs
        | fields
    )


@pytest.mark.parametrize("version", range(9))
def test_update_metadata_in_every_version(version: int) -> None:
    """From a topic name in each partition (version 0) to version 8: one table, without fields that a version lacks."""
    topic_id = "QJnSl5U3RI6RugWX9LnDWg"
    states = {
        "a": [state(3, [1, 2], zkVersion=7), state(0, [2, 9], zkVersion=8)],
        "b": [state(0, [2, 1], zkVersion=9)],
    }
    for each in states["a"] + states["b"]:
        each |= {"offlineReplicas": []} if version >= 4 else {}
    request: dict[str, Any] = {"controllerId": 1, "controllerEpoch": 4}
    if version >= 5:
        ids = {"topicId": topic_id} if version >= 7 else {}
        request["topicStates"] = [{"topicName": name, "partitionStates": states[name]} | ids for name in states]
        request["brokerEpoch"] = 3
    else:
        flat = [each | {"topicName": name} for name in states for each in states[name]]
        request["ungroupedPartitionStates"] = [flat[0], flat[2], flat[1]]  # Topic "a" comes back after "b".
    if version == 0:
        request["liveBrokers"] = [{"id": broker, "v0Host": f"h{broker}", "v0Port": broker} for broker in (1, 2)]
    else:
        listener = {"listener": "L"} if version >= 3 else {}
        rack = {"rack": "r"} if version >= 2 else {}
        request["liveBrokers"] = [
            {"id": broker, "endpoints": [{"port": broker, "host": f"h{broker}", "securityProtocol": 1} | listener]}
            | rack
            for broker in (1, 2)
        ]
    if version >= 8:
        request["isKRaftController"] = False
    table = table_of("UpdateMetadataRequest", version, request)
    assert sorted(table.topics.names) == ["a", "b"]
    for name, each in states.items():
        for wanted in each:
            assert table.state(table.row_of(name, wanted["partitionIndex"])) == expected(name, wanted)
    assert table.brokers.ids.tolist() == [1, 2, 9]
    assert table.brokers.live.tolist() == [True, True, False]
    assert table.brokers.racks == [*["r" if version >= 2 else None] * 2, None]
    protocol = 0 if version == 0 else 1
    listener_name = "PLAINTEXT" if version == 0 else "L" if version >= 3 else "SSL"
    assert table.brokers.endpoints == [
        *((Endpoint(broker, f"h{broker}", listener_name, protocol),) for broker in (1, 2)),
        (),
    ]
    assert table.topics.ids == [Uuid(topic_id) if version >= 7 else Uuid()] * 2


def test_a_reassignment_and_recovery_in_leader_and_isr() -> None:
    states = [
        state(0, [1, 2, 3], partitionEpoch=2, addingReplicas=[3], removingReplicas=[1], leaderRecoveryState=1),
        state(1, [2, 1], partitionEpoch=2, addingReplicas=[], removingReplicas=[], leaderRecoveryState=0, leader=-1),
    ]
    request = {
        "controllerId": 1,
        "isKRaftController": False,
        "controllerEpoch": 4,
        "brokerEpoch": 3,
        "type": 0,
        "topicStates": [
            {
                "topicName": "t",
                "topicId": "QJnSl5U3RI6RugWX9LnDWg",
                "partitionStates": [each | {"isNew": False} for each in states],
            }
        ],
        "liveLeaders": [{"brokerId": 1, "hostName": "h", "port": 9}],
    }
    table = table_of("LeaderAndIsrRequest", 7, request)
    assert [table.state(row) for row in range(2)] == [expected("t", each) for each in states]
    assert table.brokers.live.tolist() == [True, True, False]
    assert table.brokers.endpoints == [(Endpoint(9, "h", "PLAINTEXT", 0),), (), ()]


def test_a_request_with_an_unknown_protocol() -> None:
    endpoints = [{"port": 1, "host": "h", "securityProtocol": 9}]
    request = {
        "controllerId": 1,
        "controllerEpoch": 4,
        "ungroupedPartitionStates": [],
        "liveBrokers": [{"id": 1, "endpoints": endpoints, "rack": None}],
    }
    with pytest.raises(TableError, match="unknown security protocol 9"):
        table_of("UpdateMetadataRequest", 2, request)


def test_another_message_is_refused() -> None:
    request = {"brokerId": 1}
    with pytest.raises(TableError, match="not from a ControlledShutdownRequest"):
        table_of("ControlledShutdownRequest", 1, request)
