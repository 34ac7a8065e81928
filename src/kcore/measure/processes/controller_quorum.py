"""Runs a cluster's controllers as processes for one run: configures, formats, starts, watches and stops them.

Kafka's and kcore's controllers get the same lines of server.properties; their processes and files are gone at the end.
"""

import shutil
import signal
import subprocess
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Final, Self

from kcore.errors import TargetError
from kcore.measure.processes.local_process import Usage, free_ports, random_uuid, usage_of

SESSION_TIMEOUT_MS: Final = 9_000  # broker.session.timeout.ms, by default: the configurations leave it out.
FIRST_NODE_ID: Final = 30_001  # Above the ids of hollow brokers: a leader refuses the fetches of one with its own.
_LISTENER: Final = "CONTROLLER"
_START_TIMEOUT_S: Final = 60.0
_STOP_TIMEOUT_S: Final = 15.0


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
    def configuration(self) -> Path:
        return self.folder / "node.properties"

    @property
    def log(self) -> Path:
        return self.folder / "controller.log"

    def usage(self) -> Usage | None:
        """None once the process has ended."""
        return usage_of(self.process.pid) if self.process and self.process.poll() is None else None


class ControllerQuorum(ABC):
    """Controllers of one cluster, without brokers, on the loopback interface: a dynamic quorum."""

    started: ClassVar[str]  # The text that a controller logs once it has started.

    def __init__(
        self,
        *,
        controllers: int = 1,
        first_node_id: int = FIRST_NODE_ID,
        listeners: Mapping[str, str] | None = None,
        properties: str = "",
    ) -> None:
        """`listeners`: security protocols of further ones by name.

        `properties`: more lines for every node's configuration.
        """
        self.cluster_id = random_uuid()
        self._protocols = {_LISTENER: "PLAINTEXT", **(listeners or {})}
        self._properties = properties
        self.folder = Path(tempfile.mkdtemp(prefix="kcore-quorum-"))
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

    @abstractmethod
    def format_command(self, configuration: Path, voters: str) -> list[str]:
        """The command that formats a configured controller's directory."""

    @abstractmethod
    def run_command(self, configuration: Path) -> list[str]:
        """The command that is a formatted controller."""

    @property
    def bootstrap(self) -> list[str]:
        """Where the controllers listen."""
        return [f"127.0.0.1:{node.port}" for node in self.nodes]

    def pids(self) -> list[int]:
        """The process ids of the running controllers."""
        return [node.process.pid for node in self.nodes if node.process and node.process.poll() is None]

    def start(self) -> None:
        """Formats and starts all controllers. TargetError, with the last of its log, if one does not come up."""
        for node in self.nodes:
            self._configure(node)
        for node in self.nodes:
            self.start_node(node)
        for node in self.nodes:
            self._await_start(node)

    def start_node(self, node: Node) -> None:
        """Starts one controller that was configured before."""
        with node.log.open("ab") as log:
            node.process = subprocess.Popen(
                self.run_command(node.configuration),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def kill(self, node: Node) -> None:
        """As kill -9."""
        if node.process is not None:
            node.process.kill()
            node.process.wait()

    def stop_node(self, node: Node) -> None:
        """As an administrator stops it, with SIGTERM; kill -9 if it does not end."""
        if node.process is not None:
            node.process.send_signal(signal.SIGTERM)
            try:
                node.process.wait(_STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                self.kill(node)

    @contextmanager
    def suspended(self, node: Node) -> Iterator[None]:
        """The process does nothing for the time of a `with`, and keeps its connections."""
        assert node.process is not None
        node.process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            node.process.send_signal(signal.SIGCONT)

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
        node.configuration.write_text("\n".join([*lines, self._properties, ""]))
        voters = ",".join(f"{each.node_id}@127.0.0.1:{each.port}:{each.directory_id}" for each in self.nodes)
        command = self.format_command(node.configuration, voters)
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            output = (done.stderr or done.stdout).strip()[-500:]
            raise TargetError(f"controller {node.node_id}'s directory was not formatted: {output}")

    def _await_start(self, node: Node) -> None:
        end = time.monotonic() + _START_TIMEOUT_S
        while self.started not in (log := node.log.read_text(errors="replace")):
            if node.process is None or node.process.poll() is not None or time.monotonic() > end:
                raise TargetError(f"controller {node.node_id} did not start; the end of its log:\n{log[-2000:]}")
            time.sleep(0.05)
