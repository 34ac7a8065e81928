"""A node stores no data that only a newer release can read, and does not stand for election with such data."""

from functools import partial
from typing import Any

import pytest

from kcore.errors import NewerReleaseError
from kcore.metadata.newer_records import check_batches
from kcore.protocol_errors import Errors
from kcore.raft.log.control_records import control_batch
from kcore.raft.log.memory_log import MemoryLog
from kcore.raft.node import RaftNode
from kcore.releases.known import NEWEST
from kcore.replication.raft_log import OffsetAndEpoch
from kcore.schema.control_records import VotersRecord
from raft.batches import snapshot_batches
from raft.log.test_snapshots import loading, piece
from raft.nodes import begin_request, raft_node, started
from raft.replication import fetch_response, open_fetch, whole
from releases.newer import KNOWN, SAYS, UNKNOWN, batch, batches

CHECK: Any = {"check_data": partial(check_batches, release=NEWEST)}
EVERY = pytest.mark.parametrize("kind", UNKNOWN)


def fetched(records: bytes, node_id: int = 1, **settings: Any) -> RaftNode:
    """A node that follows node 2, after this answer to its Fetch; only 1, 2 and 3 are voters."""
    node, effects = started(node_id, **(CHECK | settings))
    if node_id == 1:
        effects = node.on_request(begin_request(1), 1, "begin", 0)
    else:
        first = open_fetch(effects)
        effects = node.on_response(first.correlation_id, fetch_response(error=Errors.NOT_LEADER_OR_FOLLOWER), 5)
    node.on_response(open_fetch(effects).correlation_id, fetch_response(records), 10)
    return node


@EVERY
@pytest.mark.parametrize("node_id", [1, 9], ids=["voter", "observer"])
def test_a_follower_stores_nothing_of_an_answer_with_newer_data(kind: str, node_id: int) -> None:
    log = MemoryLog()
    with pytest.raises(NewerReleaseError, match=f"the log needs a newer release: the record at offset 2 {SAYS[kind]}"):
        fetched(batches(KNOWN, KNOWN, UNKNOWN[kind], KNOWN), node_id, log=log)
    assert whole(log) == b"" and log.end_offset == 0


def test_what_it_knows_and_what_the_log_leaves_out_end_nobody() -> None:
    """Behind a gap, or of a later epoch."""
    first = batches(KNOWN, KNOWN)
    for behind in (b"", batch(5, UNKNOWN["type"]), batch(2, UNKNOWN["type"], epoch=7)):
        log = MemoryLog()
        fetched(first + behind, log=log)
        assert whole(log) in (b"", first) and (behind or log.end_offset == 2)


def test_a_bad_control_record_does_not_hide_newer_data_before_it() -> None:
    log = MemoryLog()
    bad = control_batch([VotersRecord(version=0)], 1, 1, 0)  # A voter set without voters.
    with pytest.raises(NewerReleaseError):
        fetched(batch(0, UNKNOWN["type"]) + bad, log=log)
    assert log.end_offset == 0


@EVERY
@pytest.mark.parametrize("size", [61, 10_000])
def test_a_snapshot_with_newer_data_is_not_installed(kind: str, size: int) -> None:
    log = MemoryLog()
    node, send = loading(log, **CHECK)
    data = b"".join(snapshot_batches(3, [KNOWN, UNKNOWN[kind]], 0, 0, None, 0))
    text = f"the snapshot 9-3 needs a newer release: the record at offset 2 {SAYS[kind]}"
    with pytest.raises(NewerReleaseError, match=text):
        for position in range(0, len(data), size):
            effects = node.on_response(
                send.correlation_id, piece(data[position : position + size], position, len(data)), 9
            )
            send = next(each for each in effects if getattr(each, "request", None) is not None)
    assert log.latest_snapshot is None and log.end_offset == 0


@EVERY
@pytest.mark.parametrize("voters", [(1,), (1, 2, 3)], ids=["the only voter", "one of three"])
def test_a_node_does_not_start_with_newer_data_in_its_log(kind: str, voters: tuple[int, ...]) -> None:
    """It would win an election before it has replayed its log."""
    log = MemoryLog()
    log.append_as_leader(batches(KNOWN, UNKNOWN[kind]), 1)
    node = raft_node(1, voters=voters, log=log, **CHECK)
    with pytest.raises(NewerReleaseError, match=f"the log needs a newer release: the record at offset 1 {SAYS[kind]}"):
        node.start(None, 0)
    assert node.effects == [] and log.end_offset == 2, "it stores no vote, and the newer release finds all"


@EVERY
def test_a_node_does_not_start_with_newer_data_in_its_snapshot(kind: str) -> None:
    log, end = MemoryLog(), OffsetAndEpoch(5, 1)
    log.begin_snapshot(end)
    log.append_snapshot(end, b"".join(snapshot_batches(1, [KNOWN, UNKNOWN[kind]], 0, 0, None, 0)))
    log.freeze_snapshot(end)
    log.truncate_to_latest_snapshot()
    text = f"the snapshot 5-1 needs a newer release: the record at offset 2 {SAYS[kind]}"
    with pytest.raises(NewerReleaseError, match=text):
        raft_node(1, log=log, **CHECK).start(None, 0)


def test_data_below_the_snapshot_does_not_count() -> None:
    log, end = MemoryLog(), OffsetAndEpoch(1, 1)
    log.append_as_leader(batches(UNKNOWN["type"], KNOWN), 1)
    log.begin_snapshot(end)
    log.append_snapshot(end, b"".join(snapshot_batches(1, [KNOWN], 0, 0, None, 0)))
    log.freeze_snapshot(end)
    assert raft_node(1, log=log, **CHECK).start(None, 0)
