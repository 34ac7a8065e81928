"""Log directories of brokers: moves of replicas between directories (KIP-113), disk space (KIP-827), ids (KIP-858)."""

from kcore.schema.kinds import int16, int32, int64
from kcore.schema.structure import Message, Struct, field
from kcore.types import Uuid


class AlterReplicaLogDirTopic(Struct):
    """The partitions of one topic."""

    name: str
    partitions: list[int32]


class AlterReplicaLogDir(Struct):
    """A directory and the replicas to move into it."""

    path: str
    topics: list[AlterReplicaLogDirTopic]


class AlterReplicaLogDirsRequest(Message, api_key=34, versions="0-2", flexible="2+"):
    """An administrator asks a broker to move replicas between its directories."""

    dirs: list[AlterReplicaLogDir]


class AlterReplicaLogDirPartitionResult(Struct):
    """The result for one move: the move has begun, or failed."""

    partition_index: int32
    error_code: int16


class AlterReplicaLogDirTopicResult(Struct):
    """The answers for one topic."""

    topic_name: str
    partitions: list[AlterReplicaLogDirPartitionResult]


class AlterReplicaLogDirsResponse(Message, api_key=34, versions="0-2", flexible="2+"):
    """The broker's answer, partition by partition."""

    throttle_time_ms: int32
    results: list[AlterReplicaLogDirTopicResult]


class DescribableLogDirTopic(Struct):
    """The partitions of one topic."""

    topic: str
    partitions: list[int32]


class DescribeLogDirsRequest(Message, api_key=35, versions="0-5", flexible="2+"):
    """An administrator asks a broker for the contents of its directories."""

    topics: list[DescribableLogDirTopic] | None = field(nullable="0+")  # Null asks for all.


class DescribeLogDirsPartition(Struct):
    """A replica in the directory."""

    partition_index: int32
    partition_size: int64
    offset_lag: int64  # How far the log is behind the high watermark, or a copy behind its replica.
    is_future_key: bool  # True for the new copy of a replica that moves between directories.


class DescribeLogDirsTopic(Struct):
    """The replicas of one topic."""

    name: str
    partitions: list[DescribeLogDirsPartition]


class DescribeLogDirsResult(Struct):
    """A directory, its space and its replicas."""

    error_code: int16
    log_dir: str  # The absolute path.
    topics: list[DescribeLogDirsTopic]
    # Size of the directory's volume (KIP-827); -1 for unknown.
    total_bytes: int64 = field(versions="4+", default=-1, ignorable=True)
    usable_bytes: int64 = field(versions="4+", default=-1, ignorable=True)
    is_cordoned: bool = field(versions="5+", ignorable=True)  # The directory gets no new replicas (KIP-1066).


class DescribeLogDirsResponse(Message, api_key=35, versions="0-5", flexible="2+"):
    """The broker's directories."""

    throttle_time_ms: int32
    error_code: int16 = field(versions="3+", ignorable=True)
    results: list[DescribeLogDirsResult]


class AssignReplicasToDirsRequestPartitionData(Struct, kafka_name="PartitionData"):
    """A partition of the topic."""

    partition_index: int32


class AssignReplicasToDirsRequestTopicData(Struct, kafka_name="TopicData"):
    """The partitions of one topic."""

    topic_id: Uuid
    partitions: list[AssignReplicasToDirsRequestPartitionData]


class AssignReplicasToDirsRequestDirectoryData(Struct, kafka_name="DirectoryData"):
    """A directory and the replicas in it."""

    id: Uuid
    topics: list[AssignReplicasToDirsRequestTopicData]


class AssignReplicasToDirsRequest(Message, api_key=73, versions="0", flexible="0+"):
    """A broker reports the directories of its replicas to the controller (KIP-858)."""

    broker_id: int32
    broker_epoch: int64 = field(default=-1)  # Epoch of the broker's incarnation (KIP-380).
    directories: list[AssignReplicasToDirsRequestDirectoryData]


class AssignReplicasToDirsResponsePartitionData(Struct, kafka_name="PartitionData"):
    """The result for one replica."""

    partition_index: int32
    error_code: int16


class AssignReplicasToDirsResponseTopicData(Struct, kafka_name="TopicData"):
    """The answers for one topic."""

    topic_id: Uuid
    partitions: list[AssignReplicasToDirsResponsePartitionData]


class AssignReplicasToDirsResponseDirectoryData(Struct, kafka_name="DirectoryData"):
    """The answers for one directory."""

    id: Uuid
    topics: list[AssignReplicasToDirsResponseTopicData]


class AssignReplicasToDirsResponse(Message, api_key=73, versions="0", flexible="0+"):
    """The controller's answer, replica by replica."""

    throttle_time_ms: int32
    error_code: int16
    directories: list[AssignReplicasToDirsResponseDirectoryData]
