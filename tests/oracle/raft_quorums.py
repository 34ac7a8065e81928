"""Quorums of real Kafka controllers and kcore's nodes as processes, formatted and started, and nothing left of them."""

import asyncio
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from shutil import rmtree
from typing import Final

from kcore.measure.processes.jars import kafka_jars
from kcore.measure.processes.java_process import JavaProcess, stop_all
from kcore.measure.processes.kafka_quorum import LOG4J, LOG4J2
from kcore.measure.processes.local_process import free_ports, random_uuid
from kcore.measure.processes.started import Started
from kcore.measure.processes.zk_cluster import LIGHT
from kcore.raft.membership.replicas import Address
from kcore.releases.known import RELEASES
from kcore.schema.describe_quorum import DescribeQuorumResponsePartitionData as PartitionData
from kcore.schema.describe_quorum import ReplicaState
from kcore.server.quorum_node.describe import describe_quorum
from oracle.kafka_tools import tool_command

KCORE: Final = (sys.executable, "-c", "from kcore.cli import main; main()", "quorum")
METADATA_QUORUM: Final = "org.apache.kafka.tools.MetadataQuorumCommand"
HEAP: Final = "256m"
DIRECTORY_ID: Final = re.compile(r"directory\.id=(\S+)")
LOGS: Final = {"log4j.properties": LOG4J, "log4j2.properties": LOG4J2}  # 3.9.1 comes with reload4j, 4.x with log4j 2.


class Member(JavaProcess):
    """A process of the quorum; `data` is its metadata.log.dir."""

    def __init__(self, node_id: int, port: int, folder: Path, command: Sequence[object], ready: str) -> None:
        self.node_id, self.port, self.folder = node_id, port, folder
        self.data = folder / "data"
        self.directory_id = random_uuid()
        super().__init__(f"node {node_id}", folder / "node.log", [], ready)
        self._command = [*map(str, command)]
        folder.mkdir()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def log_folder(self) -> Path:
        """The folder of the metadata log."""
        return self.data / "__cluster_metadata-0"


class RaftQuorum(Started):
    """Voters: real controllers with ids from 1 on, kcore's from 101 on; kcore's observers from 151 on, a broker 201."""

    def __init__(
        self,
        release: str,
        *,
        real: int = 2,
        kcore: int = 1,
        observers: int = 0,
        dynamic: bool = False,
        broker: bool = False,
        properties: str = "",
        options: Sequence[str] = (),
    ) -> None:
        """`properties`: of the real ones; `options`: of `kcore quorum serve`. Dynamic: all of them begin as voters."""
        self.release, self.dynamic, self.cluster_id = release, dynamic, random_uuid()
        self.folder = Path(tempfile.mkdtemp(prefix="kcore-raft-"))
        for name, text in LOGS.items():
            (self.folder / name).write_text(text)
        ports = free_ports(real + kcore + observers + broker)
        self._properties, self._options = properties, options
        self.real = [self._controller(1 + at, ports[at]) for at in range(real)]
        self.kcore = [self._kcore(101 + at, ports[real + at]) for at in range(kcore)]
        self.voters = [*self.real, *self.kcore]
        self.observers = [self._kcore(151 + at, ports[real + kcore + at]) for at in range(observers)]
        self.brokers = [self._controller(201, ports[-1])] if broker else []

    @property
    def bootstrap(self) -> str:
        return ",".join(node.address for node in self.voters)

    def start(self) -> None:
        for node in [*self.real, *self.brokers]:
            self.format_real(node)
        for node in self.kcore:
            self.format_kcore(node)
        for node in self.observers:
            self.format_kcore(node, joins=True)
        for nodes in (self.real, [*self.kcore, *self.observers, *self.brokers]):
            # A real one leads first: it writes metadata.version, without which real ones do little.
            for node in nodes:
                node.start(wait=False)
            for node in nodes:
                node.await_ready()

    @property
    def all(self) -> list[Member]:
        return [*self.voters, *self.observers, *self.brokers]

    def close(self) -> None:
        for node in self.all:
            node.kill()
        rmtree(self.folder, ignore_errors=True)

    def stop(self, *nodes: Member) -> None:
        """SIGTERM to all at once."""
        stop_all(nodes)

    def node(self, node_id: int) -> Member:
        return next(node for node in self.all if node.node_id == node_id)

    def join_real(self, node_id: int) -> Member:
        """One more real controller, started as an observer; it may be added."""
        [port] = free_ports(1)
        node = self._controller(node_id, port)
        self.observers.append(node)
        self.format_real(node)
        node.start()
        return node

    # Commands and settings of the nodes.

    def _controller(self, node_id: int, port: int) -> Member:
        place = self.folder / f"kafka-{node_id}"
        logs = [f"-Dlog4j.configuration=file:{self.folder}/log4j.properties"]
        logs.append(f"-Dlog4j2.configurationFile={self.folder}/log4j2.properties")
        java = tool_command("", release=self.release)[0]
        jars = f"{kafka_jars(self.release)}/*"
        command = [java, "-XX:-UsePerfData", f"-Xmx{HEAP}", *LIGHT, *logs, "-cp", jars, "kafka.Kafka"]
        return Member(node_id, port, place, [*command, place / "node.properties"], "Kafka Server started")

    def _kcore(self, node_id: int, port: int) -> Member:
        place = self.folder / f"kcore-{node_id}"
        return Member(node_id, port, place, [*KCORE, "serve"], f"node {node_id} listens")

    def quorum_properties(self) -> str:
        static = ",".join(f"{node.node_id}@{node.address}" for node in self.voters)
        if self.dynamic:
            return f"controller.quorum.bootstrap.servers={self.bootstrap}"
        return f"controller.quorum.voters={static}"

    def format_real(self, node: Member) -> None:
        broker = node in self.brokers
        name = "PLAINTEXT" if broker else "CONTROLLER"
        lines = [
            f"process.roles={'broker' if broker else 'controller'}",
            f"node.id={node.node_id}",
            self.quorum_properties(),
            f"listeners={name}://{node.address}",
            f"advertised.listeners={name}://{node.address}",
            "controller.listener.names=CONTROLLER",
            "listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            f"log.dirs={node.data}",
            "num.network.threads=1",
            "num.io.threads=2",
            *(["offsets.topic.replication.factor=1", "log.cleaner.dedupe.buffer.size=4194304"] if broker else []),
            self._properties,
        ]
        path = node.folder / "node.properties"
        path.write_text("\n".join([*lines, ""]))
        arguments = ["format", "-t", self.cluster_id, "-c", path]
        if node in self.observers:
            arguments += ["--no-initial-controllers"]
        elif self.dynamic and not broker:
            arguments += ["--initial-controllers", self._initial_controllers()]
        self._run(tool_command("kafka.tools.StorageTool", *arguments, release=self.release))
        if (made := DIRECTORY_ID.search((node.data / "meta.properties").read_text())) is not None:
            node.directory_id = made[1]

    def _initial_controllers(self) -> str:
        return ",".join(f"{node.node_id}@{node.address}:{node.directory_id}" for node in self.voters)

    def format_kcore(self, node: Member, *, joins: bool = False) -> None:
        """`joins`: it is not among the voters that the quorum begins with."""
        ids = ["--cluster-id", self.cluster_id, "--directory-id", node.directory_id]
        if self.dynamic and not joins:
            ids += ["--initial-controllers", self._initial_controllers()]
        level = ("--level", RELEASES[self.release].raft_level)
        self._run([*KCORE, "format", "--id", str(node.node_id), "--data", str(node.data), *level, *ids])
        voters = ",".join(f"{each.node_id}@{each.address}" for each in self.voters)
        known = ["--bootstrap-controller", self.bootstrap] if self.dynamic else ["--voters", voters]
        node._command += ["--id", str(node.node_id), "--data", str(node.data), "--listen", node.address, *known]
        node._command += [*level, *self._options]

    def _run(self, command: Sequence[str]) -> str:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
        assert done.returncode == 0, f"{command}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    # How it is.

    def described(self, timeout_s: float = 60.0) -> PartitionData:
        """As the leader sees it, whoever that is."""
        running = [Address("127.0.0.1", node.port) for node in self.voters if node.is_running]
        asking = describe_quorum(running, controllers=True, timeout_s=timeout_s, random=Random())
        return asyncio.run(asking).partition

    def leader(self, *among: Member, within_s: float = 90.0) -> Member:
        """Once there is one, and one of these."""
        found: list[Member] = []

        def there() -> bool:
            found[:] = [self.node(self.described().leader_id)]
            return not among or found[0] in among

        until(there, lambda: f"{found} leads, not {among}", within_s)
        return found[0]

    def replica(self, node: Member) -> ReplicaState:
        """The leader's state of a member."""
        description = self.described()
        return next(
            each for each in (*description.current_voters, *description.observers) if each.replica_id == node.node_id
        )

    def await_committed(self, end_offset: int, *nodes: Member, within_s: float = 90.0) -> None:
        """Until the high watermark is there, and these nodes too."""

        def there() -> bool:
            description = self.described()
            replicas = {each.replica_id: each for each in (*description.current_voters, *description.observers)}
            return description.high_watermark >= end_offset and all(
                node.node_id in replicas and replicas[node.node_id].log_end_offset >= end_offset for node in nodes
            )

        until(there, lambda: f"{[node.name for node in nodes]} not at {end_offset}: {self.described()}", within_s)

    def await_progress(self, *nodes: Member) -> int:
        """Something more is committed than there was written, and these nodes have it too; how far that is."""
        end_offset = self.described().high_watermark + 1
        self.await_committed(end_offset, *nodes)
        return end_offset


def until(holds: Callable[[], object], story: Callable[[], object], within_s: float = 60.0) -> None:
    """Waits; an assertion with the story if it does not come about."""
    end = time.monotonic() + within_s
    while not holds():
        assert time.monotonic() < end, story()
        time.sleep(0.1)
