"""A role has the events of its own role alone."""

from typing import Any

import pytest

from controller.kraft.active import Active as Leader
from controller.kraft.runtime import controller_of, pipeline_of
from kcore.controller.kraft.active import Active
from kcore.controller.kraft.standby import Standby
from kcore.raft.log.raft_log import SnapshotPiece
from kcore.raft.state_machine import AppendBatches, SnapshotReader
from kcore.replication.raft_log import OffsetAndEpoch

READER = SnapshotReader(OffsetAndEpoch(0, 0), lambda at, size: SnapshotPiece(b"", 0))


def test_an_active_controller_loads_no_snapshot_and_leads_once() -> None:
    controller: Any = Leader().controller
    for event in (
        lambda: controller.on_leader(2, controller.image.end_offset),
        lambda: controller.on_snapshot(READER),
        controller.on_read_slice,
    ):
        with pytest.raises(AssertionError, match="an event of Standby came to Active"):
            event()
    assert controller.is_active and controller.epoch == 1


def test_an_active_controller_replays_no_committed_records() -> None:
    """It has replayed its own records; no other node writes records in its epoch."""
    active = Leader()
    with pytest.raises(AssertionError, match="already replayed"):
        active.controller.on_committed(active.log, active.controller.image.end_offset)


def test_a_standby_neither_resigns_nor_decides_again() -> None:
    controller = controller_of()
    for event in (lambda: controller.on_resigned(1), lambda: controller.on_refused(AppendBatches(b"", 1, 0), 1)):
        with pytest.raises(AssertionError, match="an event of Active came to Standby"):
            event()


def test_a_standby_has_no_pipeline_no_epoch_and_no_timer() -> None:
    controller = controller_of()
    assert (
        not controller.is_active
        and controller.epoch is None
        and controller.next_due_ms is None
        and not controller.is_busy
    )
    assert not controller.on_timer() and not controller.on_work()
    assert not {"pipeline", "activate", "resign", "on_refused"} & {*dir(Standby)}
    assert not {"finish", "on_snapshot", "on_read_slice"} & {*dir(Active)}


def test_every_leadership_begins_with_an_empty_pipeline() -> None:
    leader = Leader()
    before = pipeline_of(leader.controller)
    assert before.uncommitted and before.unanswered
    leader.resign()
    leader.take(leader.controller.on_leader(2, leader.controller.image.end_offset))
    after = pipeline_of(leader.controller)
    assert after is not before and len(after.uncommitted) == len(after.unanswered) == 1
    assert leader.controller.epoch == 2
