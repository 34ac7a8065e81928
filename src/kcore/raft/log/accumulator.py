"""Collects a leader's appended records until they are written as one batch. Source: BatchAccumulator.

The records of one append are in one batch, so the log has all of them or none.
"""

from collections.abc import Sequence
from typing import Final

from kcore.errors import RaftLogError
from kcore.raft.log.batches import StoredBatch
from kcore.raft.log.raft_log import Appended
from kcore.raft.raft_config import MAX_BATCH_BYTES
from kcore.wire.record_batch import HEADER_END
from kcore.wire.record_building import encode_values

RECORD_OVERHEAD: Final = 24  # A record's most bytes beside its value: attributes, deltas, and all length fields.


def max_records(size: int) -> int:
    """How many records of `size` bytes fit into a batch, and so into one append."""
    return (MAX_BATCH_BYTES - HEADER_END) // (size + RECORD_OVERHEAD)


class Accumulator:
    """The batch that is being filled; its offsets begin at the end of the log.

    All its records have the timestamp of the first: Kafka's nodes fail on a timestamp delta (RecordsIterator).
    """

    __slots__ = ("deadline_ms", "next_offset", "records", "size", "time_ms")

    def __init__(self, next_offset: int) -> None:
        self.next_offset = next_offset
        self.records: list[bytes] = []  # The records' values.
        self.time_ms = 0
        self.size = HEADER_END
        self.deadline_ms: int | None = None  # When the linger of the first record is over.

    def has_room(self, values: Sequence[bytes]) -> bool:
        """Whether the batch has room for these records; raises RaftLogError if no batch can hold them."""
        size = sum(map(len, values)) + RECORD_OVERHEAD * len(values)
        if HEADER_END + size > MAX_BATCH_BYTES:
            raise RaftLogError(f"records of {size} bytes exceed a batch of {MAX_BATCH_BYTES}")
        return self.size + size <= MAX_BATCH_BYTES

    def add(self, values: Sequence[bytes], now_ms: int, linger_ms: int) -> Appended:
        """Adds records to the batch; the caller must have checked `has_room`."""
        first = self.next_offset
        if not self.records:
            self.time_ms = now_ms
        self.records += values
        self.size += sum(map(len, values)) + RECORD_OVERHEAD * len(values)
        self.next_offset = first + len(values)
        if self.deadline_ms is None:
            self.deadline_ms = now_ms + linger_ms
        return Appended(first, self.next_offset - 1)

    def drain(self, epoch: int) -> StoredBatch:
        """Returns the waiting records as one uncompressed batch, and starts the next one."""
        first = self.next_offset - len(self.records)
        data = encode_values(self.records, base_offset=first, timestamp=self.time_ms, partition_leader_epoch=epoch)
        self.records = []
        self.size = HEADER_END
        self.deadline_ms = None
        return StoredBatch(first, self.next_offset - 1, epoch, False, data)
