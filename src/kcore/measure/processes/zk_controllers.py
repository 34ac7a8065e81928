"""The controllers that storms measure in ZooKeeper mode: a Kafka broker without replicas, or kcore's controller."""

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from kcore.measure.processes.java_process import ChildProcess, stop_all
from kcore.measure.processes.local_process import KCORE, Usage, free_ports
from kcore.measure.processes.started import Started
from kcore.measure.processes.target import Target
from kcore.measure.processes.zk_cluster import Java, ZkBrokers

CONTROLLER_ID: Final = 30_001  # Above the ids of hollow brokers.
# Both controllers run without automatic leader rebalancing, which would disturb a measurement.
_NO_REBALANCING: Final = "auto.leader.rebalance.enable=false"
_KAFKA_PROPERTIES: Final = f"{_NO_REBALANCING}\nnum.io.threads=4\nnum.network.threads=2\nreserved.broker.max.id=65535"
_STOP_TIMEOUT_S: Final = 10.0


class ControllerProcess(Started):
    """One controller for one run; its process and files are gone after the `with`."""

    host: Final = "127.0.0.1"

    def __init__(self, process: ChildProcess, port: int) -> None:
        self.process, self.port = process, port

    def usage(self) -> Usage | None:
        """The controller's CPU time and memory; None if it has ended."""
        return self.process.usage()

    def pids(self) -> list[int]:
        """The controller's process id in a list; empty if it does not run."""
        return [self.process.pid] if self.process.is_running else []


class KafkaController(ControllerProcess):
    """A broker of Kafka without replicas. It is the only controller: hollow brokers have none."""

    def __init__(self, target: Target, zookeeper: str, heap: str, java_options: Sequence[str] = ()) -> None:
        self._is_profiled = bool(java_options)
        java = Java(heap, (*target.jvm_options, *java_options), target.jars(), target.java)
        properties = "\n".join([_KAFKA_PROPERTIES, *target.properties])
        self._brokers = ZkBrokers(zookeeper, 1, first_id=CONTROLLER_ID, java=java, properties=properties)
        [broker] = self._brokers.brokers
        super().__init__(broker, broker.port)

    def start(self) -> None:
        self._brokers.start()

    def close(self) -> None:
        if self._is_profiled:
            self._brokers.stop()  # The profiler's recording is complete only if the process ends by itself.
        self._brokers.close()


class KcoreController(ControllerProcess):
    """`kcore controller zk` in a process of its own."""

    def __init__(self, target: Target, zookeeper: str) -> None:
        [port] = free_ports(1)
        self._log = Path(tempfile.mkstemp(prefix="kcore-controller-", suffix=".log")[1])
        command = ("controller", "zk", "--zookeeper", zookeeper, "--listen", f"{self.host}:{port}")
        properties = (_NO_REBALANCING, *target.properties)
        options = ["--broker-id", str(CONTROLLER_ID), *(part for line in properties for part in ("--config", line))]
        ready = f"controller {CONTROLLER_ID} is active, epoch "
        super().__init__(ChildProcess("kcore's controller", self._log, [*KCORE, *command, *options], ready), port)

    def start(self) -> None:
        self.process.start()

    def close(self) -> None:
        stop_all([self.process], _STOP_TIMEOUT_S)
        self._log.unlink(missing_ok=True)


def controller_of(target: Target, zookeeper: str, heap: str, java_options: Sequence[str] = ()) -> ControllerProcess:
    """The controller of a target; `heap`: java's -Xmx of Kafka's controller; `java_options`: those of a profiler."""
    if target.is_kcore:
        return KcoreController(target, zookeeper)
    return KafkaController(target, zookeeper, heap, java_options)
