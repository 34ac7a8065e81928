"""Reads the metadata log of a quorum from its leader into an image, without being a replica.

The reader fetches without a replica id, as a consumer does. The leader counts the reader neither as a voter nor
as an observer.
"""

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np

from kcore.constants import METADATA_TOPIC
from kcore.errors import NetworkError
from kcore.metadata.image.image import ClusterImage
from kcore.metadata.newer_records import SkippedRecords
from kcore.net.connect import connect
from kcore.net.connection import Connection
from kcore.net.durations import Recent
from kcore.net.limits.connection_limits import Limits
from kcore.net.security.client_security import Security
from kcore.protocol_errors import Errors
from kcore.raft.log.raft_log import SnapshotPiece
from kcore.raft.membership.replicas import Address
from kcore.raft.state_machine import SnapshotReader
from kcore.replication.raft_log import OffsetAndEpoch
from kcore.schema.fetch import FetchPartition, FetchRequest, FetchTopic, PartitionData
from kcore.schema.metadata_records_topics import PartitionChangeRecord
from kcore.server.quorum_node.snapshot_pieces import PIECE_BYTES, SnapshotPieces
from kcore.types import METADATA_TOPIC_ID, Int64s
from kcore.wire.metadata_frames import FRAME_BYTES, frame_columns
from kcore.wire.record_batch import gap_in, scan_batches
from kcore.wire.records import Records, decode_records

MOST_WAITING: Final = 256 << 20  # The limit of fetched bytes whose commit the reader waits for.
MOST_DECOMPRESSED: Final = 64 << 20  # Bytes of records that are decoded together; no controller compresses them.
WAIT_MS: Final = 500
LIMITS: Final = Limits(connect_s=5.0, request_s=30.0, close_s=0.2)
REPORTS_COMMITS: Final = 18  # From this version of Fetch on the leader answers when records are committed (KIP-1166).
_TAGS_AT: Final = FRAME_BYTES + 4 + 16  # Where a PartitionChangeRecord's tagged fields begin, after the topic id.
_ISR_TAG: Final = 0  # The lowest tag: if present, it comes first.


@dataclass(slots=True)
class Seen:
    """Counts of the records that were committed after the reader had read the log to its end."""

    records: int = 0
    partition_changes: int = 0  # PartitionChangeRecords.
    isr_changes: int = 0  # PartitionChangeRecords that set the ISR.


class MetadataLogReader:
    """Reads the log while `follow` runs; `image` is the committed state up to `end_offset`."""

    def __init__(self, security: Callable[[], Security] | None = None) -> None:
        """`security`: TLS and SASL settings of each connection."""
        self._security = security
        self.seen = Seen()
        self.commits = Recent()  # Seconds from the arrival of records until the leader reports their commit.
        self.is_current = False  # True once the reader has read to the end of the log.
        self.is_reading = False  # True while the leader answers.
        self._epoch = 0
        self._forget()

    def _forget(self) -> None:
        """Drops the image; the next fetch begins at the log's start."""
        self.image = ClusterImage()
        self.newer = SkippedRecords()  # Records that only a newer release can read.
        self.end_offset = 0  # All records below it are in the image.
        self.log_end_offset, self._last_epoch = 0, 0  # The end of the fetched log, and the epoch of its last batch.
        self._waiting = b""  # Fetched batches that may not be committed yet.
        self._arrived: deque[tuple[int, float]] = deque()  # The batches' end offsets and arrival times.
        self.is_current = False

    async def follow(self, leader: Address, epoch: int, cluster_id: str) -> None:
        """Reads on until an error is raised: a NetworkError, or a RetriableException if another node leads."""
        self._epoch = max(epoch, self._epoch)
        security = None if self._security is None else self._security()
        async with await connect(*leader, client_id="kcore-top", security=security, limits=LIMITS) as connection:
            assert connection.versions is not None
            version = connection.versions.choose(FetchRequest)
            try:
                while True:
                    answer = await connection.send(self._request(cluster_id), version)
                    Errors.of(answer.error_code).raise_for("Fetch")
                    found = [each for topic in answer.responses for each in topic.partitions]
                    if len(found) != 1:
                        raise NetworkError(f"Fetch to {connection.peer}: {len(found)} partitions instead of one")
                    await self._on_partition(found[0], connection, version)
                    self.is_reading = True
            finally:
                self.is_reading = False

    def _request(self, cluster_id: str) -> FetchRequest:
        partition = FetchPartition(
            partition=0,
            current_leader_epoch=self._epoch,
            fetch_offset=self.log_end_offset,
            last_fetched_epoch=self._last_epoch,
            high_watermark=self.end_offset,
            partition_max_bytes=PIECE_BYTES,
        )
        topic = FetchTopic(topic=METADATA_TOPIC, topic_id=METADATA_TOPIC_ID, partitions=[partition])
        return FetchRequest(cluster_id=cluster_id, max_wait_ms=WAIT_MS, max_bytes=PIECE_BYTES, topics=[topic])

    async def _on_partition(self, answer: PartitionData, connection: Connection, version: int) -> None:
        if answer.error_code == Errors.OFFSET_OUT_OF_RANGE:
            self._forget()
            return
        Errors.of(answer.error_code).raise_for(f"Fetch of {METADATA_TOPIC}")
        if answer.diverging_epoch.end_offset >= 0:
            self._truncate(answer.diverging_epoch.end_offset, answer.diverging_epoch.epoch)
        elif answer.snapshot_id.end_offset >= 0:
            await self._load(OffsetAndEpoch(answer.snapshot_id.end_offset, answer.snapshot_id.epoch), connection)
        else:
            self._read(bytes(answer.records or b""), answer.high_watermark, reports_commits=version >= REPORTS_COMMITS)

    # The log.

    def _read(self, batches: bytes, committed: int, *, reports_commits: bool) -> None:
        """Takes fetched batches, the last of which may be cut off, and applies records up to the high watermark."""
        now_s = time.monotonic()
        if batches:
            found = scan_batches(batches, check_crc=False, stop=True)
            if not len(found) or not found.base_offset[0] <= self.log_end_offset <= found.last_offset[0]:
                raise NetworkError(f"the answer has no batch with offset {self.log_end_offset}")
            if (gap := gap_in(found, self.log_end_offset, inside=True)) is not None:
                raise NetworkError(f"the leader's log: {gap.problem.message}")
            self._waiting += batches[: found.end]
            if len(self._waiting) > MOST_WAITING:
                raise NetworkError(f"more than {MOST_WAITING:,} bytes of the leader's log are not committed")
            self.log_end_offset = int(found.last_offset[-1]) + 1
            self._last_epoch = int(found.partition_leader_epoch[-1])
            self._arrived.append((self.log_end_offset, now_s))
        if self._waiting and committed > self.end_offset:
            self._commit(committed)
        while self._arrived and self._arrived[0][0] <= committed:
            _, arrived_s = self._arrived.popleft()
            if reports_commits and self.is_current:
                self.commits.add(now_s - arrived_s, now_s)
        if 0 <= committed <= self.end_offset:
            self.is_current = True

    def _commit(self, committed: int) -> None:
        found = scan_batches(self._waiting, check_crc=False, stop=True)
        count = int(np.searchsorted(found.last_offset, committed))
        end = int(found.position[count]) if count < len(found) else found.end
        ready, self._waiting = self._waiting[:end], self._waiting[end:]
        if ready:
            records = decode_records(ready, max_bytes=MOST_DECOMPRESSED)
            if self.is_current:
                self._count(records)
            self.newer.replay(self.image, records, self.end_offset)
            self.end_offset = int(found.last_offset[count - 1]) + 1

    def _count(self, records: Records) -> None:
        rows = np.flatnonzero(~records.is_control)
        begins, lengths = records.value_offset[rows], records.value_length[rows]
        types, _ = frame_columns(records.data, begins, lengths)
        is_change = (types == PartitionChangeRecord.api_key) & (lengths > _TAGS_AT)
        self.seen.records += len(rows)
        self.seen.partition_changes += int(np.count_nonzero(is_change))
        self.seen.isr_changes += isr_changes(records.data, begins[is_change], lengths[is_change])

    def _truncate(self, end_offset: int, epoch: int) -> None:
        """Drops uncommitted records of an old leader; begins again from 0 if committed records diverge, too."""
        if end_offset < self.end_offset:
            self._forget()
            return
        found = scan_batches(self._waiting, check_crc=False, stop=True)
        keep = int(np.searchsorted(found.last_offset, end_offset))
        if keep < len(found):
            self._waiting = self._waiting[: int(found.position[keep])]
        self._arrived.clear()
        self.log_end_offset, self._last_epoch = end_offset, epoch

    # Snapshots.

    async def _load(self, snapshot: OffsetAndEpoch, connection: Connection) -> None:
        """Replaces the image with the snapshot's state."""
        data, pieces = bytearray(), SnapshotPieces(snapshot.offset, snapshot.epoch)
        while not pieces.is_whole:
            data += pieces.take(await connection.send(pieces.request(None, self._epoch)))
        self._forget()
        for batches in SnapshotReader(snapshot, partial(_piece_of, bytes(data))):
            self.newer.replay(self.image, decode_records(batches, max_bytes=MOST_DECOMPRESSED))
        self.end_offset = self.log_end_offset = snapshot.offset
        self._last_epoch = snapshot.epoch


def isr_changes(data: memoryview, begins: Int64s, lengths: "np.typing.NDArray[np.int32]") -> int:
    """How many PartitionChangeRecords set the ISR; `begins` and `lengths`: of their frames in `data`."""
    if not len(begins):
        return 0
    values = np.frombuffer(data, np.uint8)
    has_tag = values[begins + _TAGS_AT] > 0
    first_tag_at = np.minimum(begins + _TAGS_AT + 1, begins + lengths - 1)
    return int(np.count_nonzero(has_tag & (values[first_tag_at] == _ISR_TAG)))


def _piece_of(data: bytes, position: int, size: int) -> SnapshotPiece:
    return SnapshotPiece(data[position : position + size], len(data))
