"""A real standalone Spark from pip's PySpark: a master and two workers on loopback."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from kcore.measure import bench
from kcore.measure.bench import Plan
from kcore.measure.bench import bench_results as results
from kcore.measure.report.exits import Exit
from kcore.spark import session
from spark.standalone import standalone


@pytest.fixture
def master(tmp_path: Path) -> Iterator[str]:
    """The URL of a master with two workers of one core each."""
    with standalone(tmp_path / "spark", workers=2) as cluster:
        yield cluster.url


@pytest.mark.long
def test_a_plan_runs_on_both_workers_of_a_standalone_cluster(master: str):
    # As many cores as the workers have: the first cell waits until both have registered.
    both = {"spark.cores.max": "2", "spark.scheduler.minRegisteredResourcesRatio": "1.0"}
    spark = session.start(master, **both)
    try:
        rows = bench.run("smoke", spark).to_pylist()
    finally:
        spark.stop()
    assert results.verdict(rows, Plan.of("smoke").cells()) is Exit.GOOD
    assert len({row["worker"] for row in rows}) == 2
