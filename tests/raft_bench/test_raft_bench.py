"""`kcore bench quorum` reads the nodes' output, prints results and stores them."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner, Result

from kcore.cli.commands import app
from kcore.cli.measure import bench_quorum_command
from kcore.measure.processes import target
from kcore.measure.processes.target import parse_targets
from kcore.measure.raft_bench import raft_bench_report as report
from kcore.measure.raft_bench import run_raft_bench as raft_bench
from kcore.measure.raft_bench.nodes import LINE, KafkaRaftNodes, KcoreRaftNodes, Load, Measured
from kcore.measure.raft_bench.run_raft_bench import HEADER, Row, nodes_of
from kcore.measure.report import result_files
from kcore.measure.report.build import Build
from kcore.server.quorum_node.workload import Stats

LOAD = Load(20_000, 256, None)


def test_the_lines_of_both_are_read_alike() -> None:
    kafka = "Throughput (bytes/second): 4987654.32, Latency (ms): 27.1 p75 38.2 p99 51.2 p999"
    kcore = str(Stats(19_483.0, 4_987_654.321, 20.04, 27.1, 38.2, 51.2))
    assert LINE.findall(kafka) == LINE.findall(kcore) == [("4987654.32", "27.1", "38.2", "51.2")]


def test_a_row() -> None:
    row = Row("kcore", LOAD, Measured(4_987_654.32, 27.1, 38.2, 1051.2, 0.5))
    assert row.cells() == ("kcore", "default", "20,000/s x 256 B", "4.99", "27.1", "38.2", "1,051.2", "0.50")
    assert len(row.cells()) == len(HEADER)
    assert row.as_dict()["p99_ms"] == 38.2
    assert Row("kcore", LOAD._replace(linger_ms=0), row.measured).cells()[1] == "0 ms"


def test_a_row_of_nodes_that_ended() -> None:
    """Kafka's do at rates that they cannot follow."""
    row = Row("kafka-4.3.1", LOAD, None, "node 1 has ended")
    assert row.cells() == ("kafka-4.3.1", "default", "20,000/s x 256 B", "-", "-", "-", "-", "-")
    assert len(row.cells()) == len(HEADER)
    assert row.as_dict()["fault"] == "node 1 has ended"


def test_systems_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(target, "kafka_jars", lambda release: tmp_path)
    kafka, kcore = (nodes_of(each, LOAD) for each in parse_targets(["old=kafka-3.9.1", "kcore"], own=["kcore"]))
    try:
        assert isinstance(kafka, KafkaRaftNodes)
        assert isinstance(kcore, KcoreRaftNodes)
        assert (kafka.name, kcore.name) == ("old", "kcore")
    finally:
        kafka.close()
        kcore.close()
    assert not kafka.folder.exists()


def test_a_linger_is_that_of_the_log() -> None:
    assert LOAD.setting == ""
    assert LOAD._replace(linger_ms=0).setting == "controller.quorum.append.linger.ms=0"


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("--system", "etcd"), "--target 'etcd': give kafka-4.4.0 or another release"),
        (("--target", "kafka-3.9.1-zk"), "--target kafka-3.9.1-zk: give kafka-RELEASE"),
        (("--target", "localhost:9093"), "--target localhost:9093: give kafka-RELEASE"),
        (("--property", "kcore:controller.quorum.append.linger.ms=3"), "append.linger.ms: give --linger"),
        (("--jvm", "kcore:-Xmx1g"), "kcore has no JVM"),
        (("--linger", "soon"), "--linger soon: milliseconds"),
    ],
)
def test_what_makes_no_sense_is_refused(arguments: tuple[str, str], expected: str) -> None:
    result = quorum(*arguments)
    assert result.exit_code == 2
    assert expected in result.output


MEASURED = Measured(4_987_654.0, 27.1, 38.2, 51.2, 0.5)
ROWS = [Row("kafka-4.3.1", LOAD, MEASURED), Row("kcore", LOAD, MEASURED._replace(p99_ms=30.0))]
FAULT = Row("kafka-4.3.1", LOAD, None, "node 1 has <ended>\nwith its log")


@pytest.fixture(autouse=True)
def without_java(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench_quorum_command, "build_of", lambda target, heap: Build(target.text))


def quorum(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["bench", "quorum", *arguments])


def measured(rows: list[Row], then: type[BaseException] | None = None) -> Callable[..., Iterator[Row]]:
    """In place of the nodes: these rows, then an interruption."""

    def run(*_: object) -> Iterator[Row]:
        yield from rows
        if then is not None:
            raise then

    return run


def test_the_run_is_kept_with_a_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(raft_bench, "run", measured(ROWS))
    done = quorum("--rate", "20000", "--linger", "default", "--out", str(tmp_path), "--json")
    assert done.exit_code == 0, done.output
    assert [json.loads(line)["p99_ms"] for line in done.stdout.splitlines()] == [38.2, 30.0]
    kept = pq.read_table(tmp_path / "results.parquet").to_pylist()
    assert [Row.of(row) for row in kept] == ROWS
    page = (tmp_path / "report.html").read_text()
    assert "Every system was measured under every load." in page
    for title in ("Latency: 20,000/s x 256 B, its own linger", "Throughput", "Processor time"):
        assert f'aria-label="{title}"' in page
    assert ">wanted<" in page and " or more" not in page
    cut = [ROWS[0]._replace(measured=MEASURED._replace(p99_ms=249.0)), ROWS[1]]
    assert report.render(cut, {}, 2).count(">p99 249 ms or more<") == 1  # Kafka's tool counts no further.
    assert "p75 27.1 ms, p99 38.2 ms, p99.9 51.2 ms" in page and 'data-name="p99.9 ms">51.2</td>' in page


def test_what_was_measured_before_ctrl_c_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(raft_bench, "run", measured([FAULT], KeyboardInterrupt))
    done = quorum("--rate", "20000", "--linger", "default", "--out", str(tmp_path))
    assert done.exit_code == 3 and "partial run: 1 of 2 measurements are done" in done.stderr
    page = (tmp_path / "report.html").read_text()
    assert "kafka-4.3.1, 20,000/s x 256 B, its own linger: node 1 has &lt;ended&gt;</p>" in page
    assert "partial run: 1 of 2 measurements are done" in page and 'aria-label="Latency' not in page
    assert Row.of(pq.read_table(tmp_path / "results.parquet").to_pylist()[0]) == FAULT


def test_a_node_that_ended_is_exit_code_1(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(raft_bench, "run", measured([FAULT, ROWS[1]]))
    assert quorum("--rate", "20000", "--linger", "0", "--out", str(tmp_path)).exit_code == 1


def test_earlier_runs_are_beside_this_one(tmp_path: Path) -> None:
    facts = {"machine": {"host": "here"}}
    result_files.write(result_files.with_facts(report.table_of(ROWS), facts | {"when": "1"}), tmp_path / "old")
    now = [ROWS[1]._replace(measured=MEASURED._replace(p99_ms=15.0))]
    page = report.render(now, facts | {"when": "2"}, 1, tmp_path / "new")
    assert "old (1)" in page and ">30.0 ms</td>" in page and ">0.500x</td>" in page


def test_the_page_begins_with_kcores_p99_beside_that_of_each_other_system() -> None:
    slower = [row._replace(load=LOAD._replace(linger_ms=0)) for row in ROWS]
    slower[1] = slower[1]._replace(measured=MEASURED._replace(p99_ms=19.1))
    page = report.render([*ROWS, *slower, FAULT], {}, 5)
    assert "kcore&#x27;s p99 until the commit is 0.500 to 0.785 times that of kafka-4.3.1 over 2 loads." in page
    assert 'class="answer"' not in report.render([FAULT, ROWS[1]], {}, 2), "nothing to compare"
    assert "var(--kafka)" in page and "var(--kcore)" in page
