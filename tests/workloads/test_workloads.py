from collections import defaultdict

import pytest

from cases import DATA
from kcore.measure.workloads import measure
from kcore.measure.workloads.catalog import WORKLOADS
from kcore.measure.workloads.cell import Cell
from kcore.measure.workloads.run_cell import run_cell
from kcore.metadata.table.partition_table import PartitionTable

DUMP = (DATA / "samples" / "zk39-scenario" / "1-created.zk.txt").read_text()
CLUSTER = PartitionTable.from_zookeeper_dump(DUMP)


@pytest.fixture(autouse=True)
def few_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measure, "BUDGET_NS", 0)


def digests(workload: str, cluster: PartitionTable | None = None, **given: int) -> dict[str, str]:
    sizes = {"partitions": 300, "brokers": 7, "seed": 1, "repetition": 0} | given
    rows = run_cell(Cell(workload, **sizes), cluster)
    assert [row["error"] for row in rows if row.get("error")] == []
    assert all(row["handled_partitions"] > 0 and row["min_ns"] > 0 for row in rows)
    return {row["operation"]: row["digest"] for row in rows}


@pytest.mark.parametrize("workload", WORKLOADS)
def test_a_workload_gives_the_same_for_the_same_seed_alone(workload: str):
    first = digests(workload)
    assert digests(workload, repetition=1) == first
    assert digests(workload, seed=2).keys() == first.keys()
    assert digests(workload, seed=2) != first


@pytest.mark.parametrize("workload", WORKLOADS)
def test_a_workload_runs_on_a_real_cluster_as_it_is_and_scaled_up(workload: str):
    assert digests(workload, CLUSTER, partitions=4, brokers=3).keys() == digests(workload).keys()
    assert digests(workload, CLUSTER, partitions=90, brokers=8).keys() == digests(workload).keys()


def test_objects_and_columns_are_the_same_bytes_both_ways():
    by_group = defaultdict(set)
    for operation, digest in digests("codec").items():
        by_group[operation.partition(":")[0]].add(digest)
    assert set(by_group) == {"LeaderAndIsr v2", "LeaderAndIsr v7", "UpdateMetadata v5", "UpdateMetadata v8"}
    assert all(len(found) == 1 for found in by_group.values())


def test_shapes_shrink_on_the_wire_with_kip_380():
    rows = run_cell(Cell("shapes", 300, 7, 1, 0))
    bytes_of = {row["operation"]: (row["wire_bytes"], row["memory_bytes"]) for row in rows}
    for message, before, after in (("LeaderAndIsr", 1, 2), ("UpdateMetadata", 4, 5), ("StopReplica", 0, 1)):
        for view in ("as columns", "as objects"):
            wire_before, memory_before = bytes_of[f"{message}Request v{before}: {view}"]
            wire_after, memory_after = bytes_of[f"{message}Request v{after}: {view}"]
            assert wire_after < wire_before
            assert 0 < memory_after < memory_before * (1.01 if view == "as columns" else 0.95)


def test_a_failing_set_up_is_a_row():
    [row] = run_cell(Cell("election", 4, 2, 1, 0), CLUSTER)
    assert row["operation"] == "" and row["error"].startswith("TableError: the cluster has 3 brokers: 2 are too few")


@pytest.mark.parametrize("workload", ["codec", "election", "fan-out", "shapes"])
@pytest.mark.parametrize("factor", [1, 5])
def test_another_cluster_is_named_in_the_group_of_each_operation(workload: str, factor: int) -> None:
    rows = run_cell(Cell(workload, 60, 10, 1, 0, replication_factor=factor, topics=3, isr="mixed", brokers_gone=0.2))
    for row in rows:
        group, _, action = row["operation"].partition(": ")
        assert group.endswith(f" (RF {factor}, 3 topics, mixed ISRs, 0.2 of the brokers gone)") and action
        assert (row["replication_factor"], row["topics"], row["isr"]) == (factor, 3, "mixed")
