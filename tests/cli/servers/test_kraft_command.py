"""`kcore controller kraft`: directories formatted and controllers run as an operator does it, static voters too."""

import asyncio
import json
import sys
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

import pytest
from typer.testing import CliRunner

from kcore.cli.commands import app
from kcore.measure.hollow.fleet import Fleet
from kcore.measure.hollow.quorum_client import Quorum
from kcore.measure.processes.java_process import JavaProcess
from kcore.measure.processes.local_process import free_ports
from kcore.measure.storm.kraft.kraft_storm import Sizes, Storm
from kcore.measure.storm.kraft.scenarios import SCENARIOS
from kcore.schema.metadata_records_security import UserScramCredentialRecord
from kcore.scram import salted_password, scram_credential
from kcore.storage.raft.snapshot import read_snapshot
from kcore.wire.metadata_frames import decode_metadata_record

KCORE = (sys.executable, "-c", "from kcore.cli import main; main()", "controller", "kraft")
STORY = ("register", "create", "controlled-shutdown", "preferred-election", "reassign", "delete-topics")
CLUSTER_ID = "AAAAAAAAAAAAAAAAAAAAAQ"


class Controller(JavaProcess):
    """One process; its files are in `folder`."""

    def __init__(self, node_id: int, folder: Path, properties: str, *options: str) -> None:
        folder.mkdir()
        self.configuration = folder / "server.properties"
        self.configuration.write_text(
            f"process.roles=controller\nnode.id={node_id}\nlog.dirs={folder}/data\n{properties}"
        )
        super().__init__(f"controller {node_id}", folder / "log", [], f"controller {node_id} listens at ")
        self._command = [*KCORE, "run", "-c", str(self.configuration), *options]

    def format(self, *options: str) -> dict[str, str]:
        """The ids that are printed."""
        arguments = ["controller", "kraft", "format", "-c", str(self.configuration), *options]
        done = CliRunner().invoke(app, arguments)
        assert done.exit_code == 0, done.output
        printed: dict[str, str] = json.loads(done.stdout)
        return printed


@contextmanager
def running(*controllers: Controller) -> Iterator[None]:
    try:
        for each in controllers:
            each.start(wait=False)
        for each in controllers:
            each.await_ready()
        yield
    finally:
        for each in controllers:
            each.kill()


async def story(address: str) -> dict[str, int]:
    """Brokers register, lead, move and stop; the finalized features."""
    quorum = Quorum([address], random=Random(1))
    await quorum.open()
    try:
        async with Fleet(quorum, random=Random(2)) as fleet:
            sizes = Sizes(brokers=4, partitions=40, partitions_per_topic=10, racks=0)
            storm = Storm(quorum, fleet, sizes, Random(3))
            for broker_id in range(1, 5):
                fleet.add(broker_id)
            for name in STORY:
                result = await SCENARIOS[name](storm)
                assert (result.changes > 0, result.false_fencings) == (True, 0), name
        return {each.name: each.max_version_level for each in quorum.features.finalized_features}
    finally:
        await quorum.close()


async def features(address: str) -> dict[str, int]:
    quorum = Quorum([address], random=Random(1))
    await quorum.open()
    await quorum.close()
    return {each.name: each.max_version_level for each in quorum.features.finalized_features}


@pytest.mark.parametrize(
    ("release", "level", "number"),
    [
        pytest.param("4.3.1", "3.9-IV0", 21, marks=pytest.mark.long),
        pytest.param("4.4.0", "4.4-IV2", 33, marks=pytest.mark.long),
        pytest.param("4.1.2", "4.1-IV1", 27, marks=pytest.mark.long),
        pytest.param("3.9.1", "3.9-IV0", 21, marks=pytest.mark.long),
    ],
)
def test_a_static_voter_at_the_level_of_an_older_release(release: str, level: str, number: int, tmp_path: Path) -> None:
    [port] = free_ports(1)
    address = f"127.0.0.1:{port}"
    voters = (
        f"controller.quorum.voters=7@{address}\ncontroller.listener.names=CONTROLLER\nlisteners=CONTROLLER://:{port}\n"
    )
    controller = Controller(7, tmp_path / "node", voters, "--release", release)
    made = controller.format("-t", CLUSTER_ID, "--release", release, "--release-version", level)
    assert made["clusterId"] == CLUSTER_ID
    with running(controller):
        description = asyncio.run(story(address))
        assert description["metadata.version"] == number and "kraft.version" not in description
        assert controller.terminate() == 0
        controller.start()
        assert asyncio.run(features(address)) == description, "they are in its log"
        log = controller.log.read_text()
    assert "ERROR" not in log and "WARNING" not in log
    assert f"bootstrap records at metadata.version {level} from" in log
    assert f"the log is at metadata.version {level}" in log


@pytest.mark.long
def test_three_static_voters(tmp_path: Path) -> None:
    ports = dict(zip((11, 12, 13), free_ports(3), strict=True))
    voters = ",".join(f"{node_id}@127.0.0.1:{port}" for node_id, port in ports.items())
    controllers = []
    for node_id, port in ports.items():
        lines = f"controller.quorum.voters={voters}\ncontroller.listener.names=CONTROLLER\nlisteners=CONTROLLER://127.0.0.1:{port}\n"
        controllers.append(Controller(node_id, tmp_path / str(node_id), lines))
        controllers[-1].format("-t", CLUSTER_ID)
    with running(*controllers):
        description = asyncio.run(story(f"127.0.0.1:{ports[12]}"))
        assert "kraft.version" not in description, "a static quorum is at 0"
        codes = [controller.terminate() for controller in controllers]
    assert codes == [0, 0, 0]
    logs = [controller.log.read_text() for controller in controllers]
    assert sum("this node is the active controller of epoch" in log for log in logs) >= 1
    assert not any(" ERROR " in log for log in logs)


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ("listener.security.protocol.map=CONTROLLER:SSL", "listener.name.controller.ssl.keystore.location is missing"),
        ("listener.security.protocol.map=CONTROLLER:SASL_PLAINTEXT", "sasl.enabled.mechanisms=GSSAPI: kcore has PLAIN"),
        ("sasl.kerberos.service.name=kafka", "sasl.kerberos.service.name: kcore has PLAIN and SCRAM"),
        ("no.such.setting=1", "no.such.setting: Kafka 4.4.0 has no such setting"),
    ],
)
@pytest.mark.parametrize("verb", ["format", "run"])
def test_what_cannot_be_is_one_line_and_exit_code_2(lines: str, expected: str, verb: str, tmp_path: Path) -> None:
    where = "controller.quorum.voters=7@a:1\ncontroller.listener.names=CONTROLLER\nlisteners=CONTROLLER://:1\n"
    controller = Controller(7, tmp_path / "node", where + lines)
    done = CliRunner().invoke(app, ["controller", "kraft", verb, "-c", str(controller.configuration)])
    assert done.exit_code == 2
    assert expected in " ".join(done.stderr.split())
    assert not (tmp_path / "node" / "data").exists()


@pytest.mark.parametrize("command", ["controller kraft format", "controller kraft run", "broker kraft run"])
def test_a_release_without_rules_is_refused(command: str, tmp_path: Path) -> None:
    controller = Controller(7, tmp_path / "node", MINIMAL)
    done = CliRunner().invoke(app, [*command.split(), "-c", str(controller.configuration), "--release", "4.2.0"])
    assert (done.exit_code, done.stderr) == (2, "kcore: --release: '4.2.0' is none of 3.9.1, 4.1.2, 4.3.1, 4.4.0\n")


def users_of(folder: Path) -> list[UserScramCredentialRecord]:
    """The SCRAM credentials among the records of the snapshot with which the quorum begins."""
    [path] = (folder / "data" / "__cluster_metadata-0").glob("*.checkpoint")
    records = [decode_metadata_record(value)[0] for value in read_snapshot(path)]
    return [each for each in records if isinstance(each, UserScramCredentialRecord)]


MINIMAL = "controller.quorum.bootstrap.servers=a:1\ncontroller.listener.names=CONTROLLER\nlisteners=CONTROLLER://a:1\n"


def test_users_that_format_creates(tmp_path: Path) -> None:
    controller = Controller(7, tmp_path / "node", MINIMAL)
    salted = b64encode(salted_password("SCRAM-SHA-512", b"geheim", b"0123456789abcdef", 8192)).decode()
    salt = b64encode(b"0123456789abcdef").decode()
    controller.format(
        *("-S", "SCRAM-SHA-256=[name=alice,password=geheim]"),
        *("-S", f'SCRAM-SHA-512=[name="bob",salt="{salt}",iterations=8192,saltedpassword="{salted}"]'),
        *("--add-scram", f"SCRAM-SHA-512=[name=carol,salt={salt},iterations=8192,password=geheim]"),
    )
    alice, bob, carol = users_of(tmp_path / "node")
    assert (alice.name, alice.mechanism, alice.iterations) == ("alice", 1, 4096)
    made = scram_credential("SCRAM-SHA-256", b"geheim", alice.salt, 4096)
    assert (made.stored_key, made.server_key) == (alice.stored_key, alice.server_key)
    assert (bob.name, bob.mechanism, bob.iterations, bob.stored_key) == ("bob", 2, 8192, carol.stored_key)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("PLAIN=[name=a,password=swordfish]", "give MECHANISM=[name=NAME,password=PASSWORD]"),
        ("SCRAM-SHA-256=name=a,password=swordfish", "give MECHANISM="),
        ("SCRAM-SHA-256=[password=swordfish]", "give a name, and a password"),
        ("SCRAM-SHA-256=[name=a]", "give a name, and a password"),
        ("SCRAM-SHA-256=[name=a,saltedpassword=swordfish]", "a saltedpassword with its salt"),
        ("SCRAM-SHA-256=[name=a,password=sword,fish]", "give name, salt"),
        ("SCRAM-SHA-256=[name=a,password=swordfish,iterations=4095]", "give a number from 4,096 to 16,384"),
        ("SCRAM-SHA-256=[name=a,password=swordfish,iterations=16385]", "give a number from 4,096"),
        (f"SCRAM-SHA-256=[name=a,password=swordfish,iterations={'9' * 5000}]", "give a number from 4,096"),
        ("SCRAM-SHA-256=[name=a,password=swordfish,salt=?]", "salt is not Base64"),
    ],
)
def test_users_that_cannot_be(given: str, expected: str, tmp_path: Path) -> None:
    controller = Controller(7, tmp_path / "node", MINIMAL)
    arguments = ["controller", "kraft", "format", "-c", str(controller.configuration), "-S", given]
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 2 and expected in " ".join(done.stderr.split()) and "swordfish" not in done.stderr
    assert not (tmp_path / "node" / "data").exists()


def test_users_need_a_metadata_version_that_knows_them(tmp_path: Path) -> None:
    controller = Controller(7, tmp_path / "node", MINIMAL)
    older = ["-c", str(controller.configuration), "-r", "3.4-IV0", "--release", "3.9.1"]
    done = CliRunner().invoke(app, ["controller", "kraft", "format", *older, "-S", "SCRAM-SHA-256=[name=a,password=b]"])
    assert done.exit_code == 2 and "metadata.version 3.5-IV2 or later" in " ".join(done.stderr.split())
