"""Runs a cluster's controllers as processes: configures, formats, starts and stops them.

Kafka's and kcore's controllers get the same lines of server.properties.
"""

import shutil
import subprocess
import tempfile
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar, Final

from kcore.errors import TargetError
from kcore.measure.processes.java_process import ChildProcess, last_lines, stop_all
from kcore.measure.processes.local_process import free_ports, random_uuid
from kcore.measure.processes.started import Started

FIRST_NODE_ID: Final = 30_001  # Above the ids of hollow brokers: a leader refuses a fetch that has the leader's own id.
LISTENER: Final = "CONTROLLER"
_STOP_TIMEOUT_S: Final = 15.0


class Node(ChildProcess):
    """The process of one controller."""

    def __init__(self, node_id: int, ports: dict[str, int], folder: Path, command: Sequence[str], ready: str) -> None:
        """`ports`: the port of each listener, the controllers' listener first."""
        super().__init__(f"controller {node_id}", folder / "controller.log", command, ready)
        self.node_id, self.ports, self.folder = node_id, ports, folder
        self.directory_id = random_uuid()

    @property
    def port(self) -> int:
        return self.ports[LISTENER]

    @property
    def configuration(self) -> Path:
        return _configuration(self.folder)


def _configuration(folder: Path) -> Path:
    return folder / "node.properties"


class ControllerQuorum(Started):
    """Controllers of one cluster on the loopback interface, as a quorum without brokers."""

    started: ClassVar[str]  # A controller logs this text once it has started.

    def __init__(
        self,
        *,
        controllers: int = 1,
        first_node_id: int = FIRST_NODE_ID,
        listeners: Mapping[str, str] | None = None,
        properties: str = "",
        protocol: str = "PLAINTEXT",
        users: Sequence[str] = (),
    ) -> None:
        """`listeners`: names and security protocols of further listeners. `protocol`: that of the first listener.

        `properties`: more lines for every node's configuration. `users`: values of the format command's --add-scram.
        """
        self.cluster_id = random_uuid()
        self._protocols = {LISTENER: protocol, **(listeners or {})}
        self._properties, self._users = properties, users
        self.folder = Path(tempfile.mkdtemp(prefix="kcore-quorum-"))
        ports = free_ports(controllers * len(self._protocols))
        self.nodes = [
            self._node(first_node_id + at, dict(zip(self._protocols, ports[at::controllers], strict=True)))
            for at in range(controllers)
        ]

    def _node(self, node_id: int, ports: dict[str, int]) -> Node:
        folder = self.folder / f"controller-{node_id}"
        return Node(node_id, ports, folder, self.run_command(_configuration(folder)), self.started)

    @abstractmethod
    def format_command(self, configuration: Path, voters: str) -> list[str]:
        """The command that formats a configured controller's directory."""

    @abstractmethod
    def run_command(self, configuration: Path) -> list[str]:
        """The command that runs a formatted controller."""

    def quorum_lines(self, listeners: str) -> list[str]:
        """The lines of a configuration with the quorum and a node's listeners: here of a dynamic quorum (KIP-853)."""
        quorum = f"controller.quorum.bootstrap.servers={','.join(self.bootstrap)}"
        return [quorum, f"listeners={listeners}", f"advertised.listeners={listeners}"]

    @property
    def bootstrap(self) -> list[str]:
        """The addresses of the controllers."""
        return [f"127.0.0.1:{node.port}" for node in self.nodes]

    def pids(self) -> list[int]:
        """The process ids of the running controllers."""
        return [node.pid for node in self.nodes if node.is_running]

    def start(self) -> None:
        """Formats and starts all controllers. If one fails, raises TargetError with the end of its log."""
        for node in self.nodes:
            self._configure(node)
        for node in self.nodes:
            node.start(wait=False)
        for node in self.nodes:
            node.await_ready()

    def close(self) -> None:
        """Ends all processes and removes all files."""
        stop_all(self.nodes, _STOP_TIMEOUT_S)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _configure(self, node: Node) -> None:
        node.folder.mkdir(parents=True)
        listeners = ",".join(f"{name}://127.0.0.1:{port}" for name, port in node.ports.items())
        lines = [
            "process.roles=controller",
            f"node.id={node.node_id}",
            *self.quorum_lines(listeners),
            f"controller.listener.names={','.join(self._protocols)}",
            f"listener.security.protocol.map={','.join(map(':'.join, self._protocols.items()))}",
            f"log.dirs={node.folder / 'log'}",
        ]
        node.configuration.write_text("\n".join([*lines, self._properties, ""]))
        voters = ",".join(f"{each.node_id}@127.0.0.1:{each.port}:{each.directory_id}" for each in self.nodes)
        command = self.format_command(node.configuration, voters)
        for at, user in enumerate(self._users):  # A file of its own: other users can read command lines.
            file = node.folder / f"user-{at}"
            file.write_text(user)
            command += ["--add-scram", f"@{file}"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            output = last_lines(done.stderr or done.stdout)
            raise TargetError(f"controller {node.node_id}'s directory was not formatted: {output}")
