"""Builds a client's requests for a metadata snapshot, and checks each response, which any server may have sent."""

from typing import Final

from kcore.constants import METADATA_TOPIC
from kcore.errors import NetworkError
from kcore.protocol_errors import Errors
from kcore.schema import fetch_snapshot as snapshots

PIECE_BYTES: Final = 8 << 20  # Requested in one FetchSnapshot.
MOST_BYTES: Final = 4 << 30  # The limit of a whole snapshot, which is held in memory.


class SnapshotPieces:
    """The pieces of a snapshot, fetched in order until `is_whole`."""

    def __init__(self, end_offset: int, epoch: int) -> None:
        self._wanted = snapshots.SnapshotId(end_offset=end_offset, epoch=epoch)
        self._position, self._size = 0, 1

    @property
    def is_whole(self) -> bool:
        """True once all pieces are fetched."""
        return self._position >= self._size

    def request(self, cluster_id: str | None, leader_epoch: int) -> snapshots.FetchSnapshotRequest:
        """The request for the next piece."""
        partition = snapshots.FetchSnapshotRequestPartitionSnapshot(
            partition=0, current_leader_epoch=leader_epoch, snapshot_id=self._wanted, position=self._position
        )
        topic = snapshots.FetchSnapshotRequestTopicSnapshot(name=METADATA_TOPIC, partitions=[partition])
        return snapshots.FetchSnapshotRequest(cluster_id=cluster_id, max_bytes=PIECE_BYTES, topics=[topic])

    def take(self, answer: snapshots.FetchSnapshotResponse) -> bytes:
        """The bytes of the piece. ApiException for an error; NetworkError for a response to another request."""
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
            raise NetworkError(f"FetchSnapshot: received {place}, but requested {at:,}")
        self._position, self._size = at + len(data), piece.size
        return data
