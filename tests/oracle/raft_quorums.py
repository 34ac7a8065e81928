"""Quorums of real Kafka controllers and kcore's nodes as processes, formatted and started, and nothing left of them."""

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from shutil import rmtree
from typing import Any, Final

from kcore.hollow.jars import kafka_jars
from kcore.hollow.kafka import free_ports, random_uuid
from kcore.hollow.started import Started
from kcore.hollow.zk.cluster import LIGHT
from kcore.hollow.zk.java_process import JavaProcess, stop_all
from oracle.kafka_tools import tool_command

KCORE: Final = (sys.executable, "-c", "from kcore.cli import main; main()", "quorum")
METADATA_QUORUM: Final = "org.apache.kafka.tools.MetadataQuorumCommand"
HEAP: Final = "256m"
LOGS: Final = {  # 3.9.1 comes with reload4j, 4.3.1 with log4j 2.
    "log4j.properties": """log4j.rootLogger=INFO, c
log4j.appender.c=org.apache.log4j.ConsoleAppender
log4j.appender.c.layout=org.apache.log4j.PatternLayout
log4j.appender.c.layout.ConversionPattern=[%d] %p %m (%c)%n
""",
    "log4j2.properties": """status = error
appender.c.type = Console
appender.c.name = C
appender.c.layout.type = PatternLayout
appender.c.layout.pattern = [%d] %p %m (%c)%n
rootLogger.level = info
rootLogger.appenderRef.c.ref = C
""",
}


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
        """Of the metadata partition."""
        return self.data / "__cluster_metadata-0"


class RaftQuorum(Started):
    """Real controllers with ids from 1 on, kcore's from 101 on, and a broker 201 if it is wanted; not started yet."""

    def __init__(
        self,
        release: str,
        *,
        real: int = 2,
        kcore: int = 1,
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
        ports = free_ports(real + kcore + broker)
        self._properties, self._options = properties, options
        self.real = [self._controller(1 + at, ports[at]) for at in range(real)]
        self.kcore = [self._kcore(101 + at, ports[real + at]) for at in range(kcore)]
        self.voters = [*self.real, *self.kcore]
        self.brokers = [self._controller(201, ports[-1])] if broker else []

    @property
    def bootstrap(self) -> str:
        return ",".join(node.address for node in self.voters)

    def start(self) -> None:
        for node in [*self.real, *self.brokers]:
            self.format_real(node)
        for node in self.kcore:
            self.format_kcore(node)
        for node in [*self.voters, *self.brokers]:
            node.start(wait=False)
        for node in [*self.voters, *self.brokers]:
            node.await_ready()

    def close(self) -> None:
        for node in [*self.voters, *self.brokers]:
            node.kill()
        rmtree(self.folder, ignore_errors=True)

    def stop(self, *nodes: Member) -> None:
        """SIGTERM to all at once."""
        stop_all(nodes)

    def node(self, node_id: int) -> Member:
        return next(node for node in self.voters if node.node_id == node_id)

    # What each is told.

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
        if self.dynamic and not broker:
            arguments += ["--initial-controllers", self._initial_controllers()]
        self._run(tool_command("kafka.tools.StorageTool", *arguments, release=self.release))

    def _initial_controllers(self) -> str:
        return ",".join(f"{node.node_id}@{node.address}:{node.directory_id}" for node in self.voters)

    def format_kcore(self, node: Member, *, joins: bool = False) -> None:
        """`joins`: it is not among the voters that the quorum begins with."""
        ids = ["--cluster-id", self.cluster_id, "--directory-id", node.directory_id]
        if self.dynamic and not joins:
            ids += ["--initial-controllers", self._initial_controllers()]
        self._run(
            [*KCORE, "format", "--id", str(node.node_id), "--data", str(node.data), "--level", self.release[:3], *ids]
        )
        voters = ",".join(f"{each.node_id}@{each.address}" for each in self.voters)
        known = ["--bootstrap-controller", self.bootstrap] if self.dynamic else ["--voters", voters]
        node._command += ["--id", str(node.node_id), "--data", str(node.data), "--listen", node.address, *known]
        node._command += ["--level", self.release[:3], *self._options]

    def _run(self, command: Sequence[str]) -> str:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
        assert done.returncode == 0, f"{command}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    # How it is.

    def described(self, *, timeout_s: float = 30.0) -> dict[str, Any]:
        """By `kcore quorum describe --json`, whoever leads."""
        where = ",".join(node.address for node in self.voters if node.is_running)
        return describe_json("--bootstrap-controller", where, timeout_s=timeout_s)

    def leader(self, among: Sequence[Member] = (), within_s: float = 60.0) -> Member:
        """Once there is one, and one of these."""
        found: list[Member] = []

        def there() -> bool:
            found[:] = [self.node(self.described()["leaderId"])]
            return not among or found[0] in among

        until(there, lambda: f"{found} leads, not {among}", within_s)
        return found[0]


def describe_json(option: str, where: str, *, timeout_s: float = 30.0) -> dict[str, Any]:
    """What `kcore quorum describe --json` tells."""
    asking = [*KCORE, "describe", option, where, "--json", "--timeout", str(int(timeout_s * 1000))]
    done = subprocess.run(asking, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    told: dict[str, Any] = json.loads(done.stdout)
    return told


def until(holds: Callable[[], object], story: Callable[[], object], within_s: float = 60.0) -> None:
    """Waits; an assertion with the story if it does not come about."""
    end = time.monotonic() + within_s
    while not holds():
        assert time.monotonic() < end, story()
        time.sleep(0.1)
