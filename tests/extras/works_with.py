"""Use each extra once for its purpose: `python works_with.py EXTRA`, in an environment that has that extra alone.

With "none" it is what kcore does with NumPy alone. The tests run it with all other packages hidden, `ci/package` in
environments that have no others.
"""

import contextlib
import io
import json
import sys
import tempfile
from pathlib import Path

import kcore
from kcore.schema import LeaderAndIsrRequest

BATCH = kcore.wire.encode_records(
    [kcore.wire.Record(0, 1, b"key", b"value"), kcore.wire.Record(1, 2, b"key", b"value")]
)


def command(*arguments: str) -> str:
    """The output of `kcore ARGUMENTS`, which must exit with 0."""
    from kcore.cli import main

    out, before = io.StringIO(), sys.argv
    sys.argv = ["kcore", *arguments]
    try:
        with contextlib.redirect_stdout(out):
            main()
    except SystemExit as ended:
        assert not ended.code, f"kcore {' '.join(arguments)}: {ended.code}"
    finally:
        sys.argv = before
    return out.getvalue()


def none() -> None:
    """Messages, columns, JSON, elections, divergence, records: `tests/typing/user_program.py` has the rest."""
    request = LeaderAndIsrRequest(controller_id=1, controller_epoch=2, broker_epoch=3)
    data = kcore.encode(request, 7)
    assert kcore.decode("LeaderAndIsrRequest", 7, data) == request
    assert kcore.encode_columns(kcore.decode_columns("LeaderAndIsrRequest", 7, data), 7) == data
    assert kcore.from_json("LeaderAndIsrRequest", 7, kcore.to_json(request, 7)) == request
    table = kcore.generate(partitions=200, brokers=10, replication_factor=3, topics=10, seed=1)
    lost = kcore.zk.elect(table, "offline", leaving=[7])
    assert len(lost) == (table.replicas__ps == table.brokers.row(7)).any(1).sum()
    assert len(kcore.wire.decode_records(BATCH)) == 2
    assert [each for each in kcore.__all__ if not hasattr(kcore, each)] == []


def arrow() -> None:
    """Columns and tables as Arrow."""
    from kcore.metadata.table.table_arrow import partitions_as_arrow

    table = kcore.generate(partitions=200, brokers=10, replication_factor=3, topics=10, seed=1)
    assert partitions_as_arrow(table).num_rows == 200
    data = kcore.encode(LeaderAndIsrRequest(controller_id=5), 7)
    rows = kcore.decode_columns("LeaderAndIsrRequest", 7, data)
    assert rows.to_arrow().column("controller_id").to_pylist() == [5]


def cli() -> None:
    """The command: messages, logs, images."""
    assert command("--version") == f"kcore {kcore.__version__}\n"
    data = kcore.encode(LeaderAndIsrRequest(controller_id=5), 7)
    assert json.loads(command("decode", "LeaderAndIsrRequest", "7", data.hex()))["controllerId"] == 5
    with tempfile.TemporaryDirectory() as folder:
        for name in ("a", "b"):
            log = Path(folder) / name / "t-0" / "00000000000000000000.log"
            log.parent.mkdir(parents=True)
            log.write_bytes(BATCH)
        assert "2" in command("dump", str(log))
        assert "0 of 1 partitions differ" in command("diverge", f"{folder}/a", f"{folder}/b")


def metrics() -> None:
    """A page over HTTP, with the figures of this process."""
    import asyncio
    from urllib.request import urlopen

    from kcore.server.metrics.page import MetricsPage

    async def nothing() -> list[object]:
        return []

    async def page() -> bytes:
        made = MetricsPage("127.0.0.1", 0)
        async with made.serving(nothing):  # type: ignore[arg-type]
            asked = asyncio.to_thread(urlopen, f"http://127.0.0.1:{made.port}/metrics")
            with await asked as answer:
                return bytes(answer.read())

    text = asyncio.run(page())
    assert b"kcore_loop_answers 1.0" in text and b"process_resident_memory_bytes" in text


def numba() -> None:
    """An election rule of one's own."""

    def first_if_online(replicas: object, in_sync: int, online: int) -> int:
        return 0 if online & 1 else -1

    table = kcore.generate(partitions=200, brokers=10, replication_factor=3, topics=10, seed=1)
    policy = kcore.zk.election_policy(first_if_online)
    assert len(kcore.zk.elect(table, policy, leaving=[7])) > 0


def report() -> None:
    """A benchmark's rows and its report, as `kcore bench --no-spark` makes them."""
    from kcore.measure.bench import bench_report as pages
    from kcore.measure.report import result_files

    cell = {"name": "election", "partitions": [1000], "brokers": [10], "repeat": 1, "seed": 1}
    plan = kcore.bench.Plan.of({"workload": [cell]})
    rows = kcore.bench.run(plan)
    assert rows.column("error").to_pylist() == [None] * len(rows)
    with tempfile.TemporaryDirectory() as folder:
        result_files.write(rows, Path(folder))
        assert (Path(folder) / "results.parquet").is_file()
        assert "<svg" in pages.render(rows, plan.cells())


def spark() -> None:
    """A log as a DataFrame, in a Spark of this process; it needs a Java."""
    from kcore.spark.session import start

    session = start("local[1]")
    try:
        kcore.spark.register(session)
        with tempfile.TemporaryDirectory() as folder:
            log = Path(folder) / "t-0" / "00000000000000000000.log"
            log.parent.mkdir()
            log.write_bytes(BATCH)
            assert session.read.format("kcore.log").load(str(log)).count() == 2
    finally:
        session.stop()


def zookeeper() -> None:
    """A client of ZooKeeper; what it asks of one is tested in tests/zookeeper."""
    from kcore.zookeeper.client import ZookeeperClient
    from kcore.zookeeper.session import Session

    assert ZookeeperClient and Session


if __name__ == "__main__":
    {each.__name__: each for each in (none, arrow, cli, metrics, numba, report, spark, zookeeper)}[sys.argv[1]]()
    print(f"kcore works with {sys.argv[1]}")
