"""Three raft nodes that append records and print latencies: Kafka's TestRaftServer, or `kcore quorum serve`."""

import re
import shutil
import tempfile
import time
from abc import abstractmethod
from pathlib import Path
from typing import Final, NamedTuple

from kcore.errors import TargetError
from kcore.measure.processes.java_process import ChildProcess, JavaProcess, stop_all
from kcore.measure.processes.local_process import KCORE, free_ports, random_uuid
from kcore.measure.processes.probe import has_option
from kcore.measure.processes.started import Started
from kcore.measure.processes.target import Target

NODES: Final = (1, 2, 3)
# Both programs print this line every five seconds; it covers the last half minute (Kafka's) to a minute.
LINE: Final = re.compile(
    r"Throughput \(bytes/second\): ([\d.]+), Latency \(ms\): ([\d.]+) p75 ([\d.]+) p99 ([\d.]+) p999"
)
HEAP: Final = "1g"  # java's -Xmx.
_MAIN: Final = "kafka.tools.TestRaftServer"
_DIRECTORY_ID: Final = "--replica-directory-id"  # Releases before 3.9 lack the option.
_LOG4J: Final = """log4j.rootLogger=WARN, c
log4j.appender.c=org.apache.log4j.ConsoleAppender
log4j.appender.c.layout=org.apache.log4j.SimpleLayout
"""
_LOG4J2: Final = """status = error
rootLogger.level = warn
"""
_PROPERTIES: Final = """node.id={node_id}
controller.quorum.voters={voters}
listeners=CONTROLLER://{address}
controller.listener.names=CONTROLLER
log.dirs={folder}/data
num.network.threads=1
num.io.threads=2
{more}
"""


class Load(NamedTuple):
    """The records to append. Without a linger each system uses its default: Kafka 25 ms, kcore an adaptive linger."""

    rate: int  # Records per second.
    record_bytes: int
    linger_ms: int | None

    @property
    def setting(self) -> str:
        return "" if self.linger_ms is None else f"controller.quorum.append.linger.ms={self.linger_ms}"


class Measured(NamedTuple):
    """The leader's last printed figures, and the CPU time of the three processes after the warm-up."""

    bytes_per_s: float
    p75_ms: float
    p99_ms: float
    p999_ms: float
    cpu_s_per_s: float


class RaftNodes(Started):
    """Three node processes on the loopback interface; `close` ends them and removes their files."""

    def __init__(self, load: Load, target: Target) -> None:
        self.load, self.target, self.name = load, target, target.name
        self.folder = Path(tempfile.mkdtemp(prefix="kcore-raft-"))
        self.addresses = {node: f"127.0.0.1:{port}" for node, port in zip(NODES, free_ports(len(NODES)), strict=True)}
        self.voters = ",".join(f"{node}@{address}" for node, address in self.addresses.items())
        self.processes: list[ChildProcess] = []

    @abstractmethod
    def process(self, node: int, folder: Path) -> ChildProcess:
        """The process of one node, ready to start in its folder."""

    def start(self) -> None:
        for node in NODES:
            folder = self.folder / str(node)
            folder.mkdir()
            self.processes.append(self.process(node, folder))
        for process in self.processes:
            process.start(wait=False)

    def close(self) -> None:
        stop_all(self.processes, timeout_s=10)
        shutil.rmtree(self.folder, ignore_errors=True)

    def measure(self, warm_up_s: float, seconds: float) -> Measured:
        """Measures for `seconds` after the warm-up; TargetError if a process ends, or no process prints figures."""
        time.sleep(warm_up_s)
        before_s, begin = self._cpu_s(), time.monotonic()
        time.sleep(seconds)
        cpu_s = (self._cpu_s() - before_s) / (time.monotonic() - begin)
        lines = [line for process in self.processes for line in LINE.findall(process.log_text())]
        if not lines:
            ends = "\n".join(process.log_text()[-1000:] for process in self.processes)
            raise TargetError(f"{self.name}: nothing was committed:\n{ends}")
        bytes_per_s, p75_ms, p99_ms, p999_ms = map(float, lines[-1])
        return Measured(bytes_per_s, p75_ms, p99_ms, p999_ms, cpu_s)

    def _cpu_s(self) -> float:
        usages = [process.usage() for process in self.processes]
        if None in usages:
            ended = next(each for each in self.processes if not each.is_running)
            raise TargetError(f"{self.name}: {ended.name} has ended:\n{ended.log_text()[-2000:]}")
        return sum(usage.cpu_s for usage in usages if usage is not None)


class KafkaRaftNodes(RaftNodes):
    """Nodes of `kafka.tools.TestRaftServer`; those before 4.0 always append 20,000 records of 256 bytes per second."""

    def __init__(self, load: Load, target: Target) -> None:
        super().__init__(load, target)
        self._jars = target.jars()

    def process(self, node: int, folder: Path) -> ChildProcess:
        old, new = folder / "log4j.properties", folder / "log4j2.properties"
        old.write_text(_LOG4J)
        new.write_text(_LOG4J2)
        (folder / "node.properties").write_text(
            _PROPERTIES.format(
                node_id=node,
                voters=self.voters,
                address=self.addresses[node],
                folder=folder,
                more="\n".join([self.load.setting, *self.target.properties]),
            )
        )
        logging = (f"-Dlog4j.configuration=file:{old}", f"-Dlog4j2.configurationFile={new}")
        java = [f"-Xmx{HEAP}", *self.target.jvm_options, *logging, "-cp", f"{self._jars}/*", _MAIN]
        options = ["--config", str(folder / "node.properties")]
        options += [_DIRECTORY_ID, random_uuid()] if has_option(self._jars, _MAIN, _DIRECTORY_ID[2:]) else []
        options += ["--throughput", str(self.load.rate), "--record-size", str(self.load.record_bytes)]
        name = f"{self.name} node {node}"
        return JavaProcess(name, folder / "node.log", [*java, *options], "", java=self.target.java)


class KcoreRaftNodes(RaftNodes):
    """Nodes of `kcore quorum serve --append`."""

    def __init__(self, load: Load, target: Target) -> None:
        super().__init__(load, target)
        self._id = random_uuid()

    def process(self, node: int, folder: Path) -> ChildProcess:
        quorum = [*KCORE, "quorum"]
        data = ["--id", str(node), "--data", str(folder / "data")]
        command = [*quorum, "format", *data, "--cluster-id", self._id]
        made = ChildProcess("kcore quorum format", folder / "format.log", command, "")
        made.start(wait=False)
        if made.wait():
            raise TargetError(made.log_text())
        load = ["--append", str(self.load.rate), "--record-bytes", str(self.load.record_bytes)]
        lines = filter(None, (self.load.setting, *self.target.properties))
        settings = [part for line in lines for part in ("--config", line)]
        command = [*quorum, "serve", *data, "--voters", self.voters, *load, *settings]
        return ChildProcess(f"kcore node {node}", folder / "node.log", command, "")
