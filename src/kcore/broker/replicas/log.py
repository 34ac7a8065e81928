"""The interface of a replica's log, which a server stores in files, and tests keep in memory."""

from typing import NamedTuple, Protocol

from kcore.broker.replicas.producers import Producers
from kcore.broker.replicas.transactions import AbortedTransaction
from kcore.replication.epochs import EpochCache
from kcore.wire.record_batch import RecordBatches


class TimestampAndOffset(NamedTuple):
    """A record that was found by its timestamp."""

    timestamp: int  # In ms since 1970.
    offset: int
    leader_epoch: int


class ReplicaLog(Protocol):
    """One replica's records. A method raises KafkaStorageException if the directory must go offline.

    When a method returns, its writes are in the operating system's cache, so that a killed process loses none of them.
    The writes of `assign_epoch` and of truncations are durable.
    """

    high_watermark: int  # Set by the partition; the server checkpoints it periodically.

    @property
    def start_offset(self) -> int:
        """The first offset; records below it are deleted."""

    @property
    def end_offset(self) -> int:
        """The offset of the next record (LEO)."""

    @property
    def epochs(self) -> EpochCache:
        """The leader epochs and their start offsets; callers must not change them."""

    @property
    def producers(self) -> Producers:
        """The producers and their transactions, which `append` and truncations update."""

    def append(self, data: bytes, batches: RecordBatches) -> None:
        """Appends whole batches from `end_offset` on; `batches` is the result of scanning `data`, with checked CRCs.

        For a control batch that cannot be decoded, raises CorruptRecordException, and appends nothing.
        """

    def assign_epoch(self, epoch: int, start_offset: int) -> None:
        """Sets the start offset of a new leader epoch (LeaderEpochFileCache.assign)."""

    def read(self, offset: int, max_bytes: int, end_offset: int, *, at_least_one: bool) -> bytes:
        """Whole batches below `end_offset`, beginning with the batch that has `offset`.

        Returns at most `max_bytes`; with `at_least_one` the first batch may be larger (KIP-74).
        """

    def truncate_to(self, offset: int) -> None:
        """Removes the records and epochs from `offset` on."""

    def truncate_fully_and_start_at(self, offset: int) -> None:
        """Removes all records; the next record gets `offset`."""

    def raise_start_offset(self, offset: int) -> None:
        """Allows the deletion of records below `offset`; no effect if `offset` is below the present start offset."""

    def aborted_transactions(self, offset: int, end_offset: int) -> list[AbortedTransaction]:
        """The aborted transactions with records or their end marker in [offset, end_offset)."""

    def find_timestamp(self, timestamp_ms: int) -> TimestampAndOffset | None:
        """The first record whose timestamp is `timestamp_ms` or later; None if there is none."""

    def find_latest_timestamp(self) -> TimestampAndOffset | None:
        """The first record with the largest timestamp (KIP-734); None if there is none."""
