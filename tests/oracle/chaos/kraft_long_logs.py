"""A metadata log of 200,000 records and no snapshot, as a controller writes one that has run for days."""

from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Final, TypeVar

from kcore.schema.metadata_records_log import NoOpRecord
from kcore.schema.metadata_records_settings import ConfigRecord
from kcore.schema.metadata_records_topics import PartitionChangeRecord
from kcore.storage.raft.file_raft_log import DiskRaftLog
from kcore.types import Uuid
from kcore.wire.metadata_frames import encode_metadata_record
from kcore.wire.record_building import encode_values

FOLDER: Final = "__cluster_metadata-0"
RECORDS: Final = 200_000
TOPIC_RESOURCE: Final = 2
APPENDED_AT_ONCE: Final = 1_000  # Batches.
T = TypeVar("T")


def lengthen(directory: Path, topic: str, topic_id: Uuid, partitions: int) -> int:
    """Appends RECORDS records to the log of a controller that has ended; returns in how many batches.

    A tenth are alone in their batches, as those of an idle controller; then partitions change in batches of ten, and
    settings in batches of twenty.
    """
    count = 0
    with DiskRaftLog(directory / FOLDER) as log:
        epoch = log.last_epoch
        for group in _groups(_values(topic, topic_id, partitions), APPENDED_AT_ONCE):
            offset, data = log.end_offset, bytearray()
            for values in group:
                data += encode_values(values, base_offset=offset, timestamp=1, partition_leader_epoch=epoch)
                offset += len(values)
            log.append_as_follower(bytes(data), epoch)
            count += len(group)
        log.flush()
    return count


def _values(topic: str, topic_id: Uuid, partitions: int) -> Iterator[list[bytes]]:
    """The records of each batch."""
    alone, changes = RECORDS // 10, RECORDS // 2
    settings = RECORDS - alone - changes
    for at in range(alone):
        record = NoOpRecord() if at % 2 else _change(topic_id, at % partitions)
        yield [encode_metadata_record(record, 0)]
    encoded = [encode_metadata_record(_change(topic_id, at), 0) for at in range(partitions)]
    yield from _groups((encoded[at % partitions] for at in range(changes)), 10)
    yield from _groups((encode_metadata_record(_setting(topic, at), 0) for at in range(settings)), 20)


def _groups(items: Iterable[T], size: int) -> Iterator[list[T]]:
    rest = iter(items)
    while group := [*islice(rest, size)]:
        yield group


def _change(topic_id: Uuid, partition: int) -> PartitionChangeRecord:
    return PartitionChangeRecord(topic_id=topic_id, partition_id=partition, isr=[1], leader=1)


def _setting(topic: str, at: int) -> ConfigRecord:
    text = str(1_000_000 + at)
    return ConfigRecord(resource_type=TOPIC_RESOURCE, resource_name=topic, name="retention.ms", value=text)
