"""Znodes as Kafka 3.9.1 writes them: those of a recorded cluster, and its own encodings of chosen values."""

import json
import re
from collections.abc import Callable
from typing import Any

import pytest

from cases import DATA
from kcore.errors import TableError
from kcore.metadata.table.broker_table import Endpoint
from kcore.metadata.table.partition_state import ReplicaAssignment
from kcore.metadata.zookeeper import znodes
from kcore.metadata.zookeeper.znode_brokers import BrokerNode, decode_broker, encode_broker
from kcore.metadata.zookeeper.znode_json import immutable_order, mutable_order, properties_order
from kcore.metadata.zookeeper.znodes import TopicAssignment
from kcore.types import Uuid

STORY = DATA / "samples" / "zk39-scenario"
STEPS = sorted(STORY.glob("*.zk.txt"))
TOPIC_ID = Uuid("QJnSl5U3RI6RugWX9LnDWg")


def again(path: str, data: bytes) -> bytes | None:
    """Decoded and encoded again; None for an empty znode."""
    parts = path.split("/")
    timestamp = int(json.loads(data)["timestamp"]) if b"timestamp" in data else 0
    if path == znodes.CONTROLLER:
        controller = znodes.decode_controller(data)
        return znodes.encode_controller(controller.broker_id, timestamp, controller.kraft_controller_epoch or 0)
    if path == znodes.CONTROLLER_EPOCH:
        return znodes.encode_controller_epoch(znodes.decode_controller_epoch(data))
    if path == znodes.CLUSTER_ID:
        return znodes.encode_cluster_id(znodes.decode_cluster_id(data))
    if path == znodes.FEATURE:
        return znodes.encode_feature(znodes.decode_feature(data))
    if path.startswith(znodes.BROKER_IDS):
        return encode_broker(decode_broker(int(parts[3]), data), timestamp)
    if path.startswith(znodes.CONFIG):
        return znodes.encode_config(znodes.decode_config(path, data))
    if parts[-1] == "state":
        return znodes.encode_state(znodes.decode_state(path, data))
    if path.startswith(znodes.TOPICS):
        return znodes.encode_topic(znodes.decode_topic(parts[3], data))
    return None


@pytest.mark.covers("article 11 v3")
@pytest.mark.recorded
@pytest.mark.parametrize("step", STEPS, ids=lambda path: path.name)
def test_every_recorded_znode_is_written_as_it_was(step) -> None:
    paths = set()
    for line in step.read_text().splitlines():
        path, _, text = line.split("\t")
        paths.add(path)
        if text not in ("", "<null>"):
            assert again(path, text.encode()) == text.encode(), path
    assert {*znodes.PERSISTENT_PATHS, znodes.CLUSTER_ID, znodes.FEATURE} <= paths


@pytest.mark.recorded
def test_paths() -> None:
    paths = set(re.findall(r"^\S+", STEPS[0].read_text(), re.MULTILINE))
    assert {
        znodes.broker_path(3),
        znodes.topic_path("t1"),
        znodes.partitions_path("t1"),
        znodes.partition_path("t1", 2),
        znodes.state_path("t1", 2),
        znodes.config_path("topics", "t2"),
    } <= paths
    assert znodes.delete_topic_path("t1") == "/admin/delete_topics/t1"


def replicas(partition: int) -> ReplicaAssignment:
    moves = ((partition % 3,), (9,)) if partition % 2 else ((), ())
    return ReplicaAssignment((partition % 3, 3), *moves)


def partitions(count: int) -> TopicAssignment:
    return TopicAssignment(TOPIC_ID, {partition: replicas(partition) for partition in range(count)})


def test_topics() -> None:
    """TopicZNode.encode; the partitions stand in the order of Scala's mutable.HashMap."""
    two = (
        b'{"partitions":{"0":[0,3],"1":[1,3]},"topic_id":"QJnSl5U3RI6RugWX9LnDWg",'
        b'"adding_replicas":{"1":[1]},"removing_replicas":{"1":[9]},"version":3}'
    )
    assert znodes.encode_topic(partitions(2)) == two
    assert znodes.encode_topic(partitions(2)._replace(topic_id=None)) == two.replace(
        b'"topic_id":"QJnSl5U3RI6RugWX9LnDWg",', b""
    )
    thirteen = json.loads(znodes.encode_topic(partitions(13)))
    assert list(thirteen["partitions"]) == ["11", "12", "0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10"]
    assert list(thirteen["adding_replicas"]) == ["11", "1", "3", "5", "7", "9"]
    many = list(json.loads(znodes.encode_topic(partitions(120)))["partitions"])
    assert many[:23] == (
        [
            "88",
            "89",
            "110",
            "111",
            "112",
            "113",
            "114",
            "115",
            "116",
            "90",
            "117",
            "91",
            "118",
            "92",
            "119",
            "93",
            "94",
            "95",
            "96",
            "97",
            "10",
            "98",
            "11",
        ]
    )
    for count in (0, 1, 13, 120):
        assert znodes.decode_topic("t", znodes.encode_topic(partitions(count))) == partitions(count)
    assert znodes.decode_topic("t", b'{"version":1}') == TopicAssignment(None, {})


def test_the_orders_of_java_and_scala() -> None:
    names = [f"L{5 * number}" for number in range(9)]
    assert immutable_order(names) == ["L15", "L5", "L25", "L10", "L20", "L30", "L35", "L40", "L0"]
    assert immutable_order(names[3::-1]) == names[3::-1]
    keys = [f"key.{number * 7}" for number in range(30)]
    assert properties_order(keys)[:7] == ["key.35", "key.140", "key.56", "key.182", "key.14", "key.161", "key.133"]
    assert mutable_order(["partitions", "topic_id", "version"]) == ["partitions", "topic_id", "version"]


def test_state() -> None:
    state = znodes.PartitionStateNode(1, 2, (1, 2), 9, 1)
    data = znodes.encode_state(state)
    assert data == (
        b'{"controller_epoch":9,"leader":1,"version":1,"leader_recovery_state":1,"leader_epoch":2,"isr":[1,2]}'
    )
    assert znodes.decode_state("/s", data) == state
    assert list(json.loads(data)) == immutable_order(json.loads(data))  # Six keys: a trie.


ENDPOINTS = (
    Endpoint(9092, "h0", "L0", 3),
    Endpoint(9093, "2001:db8::1", "L5", 0),
    Endpoint(9094, "", "L10", 3),
)
FULL_BROKER = (
    b'{"features":{"f1":{"min_version":1,"max_version":3}},'
    b'"listener_security_protocol_map":{"L0":"SASL_SSL","L5":"PLAINTEXT","L10":"SASL_SSL"},'
    b'"endpoints":["L0://h0:9092","L5://[2001:db8::1]:9093","L10://:9094"],"rack":"r1","jmx_port":99,'
    b'"port":9093,"host":"2001:db8::1","version":5,"timestamp":"1795305385389"}'
)


def test_brokers_of_every_version() -> None:
    """BrokerIdZNode.encode"""
    broker = BrokerNode(list(ENDPOINTS), "r1", {"f1": (1, 3)}, 99)
    assert encode_broker(broker, 1795305385389) == FULL_BROKER
    assert decode_broker(7, FULL_BROKER) == broker
    one = ENDPOINTS[:1]
    assert encode_broker(BrokerNode(one, "r1", jmx_port=99, version=4), 5) == (
        b'{"listener_security_protocol_map":{"L0":"SASL_SSL"},"endpoints":["L0://h0:9092"],"rack":"r1",'
        b'"jmx_port":99,"port":-1,"host":null,"version":4,"timestamp":"5"}'
    )
    assert encode_broker(BrokerNode(one, "r1", jmx_port=99, version=2), 5) == (
        b'{"endpoints":["L0://h0:9092"],"jmx_port":99,"port":-1,"host":null,"version":2,"timestamp":"5"}'
    )
    first = decode_broker(1, b'{"version":1,"host":"old","port":9,"jmx_port":-1,"timestamp":"1"}')
    assert first == BrokerNode([Endpoint(9, "old", "PLAINTEXT", 0)], version=1)
    named = decode_broker(1, b'{"version":2,"jmx_port":1,"endpoints":["SSL://h:1"],"rack":null}')
    assert named == BrokerNode([Endpoint(1, "h", "SSL", 1)], jmx_port=1, version=2)


def test_config() -> None:
    """ConfigEntityZNode.encode of a java.util.Properties"""
    names = ["cleanup.policy", "retention.ms", "min.insync.replicas", "unclean.leader.election.enable", "segment.bytes"]
    config = dict.fromkeys([*names, "max.message.bytes", "compression.type"], '1"é/\x7f<')
    data = znodes.encode_config(config)
    value = '"1\\"é/\x7f<"'
    expected = [
        "compression.type",
        "cleanup.policy",
        "max.message.bytes",
        "min.insync.replicas",
        "retention.ms",
        "segment.bytes",
    ]
    listed = ",".join(f'"{name}":{value}' for name in [*expected, "unclean.leader.election.enable"])
    assert data.decode() == f'{{"version":1,"config":{{{listed}}}}}'
    assert znodes.decode_config("/c", data) == config
    assert znodes.decode_config("/c", b"") == znodes.decode_config("/c", b'{"version":1}') == {}


def test_feature() -> None:
    """FeatureZNode.encode"""
    feature = znodes.Feature(True, {"f1": 3, "f0": 2})
    assert znodes.encode_feature(feature) == (
        b'{"features":{"f1":{"max_version_level":3},"f0":{"max_version_level":2}},"version":2,"status":1}'
    )
    old = feature._replace(version=1)
    assert znodes.encode_feature(old) == (
        b'{"features":{"f1":{"max_version_level":3,"min_version_level":3},'
        b'"f0":{"max_version_level":2,"min_version_level":2}},"version":1,"status":1}'
    )
    assert znodes.decode_feature(znodes.encode_feature(feature)) == feature
    assert znodes.decode_feature(znodes.encode_feature(old)) == old


def test_small_znodes() -> None:
    assert znodes.encode_controller(5, 1234) == (
        b'{"version":2,"brokerid":5,"timestamp":"1234","kraftControllerEpoch":-1}'
    )
    assert znodes.decode_controller(b'{"version":1,"brokerid":5,"timestamp":"1"}') == znodes.Controller(5, None)
    block = znodes.ProducerIdsBlock(3, 1000, 1999)
    assert znodes.encode_producer_id_block(block) == (
        b'{"version":1,"broker":3,"block_start":"1000","block_end":"1999"}'
    )
    assert znodes.decode_producer_id_block(znodes.encode_producer_id_block(block)) == block
    assert znodes.decode_producer_id_block(b"") is None
    assert znodes.encode_config_change("topics/t") == b'{"version":2,"entity_path":"topics/t"}'
    assert znodes.decode_config_change("/c", znodes.encode_config_change("topics/t")) == "topics/t"
    assert znodes.decode_config_change("/c", b'{"version":1,"entity_type":"topics","entity_name":"t"}') == "topics/t"
    assert znodes.encode_log_dir_event(3) == b'{"version":1,"broker":3,"event":1}'
    assert znodes.decode_log_dir_event("/l", znodes.encode_log_dir_event(3)) == 3
    migration = (
        b'{"version":0,"kraft_metadata_offset":3,"kraft_controller_id":1,'
        b'"kraft_metadata_epoch":4,"kraft_controller_epoch":2}'
    )
    assert znodes.decode_migration(migration) == znodes.Migration(1, 2, 3, 4)


def test_lists_of_partitions() -> None:
    pairs = [("a", 1), ("b", 0)]
    written = b'{"version":1,"partitions":[{"topic":"a","partition":1},{"topic":"b","partition":0}]}'
    assert znodes.encode_isr_change(pairs) == written
    assert znodes.decode_isr_change("/i", written) == znodes.decode_preferred_replica_election(written) == pairs
    twice = b'{"version":1,"partitions":[{"topic":"a","partition":1},{"topic":"a","partition":1}]}'
    assert znodes.decode_isr_change("/i", twice) == [("a", 1)]
    moves = {("a", 1): (1, 2), ("b", 0): (3,)}
    written = (
        b'{"version":1,"partitions":[{"topic":"a","partition":1,"replicas":[1,2]},'
        b'{"topic":"b","partition":0,"replicas":[3]}]}'
    )
    assert znodes.encode_reassign_partitions(moves) == written
    assert znodes.decode_reassign_partitions(written) == moves


STATE: dict[str, Any] = {"controller_epoch": 3, "leader": 4, "version": 1, "leader_epoch": 2, "isr": [4]}


def decode_some_state(data: bytes) -> object:
    return znodes.decode_state("/s", data)


def decode_some_topic(data: bytes) -> object:
    return znodes.decode_topic("t", data)


def decode_some_broker(data: bytes) -> object:
    return decode_broker(1, data)


@pytest.mark.parametrize(
    ("decode", "value", "expected"),
    [
        (znodes.decode_controller, b"", "/controller: not JSON"),
        (znodes.decode_controller, b"\xff", "/controller: not JSON"),
        (znodes.decode_controller, b"[" * 100_000, "/controller: not JSON"),
        (znodes.decode_controller, [], "/controller: not a JSON object"),
        (znodes.decode_controller, {}, "/controller: .* no 'brokerid'"),
        (znodes.decode_controller, {"brokerid": True}, "must be integers, not True"),
        (znodes.decode_controller_epoch, b"", "/controller_epoch: .*'' is not a number"),
        (znodes.decode_controller_epoch, b"99999999999", "outside 32 bits"),
        (znodes.decode_controller_epoch, "\u0663".encode(), "is not a number"),
        (decode_some_topic, {"partitions": {"0": "1"}}, "/brokers/topics/t: .*'0' must be a list"),
        (decode_some_topic, {"partitions": {"x": [1]}}, "'x' is not a number"),
        (decode_some_topic, {"topic_id": "short"}, "topic_id 'short'"),
        (decode_some_topic, {"topic_id": 5}, "'topic_id' must be a string"),
        (decode_some_state, STATE | {"leader_recovery_state": 2}, "/s: .*leader_recovery_state 2"),
        (decode_some_state, STATE | {"isr": [1, None]}, "'isr' must be integers"),
        (decode_some_state, STATE | {"leader_epoch": 1 << 31}, "'leader_epoch' has values outside 32 bits"),
        (decode_some_broker, {"version": 0}, "/brokers/ids/1: .*version 0"),
        (decode_some_broker, {"version": 5, "endpoints": [1]}, "'endpoints' must be strings"),
        (decode_some_broker, {"version": 5, "endpoints": ["A://h:1"]}, "security protocol 'A'"),
        (decode_some_broker, {"version": 5, "endpoints": ["SSL//h:1"]}, "'SSL//h:1' is not an endpoint"),
        (znodes.decode_feature, {"version": 3, "status": 1, "features": {}}, "/feature: .*version 3"),
        (znodes.decode_feature, {"version": 2, "status": 1}, "no 'features'"),
        (znodes.decode_feature, {"version": 2, "status": 1, "features": {"f": {"max_version_level": 0}}}, "levels"),
        (znodes.decode_producer_id_block, {"broker": 1, "block_start": 1, "block_end": "2"}, "must be a string"),
        (znodes.decode_producer_id_block, {"broker": 1, "block_start": "1", "block_end": str(1 << 63)}, "64 bits"),
        (znodes.decode_reassign_partitions, {"partitions": {}}, "'partitions' must be a list"),
        (znodes.decode_preferred_replica_election, {"partitions": [1]}, "not a JSON object: 'partitions'"),
        (znodes.decode_migration, {"version": 1}, "/migration: .*version 1"),
        (lambda data: znodes.decode_config_change("/c", data), {"version": 3}, "/c: .*version 3"),
        (lambda data: znodes.decode_config("/c", data), {"config": {"a": 1}}, "'a' must be a string"),
    ],
)
def test_data_that_kafka_would_not_write(decode: Callable[[bytes], object], value: Any, expected: str) -> None:
    with pytest.raises(TableError, match=expected):
        decode(value if isinstance(value, bytes) else json.dumps(value).encode())
