"""The object codec: nanoseconds a partition are the time of a round over 100,000; small messages as they are."""

from typing import Any

import pytest

import kcore
from kcore.schema import ControlledShutdownRequest, RequestHeader, ResponseHeader, UpdateMetadataRequest
from kcore.schema.leader_and_isr import LeaderAndIsrLiveLeader, LeaderAndIsrPartitionState, LeaderAndIsrTopicState
from kcore.schema.update_metadata import UpdateMetadataPartitionState, UpdateMetadataTopicState
from kcore.types import ZERO_UUID

TOPICS, PARTITIONS, BROKERS, REPLICAS = 1_000, 100, 100, 3
VERSIONS = [("LeaderAndIsrRequest", 7), ("LeaderAndIsrRequest", 2), ("UpdateMetadataRequest", 8)]
TOPIC_ID = ZERO_UUID  # So that a version without ids gives back what it was given.
SMALL = [
    (ControlledShutdownRequest(broker_id=1, broker_epoch=2**40), 3),
    (RequestHeader(request_api_key=4, request_api_version=7, correlation_id=70_000, client_id="controller"), 2),
    (ResponseHeader(correlation_id=70_000), 1),
]


def partition(topic: int, index: int) -> dict[str, Any]:
    """A partition's fields in both messages: its first replica leads, and all replicas are in the ISR."""
    replicas = [(topic * PARTITIONS + index + 7 * slot) % BROKERS for slot in range(REPLICAS)]
    epochs = {"controller_epoch": 7, "leader_epoch": (31 * index) % 1_000}
    return {"partition_index": index, "leader": replicas[0], "isr": replicas, "replicas": list(replicas)} | epochs


def leader_and_isr(topic: int) -> LeaderAndIsrTopicState:
    states = [
        LeaderAndIsrPartitionState(**partition(topic, i), partition_epoch=(17 * i) % 2_000) for i in range(PARTITIONS)
    ]
    return LeaderAndIsrTopicState(topic_name=f"topic-{topic:05}", topic_id=TOPIC_ID, partition_states=states)


def update_metadata(topic: int) -> UpdateMetadataTopicState:
    states = [
        UpdateMetadataPartitionState(**partition(topic, i), zk_version=(17 * i) % 2_000) for i in range(PARTITIONS)
    ]
    return UpdateMetadataTopicState(topic_name=f"topic-{topic:05}", topic_id=TOPIC_ID, partition_states=states)


@pytest.fixture(scope="module", params=VERSIONS, ids=lambda param: f"{param[0]}-v{param[1]}")
def full(request: pytest.FixtureRequest) -> tuple[Any, int]:
    """A message of 100,000 partitions and its version."""
    name, version = request.param
    start = {"controller_id": 1, "controller_epoch": 7, "broker_epoch": 2**40}
    if name == "UpdateMetadataRequest":
        return UpdateMetadataRequest(**start, topic_states=[update_metadata(i) for i in range(TOPICS)]), version
    leaders = [LeaderAndIsrLiveLeader(broker_id=i, host_name=f"broker-{i}", port=9092) for i in range(BROKERS)]
    states = [leader_and_isr(i) for i in range(TOPICS)]
    return kcore.schema.LeaderAndIsrRequest(**start, topic_states=states, live_leaders=leaders), version


def test_decode(benchmark: Any, full: tuple[Any, int]) -> None:
    message, version = full
    data = kcore.encode(message, version)
    benchmark.extra_info["partitions"] = TOPICS * PARTITIONS
    assert benchmark(kcore.decode, type(message), version, data) == message


def test_encode(benchmark: Any, full: tuple[Any, int]) -> None:
    message, version = full
    benchmark.extra_info["partitions"] = TOPICS * PARTITIONS
    assert kcore.decode(type(message), version, benchmark(kcore.encode, message, version)) == message


def test_encode_into(benchmark: Any, full: tuple[Any, int]) -> None:
    message, version = full
    data = kcore.encode(message, version)
    out = bytearray(len(data))
    benchmark.extra_info["partitions"] = TOPICS * PARTITIONS
    assert benchmark(kcore.encode, message, version, out) == len(data)
    assert out == data


@pytest.mark.parametrize(("message", "version"), SMALL, ids=lambda value: type(value).__name__)
def test_small_decode(benchmark: Any, message: Any, version: int) -> None:
    data = kcore.encode(message, version)
    assert benchmark(kcore.decode, type(message).__name__, version, data) == message


@pytest.mark.parametrize(("message", "version"), SMALL, ids=lambda value: type(value).__name__)
def test_small_encode(benchmark: Any, message: Any, version: int) -> None:
    data = benchmark(kcore.encode, message, version)
    assert kcore.decode(type(message), version, data) == message
