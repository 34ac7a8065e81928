"""E19, KAFKA-14222: a snapshot of more than five batches of 8 MB."""

import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kcore.raft.raft_config import MAX_BATCH_BYTES
from kcore.raft.states import Follower
from kcore.replication.raft_log import OffsetAndEpoch
from kcore.schema.fetch_snapshot import FetchSnapshotRequest
from kcore.storage.raft.file_raft_log import DiskRaftLog
from kcore.wire.record_batch import scan_batches
from raft.nodes import answer, begin_request, leader, sent, started
from raft.replication import fetch, fetch_request, flush, open_fetch, write_snapshot

END = OffsetAndEpoch(1, 1)
MEBIBYTE = 1 << 20


def values(count: int) -> Iterator[bytes]:
    """A mebibyte each, made when it is wanted."""
    for number in range(count):
        yield number.to_bytes(4) * (MEBIBYTE // 4)


def disk_log(folder: Path) -> DiskRaftLog:
    return DiskRaftLog(folder / "__cluster_metadata-0")


def leader_with_large_snapshot(folder: Path, mebibytes: int) -> Any:
    node, effects = leader(log=disk_log(folder))
    flush(node, effects, 1000)
    fetch(node, fetch_request(1, max_wait_ms=0), 1000)
    assert write_snapshot(node, END, values(mebibytes), 0, 1000)
    return node


@pytest.mark.covers("E19")
def test_a_large_snapshot_is_written_batch_by_batch(tmp_path: Path) -> None:
    """However large it is, what is in memory is no more than a few batches."""
    tracemalloc.start()
    try:
        node = leader_with_large_snapshot(tmp_path, 48)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 4 * MAX_BATCH_BYTES
    piece = node.log.snapshot_piece(END, 0, 64 * MEBIBYTE)
    batches = scan_batches(piece.data)
    assert piece.size > 48 * MEBIBYTE
    assert len(batches) > 2 + 5
    assert max(batches.batch_length) <= MAX_BATCH_BYTES
    node.log.close()


@pytest.mark.covers("E19")
def test_a_large_snapshot_is_served_and_loaded_piece_by_piece(tmp_path: Path) -> None:
    node = leader_with_large_snapshot(tmp_path / "leader", 48)
    log = disk_log(tmp_path / "follower")
    behind, _ = started(2, log=log)
    effects = behind.on_request(begin_request(1, 1, voter_id=2), 1, "begin", 1000)
    ask, largest = open_fetch(effects), 0
    for now_ms in range(1001, 1100):
        response = answer(node.on_request(ask.request, 17 if ask.request.api_key == 1 else 1, now_ms, now_ms))
        effects = behind.on_response(ask.correlation_id, response, now_ms)
        assert isinstance(behind.state, Follower)
        loading = behind.state.fetching_snapshot
        if loading is None:
            break
        largest = max(largest, len(loading.unread))
        (ask,) = sent(effects, FetchSnapshotRequest)
    assert log.latest_snapshot == END
    assert largest <= MAX_BATCH_BYTES
    assert log.snapshot_piece(END, 0, 64 * MEBIBYTE) == node.log.snapshot_piece(END, 0, 64 * MEBIBYTE)
    log.close()
    node.log.close()
