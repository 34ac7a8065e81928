import numpy as np
import pytest

from cases import DATA
from kcore.constants import NO_BROKER_ROW
from kcore.errors import TableError
from kcore.measure.workloads.cell import Cell
from kcore.measure.workloads.clusters import cluster_of, mixed_states_of
from kcore.metadata.table.partition_table import PartitionTable

DUMP = (DATA / "samples" / "zk39-scenario" / "2-broker3-killed.zk.txt").read_text()
CLUSTER = PartitionTable.from_zookeeper_dump(DUMP)


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
    with pytest.raises(TableError, match="of 2 live brokers 1 cannot be gone: 2 must stay"):
        cluster_of(Cell("codec", 4, 3, 1, 0, brokers_gone=0.5), CLUSTER)
