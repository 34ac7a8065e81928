"""Where the id of a cluster comes from that was formatted without one."""

import pytest

from kcore.raft.log.raft_log import SnapshotPiece
from kcore.raft.membership.cluster_id import ClusterIdKnown, ClusterIdMaker, decode_cluster_id, encode_cluster_id
from kcore.raft.state_machine import Append, SnapshotReader
from kcore.replication.raft_log import OffsetAndEpoch
from kcore.schema.metadata_records_log import NoOpRecord
from kcore.wire.metadata_frames import decode_metadata_record, encode_metadata_record
from kcore.wire.record_building import encode_records, encode_values
from kcore.wire.records import Record


def batch(*values: bytes, base_offset: int = 0) -> bytes:
    return encode_values(values, base_offset=base_offset, timestamp=0, partition_leader_epoch=1)


def compressed(*values: bytes) -> bytes:
    records = [Record(offset, 0, None, value) for offset, value in enumerate(values)]
    return encode_records(records, codec="gzip", partition_leader_epoch=1)


def never() -> str:
    raise AssertionError("there is one already")


def test_its_record_is_a_no_op_to_whoever_does_not_know_of_it() -> None:
    record = encode_cluster_id("abc")
    assert isinstance(decode_metadata_record(record)[0], NoOpRecord)
    assert decode_cluster_id(record) == "abc"


@pytest.mark.parametrize("value", [b"", b"x", encode_metadata_record(NoOpRecord(), 0), encode_cluster_id("abc")[:-1]])
def test_every_other_record_is_passed_over(value: bytes) -> None:
    assert decode_cluster_id(value) is None


def known(cluster_id: str) -> list[ClusterIdKnown]:
    return [ClusterIdKnown(cluster_id)]


def test_a_leader_draws_one_where_there_is_none() -> None:
    maker = ClusterIdMaker(lambda: "abc")
    assert maker.on_leader(5, 1) == (Append((encode_cluster_id("abc"),), 5, 1),)
    assert maker.on_committed(b"", 1) == ()
    assert maker.cluster_id is None, "before it is committed it is nobody's"
    assert [*maker.on_committed(b"", 2)] == known("abc")


def test_what_a_leader_drew_and_lost_is_nobody_s() -> None:
    maker = ClusterIdMaker(iter(("first", "second")).__next__)
    maker.on_leader(5, 1)
    assert maker.on_resigned(5) == ()
    assert maker.on_committed(batch(b"x", b"y", base_offset=1), 3) == ()
    assert maker.on_leader(7, 4) == (Append((encode_cluster_id("second"),), 7, 4),)


def test_it_is_appended_behind_a_control_record_that_came_between() -> None:
    """The same one, and not known before it is committed there."""
    maker = ClusterIdMaker(lambda: "abc")
    (append,) = maker.on_leader(5, 1)
    assert maker.on_refused(append, 3) == (append._replace(expected_offset=3),)
    assert maker.on_committed(b"", 3) == ()
    assert [*maker.on_committed(b"", 4)] == known("abc")


def test_the_first_that_is_committed_counts() -> None:
    """Two successive leaders may draw different ids; the first committed record counts."""
    maker = ClusterIdMaker(never)
    assert maker.on_committed(batch(b"x"), 1) == ()
    ids = [encode_cluster_id("first"), encode_cluster_id("second")]
    assert [*maker.on_committed(batch(*ids, base_offset=1), 3)] == known("first")
    assert maker.on_leader(5, 3) == ()
    assert maker.on_committed(batch(encode_cluster_id("third"), base_offset=3), 4) == ()
    assert maker.cluster_id == "first"


def reader_of(data: bytes) -> SnapshotReader:
    return SnapshotReader(OffsetAndEpoch(7, 1), lambda position, size: SnapshotPiece(data[position:][:size], len(data)))


def test_it_may_be_in_a_snapshot_alone() -> None:
    maker = ClusterIdMaker(never)
    reader = reader_of(batch(b"x", encode_cluster_id("abc")))
    assert [*maker.on_snapshot(reader)] == known("abc")
    assert reader.is_done, "nobody needs the rest"


def test_a_damaged_snapshot_has_none() -> None:
    """ClusterIdMaker ignores the damage; the replay of the log reports it."""
    maker, reader = ClusterIdMaker(never), reader_of(batch(encode_cluster_id("abc"))[:-1] + b"?")
    assert (maker.on_snapshot(reader), reader.is_done) == ((), True)


def test_compressed_batches_are_passed_over() -> None:
    """No leader writes them, and nobody knows how much is in them: in the log, and in a snapshot."""
    data = compressed(b"x", encode_cluster_id("not this one"))
    maker = ClusterIdMaker(never)
    assert maker.on_snapshot(reader_of(data)) == ()
    assert maker.on_committed(data, 2) == ()
    assert [*maker.on_committed(batch(encode_cluster_id("abc"), base_offset=2), 3)] == known("abc")
