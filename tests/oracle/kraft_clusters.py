"""Clusters of real Kafka brokers under kcore's KRaft controllers, as processes, and nothing left of them."""

import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from shutil import rmtree
from typing import Final

from kcore.processes.jars import kafka_jars
from kcore.processes.java_process import JavaProcess, stop_all
from kcore.processes.machine import free_ports, random_uuid
from kcore.processes.started import Started
from kcore.processes.zk_cluster import LIGHT
from kcore.storage.meta_properties import MetaProperties, write_meta_properties
from kcore.types import Uuid
from oracle.kafka_tools import RELEASE, tool_command
from oracle.raft_quorums import LOGS

KCORE: Final = (sys.executable, "-c", "from kcore.cli import main; main()", "controller", "kraft")
CONTROLLER: Final = """process.roles=controller
node.id={node_id}
controller.quorum.bootstrap.servers={bootstrap}
listeners=CONTROLLER://{address}
controller.listener.names=CONTROLLER
log.dirs={data}
broker.session.timeout.ms=6000
"""
BROKER: Final = """process.roles=broker
node.id={node_id}
controller.quorum.bootstrap.servers={bootstrap}
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT
listeners=PLAINTEXT://{address}
log.dirs={data}
broker.session.timeout.ms=6000
broker.heartbeat.interval.ms=500
num.network.threads=1
num.io.threads=2
offsets.topic.num.partitions=1
offsets.topic.replication.factor=3
transaction.state.log.num.partitions=1
group.initial.rebalance.delay.ms=0
log.cleaner.dedupe.buffer.size=4194304
log.cleaner.threads=1
auto.create.topics.enable=false
"""
HEAP: Final = "384m"


class Node(JavaProcess):
    """A controller or a broker."""

    def __init__(self, node_id: int, port: int, folder: Path, command: Sequence[object], ready: str) -> None:
        self.node_id, self.port, self.folder, self.data = node_id, port, folder, folder / "data"
        self.directory_id = random_uuid()
        folder.mkdir()
        super().__init__(f"node {node_id}", folder / "node.log", [], ready)
        self._command = [*map(str, command)]

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def properties(self) -> Path:
        return self.folder / "server.properties"


class KraftCluster(Started):
    """kcore's controllers with ids from 101 on, in a dynamic quorum; Kafka 4.3.1's brokers with ids from 1 on."""

    def __init__(self, *, controllers: int = 1, brokers: int = 3, properties: str = "") -> None:
        """`properties`: of the controllers."""
        self.cluster_id, self.folder = random_uuid(), Path(tempfile.mkdtemp(prefix="kcore-kraft-"))
        for name, text in LOGS.items():
            (self.folder / name).write_text(text)
        ports = free_ports(controllers + brokers)
        self._properties = properties
        self.controllers = [self._controller(101 + at, ports[at]) for at in range(controllers)]
        self.brokers = [self._broker(1 + at, ports[controllers + at]) for at in range(brokers)]

    @property
    def controller_bootstrap(self) -> str:
        return ",".join(node.address for node in self.controllers)

    @property
    def bootstrap(self) -> str:
        return ",".join(node.address for node in self.brokers)

    def start(self) -> None:
        """All are ready."""
        for node in self.controllers:
            self._format(node)
            node.start(wait=False)
        for node in self.controllers:
            node.await_ready()
        for node in self.brokers:
            node.start(wait=False)
        for node in self.brokers:
            node.await_ready()

    def close(self) -> None:
        for node in [*self.brokers, *self.controllers]:
            node.kill()
        rmtree(self.folder, ignore_errors=True)

    def stop(self) -> None:
        """SIGTERM, brokers first."""
        stop_all(self.brokers)
        stop_all(self.controllers)

    def _controller(self, node_id: int, port: int) -> Node:
        place = self.folder / f"controller-{node_id}"
        command = [*KCORE, "run", "-c", place / "server.properties"]
        return Node(node_id, port, place, command, f"controller {node_id} listens")

    def _broker(self, node_id: int, port: int) -> Node:
        place = self.folder / f"broker-{node_id}"
        java = tool_command("", release=RELEASE)[0]
        logs = f"-Dlog4j2.configurationFile={self.folder}/log4j2.properties"
        command = [java, "-XX:-UsePerfData", f"-Xmx{HEAP}", *LIGHT, logs, "-cp", f"{kafka_jars(RELEASE)}/*"]
        node = Node(
            node_id, port, place, [*command, "kafka.Kafka", place / "server.properties"], "Kafka Server started"
        )
        text = BROKER.format(node_id=node_id, bootstrap=self.controller_bootstrap, address=node.address, data=node.data)
        node.properties.write_text(text)
        node.data.mkdir()
        meta = MetaProperties(1, self.cluster_id, node_id, Uuid(node.directory_id))
        write_meta_properties(node.data / "meta.properties", meta)
        return node

    def _format(self, node: Node) -> None:
        self._write_properties(node)
        command = [*KCORE, "format", "-c", str(node.properties), "-t", self.cluster_id, "-I", self._voters]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
        assert done.returncode == 0, done.stderr

    def _write_properties(self, node: Node) -> None:
        text = CONTROLLER.format(
            node_id=node.node_id, bootstrap=self.controller_bootstrap, address=node.address, data=node.data
        )
        node.properties.write_text(text + self._properties)

    @property
    def _voters(self) -> str:
        """As --initial-controllers has them."""
        return ",".join(f"{each.node_id}@{each.address}:{each.directory_id}" for each in self.controllers)

    def tool(self, main: str, *arguments: object, given: str | None = None, timeout_s: float = 120) -> str:
        """What one of Kafka 4.3.1's tools prints; it must end well."""
        command = tool_command(main, *arguments, release=RELEASE)
        done = subprocess.run(
            command, input=given, capture_output=True, encoding="utf-8", check=False, timeout=timeout_s
        )
        assert done.returncode == 0, f"{main} {arguments}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stdout
