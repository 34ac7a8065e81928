"""Builds the requests that fetch a metadata snapshot as a client, and checks each answer: any server may send it."""

from typing import Final

from kcore.constants import METADATA_TOPIC
from kcore.errors import NetworkError
from kcore.protocol_errors import Errors
from kcore.schema import fetch_snapshot as snapshots

PIECE_BYTES: Final = 8 << 20  # Fetched at a time.
MOST_BYTES: Final = 4 << 30  # A whole snapshot: it is held in memory.


class SnapshotPieces:
    """The position of the next piece to fetch, until `is_whole`."""

    def __init__(self, end_offset: int, epoch: int) -> None:
        self._wanted = snapshots.SnapshotId(end_offset=end_offset, epoch=epoch)
        self._position, self._size = 0, 1

    @property
    def is_whole(self) -> bool:
        """Whether there is nothing more to fetch."""
        return self._position >= self._size

    def request(self, cluster_id: str | None, leader_epoch: int) -> snapshots.FetchSnapshotRequest:
        """The request for the next piece."""
        partition = snapshots.FetchSnapshotRequestPartitionSnapshot(
            partition=0, current_leader_epoch=leader_epoch, snapshot_id=self._wanted, position=self._position
        )
        topic = snapshots.FetchSnapshotRequestTopicSnapshot(name=METADATA_TOPIC, partitions=[partition])
        return snapshots.FetchSnapshotRequest(cluster_id=cluster_id, max_bytes=PIECE_BYTES, topics=[topic])

    def take(self, answer: snapshots.FetchSnapshotResponse) -> bytes:
        """The bytes of the piece. ApiException for an error; NetworkError for an answer to another request."""
        Errors.of(answer.error_code).raise_for(f"FetchSnapshot: {Errors.of(answer.error_code).name}")
        found = [each for topic in answer.topics for each in topic.partitions]
        if len(found) != 1:
            raise NetworkError(f"FetchSnapshot: {len(found)} partitions instead of one")
        [piece] = found
        Errors.of(piece.error_code).raise_for(f"FetchSnapshot: {Errors.of(piece.error_code).name}")
        data, at = bytes(piece.unaligned_records), self._position
        if piece.size > MOST_BYTES:
            raise NetworkError(f"FetchSnapshot: a snapshot of {piece.size:,} bytes, more than {MOST_BYTES:,}")
        if piece.position != at or at + len(data) > piece.size or (not data and at < piece.size):
            place = f"{len(data):,} bytes at {piece.position:,} of {piece.size:,}"
            raise NetworkError(f"FetchSnapshot: {place} came, where {at:,} was asked for")
        self._position, self._size = at + len(data), piece.size
        return data
