"""Long events run in parts: fencing is appended group by group, a resignation and a snapshot revert step by step."""

from collections import deque
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from controller.kraft.runtime import controller_of
from controller.kraft.timed_loop import TimedLoop
from kcore.controller.kraft import writing
from kcore.controller.kraft.brokers import records
from kcore.controller.kraft.departures import SNAPSHOTS_AT_FIXED_BYTES
from kcore.metadata.image import replay as replaying
from kcore.metadata.image.image import ClusterImage
from kcore.metadata.image.journal import RowImages
from kcore.metadata.image.replay import replay
from kcore.metadata.metadata_version import FEATURE_NAME
from kcore.metadata.table.partition_table import PartitionTable
from kcore.node.kraft.snapshot_slices import snapshot_slices
from kcore.raft import leading
from kcore.raft.log.control_records import leader_change
from kcore.raft.node import RaftNode
from kcore.raft.state_machine import AppendBatches
from kcore.schema.broker_lifecycle import BrokerHeartbeatResponse
from kcore.schema.metadata_records_settings import FeatureLevelRecord
from kcore.schema.partitions import AlterPartitionReassignmentsRequest, ReassignablePartition, ReassignableTopic
from kcore.server.kraft_controller.registration import Registration
from kcore.wire.records import decode_records

BROKERS, TOPICS, PARTITIONS = 6, 30, 20
AT_ONCE = 50
MANY_BYTES = 1_000


@pytest.fixture(autouse=True)
def few_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writing, "APPLIED_AT_ONCE", AT_ONCE)
    monkeypatch.setattr(records, "DECIDED_AT_ONCE", AT_ONCE)
    monkeypatch.setattr(records, "SHUT_DOWN_AT_ONCE", AT_ONCE)
    monkeypatch.setattr(replaying, "AT_ONCE", AT_ONCE)


@pytest.fixture
def loop(tmp_path: Path) -> TimedLoop:
    made = TimedLoop(tmp_path, BROKERS)
    made.create(TOPICS, PARTITIONS)
    return made


class Appends:
    """Where each append of many records expects to begin."""

    def __init__(self, loop: TimedLoop, refuse: int = -1) -> None:
        """A control record of the node's comes before the one of number `refuse`."""
        self.begins: list[int] = []
        self._loop, self._refuse = loop, refuse
        loop.on_append = self._on_append

    def _on_append(self, append: AppendBatches) -> None:
        node = self._loop.node
        if len(append.batches) < MANY_BYTES:
            return
        if len(self.begins) == self._refuse:
            record = leader_change(1, node.voter_history.last_voters, [])
            leading.append_control(node, [record], self._loop.now_ms)
        self.begins.append(append.expected_offset)


def state_of(loop: TimedLoop) -> tuple[list[int], list[int], list[bool]]:
    table = loop.controller.image.table
    return table.leader__p.tolist(), table.isr__pi.ravel().tolist(), table.brokers.fenced__b.tolist()


def test_a_lost_rack_is_decided_and_appended_group_by_group_as_it_is_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "parts").mkdir()
    (tmp_path / "whole").mkdir()
    parts, whole = (TimedLoop(tmp_path / name, BROKERS) for name in ("parts", "whole"))
    for each in (parts, whole):
        each.create(TOPICS, PARTITIONS)
    appends = Appends(parts)
    parts.lose([1, 4])
    monkeypatch.setattr(writing, "APPLIED_AT_ONCE", 1 << 20)
    monkeypatch.setattr(records, "DECIDED_AT_ONCE", 1 << 20)
    once = Appends(whole)
    whole.lose([1, 4])
    assert len(appends.begins) > 5 > len(once.begins)
    assert state_of(parts) == state_of(whole) and any(state_of(parts)[2])
    assert parts.controller.stable == parts.controller.image.end_offset == parts.log.end_offset


def test_a_control_record_between_two_groups_has_the_rest_decided_anew(loop: TimedLoop) -> None:
    appends = Appends(loop, refuse=3)
    before = loop.controller.image.end_offset
    loop.lose([1, 4])
    assert len(appends.begins) > 3
    image, brokers = loop.controller.image, loop.controller.image.brokers
    assert [int(row) for row in brokers.ids if brokers.fenced__b[brokers.row(int(row))]] == [1, 4]
    assert not {brokers.row(1), brokers.row(4)} & {*image.table.leader__p.tolist()}
    changes = decode_records(loop.log.read(before, 1 << 30, loop.log.end_offset))
    assert changes.is_control.sum() == 1 and image.end_offset == loop.log.end_offset
    again = TimedLoop.__new__(TimedLoop)
    vars(again).update(vars(loop))
    again.start()
    assert again.controller.image == image


def leads(loop: TimedLoop, broker: int) -> int:
    """How many partitions."""
    table = loop.controller.image.table
    return int((table.leader__p == table.brokers.row(broker)).sum())


def test_a_controlled_shutdown_is_answered_before_all_its_leaders_have_moved(loop: TimedLoop) -> None:
    """And its commit waits for no later records: these are appended behind it."""
    before, left = leads(loop, 1), list[tuple[int, int]]()
    appends = Appends(loop)
    loop.on_answer = lambda answer: left.append((leads(loop, 1), len(appends.begins)))
    answer = loop.beat(1, want_shut_down=True)
    assert isinstance(answer, BrokerHeartbeatResponse) and not answer.should_shut_down
    assert before > left[-1][0] > 0 == leads(loop, 1) and left[-1][1] == 1 and len(appends.begins) > 3
    for broker in range(2, BROKERS + 1):
        assert not loop.beat(1, want_shut_down=True).should_shut_down
        loop.beat(broker)
    assert loop.beat(1, want_shut_down=True).should_shut_down


def test_a_control_record_within_a_controlled_shutdown_has_the_rest_decided_anew(loop: TimedLoop) -> None:
    for refuse in (0, 2):
        appends = Appends(loop, refuse=refuse)
        assert not loop.beat(1 + refuse, want_shut_down=True).should_shut_down
        assert len(appends.begins) > refuse and not leads(loop, 1 + refuse)
    again = TimedLoop.__new__(TimedLoop)
    vars(again).update(vars(loop))
    again.start()
    assert again.controller.image == loop.controller.image


def test_a_failover_within_a_controlled_shutdown_leaves_no_leader_there(loop: TimedLoop) -> None:
    loop.on_answer = lambda answer: loop.stop()
    assert not loop.beat(1, want_shut_down=True).should_shut_down
    assert leads(loop, 1)
    loop.on_answer = lambda answer: None
    loop.start()
    assert leads(loop, 1) and not loop.beat(1, want_shut_down=True).should_shut_down
    assert not leads(loop, 1)


def test_a_standby_follows_large_batches_part_by_part(loop: TimedLoop) -> None:
    """Among them partitions with more replicas than there were room for, in a transaction."""
    partitions = [
        ReassignablePartition(partition_index=each, replicas=[1, 2, 3, 4, 5, 6]) for each in range(PARTITIONS)
    ]
    topics = [ReassignableTopic(name=f"t{number:06}", partitions=partitions) for number in range(TOPICS)]
    loop.ask(AlterPartitionReassignmentsRequest(topics=topics), 1)
    loop.lose([2, 3])
    standby, parts = loop.new_controller(), 1
    standby.on_committed(loop.log.read(0, 1 << 30, loop.log.end_offset), loop.log.end_offset)
    assert standby.is_at_work and standby.image.end_offset < loop.log.end_offset
    while standby.on_work():
        parts += 1
    assert parts > 2 * TOPICS * PARTITIONS // AT_ONCE and standby.image == loop.controller.image


def test_a_resignation_is_reverted_step_by_step_and_nothing_comes_in_between(loop: TimedLoop) -> None:
    controller = loop.controller
    committed, before = controller.committed, state_of(loop)
    loop._flush = lambda effect: ()  # type: ignore[method-assign,assignment]  # Nothing is committed any more.
    loop.lose([1, 4])
    assert state_of(loop) != before and controller.image.end_offset > committed
    outputs = controller.on_resigned(loop.node.epoch)
    assert controller.is_at_work and controller.epoch is None and not loop.driver.has_more
    assert state_of(loop) != before
    steps = 0
    while controller.on_work():
        steps += 1
    assert steps >= TOPICS * PARTITIONS // AT_ONCE and not controller.is_at_work and outputs
    assert state_of(loop) == before and controller.image.end_offset == committed


def test_a_request_on_a_standby_has_the_rest_reverted_first(loop: TimedLoop) -> None:
    controller, before = loop.controller, state_of(loop)
    loop._flush = lambda effect: ()  # type: ignore[method-assign,assignment]
    loop.lose([1, 4])
    controller.on_resigned(loop.node.epoch)
    assert controller.is_at_work and controller.snapshot_offset() == controller.committed
    assert state_of(loop) == before and not controller.is_at_work


def test_a_snapshot_takes_back_step_by_step_what_came_behind_its_end(loop: TimedLoop) -> None:
    """Meanwhile the state goes on, and the snapshot has nothing of it."""
    before = loop.controller.image.copy()
    offset = loop.controller.snapshot_offset()
    assert offset is not None
    loop.controller.snapshots.hold(offset)
    loop.lose([1, 4])
    image = loop.controller.snapshots.image(loop.controller.image)
    slices = snapshot_slices(image, offset, 1, 0, lambda: None)
    empty = 0
    while not (batch := next(slices)):
        empty += 1
        loop.lose([2])
    assert empty > TOPICS * PARTITIONS // AT_ONCE
    read = ClusterImage()
    for data in (batch, *slices):
        replay(read, decode_records(data))
    assert read.table == before.table


@pytest.mark.parametrize(("way", "is_due"), [(frozenset[str](), False), (frozenset({SNAPSHOTS_AT_FIXED_BYTES}), True)])
def test_a_snapshot_is_due_once_the_log_is_half_as_long_as_the_last_one(way: frozenset[str], is_due: bool) -> None:
    controller = controller_of(kafka_way=way, metadata_log_max_record_bytes_between_snapshots=100)
    need = controller.snapshots
    need.begin(10, 0)
    need.has_size(1_000)
    need.count(499)
    assert (need.why(20, 0) is not None) == is_due
    need.count(1)
    assert need.why(20, 0) is not None


def test_a_column_grows_alone_before_its_rows_are_wanted() -> None:
    """Otherwise a table of a million partitions copied all columns in one event."""
    table = PartitionTable.from_arrays([[1, 2, 3]] * 10_000)
    copied = []
    for length in range(10_020, 20_000, 20):
        before = {name: id(array) for name, array in table._room.items()}
        table._set_length(length)
        copied.append(sum(before[name] != id(array) for name, array in table._room.items()))
        assert all((array[10_000:length] == array[length - 1]).all() for array in table._room.values())
    assert max(copied[1:]) == 1 and sum(copied[1:]) >= len(table._room)


def test_rows_that_are_saved_later_are_no_part_of_a_reverted_copy() -> None:
    """A batch is being applied when the copy is made; its last entry in the journal takes further rows."""
    image = ClusterImage()
    image.keep_journal()
    image.begin(0)
    assert image.journal is not None
    table = PartitionTable.from_arrays([[1, 2, 3]] * 3)
    image.journal.save_rows(table, np.array([0], np.int32))
    reverted: list[list[int]] = []

    class Twin:
        epoch = -1

        class table:
            @staticmethod
            def restore_rows(images: RowImages) -> None:
                reverted.append(images.rows[: images.count].tolist())

    steps = image.journal.revert_copy(Twin, 0)
    image.journal.save_rows(table, np.array([1, 2], np.int32))
    deque(steps, 0)
    assert reverted == [[0]]


@pytest.mark.parametrize(("high_watermark", "wanted"), [(None, False), (8, False), (7, True)])
def test_a_standby_registers_once_it_has_applied_what_is_committed(high_watermark: int | None, wanted: bool) -> None:
    """As Kafka's, whose ControllerRegistrationManager waits for the first published image."""
    controller = controller_of()
    controller.image.apply(FeatureLevelRecord(name=FEATURE_NAME, feature_level=30))
    controller.on_committed(b"", 7)
    node = SimpleNamespace(high_watermark=high_watermark)
    config: Any = SimpleNamespace(node_id=1)
    assert Registration(config, cast(RaftNode, node), controller, Random(1)).is_wanted() is wanted
