import json

import pyarrow as pa
import pytest

from kcore.errors import ClusterFileError, PlanError
from kcore.measure import bench
from kcore.measure.bench import Plan
from kcore.measure.bench import bench_results as results
from kcore.measure.report import result_files
from kcore.measure.report.exits import Exit
from kcore.measure.report.own_code import own_sha256
from kcore.measure.workloads.catalog import WORKLOADS, Workload
from kcore.measure.workloads.cell import Cell
from kcore.measure.workloads.workload_rows import ROW_SCHEMA
from kcore.spark.progress import Progress
from workloads.fakes import FAKE, PLAN, setup

pytestmark = pytest.mark.usefixtures("fake_workload")
CELLS = [Cell("fake", p, b, 1, nth) for p in (1000, 100, 10) for b in (3, 30) for nth in (0, 1)]


def test_a_run_has_a_row_an_operation_a_cell_and_says_on_what_machine():
    seen: list[Progress] = []
    table = bench.run(PLAN, on_progress=seen.append)
    rows = table.to_pylist()
    assert isinstance(table, pa.Table) and table.schema.equals(ROW_SCHEMA)
    assert len(rows) == 2 * len(CELLS) and all(row["error"] is None for row in rows)
    assert results.verdict(rows, CELLS) is Exit.GOOD
    assert seen[0] == Progress(0, 1, len(CELLS), cell=str(CELLS[0])) and seen[-1] == Progress(len(CELLS), 0, len(CELLS))
    facts = result_files.facts_of(table)
    code = facts["code"]
    assert {(row["kcore_sha256"], row["kcore_commit"]) for row in rows} == {(code["sha256"], code["commit"])}
    assert code["sha256"] == own_sha256() and facts["machine"]["cores"] >= 1 and facts["versions"]["numpy"]
    assert Plan.parse(facts["plan"]).cells() == CELLS


def test_a_failing_cell_is_a_row_and_the_others_go_on(monkeypatch: pytest.MonkeyPatch):
    def breaks_at_100(cell: Cell, cluster: object) -> list[object]:
        if cell.partitions == 100:
            raise ValueError("no table of 100")
        return setup(cell, cluster)

    monkeypatch.setitem(WORKLOADS, "fake", Workload(FAKE.name, FAKE.summary, breaks_at_100))
    rows = bench.run(PLAN).to_pylist()
    failed = results.failures(rows)
    assert len(failed) == 4 and len(rows) == 4 + 2 * 8
    assert failed[0]["error"].startswith("ValueError: no table of 100 (breaks_at_100, line ")
    assert results.verdict(rows, CELLS) is Exit.FAILED


def test_cells_at_hand_survive_an_interruption(monkeypatch: pytest.MonkeyPatch):
    def stops_at_10(cell: Cell, cluster: object) -> list[object]:
        if cell.partitions == 10:
            raise KeyboardInterrupt
        return setup(cell, cluster)

    monkeypatch.setitem(WORKLOADS, "fake", Workload(FAKE.name, FAKE.summary, stops_at_10))
    rows = bench.run(PLAN).to_pylist()
    assert len(rows) == 2 * 8
    assert results.verdict(rows, CELLS) is Exit.INVALID


def test_what_cannot_be_run_at_all_is_an_exception():
    with pytest.raises(PlanError):
        bench.run({"workload": [{"name": "fake", "sizes": [1]}]})
    with pytest.raises(ClusterFileError, match="nowhere"):
        bench.run(PLAN | {"cluster": "nowhere"})
    assert json.dumps(result_files.facts_of(bench.run(PLAN))["title"]) == '"plan"'
