"""Checks the data of a log when its node starts: a node never stands for election with data that it cannot load."""

from typing import Final

from kcore.raft.log.batches import split_batches
from kcore.raft.log.raft_log import RaftLog
from kcore.raft.raft_config import CheckData
from kcore.replication.raft_log import OffsetAndEpoch, snapshot_name
from kcore.wire.record_batch import CONTROL, scan_batches

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
        data = log.read(offset, READ_BYTES, log.end_offset)
        batches = scan_batches(data, check_crc=False, stop=True)
        if not len(batches):
            return
        rows = batches.attributes & CONTROL == 0
        places = zip(batches.position[rows].tolist(), batches.size[rows].tolist(), strict=True)
        check_data([data[begin : begin + size] for begin, size in places], "the log")
        offset = int(batches.last_offset[-1]) + 1


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
