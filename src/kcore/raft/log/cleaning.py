"""Deletes old snapshots and the log below the remaining ones, by size and by age, once a minute (KIP-630).

Source: KafkaRaftLog.maybeClean, KafkaRaftClient.RaftMetadataLogCleanerManager.
"""

from collections.abc import Callable
from itertools import pairwise
from typing import Final

from kcore.raft import snapshots
from kcore.raft.log.control_records import last_contained_log_timestamp
from kcore.raft.log.raft_log import RaftLog
from kcore.raft.node_context import NodeContext
from kcore.replication.raft_log import OffsetAndEpoch

INTERVAL_MS: Final = 60_000  # Between two cleanings.


def poll(node: NodeContext, now_ms: int) -> None:
    """Deletes old snapshots, and sets `clean_deadline_ms` to the next cleaning; the caller calls it at the deadline."""
    node.clean_deadline_ms = now_ms + INTERVAL_MS
    clean(node, now_ms)


def clean(node: NodeContext, now_ms: int) -> None:
    """Deletes snapshots by size, then by age. `now_ms` is in milliseconds since 1970, like the records' timestamps."""
    log, config = node.log, node.config
    most_bytes, most_ms = config.metadata_max_retention_bytes, config.metadata_max_retention_ms

    def is_old(snapshot: OffsetAndEpoch) -> bool:
        timestamp = last_contained_log_timestamp(log, snapshot)
        return timestamp is not None and now_ms - timestamp > most_ms

    if most_bytes >= 0:
        _clean_while(node, lambda _: log.size_bytes + _snapshot_bytes(log) > most_bytes)
    if most_ms >= 0:
        _clean_while(node, is_old)


def _clean_while(node: NodeContext, is_due: Callable[[OffsetAndEpoch], bool]) -> None:
    """Deletes the oldest snapshots while `is_due`; keeps the newest, and all uncommitted records (KAFKA-14238)."""
    for oldest, following in pairwise(node.log.snapshots):
        if following.offset > node.log.high_watermark or not is_due(oldest):
            return
        if not snapshots.delete_before(node, following):
            return


def _snapshot_bytes(log: RaftLog) -> int:
    pieces = (log.snapshot_piece(snapshot, 0, 0) for snapshot in log.snapshots)
    return sum(piece.size for piece in pieces if piece is not None)
