"""Runs real ZooKeeper and real Kafka brokers in ZooKeeper mode on the loopback interface."""

import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from kcore.measure.processes.jars import kafka_jars
from kcore.measure.processes.java_process import JavaProcess, stop_all
from kcore.measure.processes.kafka_quorum import log_options
from kcore.measure.processes.local_process import free_ports
from kcore.measure.processes.started import Started

ZK_RELEASE: Final = "3.9.1"  # The last release of Kafka with ZooKeeper; it ships ZooKeeper 3.8.4.
# For tests: a broker then takes 140 to 190 MB.
LIGHT: Final = ("-Xms64m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
_ZOOKEEPER: Final = """dataDir={folder}/data
clientPort={port}
clientPortAddress=127.0.0.1
admin.enableServer=false
maxClientCnxns=0
tickTime={tick_ms}
4lw.commands.whitelist=*
"""
_BROKER: Final = """broker.id={broker_id}
listeners=PLAINTEXT://127.0.0.1:{port}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
zookeeper.connect={zookeeper}
zookeeper.session.timeout.ms=6000
log.dirs={log_dirs}
num.network.threads=1
num.io.threads=2
num.partitions=1
offsets.topic.num.partitions=1
offsets.topic.replication.factor=1
transaction.state.log.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
group.initial.rebalance.delay.ms=0
log.cleaner.dedupe.buffer.size=4194304
log.cleaner.threads=1
auto.create.topics.enable=false
"""


@dataclass(frozen=True, slots=True)
class Java:
    """How the JVMs of brokers start; without `jars` they run ZK_RELEASE, without `program` that of `java_home`."""

    heap: str = "384m"
    options: tuple[str, ...] = LIGHT
    jars: Path | None = None
    program: Path | None = None

    def arguments(self, folder: Path, main: str, configuration: Path) -> list[str]:
        """The arguments of java for a program that logs as `folder` says."""
        jars = f"{self.jars or kafka_jars(ZK_RELEASE)}/*"
        return [f"-Xmx{self.heap}", *self.options, *log_options(folder), "-cp", jars, main, str(configuration)]


class ZookeeperProcess(JavaProcess, Started):
    """One ZooKeeper server. Its data survives `kill` and a new `start`, and is removed at the end of the `with`."""

    def __init__(self, *, heap: str = "256m", options: Sequence[str] = LIGHT, tick_ms: int = 2_000) -> None:
        """`options`: of the program java. Session time-outs are limited to 2 to 20 ticks."""
        self.folder = Path(tempfile.mkdtemp(prefix="kcore-zookeeper-"))
        [self.port] = free_ports(1)
        configuration = self.folder / "zoo.cfg"
        configuration.write_text(_ZOOKEEPER.format(folder=self.folder, port=self.port, tick_ms=tick_ms))
        main = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
        arguments = Java(heap, tuple(options)).arguments(self.folder, main, configuration)
        super().__init__("ZooKeeper", self.folder / "zookeeper.log", arguments, "PrepRequestProcessor (sid:0) started")

    @property
    def address(self) -> str:
        """HOST:PORT, as in zookeeper.connect."""
        return f"127.0.0.1:{self.port}"

    def close(self) -> None:
        """Kills the server and removes its data."""
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)


class ZkBroker(JavaProcess):
    """One broker; the data in `log_dirs` stays when it ends."""

    def __init__(
        self,
        broker_id: int,
        port: int,
        folder: Path,
        zookeeper: str,
        properties: str,
        java: Java,
    ) -> None:
        self.broker_id, self.port, self.folder = broker_id, port, folder
        self.log_dirs = [folder / "data-1"]
        self._zookeeper = zookeeper
        folder.mkdir()
        self.configuration = folder / "server.properties"
        self.configure(properties)
        arguments = java.arguments(folder, "kafka.Kafka", self.configuration)
        ready = f"[KafkaServer id={broker_id}] started"
        super().__init__(f"broker {broker_id}", folder / "server.log", arguments, ready, java=java.program)

    @property
    def address(self) -> str:
        """HOST:PORT, as in bootstrap.servers."""
        return f"127.0.0.1:{self.port}"

    def configure(self, properties: str) -> None:
        """Writes the configuration of the next start; `properties` override the defaults."""
        log_dirs = ",".join(map(str, self.log_dirs))
        ours = _BROKER.format(broker_id=self.broker_id, port=self.port, zookeeper=self._zookeeper, log_dirs=log_dirs)
        self.configuration.write_text(f"{ours}{properties}\n")


class ZkBrokers(Started):
    """Brokers of one cluster with ids from `first_id` on; their files are removed at the end of the `with`."""

    def __init__(
        self,
        zookeeper: str,
        count: int = 3,
        *,
        properties: str = "",
        own_properties: Mapping[int, str] | None = None,
        first_id: int = 1,
        java: Java = Java(),
    ) -> None:
        """`zookeeper`: HOST:PORT, optionally with a chroot. `properties`: of all brokers; `own_properties`: by id."""
        self.folder = Path(tempfile.mkdtemp(prefix="kcore-brokers-"))
        self.brokers: list[ZkBroker] = []
        for broker_id, port in enumerate(free_ports(count), first_id):
            lines = f"{properties}\n{(own_properties or {}).get(broker_id, '')}"
            place = self.folder / f"broker-{broker_id}"
            self.brokers.append(ZkBroker(broker_id, port, place, zookeeper, lines, java))

    @property
    def bootstrap(self) -> str:
        """The value of bootstrap.servers with all these brokers."""
        return ",".join(broker.address for broker in self.brokers)

    def __getitem__(self, broker_id: int) -> ZkBroker:
        return next(broker for broker in self.brokers if broker.broker_id == broker_id)

    def start(self) -> None:
        """Starts all brokers at once and waits until each is ready; TargetError if one fails."""
        for broker in self.brokers:
            broker.start(wait=False)
        for broker in self.brokers:
            broker.await_ready()

    def close(self) -> None:
        """Kills the brokers and removes their data."""
        for broker in self.brokers:
            broker.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def stop(self) -> None:
        """Sends SIGTERM to all brokers at once and waits for their ends."""
        stop_all(self.brokers)
