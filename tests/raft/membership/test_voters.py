"""Voter sets, their history in a log, and how both are written and read."""

from collections.abc import Sequence
from itertools import combinations, product

import pytest

from kcore.errors import RaftLogError
from kcore.raft.log.batches import split_batches
from kcore.raft.log.control_records import (
    control_batch,
    kraft_version_record,
    leader_change,
    replay_batches,
    replay_log,
)
from kcore.raft.log.memory_log import MemoryLog
from kcore.raft.membership.replicas import NO_DIRECTORY, ReplicaKey
from kcore.raft.membership.voters import VoterHistory, VoterSet
from kcore.replication.raft_log import OffsetAndEpoch
from kcore.wire.record_building import encode_records
from kcore.wire.records import Record
from raft.batches import batch, snapshot, snapshot_batches
from raft.nodes import address, directory, voter
from raft.replication import dynamic_voters

THREE = VoterSet.of(dynamic_voters(1, 2, 3))
NOBODY = VoterSet({})


def key(node_id: int, of_directory: int | None = None) -> ReplicaKey:
    return ReplicaKey(node_id, directory(node_id if of_directory is None else of_directory))


# Sets.


def test_a_voter_is_an_id_and_a_directory() -> None:
    assert THREE.is_voter(key(1))
    assert not THREE.is_voter(key(1, 9))
    assert not THREE.is_voter(key(4))
    assert VoterSet.of([voter(1)]).is_voter(key(1, 9))  # A configured one has no directory.


def test_an_only_voter() -> None:
    one = VoterSet.of(dynamic_voters(1))
    assert (one.is_only_voter(key(1)), one.is_only_voter(key(2)), THREE.is_only_voter(key(1))) == (True, False, False)


@pytest.mark.parametrize(("size", "majority"), [(1, 1), (2, 2), (3, 2), (4, 3), (5, 3)])
def test_majorities(size: int, majority: int) -> None:
    assert VoterSet.of(voter(node_id) for node_id in range(size)).majority == majority


def test_one_more_and_one_fewer() -> None:
    four = THREE.with_voter(voter(4, directory(4)))
    assert four is not None and four.ids == {1, 2, 3, 4}
    assert THREE.with_voter(voter(3, directory(9))) is None
    two = THREE.without_voter(key(3))
    assert two is not None and two.ids == {1, 2}
    assert THREE.without_voter(key(3, 9)) is None
    assert THREE.without_voter(key(4)) is None
    assert VoterSet.of(dynamic_voters(1)).without_voter(key(1)) is None  # Nobody would be left.
    assert THREE.ids == {1, 2, 3}


def test_a_voter_says_anew_who_it_is() -> None:
    moved = voter(3, directory(3))._replace(endpoints={"CONTROLLER": address(33)})
    updated = THREE.with_updated(moved)
    assert updated is not None and updated.address(3, "CONTROLLER") == address(33)
    assert THREE.with_updated(voter(3, directory(9))) is None
    assert THREE.with_updated(voter(3, directory(9)), any_directory=True) is not None
    assert THREE.with_updated(voter(4), any_directory=True) is None


def test_addresses() -> None:
    assert THREE.address(2, "CONTROLLER") == address(2)
    assert (THREE.address(2, "OTHER"), THREE.address(9, "CONTROLLER")) == (None, None)


def test_versions_that_all_support() -> None:
    mixed = VoterSet.of([voter(1), voter(2, kraft_version=0)])
    assert (mixed.supports(0), mixed.supports(1), THREE.supports(1), THREE.supports(2)) == (True, False, True, False)


def majorities(voters: VoterSet) -> list[set[ReplicaKey]]:
    """By the definition: all sets of voters that are more than half of them."""
    sizes = range(len(voters) // 2 + 1, len(voters) + 1)
    return [set(chosen) for size in sizes for chosen in combinations(voters.keys, size)]


def voter_sets(ids: Sequence[int], directories: Sequence[int]) -> list[VoterSet]:
    """All that can be made of these ids, each absent or with one of its directories."""
    choices = product([None, *directories], repeat=len(ids))
    return [
        VoterSet.of(
            voter(node_id, directory(number)) for node_id, number in zip(ids, choice, strict=True) if number is not None
        )
        for choice in choices
        if any(number is not None for number in choice)
    ]


@pytest.mark.parametrize(("ids", "directories"), [((1, 2, 3, 4), (7, 8)), ((1, 2, 3, 4, 5, 6), (7,))])
def test_majorities_overlap_as_defined(ids: Sequence[int], directories: Sequence[int]) -> None:
    """Every pair of small sets: no majority of one may miss a majority of the other, replica by replica."""
    sets = [(voters, majorities(voters)) for voters in voter_sets(ids, directories)]
    for (one, of_one), (other, of_other) in product(sets, repeat=2):
        defined = not any(a.isdisjoint(b) for a, b in product(of_one, of_other))
        assert one.has_overlapping_majority(other) is defined, (one.keys, other.keys)


def test_a_voter_whose_directory_is_replaced_is_two_changes() -> None:
    """{1, 2} of the old voters and {1 with its new directory, 3} of the new ones have no replica in common."""
    replaced = VoterSet.of([voter(1, directory(9)), *dynamic_voters(2, 3)])
    assert not THREE.has_overlapping_majority(replaced)
    assert all(THREE.has_overlapping_majority(VoterSet.of(dynamic_voters(*ids))) for ids in ((2, 3), (1, 2, 3, 4)))


def test_a_record_says_it_all() -> None:
    mixed = VoterSet.of([*dynamic_voters(1, 2), voter(3, NO_DIRECTORY, kraft_version=0)])
    assert VoterSet.from_record(mixed.to_record()) == mixed


# Their history.


def test_the_configured_voters_until_the_log_says_otherwise() -> None:
    history = VoterHistory(THREE)
    assert (history.last_voters, history.last_voters_offset, history.kraft_version) == (THREE, None, 0)
    assert history.voters_at(9) is None
    two = VoterSet.of(dynamic_voters(1, 2))
    history.voters.add(5, two)
    history.kraft_versions.add(4, 1)
    assert (history.last_voters, history.last_voters_offset, history.kraft_version) == (two, 5, 1)
    assert (history.voters_at(4), history.voters_at(5)) == (None, two)
    assert (history.kraft_version_at(3), history.kraft_version_at(4)) == (0, 1)


def history_of(*offsets: int) -> VoterHistory:
    history = VoterHistory(NOBODY)
    for offset in offsets:
        history.voters.add(offset, VoterSet.of([voter(offset)]))
        history.kraft_versions.add(offset, 1)
    return history


@pytest.mark.parametrize(("end", "left"), [(0, []), (3, []), (4, [3]), (7, [3]), (8, [3, 7])])
def test_a_truncation_undoes_what_it_cuts(end: int, left: list[int]) -> None:
    history = history_of(3, 7)
    history.truncate_new_entries(end)
    assert history.voters.offsets == history.kraft_versions.offsets == left


@pytest.mark.parametrize(("start", "left"), [(2, [3, 7]), (3, [3, 7]), (7, [3, 7]), (8, [7]), (9, [7])])
def test_what_holds_at_the_start_stays(start: int, left: list[int]) -> None:
    history = history_of(3, 7)
    history.truncate_old_entries(start)
    assert history.voters.offsets == history.kraft_versions.offsets == left
    assert history.voters_at(start) == (None if start < 3 else VoterSet.of([voter(max(o for o in left if o <= start))]))


def test_a_record_at_the_start_may_be_cut_again() -> None:
    """A snapshot ends where the first uncommitted record is, and that one names voters: those before count again."""
    history = history_of(3, 7)
    history.truncate_old_entries(7)
    history.truncate_new_entries(7)
    assert (history.last_voters, history.last_voters_offset) == (VoterSet.of([voter(3)]), 3)
    assert history.kraft_version == 1


def test_a_later_record_at_an_offset_takes_its_place() -> None:
    history = history_of(3, 7)
    history.voters.add(5, THREE)
    assert (history.voters.offsets, history.last_voters) == ([3, 5], THREE)


# Written and read.


def voters_batch(base_offset: int, voters: VoterSet = THREE, epoch: int = 1) -> bytes:
    return control_batch([kraft_version_record(1), voters.to_record()], base_offset, epoch, 0)


def test_control_records_count_from_their_own_offsets() -> None:
    history = VoterHistory(NOBODY)
    change = control_batch([leader_change(1, THREE, [1])], 0, 1, 0)
    replay_batches(history, split_batches(change + voters_batch(1) + batch(3, 1))[0])
    assert (history.kraft_versions.offsets, history.voters.offsets, history.last_voters) == ([1], [2], THREE)


def test_records_of_data_are_not_looked_at() -> None:
    """Whatever their keys say."""
    looks_alike = encode_records([Record(0, 0, (6).to_bytes(4), b"\x00\x00")], partition_leader_epoch=1)
    history = VoterHistory(NOBODY)
    replay_batches(history, split_batches(looks_alike)[0])
    assert history.last_voters_offset is None


def test_a_log_is_read_from_its_snapshot_on() -> None:
    log = MemoryLog()
    for data in (voters_batch(0), batch(2, 1), voters_batch(3, VoterSet.of(dynamic_voters(1, 2))), batch(5, 1)):
        log.append_as_leader(data, 1)
    history = VoterHistory(NOBODY)
    replay_log(history, log)
    assert (history.voters.offsets, history.last_voters.ids) == ([1, 4], {1, 2})
    log.update_high_watermark(6)
    end = OffsetAndEpoch(3, 1)
    snapshot(log, end, b"".join(snapshot_batches(1, [b"a" * 10, b"b"], 0, 1, THREE, 0)))
    replay_log(history, log)
    assert (history.voters.offsets, history.voters_at(2), history.last_voters.ids) == ([2, 4], THREE, {1, 2})
    log.delete_before(end)
    replay_log(history, log)
    assert history.voters.offsets == [2, 4]


def test_a_snapshot_without_voters_leaves_the_configured_ones() -> None:
    log = MemoryLog()
    snapshot(log, OffsetAndEpoch(5, 1), b"".join(snapshot_batches(1, [], 0, 0, None, 0)))
    log.truncate_to_latest_snapshot()
    history = VoterHistory(THREE)
    replay_log(history, log)
    assert (history.last_voters, history.last_voters_offset) == (THREE, None)


def test_a_damaged_snapshot_is_logged() -> None:
    log = MemoryLog()
    snapshot(log, OffsetAndEpoch(5, 1), bytes(100))
    with pytest.raises(RaftLogError, match="cannot be loaded: a record batch shorter than its header"):
        replay_log(VoterHistory(THREE), log)


@pytest.mark.parametrize("cut", [1, 11, 12, 40])
def test_split_batches_leaves_a_cut_off_one_out(cut: int) -> None:
    data = batch(0, 1) + batch(1, 2, 3)
    batches, problem = split_batches(data[: len(data) // 2 + cut])
    assert problem is None
    assert [(found.base_offset, found.last_offset, found.epoch, found.is_control) for found in batches] == [
        (0, 0, 1, False)
    ]


def test_split_batches_tells_damage() -> None:
    data = bytearray(batch(0, 1) + batch(1, 1))
    data[-1] ^= 1
    batches, problem = split_batches(bytes(data))
    assert (len(batches), problem is not None and problem.offset) == (1, len(batch(0, 1)))
    _, problem = split_batches(bytes(20))
    assert problem is not None and "shorter than its header" in str(problem)
