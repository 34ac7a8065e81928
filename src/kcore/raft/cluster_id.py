"""The id of a cluster that was formatted without one: the first leader makes it, the log brings it to all.

Source: KIP-595, "Cluster Bootstrapping". In Kafka as it became, `format` gives the id; Kafka's own nodes do not start
without one, so that this is for quorums of kcore's alone.
"""

from collections.abc import Callable, Sequence
from typing import Final

from kcore.errors import DecodeError
from kcore.raft.batches import StoredBatch, split_batches
from kcore.raft.effects import Committed, Effect, LeaderChanged, SnapshotLoaded
from kcore.raft.log import RaftLog
from kcore.schema.metadata_records_log import NoOpRecord
from kcore.wire.metadata_frames import decode_metadata_record, encode_metadata_record
from kcore.wire.records import decode_records

CLUSTER_ID_TAG: Final = 101  # Of a no-op, so that whoever does not know of it passes over it.
PIECE_BYTES: Final = 1 << 20


def encode_cluster_id(cluster_id: str) -> bytes:
    """The record that says it."""
    return encode_metadata_record(NoOpRecord(unknown_tagged_fields=[(CLUSTER_ID_TAG, cluster_id.encode())]), 0)


def decode_cluster_id(value: bytes) -> str | None:
    """None for every other record, whatever it is."""
    try:
        record, _ = decode_metadata_record(value)
        tags = dict(record.unknown_tagged_fields) if isinstance(record, NoOpRecord) else {}
        return tags[CLUSTER_ID_TAG].decode() if CLUSTER_ID_TAG in tags else None
    except (DecodeError, UnicodeDecodeError):
        return None


class ClusterIdHook:
    """Hears the effects of a node that knows no cluster id, until it is committed: then `cluster_id` is set.

    The first one in the log counts. A leader that finds none among the records before its own epoch draws one.
    """

    def __init__(self, log: RaftLog, node_id: int, draw: Callable[[], str]) -> None:
        self._log, self._node_id, self._draw = log, node_id, draw
        self._position = log.start_offset
        self.cluster_id: str | None = None
        self._read_snapshot()

    def hear(self, effect: Effect) -> bytes | None:
        """A record that this leader is to append, in the epoch that it was told of."""
        if self.cluster_id is not None:
            return None  # Another leader makes no other one.
        match effect:
            case Committed(high_watermark):
                self._read_to(high_watermark)
            case SnapshotLoaded():
                self._position = self._log.start_offset
                self._read_snapshot()
            case LeaderChanged(leader_id, _, _) if leader_id == self._node_id:
                return encode_cluster_id(self._draw())
        return None

    def _read_to(self, high_watermark: int) -> None:
        while self.cluster_id is None and self._position < high_watermark:
            batches, _ = split_batches(self._log.read(self._position, PIECE_BYTES, high_watermark), check_crc=False)
            if not batches:
                return
            self._look(batches)
            self._position = batches[-1].last_offset + 1

    def _read_snapshot(self) -> None:
        """Batch by batch: a snapshot may be larger than the memory should be."""
        snapshot, position, unread = self._log.latest_snapshot, 0, b""
        if snapshot is None:
            return
        while (piece := self._log.snapshot_piece(snapshot, position, PIECE_BYTES)) is not None and piece.data:
            position += len(piece.data)
            unread += piece.data
            batches, problem = split_batches(unread, check_crc=False)
            self._look(batches)
            if self.cluster_id is not None or problem is not None:
                return
            unread = unread[sum(len(batch.data) for batch in batches) :]

    def _look(self, batches: Sequence[StoredBatch]) -> None:
        """Compressed batches are passed over: no leader compresses this record, and they may hold any number of bytes.

        So are batches that are damaged; whoever replays the log finds those.
        """
        for batch in batches:
            if batch.is_control or batch.is_compressed:
                continue
            records = decode_records(batch.data, check_crc=False, stop=True)
            found = (decode_cluster_id(record.value or b"") for record in records)
            self.cluster_id = next((each for each in found if each is not None), None)
            if self.cluster_id is not None:
                return
