"""DescribeLogDirs: the contents of a broker's log directories (KIP-113, KIP-827, KIP-1066; describeLogDirs)."""

import shutil
from collections.abc import Collection, Mapping
from typing import Final

from kcore.protocol_errors import ApiException, Errors
from kcore.schema.log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from kcore.server.broker.logs import BrokerLogs
from kcore.storage.checkpoints import TopicPartition
from kcore.storage.log.live_log import LiveLog
from kcore.storage.log.log_directory import LogDirectory
from kcore.types import Uuid

INVALID_OFFSET_LAG: Final = -1  # The lag of a future log whose current log is offline.


def describe_log_dirs(
    logs: BrokerLogs, request: DescribeLogDirsRequest, cordoned: Collection[Uuid] = ()
) -> DescribeLogDirsResponse:
    """Every directory with its requested partitions. `cordoned`: the ids of directories that get no new replicas."""
    wanted = None
    if request.topics is not None:
        wanted = {(topic.topic, index) for topic in request.topics for index in topic.partitions}
    current = {key: log for each in logs.online for key, log in each.logs.items()}
    results = [_described(each, wanted, current) for each in logs.directories]
    for directory, result in zip(logs.directories, results, strict=True):
        result.is_cordoned = result.error_code == Errors.NONE and directory.directory_id in cordoned
    return DescribeLogDirsResponse(results=results)


def _described(
    directory: LogDirectory, wanted: set[tuple[str, int]] | None, current: Mapping[TopicPartition, LiveLog]
) -> DescribeLogDirsResult:
    path = str(directory.path.absolute())
    if directory.failed is not None:
        return DescribeLogDirsResult(error_code=Errors.KAFKA_STORAGE_ERROR, log_dir=path)
    topics: dict[str, list[DescribeLogDirsPartition]] = {}
    try:
        disk = shutil.disk_usage(directory.path)
        for key, log in [*directory.logs.items(), *directory.futures.items()]:
            if wanted is None or key in wanted:
                is_future = directory.futures.get(key) is log
                replica = DescribeLogDirsPartition(
                    partition_index=key.partition,
                    partition_size=log.size_bytes,
                    offset_lag=_lag(log, current.get(key), is_future=is_future),
                    is_future_key=is_future,
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


def _lag(log: LiveLog, current: LiveLog | None, *, is_future: bool) -> int:
    """The lag behind the high watermark; for a future log, behind the current log (getLogEndOffsetLag)."""
    if not is_future:
        return max(log.high_watermark - log.end_offset, 0)
    return INVALID_OFFSET_LAG if current is None else current.end_offset - log.end_offset
