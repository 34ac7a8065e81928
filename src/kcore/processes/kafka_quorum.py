"""A real Kafka controller quorum for one run: fetched, formatted, started, watched, stopped, and nothing left."""

import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Self

from kcore.errors import TargetError
from kcore.processes.jars import kafka_jars
from kcore.processes.machine import Usage, free_ports, random_uuid, usage_of
from kcore.spark.java import java_home

FIRST_NODE_ID: Final = 30_001  # Above the ids of hollow brokers: a leader refuses the fetches of one with its own.
_LISTENER: Final = "CONTROLLER"
_STARTED: Final = "Kafka Server started"
_START_TIMEOUT_S: Final = 60.0
_STOP_TIMEOUT_S: Final = 15.0
LOG4J2: Final = """status = error
appender.c.type = Console
appender.c.name = C
appender.c.layout.type = PatternLayout
appender.c.layout.pattern = [%d] %p %m (%c)%n
rootLogger.level = info
rootLogger.appenderRef.c.ref = C
"""


@dataclass(slots=True)
class Node:
    """One controller's process."""

    node_id: int
    ports: dict[str, int]  # by listener, that of the controllers first
    folder: Path
    directory_id: str
    process: subprocess.Popen[bytes] | None = field(default=None)

    @property
    def port(self) -> int:
        return self.ports[_LISTENER]

    @property
    def log(self) -> Path:
        return self.folder / "kafka.log"

    def usage(self) -> Usage | None:
        """None once the process has ended."""
        return usage_of(self.process.pid) if self.process and self.process.poll() is None else None


class KafkaQuorum:
    """Controllers of one cluster, without brokers, on the loopback interface."""

    def __init__(
        self,
        release: str,
        *,
        controllers: int = 1,
        heap: str = "2g",
        first_node_id: int = FIRST_NODE_ID,
        listeners: Mapping[str, str] | None = None,
        properties: str = "",
        format_options: Sequence[str] = (),
    ) -> None:
        """`heap` as java's -Xmx takes it; `listeners`: security protocols of further ones by name.

        `properties`: more lines for every node's configuration; `format_options`: more for kafka-storage format.
        """
        self.release, self.heap, self.cluster_id = release, heap, random_uuid()
        self._protocols = {_LISTENER: "PLAINTEXT", **(listeners or {})}
        self._properties, self._format_options = properties, format_options
        self._jars = kafka_jars(release)
        self._java = str(java_home() / "bin" / "java")
        self.folder = Path(tempfile.mkdtemp(prefix="kcore-kafka-"))
        ports = free_ports(controllers * len(self._protocols))
        self.nodes = [
            Node(
                first_node_id + at,
                dict(zip(self._protocols, ports[at::controllers], strict=True)),
                self.folder / f"controller-{first_node_id + at}",
                random_uuid(),
            )
            for at in range(controllers)
        ]

    @property
    def bootstrap(self) -> list[str]:
        """Where the controllers listen."""
        return [f"127.0.0.1:{node.port}" for node in self.nodes]

    def start(self) -> None:
        """Formats and starts all controllers. TargetError, with the last of its log, if one does not come up."""
        (self.folder / "log4j2.properties").write_text(LOG4J2)
        for node in self.nodes:
            self._configure(node)
        for node in self.nodes:
            self.start_node(node)
        for node in self.nodes:
            self._await_start(node)

    def start_node(self, node: Node) -> None:
        """Starts one controller that was configured before."""
        command = self._command(self.heap, "kafka.Kafka", node.folder / "node.properties")
        with node.log.open("ab") as log:
            node.process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
            )

    def kill(self, node: Node) -> None:
        """As kill -9."""
        if node.process is not None:
            node.process.kill()
            node.process.wait()

    def stop(self) -> None:
        """Ends all processes and removes all files."""
        running = [node.process for node in self.nodes if node.process and node.process.poll() is None]
        for process in running:
            process.send_signal(signal.SIGTERM)
        end = time.monotonic() + _STOP_TIMEOUT_S
        for process in running:
            try:
                process.wait(max(0.1, end - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _command(self, heap: str, main: str, *arguments: object) -> list[str]:
        logging = f"-Dlog4j2.configurationFile={self.folder / 'log4j2.properties'}"
        java = [self._java, f"-Xmx{heap}", "-XX:-UsePerfData", logging, "-cp", f"{self._jars}/*", main]
        return [*java, *map(str, arguments)]

    def _configure(self, node: Node) -> None:
        node.folder.mkdir(parents=True)
        listeners = ",".join(f"{name}://127.0.0.1:{port}" for name, port in node.ports.items())
        lines = [
            "process.roles=controller",
            f"node.id={node.node_id}",
            f"controller.quorum.bootstrap.servers={','.join(self.bootstrap)}",
            f"listeners={listeners}",
            f"advertised.listeners={listeners}",
            f"controller.listener.names={','.join(self._protocols)}",
            f"listener.security.protocol.map={','.join(map(':'.join, self._protocols.items()))}",
            f"log.dirs={node.folder / 'log'}",
        ]
        path = node.folder / "node.properties"
        path.write_text("\n".join([*lines, self._properties, ""]))
        voters = ",".join(f"{each.node_id}@127.0.0.1:{each.port}:{each.directory_id}" for each in self.nodes)
        arguments = ("format", "-t", self.cluster_id, "-c", path, "--initial-controllers", voters)
        command = self._command("256m", "kafka.tools.StorageTool", *arguments, *self._format_options)
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise TargetError(f"Kafka's storage tool failed: {(done.stderr or done.stdout).strip()[-500:]}")

    def _await_start(self, node: Node) -> None:
        end = time.monotonic() + _START_TIMEOUT_S
        while _STARTED not in (log := node.log.read_text(errors="replace")):
            if node.process is None or node.process.poll() is not None or time.monotonic() > end:
                raise TargetError(f"controller {node.node_id} did not start; the end of its log:\n{log[-2000:]}")
            time.sleep(0.05)
