"""Log dirs."""

from kcore.schema.kinds import int16, int32, int64
from kcore.schema.structure import Message, Struct, field
from kcore.types import Uuid


class AlterReplicaLogDirTopic(Struct):
    """A part of AlterReplicaLogDirsRequest."""

    name: str
    partitions: list[int32]


class AlterReplicaLogDir(Struct):
    """A part of AlterReplicaLogDirsRequest."""

    path: str
    topics: list[AlterReplicaLogDirTopic]


class AlterReplicaLogDirsRequest(Message, api_key=34, versions="0-2", flexible="2+"):
    """AlterReplicaLogDirsRequest, as Kafka has it."""

    dirs: list[AlterReplicaLogDir]


class AlterReplicaLogDirPartitionResult(Struct):
    """A part of AlterReplicaLogDirsResponse."""

    partition_index: int32
    error_code: int16


class AlterReplicaLogDirTopicResult(Struct):
    """A part of AlterReplicaLogDirsResponse."""

    topic_name: str
    partitions: list[AlterReplicaLogDirPartitionResult]


class AlterReplicaLogDirsResponse(Message, api_key=34, versions="0-2", flexible="2+"):
    """AlterReplicaLogDirsResponse, as Kafka has it."""

    throttle_time_ms: int32
    results: list[AlterReplicaLogDirTopicResult]


class DescribableLogDirTopic(Struct):
    """A part of DescribeLogDirsRequest."""

    topic: str
    partitions: list[int32]


class DescribeLogDirsRequest(Message, api_key=35, versions="0-5", flexible="2+"):
    """DescribeLogDirsRequest, as Kafka has it."""

    topics: list[DescribableLogDirTopic] | None = field(nullable="0+")


class DescribeLogDirsPartition(Struct):
    """A part of DescribeLogDirsResponse."""

    partition_index: int32
    partition_size: int64
    offset_lag: int64
    is_future_key: bool


class DescribeLogDirsTopic(Struct):
    """A part of DescribeLogDirsResponse."""

    name: str
    partitions: list[DescribeLogDirsPartition]


class DescribeLogDirsResult(Struct):
    """A part of DescribeLogDirsResponse."""

    error_code: int16
    log_dir: str
    topics: list[DescribeLogDirsTopic]
    total_bytes: int64 = field(versions="4+", default=-1, ignorable=True)
    usable_bytes: int64 = field(versions="4+", default=-1, ignorable=True)
    is_cordoned: bool = field(versions="5+", ignorable=True)


class DescribeLogDirsResponse(Message, api_key=35, versions="0-5", flexible="2+"):
    """DescribeLogDirsResponse, as Kafka has it."""

    throttle_time_ms: int32
    error_code: int16 = field(versions="3+", ignorable=True)
    results: list[DescribeLogDirsResult]


class AssignReplicasToDirsRequestPartitionData(Struct, kafka_name="PartitionData"):
    """A part of AssignReplicasToDirsRequest."""

    partition_index: int32


class AssignReplicasToDirsRequestTopicData(Struct, kafka_name="TopicData"):
    """A part of AssignReplicasToDirsRequest."""

    topic_id: Uuid
    partitions: list[AssignReplicasToDirsRequestPartitionData]


class AssignReplicasToDirsRequestDirectoryData(Struct, kafka_name="DirectoryData"):
    """A part of AssignReplicasToDirsRequest."""

    id: Uuid
    topics: list[AssignReplicasToDirsRequestTopicData]


class AssignReplicasToDirsRequest(Message, api_key=73, versions="0", flexible="0+"):
    """AssignReplicasToDirsRequest, as Kafka has it."""

    broker_id: int32
    broker_epoch: int64 = field(default=-1)
    directories: list[AssignReplicasToDirsRequestDirectoryData]


class AssignReplicasToDirsResponsePartitionData(Struct, kafka_name="PartitionData"):
    """A part of AssignReplicasToDirsResponse."""

    partition_index: int32
    error_code: int16


class AssignReplicasToDirsResponseTopicData(Struct, kafka_name="TopicData"):
    """A part of AssignReplicasToDirsResponse."""

    topic_id: Uuid
    partitions: list[AssignReplicasToDirsResponsePartitionData]


class AssignReplicasToDirsResponseDirectoryData(Struct, kafka_name="DirectoryData"):
    """A part of AssignReplicasToDirsResponse."""

    id: Uuid
    topics: list[AssignReplicasToDirsResponseTopicData]


class AssignReplicasToDirsResponse(Message, api_key=73, versions="0", flexible="0+"):
    """AssignReplicasToDirsResponse, as Kafka has it."""

    throttle_time_ms: int32
    error_code: int16
    directories: list[AssignReplicasToDirsResponseDirectoryData]
