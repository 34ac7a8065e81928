"""kcore's controllers, by the rules of an older release, meet data of newer tools and controllers of Kafka.

A controller says so in one line, ends, and stores none of it; by the rules of the newer release it then goes on.
"""

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from kcore.measure.processes.local_process import free_ports, random_uuid
from kcore.storage.raft.metadata_log import load_metadata
from kcore.storage.raft.raft_dir import METADATA_FOLDER
from oracle.chaos.kraft_checks import active_controller
from oracle.kafka_tools import OLDER_RELEASE, RELEASE, tool_command
from oracle.kcore_brokers import until
from oracle.kraft_clusters import CONTROLLER, FIRST_CONTROLLER, KCORE, KraftCluster, Node

NEWER_LEVEL: Final = f"sets metadata.version to level 33 (4.4-IV2), which Kafka {RELEASE} has"


class Behind(KraftCluster):
    """Two controllers of Kafka's, and a voter of kcore's that follows the rules of the older release."""

    def __init__(self) -> None:
        super().__init__(controllers=3, brokers=0, real=[FIRST_CONTROLLER, FIRST_CONTROLLER + 1])
        *self.leading, self.behind = self.controllers

    def start(self) -> None:
        """Kafka's alone: kcore's would begin at the older level if it led first."""
        for node in self.leading:
            self._format(node)
            node.start(wait=False)
        for node in self.leading:
            node.await_ready()
        self.upgrade(self.behind, OLDER_RELEASE)
        self.release = OLDER_RELEASE
        self._format(self.behind)

    def go_up(self) -> None:
        """kcore's controller follows the rules of the newer release from its next start on."""
        self.upgrade(self.behind, RELEASE)
        self.release = RELEASE


@pytest.fixture
def cluster() -> Iterator[Behind]:
    with Behind() as started:
        yield started


def stored(node: Node) -> dict[str, bytes]:
    """The files with data of the metadata log that are not empty."""
    files = [*(node.data / METADATA_FOLDER).glob("*.log"), *node.data.rglob("*.checkpoint")]
    return {path.name: data for path in files if (data := path.read_bytes())}


def test_a_controller_that_fetches_newer_data_ends_and_stores_none(cluster: Behind) -> None:
    node = cluster.behind
    before = stored(node)
    node.start(wait=False)
    assert node.wait(120) == 1, node.log_text()
    [line] = [line for line in node.log_text().splitlines() if "newer release" in line]
    assert f"node {node.node_id} cannot go on: " in line and NEWER_LEVEL in line
    assert "Traceback" not in node.log_text()
    assert stored(node) == before
    cluster.go_up()
    node.start()
    active = active_controller(cluster)
    assert active is not node
    until(lambda: stored(node) != before, node.log_text)
    folder = node.data / METADATA_FOLDER
    until(lambda: load_metadata(folder, stop=True).features.get("metadata.version") == 33, node.log_text)
    assert node.is_running


@pytest.mark.parametrize(
    ("release", "older", "level", "file"),
    [
        (OLDER_RELEASE, "3.9.1", "30 (4.3-IV0)", "bootstrap.checkpoint"),
        (RELEASE, OLDER_RELEASE, "33 (4.4-IV2)", f"{METADATA_FOLDER}/{0:020}-{0:010}.checkpoint"),
    ],
    ids=["bootstrap.checkpoint", "snapshot 0-0"],
)
def test_a_controller_does_not_start_where_a_newer_tool_has_formatted(
    release: str, older: str, level: str, file: str, tmp_path: Path
) -> None:
    data, properties, [port] = tmp_path / "data", tmp_path / "server.properties", free_ports(1)
    address = f"127.0.0.1:{port}"
    properties.write_text(CONTROLLER.format(node_id=1, bootstrap=address, address=address, data=data))
    format_ = tool_command("kafka.tools.StorageTool", "format", "-t", random_uuid(), "--standalone", release=release)
    subprocess.run([*format_, "-c", properties], check=True, capture_output=True, timeout=120)
    before = {path: path.read_bytes() for path in data.rglob("*") if path.is_file()}
    assert data / file in before
    command = [*KCORE, "run", "-c", properties, "--release", older]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 2
    [line] = (done.stdout + done.stderr).splitlines()
    assert f"sets metadata.version to level {level}, which Kafka {release} has" in line
    after = {path: path.read_bytes() for path in data.rglob("*") if path.is_file()}
    new = {path.name: text for path, text in after.items() if path not in before}
    assert after.items() >= before.items() and "quorum-state" not in new, new
    assert not [name for name, text in new.items() if text and name.endswith((".log", ".checkpoint"))], new
