"""The log of a replica as a broker's machine sees it: handed in, files at the edge, bytes in memory in tests."""

from typing import NamedTuple, Protocol

from kcore.broker.replicas.producers import Producers
from kcore.broker.replicas.transactions import AbortedTransaction
from kcore.replication.epochs import EpochCache
from kcore.wire.record_batch import RecordBatches


class TimestampAndOffset(NamedTuple):
    """A record found by its time."""

    timestamp: int  # milliseconds
    offset: int
    leader_epoch: int


class ReplicaLog(Protocol):
    """One replica's records. Every method may raise KafkaStorageException: then its directory is to go offline.

    What a method did is with the operating system when it returns: a process that is killed loses nothing of it.
    What `assign_epoch` and the truncations did is on the disk.
    """

    high_watermark: int  # Set by the machine; at the edge it is checkpointed now and then.

    @property
    def start_offset(self) -> int:
        """Records below it are deleted."""

    @property
    def end_offset(self) -> int:
        """The offset that the next record gets (LEO)."""

    @property
    def epochs(self) -> EpochCache:
        """Leader epochs and where they began; to read only."""

    @property
    def producers(self) -> Producers:
        """The producers and their transactions; `append` and the truncations keep them."""

    def append(self, data: bytes, batches: RecordBatches) -> None:
        """Whole batches with offsets from `end_offset` on and leader epochs; `batches` is their scan, CRC checked.

        CorruptRecordException, and nothing is appended, if a control batch among them cannot be read.
        """

    def assign_epoch(self, epoch: int, start_offset: int) -> None:
        """Lets a leader epoch begin there, if it has not yet (LeaderEpochFileCache.assign)."""

    def read(self, offset: int, max_bytes: int, end_offset: int, *, at_least_one: bool) -> bytes:
        """Whole batches from the one with `offset` on, all of them below `end_offset`.

        They have at most `max_bytes` together; with `at_least_one` the first comes even if it is larger (KIP-74).
        """

    def truncate_to(self, offset: int) -> None:
        """Nothing from `offset` on is left, nor of epochs that began there."""

    def truncate_fully_and_start_at(self, offset: int) -> None:
        """Nothing is left; the next record gets `offset`."""

    def raise_start_offset(self, offset: int) -> None:
        """Records below it may be deleted; an offset lower than the known one changes nothing."""

    def aborted_transactions(self, offset: int, end_offset: int) -> list[AbortedTransaction]:
        """Those with records or the end marker in [offset, end_offset)."""

    def find_timestamp(self, timestamp_ms: int) -> TimestampAndOffset | None:
        """The first record that is not older."""

    def find_latest_timestamp(self) -> TimestampAndOffset | None:
        """The first record that has the largest timestamp (KIP-734)."""
