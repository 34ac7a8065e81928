"""Decodes the metadata log once for all hollow brokers of a process, into one image that they share."""

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import ClassVar, Final, Never

import numpy as np

from kcore._ext import hollow as kernel
from kcore.errors import TargetError
from kcore.measure.hollow.quorum_client import Quorum
from kcore.measure.hollow.timeline import not_replaced
from kcore.metadata.image.image import ClusterImage
from kcore.metadata.image.replay import replay
from kcore.metadata.newer_records import check_records
from kcore.protocol_errors import Errors
from kcore.raft.log.raft_log import SnapshotPiece
from kcore.raft.state_machine import AnyAppend, SnapshotReader
from kcore.replication.raft_log import OffsetAndEpoch
from kcore.schema import metadata_records_brokers as broker_records
from kcore.schema.fetch import FetchRequest, FetchResponse, PartitionData
from kcore.schema.index import METADATA_RECORDS
from kcore.schema.metadata_records_topics import PartitionRecord
from kcore.server.quorum_node.snapshot_pieces import SnapshotPieces
from kcore.types import Int32s, Int64s
from kcore.wire.codec import decode_from
from kcore.wire.metadata_frames import decode_metadata_record, frame_columns
from kcore.wire.record_batch import RecordBatches, gap_in, scan_batches
from kcore.wire.records import Records, decode_records

_MOST_WAITING: Final = 256 << 20  # The limit of fetched bytes whose commit the observer waits for.
_MOST_DECOMPRESSED: Final = 64 << 20  # Bytes of records that are decoded together; no controller compresses them.
_SNAPSHOTS_AT_ONCE: Final = 4
_PAUSE_S: Final = 0.1
_OF_BROKERS: Final = [number for number, record in METADATA_RECORDS.items() if hasattr(broker_records, record.__name__)]
_RETRIED: Final = (Errors.FENCED_LEADER_EPOCH, Errors.UNKNOWN_LEADER_EPOCH)
_ELSEWHERE: Final = (Errors.NOT_LEADER_OR_FOLLOWER, Errors.BROKER_NOT_AVAILABLE)  # Another node leads.


class Observer:
    """The state machine of hollow brokers: applies committed records to `image`.

    With `counts_only`, it applies only the records about brokers. The log comes from the brokers' fetches: there is no
    raft node.
    """

    reads_batches: ClassVar = True
    is_at_work: ClassVar = False

    def __init__(
        self, quorum: Quorum, loop: kernel.Loop, *, counts_only: bool = False, keeps_log: bool = False
    ) -> None:
        self.image = ClusterImage()
        self.end_offset = 0  # All records below it are in the image.
        self.leader_epoch = 0
        self._epoch_ends: dict[int, int] = {}  # The end of the committed records of each epoch.
        self.log: list[bytes] | None = [] if keeps_log else None  # All committed batches that the brokers fetched.
        self.snapshot_bytes = 0  # Snapshot bytes that all brokers together fetched.
        self._quorum, self._loop, self._counts_only = quorum, loop, counts_only
        self._waiting = b""  # Fetched batches that may not be committed yet.
        self._seen: list[tuple[Int64s, Int32s]] = []  # Offsets and types of records.
        self._created = 0
        self._copying = asyncio.Semaphore(_SNAPSHOTS_AT_ONCE)

    def read(self, batches: bytes, committed: int) -> None:
        """Takes the next batches of the log and its high watermark, and applies the committed records."""
        self._waiting += batches
        if len(self._waiting) > _MOST_WAITING:
            raise TargetError(f"more than {_MOST_WAITING:,} bytes of the leader's log are not committed")
        if not self._waiting or committed <= self.end_offset:
            return
        found = self._found()
        count = int(np.searchsorted(found.last_offset, committed))
        end = int(found.position[count]) if count < len(found) else found.end
        ready, self._waiting = self._waiting[:end], self._waiting[end:]
        if ready:
            self.on_committed(ready, int(found.last_offset[count - 1]) + 1)

    def _found(self) -> RecordBatches:
        """The waiting batches, without those that a new leader has replaced."""
        found = scan_batches(self._waiting, check_crc=False, stop=True)
        wanted = not_replaced(found.base_offset)
        if not wanted.all():
            ends = [*found.position[1:].tolist(), found.end]
            rows = zip(found.position.tolist(), ends, wanted.tolist(), strict=True)
            kept = b"".join(self._waiting[begin:end] for begin, end, is_wanted in rows if is_wanted)
            self._waiting = kept + self._waiting[found.end :]
            found = scan_batches(self._waiting, check_crc=False, stop=True)
        return found

    # The methods of `kcore.raft.state_machine.StateMachine`.

    def on_committed(self, batches: bytes, end_offset: int) -> Sequence[Never]:
        records = decode_records(batches, max_bytes=_MOST_DECOMPRESSED)
        if (gap := gap_in(records.batches, self.end_offset, inside=True)) is not None:
            raise TargetError(f"the leader's log: {gap.problem.message}")
        self._seen.append(self._apply(records))
        if self.log is not None:
            self.log.append(batches)
        columns = records.batches.partition_leader_epoch.tolist(), records.batches.last_offset.tolist()
        self._epoch_ends |= {epoch: last_offset + 1 for epoch, last_offset in zip(*columns, strict=True)}
        self.end_offset = end_offset
        return ()

    def on_snapshot(self, reader: SnapshotReader) -> Sequence[Never]:
        self.image, self.end_offset, self._waiting = ClusterImage(), 0, b""
        for batches in reader:
            self._apply(decode_records(batches, max_bytes=_MOST_DECOMPRESSED))
        self.end_offset = reader.snapshot.offset
        self._epoch_ends = {reader.snapshot.epoch: reader.snapshot.offset}
        return ()

    def on_leader(self, epoch: int, offset: int) -> Sequence[Never]:
        raise TargetError("an observer cannot lead")

    def on_resigned(self, epoch: int) -> Sequence[Never]:
        raise TargetError("an observer cannot lead")

    def on_refused(self, append: AnyAppend, next_offset: int) -> Sequence[Never]:
        raise TargetError("an observer cannot append")

    # Facts about the log seen so far.

    def types(self, from_offset: int = 0) -> tuple[Int64s, Int32s]:
        """Offset and type (as in `kcore.schema.index.METADATA_RECORDS`) of each record seen from `from_offset` on."""
        offsets = np.concatenate([np.empty(0, np.int64), *(each for each, _ in self._seen)])
        types = np.concatenate([np.empty(0, np.int32), *(each for _, each in self._seen)])
        return offsets[offsets >= from_offset], types[offsets >= from_offset]

    @property
    def partitions(self) -> int:
        """The number of partitions; with `counts_only`, of partitions created while the observer ran."""
        return self._created if self._counts_only else self.image.table.partition_count

    @property
    def epoch(self) -> int:
        """The epoch of the last committed record seen so far."""
        return max(self._epoch_ends, default=0)

    def committed_of(self, epoch: int) -> int:
        """The end of the committed records of `epoch` and earlier epochs, as far as seen."""
        return max((end for at, end in self._epoch_ends.items() if at <= epoch), default=0)

    def forget(self) -> None:
        """Drops the record types seen so far when a scenario begins."""
        self._seen.clear()

    def _apply(self, records: Records) -> tuple[Int64s, Int32s]:
        """Applies new records to the image; returns their offsets and types. NewerReleaseError for unknown records."""
        check_records(records, start_offset=self.end_offset)
        rows = np.flatnonzero(~records.is_control & (records.offset >= self.end_offset))
        begins, lengths = records.value_offset[rows], records.value_length[rows]
        types, _ = frame_columns(records.data, begins, lengths)
        self._created += int((types == PartitionRecord.api_key).sum())
        if self._counts_only:
            for at in np.flatnonzero(np.isin(types, _OF_BROKERS)).tolist():
                value = records.data[int(begins[at]) : int(begins[at] + lengths[at])]
                self.image.apply(decode_metadata_record(value)[0])
        else:
            replay(self.image, records, self.end_offset)
        return records.offset[rows], types

    # Fetch responses that the loop leaves to Python.

    async def on_unusual(self, row: int, frame: bytes) -> bool:
        """Handles a Fetch response with an error, a divergence or a snapshot; True if another node leads now."""
        assert self._quorum.versions is not None
        version = self._quorum.versions.choose(FetchRequest)
        _, at = decode_from("ResponseHeader", FetchResponse.header_version(version), frame)
        answer, _ = decode_from(FetchResponse, version, frame, at)
        errors = [answer.error_code, *(each.error_code for topic in answer.responses for each in topic.partitions)]
        if any(errors) and not set(errors) <= {0, *_RETRIED, *_ELSEWHERE}:
            raise TargetError(f"a hollow broker's Fetch was refused: {[Errors.of(code).name for code in errors]}")
        for partition in (each for topic in answer.responses for each in topic.partitions):
            await self._on_partition(row, partition)
        if Errors.UNKNOWN_LEADER_EPOCH in errors:
            await asyncio.sleep(_PAUSE_S)  # The node does not know the new epoch yet.
        return not {*errors}.isdisjoint(_ELSEWHERE)

    async def _on_partition(self, row: int, partition: PartitionData) -> None:
        if partition.current_leader.leader_epoch > self.leader_epoch:
            self.leader_epoch = partition.current_leader.leader_epoch
            self._loop.set_leader_epoch(self.leader_epoch)
        if partition.diverging_epoch.end_offset >= 0:
            self._truncate(partition.diverging_epoch.epoch, partition.diverging_epoch.end_offset)
            self._loop.fetch(
                row, False, offset=partition.diverging_epoch.end_offset, last_epoch=partition.diverging_epoch.epoch
            )
        if partition.snapshot_id.end_offset >= 0:
            await self._fetch_snapshot(row, partition.snapshot_id.end_offset, partition.snapshot_id.epoch)

    def _truncate(self, epoch: int, end_offset: int) -> None:
        """Drops uncommitted records of the old leader. In the new leader's log, `epoch` ends at `end_offset`.

        Each broker gets the divergence with its own next Fetch. Batches of the new epoch stay, because another broker
        truncated the log earlier and has fetched them.
        """
        committed = self.committed_of(epoch)
        if end_offset < committed:
            raise TargetError(f"the log was truncated to {end_offset}, below the committed offset {committed}")
        found = self._found()
        keep = int(np.searchsorted(found.last_offset, end_offset))
        if keep < len(found) and found.partition_leader_epoch[keep] <= epoch:
            self._waiting = self._waiting[: int(found.position[keep])]
            self._loop.seek_tape(end_offset)

    async def _fetch_snapshot(self, row: int, end_offset: int, epoch: int) -> None:
        """Fetches the snapshot for one broker, as a real broker does; it replaces the image if it is newer."""
        async with self._copying:
            data, pieces = bytearray(), SnapshotPieces(end_offset, epoch)
            while not pieces.is_whole:
                request = pieces.request(self._quorum.cluster_id, self.leader_epoch)
                piece = pieces.take(await self._quorum.ask(request))
                self.snapshot_bytes += len(piece)
                if end_offset > self.end_offset:
                    data += piece
            if end_offset > self.end_offset:
                self.on_snapshot(SnapshotReader(OffsetAndEpoch(end_offset, epoch), partial(_piece_of, data)))
                self._loop.seek_tape(end_offset)
        self._loop.fetch(row, False, offset=end_offset, last_epoch=epoch)


def _piece_of(data: bytearray, position: int, size: int) -> SnapshotPiece:
    """A piece of a fetched snapshot."""
    return SnapshotPiece(bytes(data[position : position + size]), len(data))
