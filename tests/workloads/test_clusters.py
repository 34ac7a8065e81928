import numpy as np
import pytest

from cases import DATA
from kcore.constants import NO_BROKER_ROW
from kcore.errors import ClusterFileError, TableError
from kcore.measure.workloads.cell import Cell
from kcore.measure.workloads.clusters import cluster_of, cluster_size, mixed_states_of, scaled, table_of_file
from kcore.measure.workloads.generate import generate
from kcore.measure.workloads.messages import leader_and_isr, stop_replica, update_metadata
from kcore.metadata.table.partition_table import PartitionTable
from kcore.schema import RequestHeader
from kcore.schema.structure import Message
from kcore.wire.codec import encode
from kcore.wire.column_codec import encode_columns

DUMP = (DATA / "samples" / "zk39-scenario" / "2-broker3-killed.zk.txt").read_bytes()


def request(columns, version: int, client_id: str | None = "1") -> bytes:
    message: type[Message] = columns.message
    header = RequestHeader(
        request_api_key=message.api_key, request_api_version=version, correlation_id=3, client_id=client_id
    )
    return encode(header, message.header_version(version)) + encode_columns(columns, version)


def states(table: PartitionTable) -> list[object]:
    rows = range(len(table))
    fields = ("topic", "partition", "replicas", "isr", "leader", "leader_epoch", "partition_epoch")
    return sorted(tuple(getattr(table.state(row), field) for field in fields) for row in rows)


def test_a_dump_is_a_cluster():
    assert cluster_size(DUMP) == (4, 3)
    assert table_of_file(DUMP).brokers.live.sum() == 2


@pytest.mark.parametrize("frame", [False, True])
@pytest.mark.parametrize("client_id", ["1", "", None])
@pytest.mark.parametrize(
    ("make", "version"),
    [(update_metadata, 8), (update_metadata, 5), (update_metadata, 4), (leader_and_isr, 7), (leader_and_isr, 1)],
)
def test_a_raw_request_is_the_cluster_that_it_shows(make, version: int, client_id: str | None, frame: bool):
    table = generate(40, 5, 3, 4, 1)
    data = request(make(table), version, client_id)
    shown = table_of_file(len(data).to_bytes(4, "big") + data if frame else data)
    assert states(shown) == states(table)


@pytest.mark.parametrize(
    "file",
    [
        b"",
        b"\x00\x06",
        b"/no dump",
        b"/\xff",
        b"/brokers/ids\tversion=0 cversion=0 czxid=5 mzxid=5\t<null>\n"
        b"/brokers/topics\tversion=0 cversion=0 czxid=5 mzxid=5\t<null>\n",
        b"\x00\x06\x00\x08" + bytes(60),
        b"\x00\x06\x00\x63" + bytes(60),
        b"\x00\x03\x00\x08" + bytes(60),
        request(update_metadata(generate(4, 3, 3, 1, 1)), 8)[:-1],
        request(update_metadata(generate(4, 3, 3, 1, 1)), 8) + b"x",
        request(stop_replica(generate(4, 3, 3, 1, 1)), 3),
    ],
)
def test_other_files_are_no_cluster(file: bytes):
    with pytest.raises(ClusterFileError):
        table_of_file(file)


def test_scaled_up_every_copy_keeps_the_pattern_on_the_next_brokers():
    table = table_of_file(DUMP)
    more = scaled(table, 10, 7)
    assert (len(more), len(more.brokers)) == (10, 7)
    assert list(more.brokers.ids) == [1, 2, 3, 4, 5, 6, 7]
    assert len(set(more.topics.names)) == len(set(more.topics.ids)) == 6
    for row in range(10):
        source, copy = row % 4, row // 4
        moved = (table.replicas__ps[source] + 3 * copy) % 7
        expected = np.where(table.replicas__ps[source] < 0, -1, moved)
        assert more.replicas__ps[row].tolist() == expected.tolist()
        assert more.leader_epoch__p[row] == table.leader_epoch__p[source]
        assert set(more.isr__pi[row][more.isr__pi[row] >= 0]) <= set(expected)


def test_at_its_own_size_a_cluster_stays_as_it_is():
    table = table_of_file(DUMP)
    assert scaled(table, 4, 3) is table


def test_a_cell_says_what_its_cluster_is_like():
    table = cluster_of(Cell("codec", 120, 10, 7, 0, replication_factor=5, topics=6, racks=5), None)
    assert table.replicas__ps.shape == (120, 5) and table.topics.count == 6
    assert set(table.brokers.racks) == {f"rack-{number}" for number in range(5)}
    assert (table.isr__pi == table.replicas__ps).all() and table.brokers.live.all()
    usual = cluster_of(Cell("codec", 120, 10, 7, 0), None)
    assert usual.replicas__ps.shape == (120, 3) and usual.topics.count == 1 and set(usual.brokers.racks) == {None}


@pytest.mark.parametrize("isr", ["in-sync", "mixed"])
def test_brokers_that_are_gone_lead_nothing_and_are_in_no_isr_of_several(isr: str):
    cell = Cell("codec", 300, 10, 7, 0, isr=isr, brokers_gone=0.3)
    table = cluster_of(cell, None)
    gone = np.flatnonzero(~table.brokers.live)
    assert len(gone) == 3
    assert not np.isin(table.leader__p, gone).any()
    several = (table.isr__pi != NO_BROKER_ROW).sum(axis=1) > 1
    assert not np.isin(table.isr__pi[several], gone).any()
    shrunk = (table.isr__pi != table.replicas__ps).any(axis=1) & ~np.isin(table.replicas__ps, gone).any(axis=1)
    assert shrunk.any() == (isr == "mixed")
    again = cluster_of(cell, None).isr__pi
    assert (again == table.isr__pi).all()
    mixed = mixed_states_of(table, cell)
    assert not np.isin(mixed.leader__p, gone).any()


def test_so_many_brokers_of_a_file_cannot_be_gone():
    partitions, brokers = cluster_size(DUMP)
    with pytest.raises(TableError, match="of 2 live brokers 1 cannot be gone: 2 must stay"):
        cluster_of(Cell("codec", partitions, brokers, 1, 0, brokers_gone=0.5), DUMP)
