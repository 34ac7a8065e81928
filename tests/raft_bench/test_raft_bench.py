"""What `kcore bench quorum` reads of the nodes' output, and prints."""

import json

import pytest
from typer.testing import CliRunner

from kcore.cli.commands import app
from kcore.raft_bench.nodes import LINE, KafkaRaftNodes, KcoreRaftNodes, Load, Measured
from kcore.raft_bench.run import HEADER, Row, nodes_of
from kcore.server.quorum.workload import Stats

LOAD = Load(20_000, 256, None)


def test_the_lines_of_both_are_read_alike() -> None:
    kafka = "Throughput (bytes/second): 4987654.32, Latency (ms): 27.1 p75 38.2 p99 51.2 p999"
    kcore = str(Stats(19_483.0, 4_987_654.321, 20.04, 27.1, 38.2, 51.2))
    assert LINE.findall(kafka) == LINE.findall(kcore) == [("4987654.32", "27.1", "38.2", "51.2")]


def test_a_row() -> None:
    row = Row("kcore", LOAD, Measured(4_987_654.32, 27.1, 38.2, 1051.2, 0.5))
    assert row.cells() == ("kcore", "default", "20,000/s x 256 B", "4.99", "27.1", "38.2", "1,051.2", "0.50")
    assert len(row.cells()) == len(HEADER)
    assert json.loads(row.as_json())["p99_ms"] == 38.2
    assert Row("kcore", LOAD._replace(linger_ms=0), row.measured).cells()[1] == "0 ms"


def test_a_row_of_nodes_that_ended() -> None:
    """Kafka's do at rates that they cannot follow."""
    row = Row("kafka-4.3.1", LOAD, None, "node 1 has ended")
    assert row.cells() == ("kafka-4.3.1", "default", "20,000/s x 256 B", "-", "-", "-", "-", "-")
    assert len(row.cells()) == len(HEADER)
    assert json.loads(row.as_json())["fault"] == "node 1 has ended"


def test_systems_by_name() -> None:
    kafka, kcore = nodes_of("kafka-3.9.1", LOAD), nodes_of("kcore", LOAD)
    try:
        assert isinstance(kafka, KafkaRaftNodes)
        assert isinstance(kcore, KcoreRaftNodes)
        assert (kafka.name, kcore.name) == ("Kafka 3.9.1", "kcore")
    finally:
        kafka.close()
        kcore.close()
    assert not kafka.folder.exists()


def test_a_linger_is_that_of_the_log() -> None:
    assert LOAD.setting == ""
    assert LOAD._replace(linger_ms=0).setting == "controller.quorum.append.linger.ms=0"


@pytest.mark.parametrize(
    ("arguments", "told"),
    [(("--system", "etcd"), "--system etcd: kafka-4.3.1"), (("--linger", "soon"), "--linger soon: milliseconds")],
)
def test_what_makes_no_sense_is_refused(arguments: tuple[str, str], told: str) -> None:
    result = CliRunner().invoke(app, ["bench", "quorum", *arguments])
    assert result.exit_code == 2
    assert told in result.output
