"""A real Kafka controller quorum for one run: fetched, formatted, started, watched, stopped, and nothing left."""

import base64
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Self

from kcore.errors import TargetError
from kcore.hollow.jars import kafka_jars
from kcore.spark.java import java_home

FIRST_NODE_ID: Final = 30_001  # Above the ids of hollow brokers: a leader refuses the fetches of one with its own.
_PORTS: Final = range(19_000, 32_000)  # Below Linux's ephemeral ports: one of those may be taken by a client.
_LISTENER: Final = "CONTROLLER"
_STARTED: Final = "Kafka Server started"
_START_TIMEOUT_S: Final = 60.0
_STOP_TIMEOUT_S: Final = 15.0
_TICKS: Final = os.sysconf("SC_CLK_TCK")
_LOGGING: Final = """status = error
appender.c.type = Console
appender.c.name = C
appender.c.layout.type = PatternLayout
appender.c.layout.pattern = [%d] %p %m (%c)%n
rootLogger.level = info
rootLogger.appenderRef.c.ref = C
"""


@dataclass(frozen=True, slots=True)
class Usage:
    """What a process has taken of the machine."""

    cpu_s: float
    rss_bytes: int
    peak_rss_bytes: int


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


def usage_of(pid: int) -> Usage | None:
    """CPU time and memory of a process on this machine; None if there is none."""
    try:
        times = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        status = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
        rss, peak = (int(status[name].split()[0]) * 1024 for name in ("VmRSS", "VmHWM"))
    except (OSError, KeyError):
        return None
    return Usage((int(times[11]) + int(times[12])) / _TICKS, rss, peak)


def random_uuid() -> str:
    """A UUID as Kafka writes them; none that begins with a dash, which its tools would take for an option."""
    while (text := base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")).startswith("-"):
        pass
    return text


def free_ports(count: int) -> list[int]:
    """Ports of the loopback interface that nobody listens on."""
    found: list[int] = []
    for port in _PORTS[os.getpid() % 1000 :: 7]:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) != 0:
                found.append(port)
        if len(found) == count:
            return found
    raise TargetError(f"no free ports between {_PORTS.start} and {_PORTS.stop}")


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
        (self.folder / "log4j2.properties").write_text(_LOGGING)
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
        while _STARTED not in (told := node.log.read_text(errors="replace")):
            if node.process is None or node.process.poll() is not None or time.monotonic() > end:
                raise TargetError(f"controller {node.node_id} did not start; the end of its log:\n{told[-2000:]}")
            time.sleep(0.05)
