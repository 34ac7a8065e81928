"""A broker's replicas with real log directories."""

from pathlib import Path
from typing import Any

import pytest

import kcore
from broker.controlled import ControlledManager
from kcore.broker.replicas.broker_config import BrokerConfig
from kcore.broker.replicas.partition import TopicSettings
from kcore.broker.replicas.producing import on_produce
from kcore.protocol_errors import Errors, exception_of
from kcore.schema import LeaderAndIsrRequest
from kcore.schema.log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from kcore.schema.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kcore.server.broker.logs import BrokerLogs, describe_log_dirs
from kcore.storage.checkpoints import TopicPartition, read_offsets
from kcore.storage.log import log_directory
from kcore.storage.log.live_log import LiveLog
from kcore.types import Uuid
from kcore.wire.column_codec import decode_columns
from kcore.wire.record_batch import scan_batches
from storage import building

PARTITIONS = 30


def lead(manager: ControlledManager, leader_epoch: int) -> None:
    """One LeaderAndIsr, of all partitions."""
    states = [
        {
            "partitionIndex": index,
            "controllerEpoch": 1,
            "leader": 1,
            "leaderEpoch": leader_epoch,
            "isr": [1],
            "partitionEpoch": leader_epoch,
            "replicas": [1],
            "addingReplicas": [],
            "removingReplicas": [],
            "isNew": leader_epoch == 0,
            "leaderRecoveryState": 0,
        }
        for index in range(PARTITIONS)
    ]
    who: dict[str, Any] = {"controllerId": 9, "isKRaftController": False, "controllerEpoch": 1, "brokerEpoch": -1}
    topic = {"topicName": "t", "topicId": str(Uuid(b"t" * 16)), "partitionStates": states}
    request = kcore.from_json("LeaderAndIsrRequest", 7, who | {"type": 0, "topicStates": [topic], "liveLeaders": []})
    columns = decode_columns(LeaderAndIsrRequest, 7, kcore.encode(request, 7))
    answer = kcore.decode("LeaderAndIsrResponse", 7, manager.control(LeaderAndIsrRequest, 7, columns, 0))
    assert {each.error_code for each in answer.topics[0].partition_errors} == {Errors.NONE}


@pytest.mark.covers("A23")
def test_the_checkpoint_is_read_once_and_not_for_each_replica(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """KAFKA-8333: a file with a line a replica, read once a replica, in every LeaderAndIsr."""
    manager = ControlledManager(BrokerConfig(1), 1, BrokerLogs([tmp_path]))
    lead(manager, 0)
    data = [PartitionProduceData(index=index, records=building.batch(0, [b"a"])) for index in range(PARTITIONS)]
    topic = TopicProduceData(name="t", partition_data=data)
    on_produce(manager, 1, ProduceRequest(acks=-1, timeout_ms=1_000, topic_data=[topic]), 0, 0)
    assert isinstance(manager.logs, BrokerLogs)
    manager.logs.close()
    read = []

    def counted(path: Path) -> Any:
        read.append(path.name)
        return read_offsets(path)

    monkeypatch.setattr(log_directory, "read_offsets", counted)
    logs = BrokerLogs([tmp_path])
    again = ControlledManager(BrokerConfig(1), 2, logs)
    lead(again, 1)
    assert read.count("replication-offset-checkpoint") == 1
    assert [log.high_watermark for log in logs.directories.online[0].logs.values()] == [1] * PARTITIONS
    logs.close()


def logs_in(folder: Path, *names: str) -> BrokerLogs:
    """The logs of two partitions of t in each of these directories."""
    for name in names:
        (folder / name).mkdir()
    logs = BrokerLogs([folder / name for name in names])
    for at, directory in enumerate(logs.directories):
        directory.directory_id = Uuid(bytes([0] * 15 + [100 + at]))
        for index in range(2):
            logs.create(("t", 2 * at + index), Uuid(b"t" * 16), directory.directory_id)
    return logs


def test_a_failed_directory_is_not_described_as_cordoned(tmp_path: Path) -> None:
    logs = logs_in(tmp_path, "a", "b")
    logs.directories.fail(logs.directories[0], "its disk is broken")
    ids = [each.directory_id for each in logs.directories if each.directory_id is not None]
    results = describe_log_dirs(logs, DescribeLogDirsRequest(topics=None), ids).results
    assert [(each.error_code, each.is_cordoned) for each in results] == [
        (Errors.KAFKA_STORAGE_ERROR, False),
        (Errors.NONE, True),
    ]
    logs.close()


def test_retention_leaves_a_directory_that_failed_and_goes_on_in_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    logs, asked = logs_in(tmp_path, "a", "b"), []

    def delete_old(log: LiveLog, oldest_ms: int | None, most_bytes: int | None) -> bool:
        asked.append(log.folder.parent.name)
        if asked[-1] == "a":
            raise exception_of(Errors.KAFKA_STORAGE_ERROR)("its disk is broken")
        return False

    monkeypatch.setattr(LiveLog, "delete_old", delete_old)
    assert sorted(logs.delete_old(lambda topic: TopicSettings(retention_ms=1), 0)) == [("t", 0), ("t", 1)]
    assert asked == ["a", "b", "b"]
    logs.close()


def test_a_log_that_is_ahead_of_its_high_watermark_has_no_lag(tmp_path: Path) -> None:
    logs = logs_in(tmp_path, "a")
    [directory] = logs.directories
    log = directory.logs[TopicPartition("t", 0)]
    data = building.batch(0, [b"a", b"b"])
    log.append(data, scan_batches(data))
    assert log.end_offset == 2
    for high_watermark, lag in ((0, 0), (2, 0), (5, 3)):
        log.high_watermark = high_watermark
        request = DescribeLogDirsRequest(topics=[DescribableLogDirTopic(topic="t", partitions=[0])])
        [result] = describe_log_dirs(logs, request).results
        assert [each.offset_lag for each in result.topics[0].partitions] == [lag]
    logs.close()
