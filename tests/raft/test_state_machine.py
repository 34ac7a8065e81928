"""Tests the calls between a node and its state machine: their order, and the results of appends."""

import pytest

from kcore.errors import DecodeError, RaftLogError
from kcore.raft.driver import StateMachineDriver
from kcore.raft.effects import Committed, LeaderChanged
from kcore.raft.log.batches import split_batches
from kcore.raft.log.raft_log import Appended, Refused
from kcore.raft.state_machine import Append, AppendBatches, Resign
from kcore.schema.raft_voters import RemoveRaftVoterRequest
from kcore.wire.record_building import encode_records
from kcore.wire.records import Record
from raft.machines import Ledger, Stage, leading
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
)

# Calls of a machine.


def test_what_the_machine_replayed_it_is_not_given_again() -> None:
    """The machine gets only the committed end offset, which counts control records too."""
    stage = leading()
    stage.commit(stage.decide(b"a", b"b"))
    assert stage.machine.calls == [("committed", [], 3)]
    assert stage.machine.state == [(1, b"a"), (2, b"b")]
    assert split_batches(stage.node.log.read(1, 1000, 3))[0][0].data == values(b"a", b"b", base_offset=1)


def test_a_machine_that_leads_no_more_takes_back_what_is_not_committed() -> None:
    """And is given it anew, where another leader commits it; the rest is gone for good."""
    stage = leading()
    stage.commit(stage.decide(b"a"))
    stage.perform(flush(stage.node, stage.decide(b"b") + stage.decide(b"c"), 1000))
    stage.machine.calls.clear()
    effects = stage.perform(stage.node.on_request(begin_request(5, leader_id=3), 1, "begin", 1000))
    assert stage.machine.calls == [("resigned", 1)]
    assert stage.machine.state == [(1, b"a")]
    assert stage.driver.submit([Append([b"late"], 1, 4)], 1000) == ([], []), "no replica needs the record again"
    (asked,) = sent(effects, FetchRequest)
    answered = fetch_response(values(b"d", base_offset=4, epoch=5), 5, 3, high_watermark=3)
    stage.perform(stage.node.on_response(asked.correlation_id, answered, 1001))
    assert stage.machine.calls[1:] == [("committed", [b"b"], 3)]
    assert stage.machine.state == [(1, b"a"), (2, b"b")]


def test_commits_before_a_resignation_are_delivered_before_it() -> None:
    stage = leading()
    effects = stage.decide(b"a")
    outputs = [*stage.driver.note(Committed(2)), *stage.driver.note(LeaderChanged(3, 5))]
    assert stage.machine.calls == [("committed", [], 2), ("resigned", 1)]
    assert outputs == [] and effects


def test_a_resignation_is_the_node_s() -> None:
    stage = leading()
    stage.submit([Resign(1)])
    assert (stage.machine.calls, stage.node.leads) == ([("resigned", 1)], False)


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
        assert (len(machine.calls), driver.position) == (k, k)
    driver.catch_up()
    assert [call[0] for call in machine.calls] == ["committed"] * 4 + ["leader"]
    assert not driver.has_more and driver.catch_up() == ()


def test_a_machine_at_work_is_given_nothing_more_but_the_end_of_its_leadership() -> None:
    stage = leading()
    stage.machine.is_at_work = True
    append(stage.node, b"a")
    stage.driver.note(Committed(2))
    assert not stage.driver.has_more and stage.driver.catch_up() == ()
    stage.machine.is_at_work = False
    assert stage.driver.has_more
    stage.machine.is_at_work = True
    stage.driver.note(LeaderChanged(3, 5))
    assert stage.machine.calls == [("committed", [], 2), ("resigned", 1)]


def test_a_machine_does_not_lead_while_the_log_has_more_than_it() -> None:
    """Uncommitted records of another machine would move this machine's first append to another offset."""
    node = committed_leader()
    effects = append(node, b"of another machine")
    machine = Ledger()
    driver = StateMachineDriver[str](node, machine)
    while driver.has_more:
        driver.catch_up()
    assert machine.calls == [("committed", [], 1)]
    stage = Stage(node, machine)
    stage.commit(effects)
    assert machine.calls[-2:] == [("committed", [b"of another machine"], 2), ("leader", 1, 2)]


def test_a_high_watermark_within_a_batch_waits_for_the_whole_batch() -> None:
    node = follower(log=log_of(1))
    node.log.append_as_follower(values(b"a", b"b", base_offset=1), 1)
    stage = Stage(node)
    stage.perform([Committed(2)])
    assert stage.machine.calls == [("committed", [b"x"], 1)] and not stage.driver.has_more
    stage.perform([Committed(3)])
    assert stage.machine.calls[1:] == [("committed", [b"a", b"b"], 3)]


def test_for_a_machine_without_a_state_no_log_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """The machine gets offsets alone: a workload that only appends costs its followers no reads."""

    class Stateless(Ledger):
        reads_batches = False

    node = committed_leader()
    append(node, b"a")
    fetch(node, fetch_request(2, max_wait_ms=0), 1000)
    monkeypatch.delattr("kcore.raft.log.memory_log.MemoryLog.read")
    assert Stage(node, Stateless()).machine.calls == [("committed", [], 2), ("leader", 1, 2)]


def test_an_observer_without_an_id_never_leads() -> None:
    """Nobody leads: that is no word about the node whose id is -1."""
    node, _ = started(-1)
    stage = Stage(node)
    stage.perform([LeaderChanged(-1, 3)])
    assert (stage.machine.calls, stage.driver.has_more) == ([], False)


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
    stage.machine.calls.clear()
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
    assert stage.machine.calls == [("refused", 3, 4)]
    assert stage.machine.state == [(4, b"a")]
    assert stage.node.log.read(4, 1000, 5) == values(b"a", base_offset=4)


def test_appends_behind_a_refused_one_are_refused_too() -> None:
    """The second expects the very offset that the node is at; written there, it would be before the first."""
    stage = behind_a_control_record()
    stage.submit([stage.machine.decide(b"first"), stage.machine.decide(b"second")])
    assert stage.machine.calls == [("refused", 3, 4)]
    assert stage.machine.state == [(4, b"first"), (5, b"second")]
    assert stage.node.log.read(4, 1000, 6) == values(b"first", b"second", base_offset=4)


def test_an_append_at_an_unexpected_offset_is_a_bug_of_the_machine() -> None:
    stage = behind_a_control_record()
    wrong = stage.machine.decide(b"a")
    stage.machine.on_refused = lambda append, next_offset: [wrong]  # type: ignore[method-assign]
    with pytest.raises(RaftLogError, match="appends at offset 3"):
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
    assert stage.machine.calls == [("committed", [], 3)]


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


def test_a_damaged_batch_of_a_machine_is_not_written() -> None:
    """Its checksum is checked, though those of the batches that the leader makes itself are not."""
    node = committed_leader()
    damaged = values(b"a")[:-1] + b"?"
    with pytest.raises(DecodeError, match="damaged"):
        node.append_batches(damaged, 1, 1, 1000)
    assert node.log.end_offset == 1
