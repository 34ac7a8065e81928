"""Control records that no node can load are never stored; those of a newer release end the node, not for ever."""

from collections.abc import Callable
from typing import Any, TypeAlias

import pytest

from kcore.errors import DecodeError, NewerReleaseError, RaftLogError
from kcore.raft.log.batches import split_batches
from kcore.raft.log.control_records import (
    MOST_CONTROL_BYTES,
    MOST_CONTROL_RECORDS,
    control_batch,
    control_messages,
    kraft_version_record,
    last_contained_log_timestamp,
    leader_change,
)
from kcore.raft.log.memory_log import MemoryLog
from kcore.raft.membership.voters import VoterSet
from kcore.replication.raft_log import OffsetAndEpoch
from kcore.schema.control_records import (
    KRaftVersionFeature,
    KRaftVersionRecord,
    SnapshotFooterRecord,
    SnapshotHeaderRecord,
    VotersRecord,
    VotersRecordVoter,
)
from kcore.schema.fetch import FetchRequest
from kcore.wire.codec import encode
from kcore.wire.record_building import encode_records
from kcore.wire.records import Record
from raft.batches import batch, snapshot, snapshot_batches
from raft.log.test_snapshots import NEW, loading, piece
from raft.nodes import begin_request, raft_node, sent
from raft.replication import dynamic_log, dynamic_voters, fetch_response, flush, open_fetch, values, whole

VOTERS = VoterSet.of(dynamic_voters(1, 2, 3)).to_record()
KRAFT_VERSION, KRAFT_VOTERS = b"\x00\x00\x00\x05", b"\x00\x00\x00\x06"
Make: TypeAlias = Callable[[int], bytes]  # A batch of epoch 1 that begins at that offset.


def records(*rows: tuple[bytes | None, bytes | None], **header: Any) -> Make:
    """A control batch of these keys and values."""

    def make(offset: int) -> bytes:
        named = [Record(offset + k, 0, key, value) for k, (key, value) in enumerate(rows)]
        return encode_records(named, control=True, partition_leader_epoch=1, **header)

    return make


def messages(*said: Any) -> Make:
    return lambda offset: control_batch(said, offset, 1, 0)


def voters(*ids: int, lowest: int = 0, highest: int = 1) -> VotersRecord:
    """A VotersRecord of voters without listeners."""
    supported = KRaftVersionFeature(min_supported_version=lowest, max_supported_version=highest)
    return VotersRecord(voters=[VotersRecordVoter(voter_id=each, kraft_version_feature=supported) for each in ids])


GOOD = encode(VOTERS, 0)
BAD: dict[str, Make] = {
    "no key": records((None, GOOD)),
    "an empty key": records((b"", GOOD)),
    "a key of one byte": records((b"\x00", GOOD)),
    "a key of three bytes": records((KRAFT_VOTERS[:3], GOOD)),
    "a key of a negative version": records((b"\xff\xff\x00\x06", GOOD)),
    "a negative type": records((b"\x00\x00\xff\xfe", GOOD)),
    "the type of records of data": records((b"\x00\x00\xff\xff", GOOD)),
    "a transaction marker": records((b"\x00\x00\x00\x01", bytes(6))),
    "no value": records((KRAFT_VOTERS, None)),
    "an empty value": records((KRAFT_VOTERS, b"")),
    "half a value": records((KRAFT_VOTERS, GOOD[:-1])),
    "more than a value": records((KRAFT_VOTERS, GOOD + b"\x00")),
    "a negative version": records((KRAFT_VOTERS, b"\xff\xff" + GOOD[2:])),
    "no voters": messages(voters()),
    "a voter twice": messages(voters(1, 2, 1)),
    "a voter without an id": messages(voters(1, -1)),
    "a range that is none": messages(voters(1, 2, lowest=2)),
    "a negative range": messages(voters(1, 2, lowest=-1)),
    "a negative kraft.version": messages(KRaftVersionRecord(kraft_version=-1)),
    "bad behind good": records((KRAFT_VOTERS, GOOD), (KRAFT_VOTERS, b"")),
    "compressed": records((KRAFT_VOTERS, GOOD), codec="gzip"),
    "too many": records(*[(KRAFT_VOTERS, GOOD)] * (MOST_CONTROL_RECORDS + 1)),
    "too large": records((KRAFT_VOTERS, GOOD + bytes(MOST_CONTROL_BYTES))),
    "offsets that its header does not have": records((KRAFT_VOTERS, GOOD), last_offset_delta=1),
    "no records": records(last_offset_delta=0, base_offset=2),
    "as many offsets as there can be": records((KRAFT_VOTERS, GOOD), last_offset_delta=2**31 - 1),
}
NEWER: dict[str, Make] = {
    "a type": records((b"\x00\x00\x00\x07", GOOD)),
    "a version of VotersRecord": records((KRAFT_VOTERS, b"\x00\x01" + GOOD[2:])),
    "a version of KRaftVersionRecord": records((KRAFT_VERSION, b"\x00\x09")),
    "a kraft.version": messages(kraft_version_record(2)),
    "the second record": messages(kraft_version_record(1), kraft_version_record(2)),
}


def follows(**settings: Any) -> tuple[Any, Any]:
    """Node 1 of voters that the log names, which follows node 2 in epoch 1, and its open Fetch."""
    node = raft_node(voters=(), log=dynamic_log(*dynamic_voters(1, 2, 3)), **settings)
    node.start(None, 0)
    return node, open_fetch(node.on_request(begin_request(1), 1, "begin", 0))


def restarted(log: Any) -> Any:
    again = raft_node(voters=(), log=log)
    again.start(None, 0)
    return again


@pytest.mark.parametrize("make", BAD.values(), ids=BAD)
def test_a_bad_control_record_is_never_in_the_log(make: Make) -> None:
    """The follower keeps the records before the damage and backs off from the leader; then the node restarts."""
    node, fetch = follows()
    good = values(b"a") + messages(voters(1, 2))(1)
    effects = node.on_response(fetch.correlation_id, fetch_response(good + make(2) + values(b"b", base_offset=3)), 10)
    assert whole(node.log) == good
    assert node.voters.ids == {1, 2}
    assert node.connections.is_backing_off(2, 10)
    assert [send for send in sent(flush(node, effects, 10), FetchRequest) if send.destination == 2] == []
    assert restarted(node.log).voters.ids == {1, 2}


@pytest.mark.parametrize("make", NEWER.values(), ids=NEWER)
def test_a_newer_control_record_ends_the_node_and_is_not_stored(make: Make) -> None:
    """With one sentence; a newer release goes on in its directory, and this one starts again, too."""
    node, fetch = follows()
    with pytest.raises(NewerReleaseError, match=r"offset \d.* (newer|at most)"):
        node.on_response(fetch.correlation_id, fetch_response(values(b"a") + make(1)), 10)
    assert node.log.end_offset == 0
    assert restarted(node.log).voters.ids == {1, 2, 3}


@pytest.mark.parametrize("make", NEWER.values(), ids=NEWER)
def test_what_the_log_leaves_out_ends_nobody(make: Make) -> None:
    """It is no record of this leader's: behind a gap, of a later epoch, or damaged."""
    gap, damaged = make(5), bytearray(make(1))
    damaged[17] ^= 1  # Its CRC: all the rest can be read.
    later = bytearray(make(1))
    later[12:16] = (9).to_bytes(4)
    for left_out in (gap, bytes(damaged), bytes(later)):
        node, fetch = follows()
        node.on_response(fetch.correlation_id, fetch_response(values(b"a") + left_out), 10)
        assert node.log.end_offset <= 1


def test_every_message_that_a_leader_writes_is_read() -> None:
    said = [leader_change(1, VoterSet.of(dynamic_voters(1)), [1]), kraft_version_record(1), VOTERS]
    said += [SnapshotHeaderRecord(last_contained_log_timestamp=7), SnapshotFooterRecord()]
    (found,), _ = split_batches(control_batch(said, 5, 1, 0))
    assert [*control_messages(found)] == list(zip(range(5, 10), said, strict=True))


@pytest.mark.parametrize("version", [1, 2, 0x7FFF])
def test_a_key_of_a_later_version_is_read_as_this_one(version: int) -> None:
    """As Kafka does (ControlRecordType.parseTypeId)."""
    (found,), _ = split_batches(records((version.to_bytes(2) + KRAFT_VOTERS[2:] + b"more", GOOD))(0))
    assert [*control_messages(found)] == [(0, VOTERS)]


# In a log that is there already.


@pytest.mark.parametrize("make", [BAD["a key of one byte"], BAD["no voters"], BAD["compressed"]])
def test_a_bad_record_in_the_log_is_an_error_at_the_start(make: Make) -> None:
    log = MemoryLog()
    log.append_as_leader(batch(0, 1) + make(1), 1)
    with pytest.raises(RaftLogError, match="the log or its latest snapshot cannot be loaded: "):
        raft_node(log=log).start(None, 0)


def test_a_log_of_a_newer_release_is_an_error_at_the_start() -> None:
    log = MemoryLog()
    log.append_as_leader(batch(0, 1) + NEWER["a kraft.version"](1), 1)
    with pytest.raises(NewerReleaseError, match=r"at offset 1 has kraft\.version 2: this release knows 1 at most"):
        raft_node(log=log).start(None, 0)


# In a snapshot.


def snapshot_with(make: Make) -> bytes:
    header, *rest = snapshot_batches(3, [b"state"], 0, 1, VoterSet.of(dynamic_voters(1, 2, 3)), 0)
    return header + make(3) + b"".join(rest)


@pytest.mark.parametrize("make", BAD.values(), ids=BAD)
def test_a_snapshot_with_a_bad_control_record_is_never_installed(make: Make) -> None:
    node, send = loading()
    data = snapshot_with(make)
    node.on_response(send.correlation_id, piece(data, 0, len(data)), 0)
    assert node.log.latest_snapshot is None
    assert node.connections.is_backing_off(2, 0)


@pytest.mark.parametrize("make", NEWER.values(), ids=NEWER)
def test_a_snapshot_of_a_newer_release_ends_the_node_and_is_not_installed(make: Make) -> None:
    node, send = loading()
    data = snapshot_with(make)
    with pytest.raises(NewerReleaseError):
        node.on_response(send.correlation_id, piece(data, 0, len(data)), 0)
    assert node.log.latest_snapshot is None


@pytest.mark.parametrize("part", ["header", "footer"])
def test_a_snapshot_needs_header_and_footer(part: str) -> None:
    """Kafka's node does not start from one without."""
    header, state, footer = snapshot_batches(3, [b"state"], 0, 0, None, 0)
    data = state + footer if part == "header" else header + state
    node, send = loading()
    node.on_response(send.correlation_id, piece(data, 0, len(data)), 0)
    assert node.log.latest_snapshot is None
    assert node.connections.is_backing_off(2, 0)
    node, send = loading()
    data = header + state + footer
    node.on_response(send.correlation_id, piece(data, 0, len(data)), 0)
    assert node.log.latest_snapshot == NEW


def test_a_batch_of_a_snapshot_that_never_ends_is_not_gathered_for_ever() -> None:
    """It says that it has 2 GiB."""
    node, send = loading()
    begin = bytearray(values(b"a"))
    begin[8:12] = (2**31 - 1).to_bytes(4)
    position, data = 0, bytes(begin) + bytes(8 << 20)
    while not node.connections.is_backing_off(2, 0):
        assert position <= 72 << 20
        effects = node.on_response(send.correlation_id, piece(data, position, 2**31), 0)
        position, data = position + len(data), bytes(8 << 20)
        (send,) = sent(effects, type(send.request)) or [send]
    assert node.state.fetching_snapshot is None


def test_the_time_of_a_damaged_snapshot_is_not_known() -> None:
    log, end = MemoryLog(), OffsetAndEpoch(5, 1)
    for make in (BAD["compressed"], BAD["no voters"], NEWER["a type"]):
        snapshot(log, end, make(0))
        assert last_contained_log_timestamp(log, end) is None


@pytest.mark.parametrize("name", ["compressed", "too many", "too large"])
def test_the_size_is_looked_at_before_anything_is_decoded(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Decoding 13 kB could take 400 MiB."""
    monkeypatch.setattr("kcore.raft.log.control_records.records_of", None)
    (found,), _ = split_batches(BAD[name](0))
    with pytest.raises(DecodeError):
        control_messages(found)
