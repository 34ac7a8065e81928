"""Invalid topic names in every request are refused, and never become paths."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import kcore
from broker.controlled import ControlledManager
from kcore.broker.replicas.broker_config import BrokerConfig
from kcore.broker.replicas.fetching import on_fetch
from kcore.broker.replicas.outputs import Notice, SendResponse
from kcore.broker.replicas.producing import on_produce
from kcore.metadata.topic_names import partition_error
from kcore.protocol_errors import ApiException, Errors
from kcore.schema import LeaderAndIsrRequest, StopReplicaRequest, UpdateMetadataRequest
from kcore.schema.fetch import FetchPartition, FetchRequest, FetchTopic
from kcore.schema.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kcore.server.broker.logs import BrokerLogs
from kcore.steps import finished
from kcore.storage.checkpoints import TopicPartition
from kcore.storage.log.log_directory import DELETED, LogDirectory
from kcore.types import Uuid
from kcore.wire.column_codec import decode_columns
from storage import building

TOPIC_ID = Uuid(b"t" * 16)
NO_NAMES = ["", ".", "..", "../x", "x/../../y", "/etc/x", "a/b", "a" * 250, "a" * 300, "nul\0", "a b", "ü", "\n", "a:b"]
IMPOSSIBLE = [
    *((name, 0, Errors.INVALID_TOPIC_EXCEPTION) for name in NO_NAMES),
    ("t", -1, Errors.INVALID_PARTITIONS),
    ("t", -(2**31), Errors.INVALID_PARTITIONS),
    ("a" * 249, 100_000, Errors.INVALID_PARTITIONS),  # Its folder would need 256 bytes.
    ("a" * 245, 2**31 - 1, Errors.INVALID_PARTITIONS),
]
POSSIBLE = [("t", 0), ("...", 0), ("-", 0), ("a" * 249, 99_999), ("t", 2**31 - 1), ("a.B_c-9", 7)]


def control(manager: ControlledManager, message: Any, version: int, body: dict[str, Any]) -> Any:
    name = message.__name__
    common = {"controllerId": 9, "isKRaftController": False, "controllerEpoch": 1, "brokerEpoch": -1}
    data = kcore.encode(kcore.from_json(name, version, common | body), version)
    answer = manager.control(message, version, decode_columns(message, version, data), 0)
    return kcore.decode(name.replace("Request", "Response"), version, answer)


def state_of(partition: int, **more: Any) -> dict[str, Any]:
    who = {"partitionIndex": partition, "controllerEpoch": 1, "leader": 1, "leaderEpoch": 3, "isr": [1]}
    return who | {"replicas": [1]} | more


def lead(manager: ControlledManager, name: str, partition: int, *, is_new: bool = True) -> int:
    more = {"partitionEpoch": 3, "addingReplicas": [], "removingReplicas": [], "leaderRecoveryState": 0}
    more["isNew"] = is_new
    topic = {"topicName": name, "topicId": str(TOPIC_ID), "partitionStates": [state_of(partition, **more)]}
    answer = control(manager, LeaderAndIsrRequest, 7, {"type": 0, "topicStates": [topic], "liveLeaders": []})
    assert answer.error_code == Errors.NONE
    return answer.topics[0].partition_errors[0].error_code


def delete(manager: ControlledManager, name: str, partition: int) -> int:
    state = {"partitionIndex": partition, "leaderEpoch": -2, "deletePartition": True}
    body = {"topicStates": [{"topicName": name, "partitionStates": [state]}]}
    return control(manager, StopReplicaRequest, 4, body).partition_errors[0].error_code


def update_metadata(manager: ControlledManager, *partitions: tuple[str, int]) -> int:
    topics = [
        {
            "topicName": name,
            "topicId": str(Uuid(bytes([number + 1] * 16))),
            "partitionStates": [state_of(partition, zkVersion=3, offlineReplicas=[])],
        }
        for number, (name, partition) in enumerate(partitions)
    ]
    brokers = [{"id": 1, "endpoints": [], "rack": None}]
    return control(manager, UpdateMetadataRequest, 8, {"topicStates": topics, "liveBrokers": brokers}).error_code


def notices(manager: ControlledManager) -> list[str]:
    return [each.text for each in manager.take_outputs() if isinstance(each, Notice)]


@pytest.fixture(name="broker")
def broker_over_files(tmp_path: Path) -> Iterator[tuple[ControlledManager, Callable[[], list[str]]]]:
    """With a log directory that has a neighbour; and what lies in and around it."""
    (tmp_path / "logs").mkdir()
    (tmp_path / "x-0").mkdir()
    (tmp_path / "x-0" / "precious").write_text("mine")
    logs = BrokerLogs([tmp_path / "logs"])
    manager = ControlledManager(BrokerConfig(1), 1, logs)
    assert lead(manager, "good", 0) == Errors.NONE
    manager.take_outputs()
    yield manager, lambda: sorted(str(each.relative_to(tmp_path)) for each in tmp_path.rglob("*"))
    logs.close()


Broker = tuple[ControlledManager, Callable[[], list[str]]]


@pytest.mark.parametrize(("name", "partition", "error"), IMPOSSIBLE)
def test_leader_and_isr_and_stop_replica_refuse_invalid_partitions(
    name: str, partition: int, error: Errors, broker: Broker
) -> None:
    manager, files = broker
    before = files()
    for ask in (lead, delete):
        assert ask(manager, name, partition) == error
        assert files() == before
        assert manager.partitions.keys() == manager.replicas.keys() == {("good", 0)}
        [notice] = notices(manager)
        assert f"controller 9 has invalid topics or partitions: {name!r:.100}, partition {partition}" in notice
    assert manager.logs.directories.online  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", NO_NAMES)
def test_update_metadata_ignores_an_invalid_topic_name(name: str, broker: Broker) -> None:
    """The other topics of the request are stored."""
    manager, _ = broker
    assert update_metadata(manager, ("one", 0), (name, 0), ("two", 0)) == Errors.INVALID_TOPIC_EXCEPTION
    assert {each for each in manager.cluster.table.topics.names if each} == {"one", "two"}
    assert manager.cluster.knows(("two", 0)) and not manager.cluster.knows((name, 0))
    assert notices(manager) == [
        f"UpdateMetadata from controller 9 has invalid topics or partitions: topic {name!r:.100}"
    ]
    assert update_metadata(manager, ("one", 0)) == Errors.NONE
    assert update_metadata(manager, (name, 0)) == Errors.INVALID_TOPIC_EXCEPTION


@pytest.mark.parametrize("partition", [-1, -(2**31)])
def test_inconsistent_update_metadata_changes_nothing(partition: int, broker: Broker) -> None:
    manager, _ = broker
    assert update_metadata(manager, ("one", 0)) == Errors.NONE
    assert update_metadata(manager, ("two", 0), ("one", partition)) == Errors.INVALID_REQUEST
    assert manager.cluster.table.topics.names == ["one"]
    assert "is refused: partition index of row 1" in notices(manager)[-1]


@pytest.mark.parametrize(("name", "partition", "error"), IMPOSSIBLE)
def test_requests_of_clients_create_no_folders(name: str, partition: int, error: Errors, broker: Broker) -> None:
    manager, files = broker
    before = files()
    data = PartitionProduceData(index=partition, records=building.batch(0, [b"a"]))
    topic = TopicProduceData(name=name, partition_data=[data])
    on_produce(manager, 1, ProduceRequest(acks=-1, timeout_ms=1_000, topic_data=[topic]), 0, 0)
    asked = FetchTopic(topic=name, partitions=[FetchPartition(partition=partition, partition_max_bytes=100)])
    finished(on_fetch(manager, 2, FetchRequest(topics=[asked], forgotten_topics_data=[]), 12, 0))
    answers = {each.request_id: each.response for each in manager.take_outputs() if isinstance(each, SendResponse)}
    produced, fetched = answers[1].responses[0], answers[2].responses[0]
    assert produced.partition_responses[0].error_code == Errors.UNKNOWN_TOPIC_OR_PARTITION
    assert fetched.partitions[0].error_code == Errors.UNKNOWN_TOPIC_OR_PARTITION
    assert files() == before
    assert (name, partition) not in manager.partitions


@pytest.mark.parametrize(("name", "partition"), POSSIBLE)
def test_what_can_be_is_made_and_removed(name: str, partition: int, broker: Broker) -> None:
    manager, files = broker
    before = files()
    assert lead(manager, name, partition) == Errors.NONE
    assert f"logs/{name}-{partition}" in files()
    assert delete(manager, name, partition) == Errors.NONE
    assert files() == before
    assert manager.logs.directories.online  # type: ignore[attr-defined]


@pytest.mark.parametrize(("name", "partition", "error"), IMPOSSIBLE)
def test_an_invalid_topic_name_never_becomes_a_path(name: str, partition: int, error: Errors, tmp_path: Path) -> None:
    """By itself: whoever asks, and whatever was checked before."""
    directory = LogDirectory(tmp_path / "logs").open()
    key = TopicPartition(name, partition)
    for ask in (
        lambda: directory.create(key),
        lambda: directory.topic_id(key),
        lambda: directory.assign_topic_id(key, TOPIC_ID),
    ):
        with pytest.raises(ApiException) as caught:
            ask()
        assert caught.value.error is error
    directory.delete(key)
    assert [each.name for each in tmp_path.iterdir()] == ["logs"]
    assert [*(tmp_path / "logs").iterdir()] == []


def test_folders_that_are_not_partitions_are_left_alone(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    others = [
        "a b-0",
        "t-007",
        "t-9999999999",
        f"{'a' * 250}-0",
        "lost+found",
        "please-do-not-delete",
        "t-0.0123-future",
    ]
    others += ["__cluster_metadata-0"]  # The broker epoch of a broker that migrates to KRaft.
    for name in (*others, "t-0", f"u-0.0123{DELETED}"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "precious").write_text("mine")
    directory = LogDirectory(tmp_path).open()
    assert [*directory.logs] == [("t", 0)]
    assert len(caplog.records) == len(others) - 1
    assert "metadata" not in caplog.text
    assert all((tmp_path / name / "precious").exists() for name in others)
    assert not (tmp_path / f"u-0.0123{DELETED}").exists()
    directory.close()


def test_an_unreadable_topic_id_takes_the_directory_offline(tmp_path: Path) -> None:
    """At the start, and not the controller's connection, time and again."""
    directories = [tmp_path / "1", tmp_path / "2"]
    for each in directories:
        each.mkdir()
    manager = ControlledManager(BrokerConfig(1), 1, BrokerLogs(directories))
    assert lead(manager, "t", 0) == Errors.NONE
    manager.logs.close()  # type: ignore[attr-defined]
    [path] = tmp_path.rglob("partition.metadata")
    path.write_text("nonsense")
    logs = BrokerLogs(directories)
    assert [each.path for each in logs.directories if each.failed] == [path.parent.parent]
    assert lead(ControlledManager(BrokerConfig(1), 1, logs), "t", 0, is_new=False) == Errors.KAFKA_STORAGE_ERROR


def test_requests_and_directories_have_one_rule_for_names() -> None:
    assert {partition_error(*key) for key in POSSIBLE} == {Errors.NONE}
    assert all(partition_error(name, partition) is error for name, partition, error in IMPOSSIBLE)


def test_a_change_of_the_controller_and_refused_requests_are_logged(broker: Broker) -> None:
    """A forged controller epoch locks the controller out: the log has the time and the sender."""
    manager, _ = broker
    stranger = {"controllerId": 66, "controllerEpoch": 2**31 - 1, "topicStates": [], "liveBrokers": []}
    assert control(manager, UpdateMetadataRequest, 8, stranger).error_code == Errors.NONE
    assert update_metadata(manager, ("one", 0)) == Errors.STALE_CONTROLLER_EPOCH
    manager.broker_epoch = 10
    assert control(manager, UpdateMetadataRequest, 8, stranger | {"brokerEpoch": 9}).error_code != Errors.NONE
    assert notices(manager) == [
        "the controller epoch rises from 1 to 2147483647: controller 66 is the controller now",
        "UpdateMetadata from controller 9 is refused: its controller epoch 1 is older than 2147483647",
        "UpdateMetadata from controller 66 is refused: it is for broker epoch 9, this broker has 10",
    ]


def test_an_update_metadata_of_many_new_brokers_takes_no_time(broker: Broker) -> None:
    """As many as there may be: each took as long as a table of all, minutes together."""
    manager, _ = broker
    brokers = [{"id": each, "endpoints": [], "rack": None} for each in range(32_767)]
    answer = control(manager, UpdateMetadataRequest, 8, {"topicStates": [], "liveBrokers": brokers})
    assert (answer.error_code, len(manager.cluster.table.brokers)) == (Errors.NONE, 32_767)
    one_more = [{"id": 99_999, "endpoints": [], "rack": None}]
    answer = control(manager, UpdateMetadataRequest, 8, {"topicStates": [], "liveBrokers": one_more})
    assert answer.error_code == Errors.INVALID_REQUEST
    assert manager.cluster.is_alive(7) and not manager.cluster.is_alive(99_999)


def test_a_negative_leader_epoch_is_stale(broker: Broker) -> None:
    manager, files = broker
    before = files()
    more = {"partitionEpoch": 3, "addingReplicas": [], "removingReplicas": [], "isNew": True, "leaderRecoveryState": 0}
    for epoch in (-1, -2, -(2**31)):
        state = state_of(0, leaderEpoch=epoch, **more)
        topic = {"topicName": "t", "topicId": str(TOPIC_ID), "partitionStates": [state]}
        answer = control(manager, LeaderAndIsrRequest, 7, {"type": 0, "topicStates": [topic], "liveLeaders": []})
        assert answer.topics[0].partition_errors[0].error_code == Errors.STALE_CONTROLLER_EPOCH
    assert files() == before
