"""A cluster of kcore's brokers on its way from ZooKeeper to KRaft, under a real controller of Kafka 3.9.1."""

from pathlib import Path
from typing import Final

from kcore.measure.processes.jars import kafka_jars
from kcore.measure.processes.java_process import JavaProcess
from kcore.measure.processes.kafka_quorum import LOG4J
from kcore.measure.processes.local_process import free_ports, random_uuid
from kcore.measure.processes.zk_cluster import LIGHT, ZK_RELEASE
from kcore.storage.meta_properties import MetaProperties, read_meta_properties, write_meta_properties
from kcore.types import Uuid
from oracle.kcore_brokers import PROGRAM, KcoreBroker, until

CONTROLLER_ID: Final = 3000
MIGRATION: Final = "zookeeper.metadata.migration.enable"
_CONTROLLER: Final = """process.roles=controller
node.id={node_id}
controller.quorum.voters={node_id}@{address}
listeners=CONTROLLER://{address}
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT
log.dirs={data}
broker.session.timeout.ms=9000
offsets.topic.replication.factor=1
"""
_BROKER: Final = """process.roles=broker
node.id={broker_id}
controller.quorum.voters={voters}
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT
listeners=PLAINTEXT://{address}
log.dirs={log_dirs}
broker.heartbeat.interval.ms=500
replica.lag.time.max.ms=4000
"""


class MigratingController(JavaProcess):
    """Kafka's: the one voter of a static quorum, formatted for the cluster that is in ZooKeeper."""

    def __init__(self, zookeeper: str, folder: Path, cluster_id: str) -> None:
        [self.port] = free_ports(1)
        self.folder = folder / "kraft-controller"
        self._zookeeper, data = zookeeper, self.folder / "data"
        data.mkdir(parents=True)
        meta = MetaProperties(1, cluster_id=cluster_id, node_id=CONTROLLER_ID, directory_id=Uuid(random_uuid()))
        write_meta_properties(data / "meta.properties", meta)
        self.properties, logging = self.folder / "server.properties", self.folder / "log4j.properties"
        logging.write_text(LOG4J)
        self.configure(migrates=True)
        jars = ("-cp", f"{kafka_jars(ZK_RELEASE)}/*", "kafka.Kafka")
        arguments = ["-Xmx384m", *LIGHT, f"-Dlog4j.configuration=file:{logging}", *jars, str(self.properties)]
        super().__init__("the KRaft controller", self.folder / "server.log", arguments, "Kafka Server started")

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def voters(self) -> str:
        """As controller.quorum.voters has them."""
        return f"{CONTROLLER_ID}@{self.address}"

    def configure(self, *, migrates: bool) -> None:
        """For the next start: whether it knows of ZooKeeper."""
        more = f"{MIGRATION}=true\nzookeeper.connect={self._zookeeper}\n" if migrates else ""
        ours = _CONTROLLER.format(node_id=CONTROLLER_ID, address=self.address, data=self.folder / "data")
        self.properties.write_text(ours + more)


class MigratingBroker(KcoreBroker):
    """At first in ZooKeeper mode, and of no quorum."""

    def migrates(self, voters: str) -> None:
        """From the next start on it is to migrate."""
        settings = (f"{MIGRATION}=true", f"controller.quorum.voters={voters}", "controller.listener.names=CONTROLLER")
        self._command += [each for line in settings for each in ("--config", line)]
        self._command += ["--config", "broker.heartbeat.interval.ms=500"]

    def in_kraft_mode(self, voters: str) -> None:
        """From the next start on, on the same directories."""
        properties = self.log.with_suffix(".properties")
        log_dirs = ",".join(map(str, self.log_dirs))
        properties.write_text(
            _BROKER.format(broker_id=self.broker_id, voters=voters, address=self.address, log_dirs=log_dirs)
        )
        self._command = [*PROGRAM[:-1], "kraft", "run", "-c", str(properties), "--release", ZK_RELEASE]

    def restart(self) -> None:
        """Cleanly, its leaders moved away first."""
        assert self.terminate() == 0, self.said()[-2000:]
        self.start()

    def await_logged(self, text: str, count: int = 1) -> None:
        until(lambda: self.said().count(text) >= count, lambda: (text, self.said()[-3000:]))

    def metas(self) -> list[MetaProperties]:
        return [read_meta_properties(each / "meta.properties") for each in self.log_dirs]
