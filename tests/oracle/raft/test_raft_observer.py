"""kcore as an observer of a real quorum: the log that it ends up with is Kafka's, byte for byte, and decodes alike."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from kcore.cli.commands import app
from oracle.kafka_tools import TOPICS, dump_log, run_tool
from oracle.raft_quorums import RaftQuorum

DECODED = ("--cluster-metadata-decoder",)
FIRST_SEGMENT = "00000000000000000000.log"


def records_of(segment: Path) -> list[str]:
    """The output of kafka-dump-log for a segment behind its head, a line a batch or record."""
    return dump_log([segment], *DECODED)[0][2:]


@pytest.mark.parametrize(("release", "dynamic"), [("4.4.0", True), ("4.3.1", False), ("3.9.1", False)], ids=str)
def test_its_log_is_kafkas(release: str, dynamic: bool) -> None:
    with RaftQuorum(release, real=1, kcore=0, observers=1, dynamic=dynamic, broker=True) as quorum:
        [real], [observer], [broker] = quorum.real, quorum.observers, quorum.brokers
        topic = ("--create", "--topic", "orders", "--partitions", "3", "--bootstrap-server", broker.address)
        run_tool(TOPICS, *topic)
        quorum.await_progress(observer)
        description = quorum.described()
        assert [each.replica_id for each in description.current_voters] == [real.node_id]
        assert observer.node_id in [each.replica_id for each in description.observers]
        quorum.stop(observer)
        quorum.stop(broker, real)
        ours, theirs = (node.log_folder / FIRST_SEGMENT for node in (observer, real))
        data = ours.read_bytes()
        assert theirs.read_bytes()[: len(data)] == data
        decoded = records_of(ours)
        assert records_of(theirs)[: len(decoded)] == decoded
        assert any("REGISTER_BROKER_RECORD" in line for line in decoded)
        assert any('"name":"orders"' in line for line in decoded)
        dumped = CliRunner().invoke(app, ["dump", str(ours), "--metadata"]).output.splitlines()
        assert dumped[2:] == decoded
