"""`kcore quorum`: its errors, and the files of `format`. tests/server and tests/oracle test a running quorum."""

import asyncio
import json
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from kcore.cli.commands import app
from kcore.cli.servers import quorum_serve
from kcore.cli.servers.server_process import use_all_descriptors
from kcore.constants import METADATA_TOPIC, METADATA_VERSION
from kcore.measure.processes.local_process import free_ports
from kcore.net.connect import connect
from kcore.replication.raft_log import OffsetAndEpoch
from kcore.schema.metadata_records_settings import FeatureLevelRecord
from kcore.schema.raft_votes import VoteRequest, VoteRequestPartitionData, VoteRequestTopicData
from kcore.storage.meta_properties import read_meta_properties
from kcore.storage.raft.snapshot import BOOTSTRAP, read_snapshot
from kcore.types import Uuid
from kcore.wire.metadata_frames import decode_metadata_record
from raft.batches import batch

DIRECTORY = "7VHjOcspTlaDEmxSSjIi9Q"
CLUSTER = "MkU3OEVBNTcwNTJENDM2Qg"


def quorum(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["quorum", *map(str, arguments)])


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ((), "give either --bootstrap-controller or --bootstrap-server"),
        (("--bootstrap-controller", "a:1", "--bootstrap-server", "a:1", "--status"), "give either"),
        (("--bootstrap-controller", "a:1"), "give one of --status, --replication and --json"),
        (("--bootstrap-controller", "a:1", "--status", "--replication"), "give one of"),
        (("--bootstrap-controller", "a:1", "--status", "--human-readable"), "--human-readable goes with"),
        (("--bootstrap-controller", "a:1", "--replication", "--human-readable", "--seed-format"), "not with"),
        (("--bootstrap-controller", "a:1", "--status", "--level", "4.0"), "--level 4.0: give 3.9 or 4.3"),
        (("--bootstrap-controller", "a", "--status"), "--bootstrap-controller 'a': give HOST:PORT"),
        (("--bootstrap-server", "a:1,b:", "--status"), "--bootstrap-server 'b:': give HOST:PORT"),
        (("--bootstrap-server", f"{'a' * 64}:1", "--status"), "is no host name: "),
        (("--bootstrap-server", "a:65536", "--status"), "port 65536 is not in 0..65535"),
    ],
)
def test_describe_refuses_what_makes_no_sense(arguments: tuple[str, ...], expected: str) -> None:
    result = quorum("describe", *arguments)
    assert result.exit_code == 2
    assert expected in result.output


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (None, "No such file"),
        ("listener.security.protocol.map=CONTROLLER:SASL_PLAINTEXT", "sasl.enabled.mechanisms=GSSAPI"),
        ("controller.listener.names=OTHER", "CONTROLLER is not among them"),
        ("authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer", "super.users is missing"),
    ],
)
def test_invalid_listener_settings_are_one_line(lines: str | None, expected: str, tmp_path: Path) -> None:
    path = tmp_path / "server.properties"
    if lines is not None:
        path.write_text(lines)
    result = quorum("serve", "--id", 1, "--bootstrap-controller", "a:1", "--security", path)
    assert result.exit_code == 2
    assert expected in result.output and len(result.output.strip().splitlines()) == 1


def test_describe_gives_up_in_time() -> None:
    [port] = free_ports(1)
    result = quorum("describe", "--bootstrap-controller", f"127.0.0.1:{port}", "--status", "--timeout", "200")
    assert result.exit_code == 1
    assert f"127.0.0.1:{port}" in result.output
    assert "given up after 0.2 s" in result.output


def test_format_makes_a_directory_once(tmp_path: Path) -> None:
    data = tmp_path / "data"
    made = quorum("format", "--id", 7, "--data", data, "--cluster-id", CLUSTER, "--directory-id", DIRECTORY)
    assert made.exit_code == 0, made.output
    assert json.loads(made.output) == {"clusterId": CLUSTER, "nodeId": 7, "directoryId": DIRECTORY}
    meta = read_meta_properties(data / "meta.properties")
    assert (meta.version, meta.cluster_id, meta.node_id, str(meta.directory_id)) == (1, CLUSTER, 7, DIRECTORY)
    again = quorum("format", "--id", 7, "--data", data)
    assert again.exit_code == 2
    assert "is formatted already" in again.output


@pytest.mark.parametrize(
    ("options", "expected"), [((), 33), (("--level", "4.4"), 33), (("--level", "4.3"), 30), (("--level", "3.9"), 21)]
)
def test_a_new_cluster_has_the_features_of_its_release(tmp_path: Path, options: tuple[str, ...], expected: int) -> None:
    assert quorum("format", "--id", 7, "--data", tmp_path, *options).exit_code == 0
    records = [decode_metadata_record(value)[0] for value in read_snapshot(tmp_path / BOOTSTRAP)]
    levels = {each.name: each.feature_level for each in records if isinstance(each, FeatureLevelRecord)}
    assert levels[METADATA_VERSION] == expected


def test_format_leaves_the_cluster_s_id_to_the_first_leader(tmp_path: Path) -> None:
    made = quorum("format", "--id", 7, "--data", tmp_path, "--no-cluster-id")
    assert made.exit_code == 0, made.output
    assert json.loads(made.output)["clusterId"] is None
    [port] = free_ports(1)
    command = [sys.executable, "-c", "from kcore.cli import main; main()", "quorum", "serve", "--id", "7"]
    serving = subprocess.Popen([*command, "--data", tmp_path, "--voters", f"7@127.0.0.1:{port}"])
    try:
        end = time.monotonic() + 60
        while "cluster.id" not in (tmp_path / "meta.properties").read_text():
            assert serving.poll() is None
            assert time.monotonic() < end
            time.sleep(0.05)
    finally:
        serving.kill()
        serving.wait()
    described = read_meta_properties(tmp_path / "meta.properties")
    assert len(Uuid(described.cluster_id or "")) == 16
    assert (described.node_id, str(described.directory_id)) == (7, json.loads(made.output)["directoryId"])


@pytest.mark.long
def test_a_voter_with_more_idle_connections_than_descriptors_votes_and_is_described(tmp_path: Path) -> None:
    """Its quorum-state can be written, and who asks is answered; the log stays short."""
    use_all_descriptors()  # For this end of the connections.
    data, log = tmp_path / "data", tmp_path / "log"
    assert quorum("format", "--id", 7, "--data", data, "--cluster-id", CLUSTER).exit_code == 0
    [port] = free_ports(1)
    command = [sys.executable, "-c", "from kcore.cli import main; main()", "quorum", "serve", "--id", "7"]
    command = ["sh", "-c", 'ulimit -n 256 && exec "$@"', "sh", *command, "--data", str(data)]
    asked = ("describe", "--bootstrap-controller", f"127.0.0.1:{port}", "--json", "--timeout", "20000")
    with log.open("wb") as lines:
        serving = subprocess.Popen([*command, "--voters", f"7@127.0.0.1:{port}"], stderr=lines)
    try:
        led = json.loads(quorum(*asked).output)
        idle = [socket.create_connection(("127.0.0.1", port)) for _ in range(1_100)]
        asyncio.run(stand_against(port, led["leaderEpoch"] + 1))
        described = quorum(*asked)
        assert described.exit_code == 0, described.output
        assert json.loads(described.output)["leaderEpoch"] > led["leaderEpoch"]
        for each in idle:
            each.close()
    finally:
        serving.terminate()
        assert serving.wait(60) == 0
    assert 0 < len(log.read_text().splitlines()) < 100


async def stand_against(port: int, epoch: int) -> None:
    """Asks the only voter, 7, for its vote in a new epoch: it has to write that down, whatever it answers."""
    asked = VoteRequestPartitionData(replica_epoch=epoch, replica_id=8)
    topic = VoteRequestTopicData(topic_name=METADATA_TOPIC, partitions=[asked])
    async with await connect("127.0.0.1", port) as connection:
        await connection.send(VoteRequest(cluster_id=CLUSTER, voter_id=7, topics=[topic]), 1)


@pytest.mark.parametrize("start", ["--standalone", "--initial-controllers"])
def test_format_writes_the_first_voters(tmp_path: Path, start: str) -> None:
    voters = "127.0.0.1:9093" if start == "--standalone" else f"7@127.0.0.1:9093:{DIRECTORY}"
    made = quorum("format", "--id", 7, "--data", tmp_path / "data", start, voters)
    assert made.exit_code == 0, made.output
    directory = json.loads(made.output)["directoryId"]
    assert start == "--standalone" or directory == DIRECTORY
    [snapshot] = (tmp_path / "data" / "__cluster_metadata-0").glob("*.checkpoint")
    dumped = CliRunner().invoke(app, ["dump", str(snapshot), "--metadata"])
    assert directory in dumped.output or "9093" in dumped.output


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("--standalone", "a:1", "--initial-controllers", "x"), "give either"),
        (("--standalone", "a"), "--standalone 'a': give HOST:PORT"),
        (("--initial-controllers", "1@a:1"), "give ID@HOST:PORT:DIRECTORY"),
        (("--initial-controllers", f"1@a:1:{DIRECTORY},1@b:1:{DIRECTORY}"), "each id once"),
        (("--cluster-id", CLUSTER, "--no-cluster-id"), "give either --cluster-id or --no-cluster-id"),
        (("--directory-id", "short"), "--directory-id 'short': give a uuid"),
        (("--cluster-id", "short"), "--cluster-id 'short': give a uuid"),
        (("--level", "4.0"), "--level 4.0"),
        (("--initial-controllers", f"7@a:1:{DIRECTORY}", "--directory-id", CLUSTER), "is not the"),
    ],
)
def test_format_refuses_what_cannot_be(tmp_path: Path, arguments: tuple[str, ...], expected: str) -> None:
    result = quorum("format", "--id", 7, "--data", tmp_path / "data", *arguments)
    assert result.exit_code == 2
    assert expected in result.output
    assert not (tmp_path / "data" / "meta.properties").exists()


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ((), "give either --voters or --bootstrap-controller"),
        (("--voters", "7@a:1", "--bootstrap-controller", "a:1"), "give either"),
        (("--voters", "7@a"), "give ID@HOST:PORT"),
        (("--voters", "7@a:1,7@b:1"), "each id once"),
        (("--voters", f"7@{'a' * 64}:1"), "is no host name: "),
        (("--voters", "7@a:65536"), "port 65536 is not in 0..65535"),
        (("--voters", "7@127.0.0.1:1"), "a voter must not forget its vote: give --data DIR"),
        (("--voters", "1@127.0.0.1:1"), "an observer without --data needs --cluster-id"),
        (("--voters", "1@127.0.0.1:1", "--level", "4.0"), "--level 4.0"),
        (("--voters", "1@127.0.0.1:1", "--listen", "a"), "--listen 'a': give HOST:PORT"),
        (
            ("--voters", "1@127.0.0.1:1", "--config", "fetch.timeout.ms=x"),
            "controller.quorum.fetch.timeout.ms=x: give a number",
        ),
        (("--voters", "1@127.0.0.1:1", "--config", "auto.join=1"), "controller.quorum.auto.join (bool)"),
        (
            ("--voters", "1@127.0.0.1:1", "--config", "metadata.max.retention.ms=no"),
            "metadata.max.retention.ms=no: give a number",
        ),
        (("--voters", "1@127.0.0.1:1", "--config", "fetch.timeout.ms=-1"), "fetch.timeout.ms=-1: give a number from 1"),
        (("--bootstrap-controller", "127.0.0.1:1", "--data", "nowhere"), "give --listen or --advertise with a port"),
    ],
)
def test_serve_refuses_what_makes_no_sense(arguments: tuple[str, ...], expected: str) -> None:
    result = quorum("serve", "--id", 7, *arguments)
    assert result.exit_code == 2
    assert expected in result.output


def test_serve_refuses_a_directory_that_is_not_its_own(tmp_path: Path) -> None:
    nowhere = quorum("serve", "--id", 7, "--voters", "7@127.0.0.1:1", "--data", tmp_path / "data")
    assert nowhere.exit_code == 2
    assert "is not formatted" in nowhere.output
    assert quorum("format", "--id", 8, "--data", tmp_path / "data").exit_code == 0
    other = quorum("serve", "--id", 7, "--voters", "7@127.0.0.1:1", "--data", tmp_path / "data")
    assert other.exit_code == 2
    assert "node.id is 8, not 7" in other.output


def test_serve_says_that_its_address_is_taken(tmp_path: Path) -> None:
    assert quorum("format", "--id", 7, "--data", tmp_path / "data").exit_code == 0
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        result = quorum("serve", "--id", 7, "--voters", f"7@{address}", "--data", tmp_path / "data")
    assert result.exit_code == 2
    assert "in use" in result.output


@pytest.mark.parametrize(("level", "may_be"), [("4.3", False), ("3.9", True)])
@pytest.mark.parametrize("has_data", [False, True])
def test_serve_opens_a_log_of_its_level(tmp_path: Path, level: str, may_be: bool, has_data: bool) -> None:
    """A snapshot that ends within a batch: 3.9 makes one."""
    data = tmp_path / "data" if has_data else None
    if data:
        assert quorum("format", "--id", 7, "--data", data, "--level", level).exit_code == 0
    plan = quorum_serve.Plan(7, data, "1@a:1", None, None, None, "CONTROLLER", level, None if data else CLUSTER, [])
    opened = quorum_serve._open(plan, [1], is_voter=False)
    opened.log.append_as_follower(batch(0, 1, 2), 1)
    opened.log.update_high_watermark(2)
    assert (opened.log.why_no_snapshot(OffsetAndEpoch(1, 1)) is None) == may_be
    opened.close()


def test_serve_takes_kafkas_names() -> None:
    """With the prefix or without; -1 is no limit, for what has a limit."""
    given = ["controller.quorum.fetch.timeout.ms=7", "metadata.max.retention.ms=-1", "metadata.max.retention.bytes=8"]
    assert quorum_serve._settings(given) == {
        "fetch_timeout_ms": 7,
        "metadata_max_retention_ms": -1,
        "metadata_max_retention_bytes": 8,
    }
