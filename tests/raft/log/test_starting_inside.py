"""A follower whose leader's snapshot ends within a batch catches up: the leader sends that batch whole."""

import pytest

from kcore.raft.effects import Notice
from kcore.raft.log.control_records import control_batch, kraft_version_record
from raft.batches import batch
from raft.log.test_snapshots import NEW, loading, piece, snapshot_bytes
from raft.nodes import of
from raft.replication import fetch_response, flush, open_fetch, whole


@pytest.mark.parametrize("before", [1, 2, 3])
def test_a_follower_goes_on_from_a_snapshot_that_ends_within_a_batch(before: int) -> None:
    node, send = loading()
    data = snapshot_bytes()
    effects = node.on_response(send.correlation_id, piece(data, 0, len(data)), 0)
    open_ = open_fetch(effects)
    assert node.log.end_offset == NEW.offset
    inside = batch(NEW.offset - before, NEW.epoch, before + 2)
    effects = node.on_response(open_.correlation_id, fetch_response(inside, epoch=node.epoch), 0)
    assert not of(Notice, effects)
    flush(node, effects, 0)
    assert (node.log.start_offset, node.log.end_offset) == (NEW.offset, NEW.offset + 2)
    assert whole(node.log) == inside


def test_of_a_control_batch_that_the_snapshot_ends_in_the_rest_counts() -> None:
    node, send = loading()
    data = snapshot_bytes()
    open_ = open_fetch(node.on_response(send.correlation_id, piece(data, 0, len(data)), 0))
    known = node.voter_history.kraft_versions.offsets[:]
    records = [kraft_version_record(1), kraft_version_record(1)]
    inside = control_batch(records, NEW.offset - 1, NEW.epoch, 0)
    node.on_response(open_.correlation_id, fetch_response(inside, epoch=node.epoch), 0)
    assert node.log.end_offset == NEW.offset + 1
    assert node.voter_history.kraft_versions.offsets == [*known, NEW.offset]
