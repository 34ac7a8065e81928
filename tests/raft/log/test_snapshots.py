"""Snapshots (KIP-630): written, served to followers, loaded from a leader in pieces cut anywhere."""

from typing import Any

import pytest

from kcore.protocol_errors import Errors
from kcore.raft import snapshots
from kcore.raft.effects import Committed, SendResponse, SnapshotLoaded
from kcore.raft.log.memory_log import MemoryLog
from kcore.replication.raft_log import OffsetAndEpoch
from kcore.schema.fetch import FetchRequest
from kcore.schema.fetch_snapshot import (
    FetchSnapshotRequest,
    FetchSnapshotRequestPartitionSnapshot,
    FetchSnapshotRequestTopicSnapshot,
    FetchSnapshotResponse,
    FetchSnapshotResponsePartitionSnapshot,
    FetchSnapshotResponseTopicSnapshot,
    LeaderIdAndEpoch,
    SnapshotId,
)
from kcore.schema.raft_voters import RemoveRaftVoterRequest
from kcore.wire.records import control_message, decode_records
from raft.batches import snapshot
from raft.nodes import CLUSTER, begin_request, directory, log_of, of, sent, started
from raft.replication import (
    append,
    committed_leader,
    dynamic_leader,
    dynamic_log,
    dynamic_voters,
    fetch,
    fetch_request,
    fetch_response,
    flush,
    open_fetch,
    write_snapshot,
)

END = OffsetAndEpoch(2, 1)


def leader_with_snapshot() -> Any:
    """A leader with the snapshot (2, 1) that `snapshot_bytes` reads."""
    node = committed_leader()
    append(node, b"a")
    fetch(node, fetch_request(2, max_wait_ms=0), 1000)
    assert write_snapshot(node, END, [b"state"], 77, 2000)
    return node


def snapshot_bytes(*voter_ids: int) -> bytes:
    """A snapshot with these voters, as a leader has it."""
    if not voter_ids:
        return bytes(leader_with_snapshot().log.snapshot_piece(END, 0, 1 << 20).data)
    node, effects = dynamic_leader(*voter_ids)
    flush(node, effects, 1000)
    fetch(node, fetch_request(3, max_wait_ms=0), 1000)
    end = OffsetAndEpoch(3, 1)
    assert write_snapshot(node, end, [b"state"], 77, 2000)
    return bytes(node.log.snapshot_piece(end, 0, 1 << 20).data)


# Written.


def test_a_snapshot_has_header_records_and_footer() -> None:
    records = list(decode_records(snapshot_bytes()))
    assert [record.control for record in records] == ["SNAPSHOT_HEADER", None, "SNAPSHOT_FOOTER"]
    assert [record.offset for record in records] == [0, 1, 2]
    assert (records[1].value, records[1].timestamp) == (b"state", 2000)
    assert int.from_bytes((records[0].value or b"")[2:10]) == 77


def test_a_snapshot_has_version_and_voters() -> None:
    """KIP-853: at kraft.version 1, in the batch of its header."""
    records = list(decode_records(snapshot_bytes(1, 2, 3)))
    assert [record.control for record in records[:3]] == ["SNAPSHOT_HEADER", "KRAFT_VERSION", "KRAFT_VOTERS"]


@pytest.mark.covers("E9")
@pytest.mark.parametrize(("end", "ids"), [((3, 1), [1, 2, 3]), ((4, 1), [1, 2])])
def test_a_snapshot_has_the_voters_of_its_end(end: tuple[int, int], ids: list[int]) -> None:
    """E9: what the record at that very offset says comes behind it."""
    node, effects = dynamic_leader(1, 2, 3)
    flush(node, effects, 1000)
    fetch(node, fetch_request(3, max_wait_ms=0), 1000)
    removal = RemoveRaftVoterRequest(cluster_id=None, voter_id=3, voter_directory_id=directory(3))
    flush(node, node.on_request(removal, 0, "remove", 1000), 1000)
    fetch(node, fetch_request(4, max_wait_ms=0), 1000)
    assert (node.voter_history.last_voters_offset, node.high_watermark) == (3, 4)
    assert write_snapshot(node, OffsetAndEpoch(*end), [], 0, 0)
    records = list(decode_records(node.log.snapshot_piece(OffsetAndEpoch(*end), 0, 1 << 20).data))
    (voters,) = [control_message(record) for record in records if record.control == "KRAFT_VOTERS"]
    assert [voter.voter_id for voter in voters.voters] == ids


@pytest.mark.covers("E9")
@pytest.mark.parametrize(
    ("end", "may_be"), [((1, 1), True), ((2, 1), True), ((3, 1), False), ((1, 0), False), ((2, 2), False)]
)
def test_a_snapshot_is_of_what_is_committed(end: tuple[int, int], may_be: bool) -> None:
    """E9, KAFKA-14618: its id is an end, and the epoch that of the record before it."""
    node = committed_leader()
    append(node, b"a")
    append(node, b"b")
    fetch(node, fetch_request(2, max_wait_ms=0), 1000)
    assert write_snapshot(node, OffsetAndEpoch(*end), [], 0, 0) == may_be
    assert (node.log.latest_snapshot is not None) == may_be


def test_a_snapshot_is_written_once() -> None:
    node = leader_with_snapshot()
    assert not write_snapshot(node, END, [b"other"], 0, 0)
    assert node.log.snapshot_piece(END, 0, 1 << 20).data == snapshot_bytes()


@pytest.mark.covers("E8")
def test_the_log_begins_at_a_snapshot_only() -> None:
    """E8, KAFKA-14238."""
    node = leader_with_snapshot()
    assert not snapshots.delete_before(node, OffsetAndEpoch(1, 1))
    assert node.log.start_offset == 0
    assert snapshots.delete_before(node, END)
    assert node.log.start_offset == 2


def test_voters_from_before_the_log_are_forgotten() -> None:
    node, effects = dynamic_leader(1, 2, 3)
    flush(node, effects, 1000)
    fetch(node, fetch_request(3, max_wait_ms=0), 1000)
    assert node.voter_history.voters.offsets == [-1, 2]
    end = OffsetAndEpoch(3, 1)
    write_snapshot(node, end, [], 0, 0)
    snapshots.delete_before(node, end)
    assert node.voter_history.voters.offsets == [2]


# Served.


def snapshot_request(
    position: int = 0,
    epoch: int = 1,
    end: OffsetAndEpoch = END,
    *,
    replica: int = 2,
    max_bytes: int = 1 << 20,
    cluster_id: str | None = CLUSTER,
    topic: str = "__cluster_metadata",
) -> FetchSnapshotRequest:
    asked = FetchSnapshotRequestPartitionSnapshot(
        partition=0,
        current_leader_epoch=epoch,
        snapshot_id=SnapshotId(end_offset=end.offset, epoch=end.epoch),
        position=position,
        replica_directory_id=directory(replica),
    )
    topics = [FetchSnapshotRequestTopicSnapshot(name=topic, partitions=[asked])]
    return FetchSnapshotRequest(cluster_id=cluster_id, replica_id=replica, max_bytes=max_bytes, topics=topics)


def served(node: Any, request: FetchSnapshotRequest, now_ms: int = 2000) -> Any:
    (answer,) = of(SendResponse, node.on_request(request, 1, "asked", now_ms))
    return answer.response


def test_a_snapshot_is_served_in_pieces() -> None:
    node = leader_with_snapshot()
    data = snapshot_bytes()
    pieces = [
        served(node, snapshot_request(position, max_bytes=50)).topics[0].partitions[0]
        for position in range(0, len(data), 50)
    ]
    assert b"".join(bytes(piece.unaligned_records) for piece in pieces) == data
    assert {(piece.size, piece.error_code) for piece in pieces} == {(len(data), 0)}
    assert [piece.position for piece in pieces] == list(range(0, len(data), 50))
    assert (pieces[0].snapshot_id.end_offset, pieces[0].snapshot_id.epoch) == END


@pytest.mark.parametrize(
    ("changed", "error"),
    [
        ({"epoch": 0}, Errors.FENCED_LEADER_EPOCH),
        ({"epoch": 2}, Errors.UNKNOWN_LEADER_EPOCH),
        ({"end": OffsetAndEpoch(1, 1)}, Errors.SNAPSHOT_NOT_FOUND),
        ({"position": -1}, Errors.POSITION_OUT_OF_RANGE),
        ({"position": 100_000}, Errors.POSITION_OUT_OF_RANGE),
        ({"max_bytes": 0}, Errors.INVALID_REQUEST),
        ({"replica": 1}, Errors.INVALID_REQUEST),
    ],
    ids=str,
)
def test_why_a_piece_is_not_served(changed: dict[str, Any], error: Errors) -> None:
    """In the partition, with the leader: Kafka 4.3.1 fails to say most of this."""
    response = served(leader_with_snapshot(), snapshot_request(**changed))
    piece = response.topics[0].partitions[0]
    assert (response.error_code, piece.error_code, piece.unaligned_records) == (Errors.NONE, error, b"")
    assert (piece.current_leader.leader_id, piece.current_leader.leader_epoch) == (1, 1)
    assert [named.node_id for named in response.node_endpoints] == [1]


def test_the_end_of_a_snapshot_is_out_of_range() -> None:
    data = snapshot_bytes()
    piece = served(leader_with_snapshot(), snapshot_request(len(data))).topics[0].partitions[0]
    assert piece.error_code == Errors.POSITION_OUT_OF_RANGE


def test_the_snapshot_that_a_quorum_begins_with_is_not_served() -> None:
    node, _ = dynamic_leader(1, 2, 3)
    response = served(node, snapshot_request(end=OffsetAndEpoch(0, 0)))
    assert response.topics[0].partitions[0].error_code == Errors.SNAPSHOT_NOT_FOUND


def test_another_cluster_or_topic_is_served_nothing() -> None:
    node = leader_with_snapshot()
    assert served(node, snapshot_request(cluster_id="another")).error_code == Errors.INCONSISTENT_CLUSTER_ID
    assert served(node, FetchSnapshotRequest(topics=[])).error_code == Errors.INVALID_REQUEST
    piece = served(node, snapshot_request(topic="another")).topics[0].partitions[0]
    assert piece.error_code == Errors.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.covers("E1")
def test_who_loads_a_snapshot_follows() -> None:
    """E1: for the leader progress time-out it is as good as a fetch."""
    node = leader_with_snapshot()
    served(node, snapshot_request(), 2500)
    assert node.leading.check_quorum_deadline_ms == 5500


# Loaded.

NEW = OffsetAndEpoch(9, 3)


def loading(log: MemoryLog | None = None, **settings: Any) -> tuple[Any, Any]:
    """Node 1, to which leader 2 of epoch 3 has named a snapshot, and its FetchSnapshot request."""
    node, _ = started(log=log or MemoryLog(), **settings)
    ask = open_fetch(node.on_request(begin_request(3), 1, "begin", 0))
    effects = node.on_response(ask.correlation_id, fetch_response(epoch=3, snapshot_id=NEW), 0)
    (request,) = sent(effects, FetchSnapshotRequest)
    return node, request


def piece(
    data: bytes = b"",
    position: int = 0,
    size: int = 0,
    end: OffsetAndEpoch = NEW,
    *,
    epoch: int = 3,
    leader_id: int = 2,
    error: int = 0,
) -> FetchSnapshotResponse:
    answer = FetchSnapshotResponsePartitionSnapshot(
        error_code=error,
        snapshot_id=SnapshotId(end_offset=end.offset, epoch=end.epoch),
        current_leader=LeaderIdAndEpoch(leader_id=leader_id, leader_epoch=epoch),
        size=size,
        position=position,
        unaligned_records=data,
    )
    topic = FetchSnapshotResponseTopicSnapshot(name="__cluster_metadata", partitions=[answer])
    return FetchSnapshotResponse(topics=[topic])


def test_asks_for_the_snapshot_that_the_leader_names() -> None:
    node, send = loading()
    asked = send.request.topics[0].partitions[0]
    assert (send.destination, send.request.cluster_id, send.request.replica_id) == (2, CLUSTER, 1)
    assert (asked.snapshot_id.end_offset, asked.snapshot_id.epoch, asked.position) == (9, 3, 0)
    assert (asked.current_leader_epoch, asked.replica_directory_id) == (3, directory(1))
    assert node.state.has_fetched_from_leader


@pytest.mark.parametrize("size", [1, 61, 70, 10_000])
def test_loads_pieces_cut_anywhere(size: int) -> None:
    node, send = loading()
    data = snapshot_bytes()
    effects: list[Any] = []
    for position in range(0, len(data), size):
        assert send.request.topics[0].partitions[0].position == position
        effects = node.on_response(send.correlation_id, piece(data[position : position + size], position, len(data)), 9)
        (send,) = sent(effects, FetchSnapshotRequest) or [send]
    assert [e for e in effects if isinstance(e, SnapshotLoaded | Committed)] == [SnapshotLoaded(NEW), Committed(9)]
    assert (node.log.start_offset, node.log.end_offset, node.log.last_epoch) == (9, 9, 3)
    assert (node.high_watermark, node.flushed_end_offset) == (9, 9)
    assert node.log.snapshot_piece(NEW, 0, 1 << 20).data == data
    asked = open_fetch(effects).request.topics[0].partitions[0]
    assert (asked.fetch_offset, asked.last_fetched_epoch) == (9, 3)


def test_loading_puts_the_election_off() -> None:
    node, send = loading()
    data = snapshot_bytes()
    node.on_response(send.correlation_id, piece(data[:9], 0, len(data)), 1500)
    assert node.state.fetch_deadline_ms == 1500 + node.config.fetch_timeout_ms


@pytest.mark.covers("E18")
def test_voters_are_those_of_the_snapshot() -> None:
    """E18, KAFKA-14894: what was in the log is gone, and so are its voters."""
    node, send = loading(dynamic_log(*dynamic_voters(1, 2)), voters=())
    data = snapshot_bytes(1, 2, 3)
    node.on_response(send.correlation_id, piece(data, 0, len(data)), 0)
    assert node.voters.ids == {1, 2, 3}
    assert node.voter_history.voters.offsets == [8]  # That of the last record in it.


def started_over(node: Any, send: Any, response: FetchSnapshotResponse) -> bool:
    """Whether the next request is a Fetch, and nothing was loaded."""
    effects = node.on_response(send.correlation_id, response, 0)
    effects += node.on_timer(node.config.retry_backoff_ms)
    assert node.log.latest_snapshot is None
    return bool(sent(effects, FetchRequest)) and not sent(effects, FetchSnapshotRequest)


@pytest.mark.parametrize(
    "response",
    [
        piece(error=Errors.SNAPSHOT_NOT_FOUND),
        piece(error=Errors.POSITION_OUT_OF_RANGE),
        FetchSnapshotResponse(error_code=Errors.UNKNOWN_SERVER_ERROR),  # How Kafka 4.3.1 says all of these.
        FetchSnapshotResponse(),
        piece(b"abc", 0, 100, OffsetAndEpoch(8, 3)),  # Another snapshot,
        piece(b"abc", 5, 100),  # another position,
        piece(b"", 0, 100),  # nothing,
        piece(b"abc", 0, 2),  # more than there is,
        piece(bytes(100), 0, 200),  # no batches,
        piece(b"abc", 0, 3),  # half of one.
    ],
    ids=["not found", "range", "fault", "empty", "id", "position", "nothing", "more", "damaged", "cut off"],
)
def test_starts_over_where_a_snapshot_cannot_be_had(response: FetchSnapshotResponse) -> None:
    node, send = loading()
    assert started_over(node, send, response)


def test_a_damaged_snapshot_is_never_installed() -> None:
    data = bytearray(snapshot_bytes())
    data[-1] ^= 1
    node, send = loading(log_of(1))
    assert started_over(node, send, piece(bytes(data), 0, len(data)))
    assert node.log.end_offset == 1


def test_follows_another_leader_in_the_midst_of_it() -> None:
    node, send = loading()
    effects = node.on_response(send.correlation_id, piece(epoch=4, leader_id=3, error=Errors.FENCED_LEADER_EPOCH), 0)
    assert (node.epoch, node.leader_id) == (4, 3)
    assert open_fetch(effects).destination == 3


def test_a_snapshot_that_it_has_is_not_loaded_again() -> None:
    log = log_of(1, 1)
    snapshot(log, OffsetAndEpoch(2, 1))
    node, _ = started(log=log)
    ask = open_fetch(node.on_request(begin_request(3), 1, "begin", 0))
    effects = node.on_response(ask.correlation_id, fetch_response(epoch=3, snapshot_id=(2, 1)), 0)
    assert sent(effects, FetchSnapshotRequest) == []
    assert node.log.end_offset == 2


@pytest.mark.parametrize("wrong", [(9, -1), (-1, 3)])
def test_half_a_snapshot_id_is_none(wrong: tuple[int, int]) -> None:
    node, _ = started()
    ask = open_fetch(node.on_request(begin_request(3), 1, "begin", 0))
    effects = node.on_response(ask.correlation_id, fetch_response(epoch=3, snapshot_id=wrong), 0)
    assert sent(effects, FetchSnapshotRequest) == []
