"""A snapshot that a client fetches from a server that may be any: it ends, and takes no more memory than it says."""

import pytest

from kcore.errors import NetworkError
from kcore.protocol_errors import ApiException, Errors
from kcore.schema import fetch_snapshot as snapshots
from kcore.server.quorum_node.snapshot_pieces import MOST_BYTES, SnapshotPieces


def answer(
    data: bytes = b"", *, position: int = 0, size: int = 10, error: Errors = Errors.NONE, partitions: int = 1
) -> snapshots.FetchSnapshotResponse:
    piece = snapshots.FetchSnapshotResponsePartitionSnapshot(
        index=0, error_code=error, size=size, position=position, unaligned_records=data
    )
    topic = snapshots.FetchSnapshotResponseTopicSnapshot(name="__cluster_metadata", partitions=[piece] * partitions)
    return snapshots.FetchSnapshotResponse(topics=[topic])


def test_pieces_are_asked_for_one_after_the_other() -> None:
    pieces, found = SnapshotPieces(5, 1), b""
    for data in (b"0123", b"456789"):
        assert not pieces.is_whole
        [topic] = pieces.request("me", 7).topics
        assert topic.partitions[0].position == len(found)
        found += pieces.take(answer(data, position=len(found)))
    assert pieces.is_whole and found == b"0123456789"


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (answer(b"", size=10), "0 bytes at 0 of 10"),
        (answer(b"x", position=3), "received 1 bytes at 3 of 10, but requested 0"),
        (answer(b"x", position=-1), "but requested 0"),
        (answer(bytes(11), size=10), "11 bytes at 0 of 10"),
        (answer(b"x", size=MOST_BYTES + 1), "more than"),
        (answer(b"x", partitions=2), "2 partitions instead of one"),
        (answer(b"x", partitions=0), "0 partitions instead of one"),
        (snapshots.FetchSnapshotResponse(), "0 partitions instead of one"),
    ],
)
def test_an_answer_to_another_request_is_refused(wrong: snapshots.FetchSnapshotResponse, says: str) -> None:
    with pytest.raises(NetworkError, match=says):
        SnapshotPieces(5, 1).take(wrong)


def test_the_largest_snapshot_is_fetched() -> None:
    pieces = SnapshotPieces(5, 1)
    assert pieces.take(answer(b"x", size=MOST_BYTES)) == b"x" and not pieces.is_whole


def test_an_error_is_reported_by_its_name() -> None:
    with pytest.raises(ApiException, match="SNAPSHOT_NOT_FOUND"):
        SnapshotPieces(5, 1).take(answer(error=Errors.SNAPSHOT_NOT_FOUND))
    with pytest.raises(ApiException, match="INCONSISTENT_CLUSTER_ID"):
        SnapshotPieces(5, 1).take(snapshots.FetchSnapshotResponse(error_code=Errors.INCONSISTENT_CLUSTER_ID))


def test_a_snapshot_of_no_bytes_is_whole() -> None:
    pieces = SnapshotPieces(5, 1)
    assert pieces.take(answer(size=0)) == b"" and pieces.is_whole
