"""Clusters of real Kafka brokers under kcore's KRaft controllers, as processes, and nothing left of them."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Collection, Sequence
from pathlib import Path
from shutil import rmtree
from typing import Final

from kcore.measure.processes.jars import kafka_jars
from kcore.measure.processes.java_process import JavaProcess, stop_all
from kcore.measure.processes.local_process import free_ports, random_uuid
from kcore.measure.processes.started import Started
from kcore.measure.processes.zk_cluster import LIGHT
from kcore.storage.meta_properties import MetaProperties, write_meta_properties
from kcore.types import Uuid
from oracle.kafka_tools import CONFIGS, RELEASE, TOPICS, tool_command
from oracle.raft_quorums import LOGS, until

KCORE: Final = (sys.executable, "-c", "from kcore.cli import main; main()", "controller", "kraft")
KCORE_BROKER: Final = (*KCORE[:-2], "broker", "kraft")
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
KCORES_BROKER: Final = """process.roles=broker
node.id={node_id}
controller.quorum.bootstrap.servers={bootstrap}
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT
listeners=PLAINTEXT://{address}
log.dirs={data}
broker.heartbeat.interval.ms=500
"""
HEAP: Final = "384m"
SERVER_STARTED: Final = "Kafka Server started"
FIRST_CONTROLLER: Final = 101
CORDONED: Final = "cordoned.log.dirs"
UNCORDONED: Final = f"{CORDONED}=\n"
"""For `of_brokers`: controllers of 4.4.0 place no replicas at brokers with cordoned directories, as kcore's are."""
REAL: Final = os.environ.get("KCORE_ORACLE_CONTROLLERS") == "kafka"
"""Whether the clusters of this run have Kafka's own controllers, to see what the tests make of them."""


class Node(JavaProcess):
    """A controller or a broker; `second_address` is of a broker's second listener, if it has one."""

    second_address = ""

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
    """kcore's controllers with ids from 101 on, in a dynamic quorum; Kafka's brokers with ids from 1 on."""

    def __init__(
        self,
        *,
        controllers: int = 1,
        brokers: int = 3,
        properties: str = "",
        of_brokers: str = "",
        options: Sequence[str] = (),
        log_dirs: int | Sequence[int] = 1,
        real: Collection[int] | None = None,
        kcore_brokers: Collection[int] = (),
        release: str = RELEASE,
        formatted_by_kafka: bool = False,
    ) -> None:
        """`properties`: of the controllers; `options`: of their format; `log_dirs`: how many each broker has.

        `of_brokers`: their further properties, with `{address}`, and `{second}` for a second listener.

        `real`: ids of controllers that are Kafka's own; by default none, or all where KCORE_ORACLE_CONTROLLERS is
        `kafka`, to see what a test makes of them. `kcore_brokers`: ids of brokers that are kcore's own.

        `release`: of Kafka, of the nodes and the tools; kcore's nodes follow its rules. `formatted_by_kafka`: Kafka's
        tool formats the directories of kcore's controllers, too.
        """
        ids = range(FIRST_CONTROLLER, FIRST_CONTROLLER + controllers)
        self.real = frozenset((ids if REAL else ()) if real is None else real)
        self.release, self._options, self._formatted_by_kafka = release, options, formatted_by_kafka
        self._of_brokers, self._kcore_brokers = of_brokers, frozenset(kcore_brokers)
        self._log_dirs = [log_dirs] * brokers if isinstance(log_dirs, int) else log_dirs
        self.cluster_id, self.folder = random_uuid(), Path(tempfile.mkdtemp(prefix="kcore-kraft-"))
        for name, text in LOGS.items():
            (self.folder / name).write_text(text)
        ports = free_ports(controllers + 2 * brokers)
        self._properties = properties
        self.controllers = [self._controller(*each) for each in zip(ids, ports, strict=False)]
        pairs = zip(ports[controllers::2], ports[controllers + 1 :: 2], strict=True)
        self.brokers = [self._broker(node_id, *pair) for node_id, pair in enumerate(pairs, 1)]

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
        if node_id in self.real:
            return Node(node_id, port, place, self._java(place), SERVER_STARTED)
        command = [*KCORE, "run", "-c", place / "server.properties", "--release", self.release]
        return Node(node_id, port, place, command, f"controller {node_id} listens")

    def _java(self, place: Path) -> list[object]:
        """A server of Kafka's own."""
        java = tool_command("", release=self.release)[0]
        logs = f"-Dlog4j2.configurationFile={self.folder}/log4j2.properties"
        command = [java, "-XX:-UsePerfData", f"-Xmx{HEAP}", *LIGHT, logs, "-cp", f"{kafka_jars(self.release)}/*"]
        return [*command, "kafka.Kafka", place / "server.properties"]

    def upgrade(self, node: Node, release: str) -> None:
        """The node's next start is of that release."""
        jars = [f"{kafka_jars(each)}/*" for each in (self.release, release)]
        changes = {self.release: release, jars[0]: jars[1]}
        node._command = [changes.get(each, each) for each in node._command]

    def _broker(self, node_id: int, port: int, second_port: int) -> Node:
        place = self.folder / f"broker-{node_id}"
        is_kcore = node_id in self._kcore_brokers
        own = [*KCORE_BROKER, "run", "-c", place / "server.properties", "--release", self.release]
        command = own if is_kcore else self._java(place)
        node = Node(node_id, port, place, command, f"broker {node_id} is RUNNING" if is_kcore else SERVER_STARTED)
        node.second_address = f"127.0.0.1:{second_port}"
        data = self.log_dirs(node)
        text = (KCORES_BROKER if is_kcore else BROKER).format(
            node_id=node_id, bootstrap=self.controller_bootstrap, address=node.address, data=",".join(map(str, data))
        )
        more = self._of_brokers.format(address=node.address, second=node.second_address)
        node.properties.write_text(text + more)
        for at, path in enumerate(data):
            path.mkdir()
            directory_id = node.directory_id if at == 0 else random_uuid()
            meta = MetaProperties(1, self.cluster_id, node_id, Uuid(directory_id))
            write_meta_properties(path / "meta.properties", meta)
        return node

    def log_dirs(self, broker: Node) -> list[Path]:
        """The first has the metadata log."""
        count = self._log_dirs[broker.node_id - 1]
        return [broker.data, *(broker.folder / f"data-{number}" for number in range(2, count + 1))]

    def is_kcore(self, broker: Node) -> bool:
        return broker.node_id in self._kcore_brokers

    def format_anew(self, node: Node) -> None:
        """A controller that has lost its directory, and is no voter yet."""
        rmtree(node.data)
        self._run_format(node, ["-N"] if node.node_id in self.real else [])

    def _format(self, node: Node) -> None:
        self._write_properties(node)
        self._run_format(node, ["-I", self._voters, *self._options])

    def _write_properties(self, node: Node) -> None:
        text = CONTROLLER.format(
            node_id=node.node_id, bootstrap=self.controller_bootstrap, address=node.address, data=node.data
        )
        node.properties.write_text(text + self._properties)

    @property
    def _voters(self) -> str:
        """As --initial-controllers has them."""
        return ",".join(f"{each.node_id}@{each.address}:{each.directory_id}" for each in self.controllers)

    def _run_format(self, node: Node, options: Sequence[str]) -> None:
        of_kafka = tool_command("kafka.tools.StorageTool", "format", release=self.release)
        is_of_kafka = self._formatted_by_kafka or node.node_id in self.real
        program = of_kafka if is_of_kafka else [*KCORE, "format", "--release", self.release]
        command = [*program, "-c", str(node.properties), "-t", self.cluster_id, *options]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
        assert done.returncode == 0, done.stderr

    def place(self, topic: str, assignment: str, *options: object) -> None:
        """Creates a topic with these replicas, as --replica-assignment has them.

        Controllers refuse cordoned brokers from 4.4.0 on: kcore's brokers are not cordoned meanwhile.
        """
        at = ("--bootstrap-server", self.brokers[0].address)
        self.alter_kcore_brokers("--add-config", f"{CORDONED}=")
        create = (TOPICS, *at, "--create", "--topic", topic, "--replica-assignment", assignment, *options)
        done = [self.try_tool(*create)]

        def is_created() -> bool:
            is_cordoned = "log directories are cordoned" in done[-1][1]
            assert done[-1][0] == 0 or is_cordoned, done[-1]
            if is_cordoned:  # The next heartbeat of the broker says that it is not.
                done.append(self.try_tool(*create))
            return done[-1][0] == 0

        until(is_created, lambda: done[-1])
        self.alter_kcore_brokers("--delete-config", CORDONED)

    def alter_kcore_brokers(self, *change: str) -> None:
        """Changes a setting of each of kcore's brokers."""
        for each in sorted(self._kcore_brokers):
            broker = ("--entity-type", "brokers", "--entity-name", each)
            self.tool(CONFIGS, "--bootstrap-server", self.brokers[0].address, "--alter", *broker, *change)

    def tool(self, main: str, *arguments: object, given: str | None = None, timeout_s: float = 120) -> str:
        """Runs one of Kafka's tools, which must succeed; returns its stdout."""
        code, printed, complaints = self.try_tool(main, *arguments, given=given, timeout_s=timeout_s)
        assert code == 0, f"{main} {arguments}: {code}\n{printed}\n{complaints}"
        return printed

    def try_tool(
        self, main: str, *arguments: object, given: str | None = None, timeout_s: float = 120
    ) -> tuple[int, str, str]:
        """A tool's exit code, what it prints, and what it complains about."""
        command = tool_command(main, *arguments, release=self.release)
        done = subprocess.run(
            command, input=given, capture_output=True, encoding="utf-8", check=False, timeout=timeout_s
        )
        return done.returncode, done.stdout, done.stderr
