"""The facts about a whole world: all committed batches, the leader of each epoch, the batches that any node wrote."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from kcore.raft.log.batches import StoredBatch, end_offset_of
from kcore.raft.membership.replicas import ReplicaKey
from kcore.replication.raft_log import OffsetAndEpoch
from kcore.sim.kernel.violation import Violation
from kcore.sim.raft.disk import WatchedLog
from kcore.wire.record_batch import HEADER_END, crc32c
from kcore.wire.record_building import FEW
from kcore.wire.records import values_of

ALL: Final = 1 << 40


class Held(NamedTuple):
    """Records that a leader's state machine has replayed, and that are not committed yet."""

    offset: int
    epoch: int
    values: tuple[bytes, ...]

    @property
    def end_offset(self) -> int:
        return self.offset + len(self.values)


class CommittedLog:
    """The batches below the highest high watermark, as bytes, with the position of each."""

    def __init__(self) -> None:
        self.data = bytearray()
        self.end = 0
        self.positions = {0: 0}  # By each batch's base offset, and by `end`: a position in `data`.
        self.checksums = {0: 0}  # By the same offsets: a checksum of `data` before the position.
        self.epochs = {0: 0}  # By the same offsets: the epoch of the record before.
        self._ends: dict[int, int] = {}  # By leader epoch: the leader's highest high watermark.
        self._values: dict[int, bytes] = {}  # Batches by their last offset.
        self._decoded: tuple[int, dict[int, bytes | None]] = (
            -1,
            {},
        )  # A cache of one batch: its last offset and its values.

    def extend(self, log: WatchedLog, high_watermark: int, leader_epoch: int, index: int) -> None:
        """Adds the batches that the leader of an epoch has committed, up to its high watermark."""
        self._ends[leader_epoch] = max(high_watermark, self._ends.get(leader_epoch, 0))
        if high_watermark <= self.end:
            return
        begin = max(self.end, log.start_offset)
        if begin != self.end:
            raise Violation("SameCommittedData", f"the log of node {index} begins at {begin} > {self.end}")
        for batch in log.batches_between(begin, high_watermark):
            if batch.base_offset != self.end:
                raise Violation("SameCommittedData", f"node {index} has {batch} at {self.end}")
            checksum = crc32c(batch.data) ^ self.checksums[self.end] * 31 & 0xFFFFFFFF
            self.data += batch.data
            self.end = batch.last_offset + 1
            self.positions[self.end] = len(self.data)
            self.checksums[self.end] = checksum
            self.epochs[self.end] = batch.epoch
            self._values[batch.last_offset] = batch.data

    def check(self, log: WatchedLog, begin: int, end: int, index: int) -> None:
        """Checks that a log has the committed batches between two offsets."""
        data, offset = bytearray(), begin
        while offset < end and (read := log.read(offset, ALL, end)):
            data += read
            offset = end_offset_of(read)
        self.check_bytes(data, begin, end, index)

    def check_bytes(self, data: bytes | bytearray, begin: int, end: int, index: int) -> None:
        """Raises Violation unless these batches are the committed ones between two offsets."""
        first, last = self.positions.get(begin), self.positions.get(end)
        if first is None or last is None:
            raise Violation("SameCommittedData", f"node {index}: no batch begins at {begin if first is None else end}")
        if data != self.data[first:last]:
            raise Violation("SameCommittedData", f"node {index} has other batches between {begin} and {end}")

    def check_leader(self, log: WatchedLog, epoch: int) -> None:
        """Checks that a new leader has all records that earlier leaders committed (Leader Completeness)."""
        end = max((end for known, end in self._ends.items() if known < epoch), default=0)
        if log.end_offset < end:
            text = f"the log of epoch {epoch}'s leader ends at {log.end_offset}, but records up to {end} are committed"
            raise Violation("LeaderCompleteness", text)
        begin = max(log.start_offset, log.compared_to())
        if end <= begin:
            return
        first, last = self.positions.get(begin), self.positions.get(end)
        if first is None or last is None or _joined(log.batches_between(begin, end)) != self.data[first:last]:
            text = f"the log of epoch {epoch}'s leader is not what was committed between {log.start_offset} and {end}"
            raise Violation("LeaderCompleteness", text)
        log.were_compared(begin, end)

    def check_append(self, held: Held) -> None:
        """Checks that records which a leader replayed are committed at the offsets at which it replayed them."""
        last_offset, batches = held.offset + len(held.values) - 1, self._values
        if len(held.values) == 1 and _is_of_one(batches.get(last_offset), last_offset, held.values[0]):
            return
        while last_offset < self.end and last_offset not in batches:
            last_offset += 1
        is_there = last_offset < self.end
        if is_there and last_offset != self._decoded[0]:
            self._decoded = last_offset, values_of(batches[last_offset])
        found = self._decoded[1] if is_there else {}
        for offset, value in enumerate(held.values, held.offset):
            if found.get(offset) != value:
                message = f"{value!r} of epoch {held.epoch} is not at {offset}"
                raise Violation("NoAckedAppendLost", f"{message}: {found.get(offset)!r}")


class Facts:
    """Facts that checkers add; checkers, clients and faults read them."""

    def __init__(self) -> None:
        self.committed = CommittedLog()
        self.written: dict[tuple[int, int], tuple[bytes, int]] = {}  # By offset and epoch: batch, previous epoch.
        self.epoch_starts: dict[int, int] = {}  # The offset of the first batch of each epoch.
        self.leaders: dict[int, tuple[ReplicaKey, int]] = {}  # By epoch: the leader and its incarnation.
        self.snapshots: dict[OffsetAndEpoch, bytes] = {}  # The bytes of each snapshot.
        self.acknowledged = 0  # The number of appends that leaders saw committed.

    @property
    def last_epoch(self) -> int:
        """The last epoch that had a leader."""
        return max(self.leaders, default=0)


def _is_of_one(batch: bytes | None, offset: int, value: bytes) -> bool:
    """Whether the batch has one record, with this value. False also if only a slower comparison can decide."""
    size = len(value)
    if batch is None or size > FEW or int.from_bytes(batch[:8]) != offset:
        return False
    # Size, attributes, both deltas, no key, size of the value, value, no headers; sizes are zigzag varints of one byte.
    return batch[HEADER_END:] == b"%c\0\0\0\1%c%b\0" % (2 * size + 12, 2 * size, value)


def _joined(batches: Sequence[StoredBatch]) -> bytes:
    return b"".join([batch.data for batch in batches])
