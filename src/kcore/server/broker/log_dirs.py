"""DescribeLogDirs: the contents of a broker's log directories (KIP-113, KIP-827; ReplicaManager.describeLogDirs)."""

import shutil

from kcore.protocol_errors import ApiException, Errors
from kcore.schema.log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from kcore.server.broker.logs import BrokerLogs
from kcore.storage.log_directory import LogDirectory


def describe_log_dirs(logs: BrokerLogs, request: DescribeLogDirsRequest) -> DescribeLogDirsResponse:
    """Every directory, with the partitions that are asked for."""
    wanted = None
    if request.topics is not None:
        wanted = {(topic.topic, index) for topic in request.topics for index in topic.partitions}
    return DescribeLogDirsResponse(results=[_described(each, wanted) for each in logs.directories])


def _described(directory: LogDirectory, wanted: set[tuple[str, int]] | None) -> DescribeLogDirsResult:
    path = str(directory.path.absolute())
    if directory.failed is not None:
        return DescribeLogDirsResult(error_code=Errors.KAFKA_STORAGE_ERROR, log_dir=path)
    topics: dict[str, list[DescribeLogDirsPartition]] = {}
    try:
        disk = shutil.disk_usage(directory.path)
        for key, log in directory.logs.items():
            if wanted is None or key in wanted:
                replica = DescribeLogDirsPartition(
                    partition_index=key.partition,
                    partition_size=log.size_bytes,
                    offset_lag=max(log.high_watermark - log.end_offset, 0),
                )
                topics.setdefault(key.topic, []).append(replica)
    except (OSError, ApiException):
        return DescribeLogDirsResult(error_code=Errors.KAFKA_STORAGE_ERROR, log_dir=path)
    return DescribeLogDirsResult(
        log_dir=path,
        topics=[DescribeLogDirsTopic(name=name, partitions=partitions) for name, partitions in topics.items()],
        total_bytes=disk.total,
        usable_bytes=disk.free,
    )
