"""Checks the data of a log when its node starts: a node never stands for election with data that it cannot load."""

from typing import Final

from kcore.raft.log.batches import split_batches
from kcore.raft.log.raft_log import RaftLog
from kcore.raft.raft_config import CheckData
from kcore.replication.raft_log import OffsetAndEpoch, snapshot_name

READ_BYTES: Final = 1 << 20  # Size of a read of the log or a snapshot.


def check_stored_data(log: RaftLog, check_data: CheckData) -> None:
    """Calls `check_data` with the batches of data in the latest snapshot and in the log after the snapshot.

    A damaged batch ends the check: the reader of the log or the snapshot reports it.
    """
    offset = log.start_offset
    if log.latest_snapshot is not None:
        _check_snapshot(log, log.latest_snapshot, check_data)
        offset = max(offset, log.latest_snapshot.offset)
    while offset < log.end_offset:
        batches, _ = split_batches(log.read(offset, READ_BYTES, log.end_offset), check_crc=False)
        if not batches:
            return
        check_data([batch.data for batch in batches if not batch.is_control], "the log")
        offset = batches[-1].last_offset + 1


def _check_snapshot(log: RaftLog, snapshot: OffsetAndEpoch, check_data: CheckData) -> None:
    unread, position = b"", 0
    while (piece := log.snapshot_piece(snapshot, position, READ_BYTES)) and piece.data:
        position += len(piece.data)
        unread += piece.data
        batches, problem = split_batches(unread, check_crc=False)
        if problem is not None:
            return
        check_data([batch.data for batch in batches if not batch.is_control], snapshot_name(snapshot))
        unread = unread[sum(len(batch.data) for batch in batches) :]
