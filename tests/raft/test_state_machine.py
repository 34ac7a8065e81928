"""The seam between a node and its state machine: what a machine is told, in which order; what becomes of appends."""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest

from kcore.errors import DecodeError, RaftLogError
from kcore.raft import snapshots, state_machine
from kcore.raft.batches import split_batches
from kcore.raft.driver import StateMachineDriver
from kcore.raft.effects import Committed, Effect, LeaderChanged, SnapshotLoaded
from kcore.raft.log import Appended, Refused, SnapshotPiece
from kcore.raft.node import RaftNode
from kcore.raft.state_machine import AnyAppend, Append, AppendBatches, Resign, SnapshotReader
from kcore.replication.raft_log import OffsetAndEpoch
from kcore.schema.raft_voters import RemoveRaftVoterRequest
from kcore.storage.raft_log import DiskRaftLog
from kcore.wire.record_building import encode_records, encode_values
from kcore.wire.records import Record, decode_records
from raft.nodes import begin_request, follower, log_of, sent, started
from raft.replication import (
    FetchRequest,
    append,
    committed_leader,
    directory,
    dynamic_leader,
    fetch,
    fetch_request,
    fetch_response,
    flush,
    values,
    write_snapshot,
)


class Ledger:
    """A machine whose state is a list of (offset, value); it replays its appends when it decides them."""

    def __init__(self, *, reads: bool = True) -> None:
        self.told: list[Any] = []
        self.state: list[tuple[int, bytes]] = []
        self.committed = 0
        self.epoch: int | None = None
        self.next_offset = -1
        self.reader: SnapshotReader | None = None
        self._reads = reads

    def decide(self, *records: bytes) -> Append:
        assert self.epoch is not None
        self.state += enumerate(records, self.next_offset)
        self.next_offset += len(records)
        return Append(records, self.epoch, self.next_offset - len(records))

    def on_leader(self, epoch: int, offset: int) -> Sequence[AnyAppend | Resign | str]:
        self.told.append(("leader", epoch, offset))
        self.epoch, self.next_offset = epoch, offset
        return ()

    def on_committed(self, batches: bytes, end_offset: int) -> Sequence[AnyAppend | Resign | str]:
        given = [(each.offset, each.value or b"") for each in decode_records(batches) if each.control is None]
        self.told.append(("committed", [value for _, value in given], end_offset))
        self.state += given
        self.committed = end_offset
        return ()

    def on_resigned(self, epoch: int) -> Sequence[AnyAppend | Resign | str]:
        self.told.append(("resigned", epoch))
        self.state = [each for each in self.state if each[0] < self.committed]
        self.epoch = None
        return ()

    def on_refused(self, append: AnyAppend, next_offset: int) -> Sequence[AnyAppend | Resign | str]:
        """The same decisions again, at their new place."""
        self.told.append(("refused", append.expected_offset, next_offset))
        again = [value for offset, value in self.state if offset >= append.expected_offset]
        self.state = [each for each in self.state if each[0] < append.expected_offset]
        self.next_offset = next_offset
        return [self.decide(*again)]

    def on_snapshot(self, reader: SnapshotReader) -> Sequence[AnyAppend | Resign | str]:
        self.told.append(("snapshot", reader.snapshot))
        self.state, self.committed, self.reader = [], reader.snapshot.offset, reader
        if self._reads:
            for batches in reader:
                self.read(batches)
        return ()

    def read(self, batches: bytes) -> None:
        self.state += [(-1, each.value or b"") for each in decode_records(batches) if each.control is None]


class Stage:
    """A node, its machine and what is between them."""

    def __init__(self, node: RaftNode, machine: Ledger | None = None) -> None:
        self.node, self.machine = node, machine or Ledger()
        self.driver = StateMachineDriver[str](node, self.machine)
        self.catch_up()

    def hear(self, effects: Iterable[Effect]) -> list[Effect]:
        """All effects of an event, and of what the machine makes of them."""
        done, outputs = [*effects], list[Any]()
        for effect in done:
            if isinstance(effect, Committed | LeaderChanged | SnapshotLoaded):
                outputs += self.driver.note(effect)
        done += self.submit(outputs)
        self.catch_up()
        return done

    def submit(self, outputs: Sequence[AnyAppend | Resign | str]) -> list[Effect]:
        effects, _ = self.driver.submit(outputs, 1000)
        return self.hear(effects) if effects else []

    def catch_up(self) -> None:
        while self.driver.has_more:
            self.submit(self.driver.catch_up())

    def decide(self, *records: bytes) -> list[Effect]:
        return self.submit([self.machine.decide(*records)])

    def commit(self, effects: Iterable[Effect] = ()) -> None:
        """All that the leader has: flushed, and fetched by node 2."""
        end = self.node.log.end_offset
        self.hear(flush(self.node, effects, 1000))
        self.hear(fetch(self.node, fetch_request(end, max_wait_ms=0), 1000)[1])


def leading() -> Stage:
    """Of epoch 1; the machine's first append is expected at 1."""
    stage = Stage(committed_leader())
    assert stage.machine.told == [("committed", [], 1), ("leader", 1, 1)]
    stage.machine.told.clear()
    return stage


# What a machine is told.


def test_what_the_machine_replayed_it_is_not_given_again() -> None:
    """It is told how far that is committed, control records and all."""
    stage = leading()
    stage.commit(stage.decide(b"a", b"b"))
    assert stage.machine.told == [("committed", [], 3)]
    assert stage.machine.state == [(1, b"a"), (2, b"b")]
    assert split_batches(stage.node.log.read(1, 1000, 3))[0][0].data == values(b"a", b"b", base_offset=1)


def test_a_machine_that_leads_no_more_takes_back_what_is_not_committed() -> None:
    """And is given it anew, where another leader commits it; the rest is gone for good."""
    stage = leading()
    stage.commit(stage.decide(b"a"))
    stage.hear(flush(stage.node, stage.decide(b"b") + stage.decide(b"c"), 1000))
    stage.machine.told.clear()
    effects = stage.hear(stage.node.on_request(begin_request(5, leader_id=3), 1, "begin", 1000))
    assert stage.machine.told == [("resigned", 1)]
    assert stage.machine.state == [(1, b"a")]
    assert stage.driver.submit([Append([b"late"], 1, 4)], 1000) == ([], []), "nobody needs to be told again"
    (asked,) = sent(effects, FetchRequest)
    answered = fetch_response(values(b"d", base_offset=4, epoch=5), 5, 3, high_watermark=3)
    stage.hear(stage.node.on_response(asked.correlation_id, answered, 1001))
    assert stage.machine.told[1:] == [("committed", [b"b"], 3)]
    assert stage.machine.state == [(1, b"a"), (2, b"b")]


def test_what_was_committed_before_it_resigned_is_told_before() -> None:
    stage = leading()
    effects = stage.decide(b"a")
    outputs = [*stage.driver.note(Committed(2)), *stage.driver.note(LeaderChanged(3, 5))]
    assert stage.machine.told == [("committed", [], 2), ("resigned", 1)]
    assert outputs == [] and effects


def test_a_resignation_is_the_node_s() -> None:
    stage = leading()
    stage.submit([Resign(1)])
    assert (stage.machine.told, stage.node.leads) == ([("resigned", 1)], False)


def test_a_machine_is_given_the_log_slice_by_slice(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each by a call of its own; and only then that it leads."""
    monkeypatch.setattr("kcore.raft.driver.SLICE_BYTES", 10)
    node = committed_leader()
    for value in (b"a", b"b", b"c"):
        append(node, value)
    fetch(node, fetch_request(4, max_wait_ms=0), 1000)
    machine = Ledger()
    driver = StateMachineDriver[str](node, machine)
    for k in range(1, 5):
        assert driver.has_more
        driver.catch_up()
        assert (len(machine.told), driver.position) == (k, k)
    driver.catch_up()
    assert [told[0] for told in machine.told] == ["committed"] * 4 + ["leader"]
    assert not driver.has_more and driver.catch_up() == ()


def test_a_machine_does_not_lead_while_the_log_has_more_than_it() -> None:
    """What is not committed is of nobody that it knows: its first append would be somewhere else."""
    node = committed_leader()
    effects = append(node, b"of another machine")
    machine = Ledger()
    driver = StateMachineDriver[str](node, machine)
    while driver.has_more:
        driver.catch_up()
    assert machine.told == [("committed", [], 1)]
    stage = Stage(node, machine)
    stage.commit(effects)
    assert machine.told[-2:] == [("committed", [b"of another machine"], 2), ("leader", 1, 2)]


def test_a_high_watermark_within_a_batch_waits_for_the_whole_batch() -> None:
    node = follower(log=log_of(1))
    node.log.append_as_follower(values(b"a", b"b", base_offset=1), 1)
    stage = Stage(node)
    stage.hear([Committed(2)])
    assert stage.machine.told == [("committed", [b"x"], 1)] and not stage.driver.has_more
    stage.hear([Committed(3)])
    assert stage.machine.told[1:] == [("committed", [b"a", b"b"], 3)]


def test_an_observer_without_an_id_never_leads() -> None:
    """Nobody leads: that is no word about the node whose id is -1."""
    node, _ = started(-1)
    stage = Stage(node)
    stage.hear([LeaderChanged(-1, 3)])
    assert (stage.machine.told, stage.driver.has_more) == ([], False)


def test_effects_of_the_machine_s_own_are_the_edge_s() -> None:
    stage = leading()
    effects, own = stage.driver.submit(["first", stage.machine.decide(b"a"), "second"], 1000)
    assert (own, bool(effects)) == (["first", "second"], True)


# Appends.


def behind_a_control_record() -> Stage:
    """The machine expects 3, and the node has written new voters there."""
    node, effects = dynamic_leader(1, 2, 3, append_linger_ms=0)
    flush(node, effects, 1000)
    fetch(node, fetch_request(3, max_wait_ms=0), 1000)
    stage = Stage(node)
    offset = stage.machine.next_offset
    request = RemoveRaftVoterRequest(cluster_id=None, voter_id=3, voter_directory_id=directory(3))
    flush(node, node.on_request(request, 0, "remove", 1000), 1000)
    assert (offset, node.next_offset) == (3, 4)
    stage.machine.told.clear()
    return stage


def test_an_append_that_expects_another_offset_is_refused_and_nothing_is_written() -> None:
    node = committed_leader()
    for offset in (0, 2, -1):
        assert node.append([b"a"], 1, offset, 1000) == (Refused(1, 1), [])
        assert node.append_batches(values(b"a"), 1, offset, 1000) == (Refused(1, 1), [])
    assert (node.log.end_offset, node.next_offset) == (1, 1)
    assert node.append([b"a"], 1, 1, 1000)[0] == Appended(1, 1)


def test_what_lingers_counts() -> None:
    """The next offset is that behind it, though it is not in the log."""
    node = committed_leader(append_linger_ms=25)
    assert node.append([b"a", b"b"], 1, 1, 1000)[0] == Appended(1, 2)
    assert (node.log.end_offset, node.next_offset) == (1, 3)
    assert node.append([b"c"], 1, 1, 1000)[0] == Refused(1, 3)
    assert node.append([b"c"], 1, 3, 1000)[0] == Appended(3, 3)


def test_a_machine_that_is_refused_appends_behind_the_control_record() -> None:
    stage = behind_a_control_record()
    stage.decide(b"a")
    assert stage.machine.told == [("refused", 3, 4)]
    assert stage.machine.state == [(4, b"a")]
    assert stage.node.log.read(4, 1000, 5) == values(b"a", base_offset=4)


def test_appends_behind_a_refused_one_are_refused_too() -> None:
    """The second expects the very offset that the node is at; written there, it would be before the first."""
    stage = behind_a_control_record()
    stage.submit([stage.machine.decide(b"first"), stage.machine.decide(b"second")])
    assert stage.machine.told == [("refused", 3, 4)]
    assert stage.machine.state == [(4, b"first"), (5, b"second")]
    assert stage.node.log.read(4, 1000, 6) == values(b"first", b"second", base_offset=4)


def test_a_machine_that_appends_elsewhere_than_it_was_told_has_a_bug() -> None:
    stage = behind_a_control_record()
    wrong = stage.machine.decide(b"a")
    stage.machine.on_refused = lambda append, next_offset: [wrong]  # type: ignore[method-assign]
    with pytest.raises(RaftLogError, match="appends at 3"):
        stage.submit([wrong])


def test_encoded_batches_get_their_offsets_and_the_epoch() -> None:
    """Whatever they were encoded with: neither is covered by the CRC."""
    node = committed_leader(append_linger_ms=25)
    node.append([b"a"], 1, 1, 1000)
    encoded = values(b"b", b"c", epoch=77) + values(b"d", base_offset=500, epoch=78)
    assert node.append_batches(encoded, 1, 2, 1000)[0] == Appended(2, 4)
    expected = values(b"a", base_offset=1) + values(b"b", b"c", base_offset=2) + values(b"d", base_offset=4)
    assert node.log.read(1, 1000, 5) == expected
    assert node.next_offset == 5


def test_encoded_batches_of_a_machine() -> None:
    stage = leading()
    stage.machine.next_offset = 3
    stage.commit(stage.submit([AppendBatches(values(b"a", b"b"), 1, 1)]))
    assert stage.machine.told == [("committed", [], 3)]


@pytest.mark.parametrize(
    "batches",
    [
        b"",
        values(b"a")[:-1],
        values(b"a") + b"?",
        encode_records([Record(0, 0, b"\0\0\0\2", b"")], control=True, partition_leader_epoch=1),
        values(bytes(9 << 20)),
    ],
    ids=["nothing", "cut off", "a rest", "control", "too large"],
)
def test_what_are_no_batches_of_data_is_not_written(batches: bytes) -> None:
    node = committed_leader()
    with pytest.raises(RaftLogError, match="appends"):
        node.append_batches(batches, 1, 1, 1000)
    assert (node.log.end_offset, node.next_offset) == (1, 1)


# Snapshots, written.


def state_of(machine: Ledger) -> list[bytes]:
    return [value for offset, value in machine.state if offset < machine.committed]


def test_a_snapshot_is_written_slice_by_slice_while_its_machine_leads() -> None:
    """It has what was committed when it was begun; the log goes on between the slices. A restart reads both."""
    stage = leading()
    stage.commit(stage.decide(b"a", b"b"))
    at, state = OffsetAndEpoch(3, 1), state_of(stage.machine)
    uncommitted = stage.decide(b"c")
    writer = stage.node.begin_snapshot(at, 7, 1000)
    assert writer is not None and stage.node.begin_snapshot(at, 7, 1000) is None, "it is being written"
    writer.add(encode_values(state[:1], base_offset=9, timestamp=0, partition_leader_epoch=9))
    stage.commit(uncommitted)
    writer.add_values(state[1:])
    uncommitted = stage.decide(b"d")
    writer.flush()()
    assert stage.node.log.latest_snapshot is None
    assert writer.freeze()
    stage.commit(uncommitted)
    piece = stage.node.log.snapshot_piece(at, 0, 1 << 20)
    assert piece is not None
    records = list(decode_records(piece.data))
    assert [each.offset for each in records] == [0, 1, 2, 3]
    assert [each.value for each in records[1:3]] == [b"a", b"b"]
    assert snapshots.delete_before(stage.node, at)
    again = Stage(stage.node)
    assert again.machine.told[:2] == [("snapshot", at), ("committed", [b"c", b"d"], 5)]
    assert [value for _, value in again.machine.state] == [value for _, value in stage.machine.state]


def test_a_snapshot_that_comes_too_late_is_dropped() -> None:
    """A newer one has moved the start of the log; an older one than that is none of the log's."""
    node = committed_leader()
    append(node, b"a")
    append(node, b"b")
    fetch(node, fetch_request(3, max_wait_ms=0), 1000)
    late = node.begin_snapshot(OffsetAndEpoch(2, 1), 0, 0)
    assert late is not None
    late.add_values([b"state"])
    late.flush()()
    newest = OffsetAndEpoch(3, 1)
    assert write_snapshot(node, newest, [b"newer"])
    assert snapshots.delete_before(node, newest)
    assert not late.freeze()
    assert (node.log.snapshots, node.writing, node.log._begun) == ([newest], set(), {})  # type: ignore[attr-defined]
    with pytest.raises(RaftLogError, match="any more"):
        late.add(values(b"a"))


@pytest.mark.parametrize("batches", [values(b"a")[:-1], encode_records([Record(0, 0, b"\0\0\0\2", b"")], control=True)])
def test_a_snapshot_takes_whole_batches_of_data(batches: bytes) -> None:
    node = committed_leader()
    writer = node.begin_snapshot(OffsetAndEpoch(1, 1), 0, 0)
    assert writer is not None
    with pytest.raises(RaftLogError, match="snapshot"):
        writer.add(batches)
    writer.drop()
    writer.drop()
    assert node.writing == set() and node.begin_snapshot(OffsetAndEpoch(1, 1), 0, 0) is not None


def test_a_snapshot_is_made_durable_in_another_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is left for `freeze` has nothing to write; and the writer may be gone before the thread is done."""
    with DiskRaftLog(tmp_path / "__cluster_metadata-0") as log:
        log.append_as_leader(values(b"a"), 1)
        log.update_high_watermark(1)
        at = OffsetAndEpoch(1, 1)
        log.begin_snapshot(at)
        log.append_snapshot(at, b"state")
        synced: list[int] = []
        monkeypatch.setattr("kcore.storage.raft_log.os.fsync", lambda file: synced.append(file))
        make_durable = log.snapshot_flush(at)
        log.drop_snapshot(at)
        assert synced == []
        make_durable()
        assert len(synced) == 1
        with pytest.raises(RaftLogError, match="was not begun"):
            log.snapshot_flush(at)


# Snapshots, read.


def with_snapshot() -> tuple[RaftNode, OffsetAndEpoch]:
    """A leader whose log begins at a snapshot, and has one record behind it."""
    node = committed_leader()
    append(node, b"a")
    append(node, b"b")
    fetch(node, fetch_request(3, max_wait_ms=0), 1000)
    at = OffsetAndEpoch(2, 1)
    assert write_snapshot(node, at, [b"state", b"more"])
    assert snapshots.delete_before(node, at)
    return node, at


def test_a_machine_that_reads_a_snapshot_is_told_nothing_else() -> None:
    """In its own time, slice by slice; then the log behind it, and only then that it leads."""
    node, at = with_snapshot()
    stage = Stage(node, Ledger(reads=False))
    machine = stage.machine
    assert machine.told == [("snapshot", at)] and not stage.driver.has_more
    append(node, b"c")
    stage.hear(fetch(node, fetch_request(4, max_wait_ms=0), 1000)[1])
    assert machine.told == [("snapshot", at)]
    assert machine.reader is not None
    for batches in machine.reader:
        machine.read(batches)
    stage.catch_up()
    assert machine.told[1:] == [("committed", [b"b", b"c"], 4), ("leader", 1, 4)]
    assert [value for _, value in machine.state] == [b"state", b"more", b"b", b"c"]


def test_a_machine_may_want_no_more_of_a_snapshot() -> None:
    node, _ = with_snapshot()
    stage = Stage(node, Ledger(reads=False))
    assert stage.machine.reader is not None
    stage.machine.reader.close()
    assert list(stage.machine.reader) == []
    stage.catch_up()
    assert stage.machine.told[1:] == [("committed", [b"b"], 3), ("leader", 1, 3)]


def test_a_snapshot_that_is_deleted_while_it_is_read_gives_way_to_a_newer_one() -> None:
    node, at = with_snapshot()
    stage = Stage(node, Ledger(reads=False))
    machine, newer = stage.machine, OffsetAndEpoch(3, 1)
    assert write_snapshot(node, newer, [b"newer"])
    assert snapshots.delete_before(node, newer)
    assert machine.reader is not None and list(machine.reader) == [] and machine.reader.is_lost
    machine._reads = True
    stage.catch_up()
    assert machine.told == [("snapshot", at), ("snapshot", newer), ("leader", 1, 3)]
    assert machine.state == [(-1, b"newer")]


def test_a_machine_that_is_behind_the_start_of_the_log_gets_a_snapshot(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kcore.raft.driver.SLICE_BYTES", 10)
    node = committed_leader()
    append(node, b"a")
    fetch(node, fetch_request(2, max_wait_ms=0), 1000)
    machine = Ledger()
    driver = StateMachineDriver[str](node, machine)
    driver.catch_up()
    at = OffsetAndEpoch(2, 1)
    assert write_snapshot(node, at, [b"state"])
    assert snapshots.delete_before(node, at)
    driver.catch_up()
    assert machine.told == [("committed", [], 1), ("snapshot", at)]


def test_a_snapshot_s_slices_are_whole_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """No more than a batch and a slice of it is in memory at once."""
    monkeypatch.setattr(state_machine, "SLICE_BYTES", 100)
    batches = [values(b"x" * 250, base_offset=k) for k in range(20)]
    data, largest = b"".join(batches), 0

    def split(piece: bytes) -> Any:
        nonlocal largest
        largest = max(largest, len(piece))
        return split_batches(piece)

    monkeypatch.setattr(state_machine, "split_batches", split)
    reader = SnapshotReader(OffsetAndEpoch(20, 1), piece_of(data))
    assert [*reader] == batches
    assert (reader.is_done, reader.is_lost, largest < len(batches[0]) + 100) == (True, False, True)


def test_a_damaged_snapshot_is_an_error() -> None:
    data = values(b"a")[:-1] + b"?"
    with pytest.raises(DecodeError):
        next(SnapshotReader(OffsetAndEpoch(1, 1), piece_of(data)))


def test_a_batch_of_a_snapshot_that_never_ends_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """A damaged length must not bring the whole file into memory."""
    monkeypatch.setattr(state_machine, "MOST_UNREAD_BYTES", 1000)
    monkeypatch.setattr(state_machine, "SLICE_BYTES", 100)
    whole = values(b"x" * 50_000)
    with pytest.raises(DecodeError, match="more than 1000 bytes"):
        next(SnapshotReader(OffsetAndEpoch(1, 1), piece_of(whole)))


def piece_of(data: bytes) -> Callable[[int, int], SnapshotPiece]:
    return lambda position, size: SnapshotPiece(data[position : position + size], len(data))
