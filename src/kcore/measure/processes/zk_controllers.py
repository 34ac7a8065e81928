"""The controllers that storms in ZooKeeper mode put under load: a Kafka broker without replicas, and kcore's own."""

import signal
import subprocess
import sys
import tempfile
import time
from abc import abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from kcore.errors import TargetError
from kcore.measure.processes.local_process import Usage, free_ports, usage_of
from kcore.measure.processes.started import Started
from kcore.measure.processes.zk_cluster import ZkBrokers

CONTROLLER_ID: Final = 30_001  # Above the ids of hollow brokers.
KAFKA_ZK: Final = "kafka-3.9.1-zk"
KCORE_ZK: Final = "kcore-zk"
# Neither moves leaders on its own while something is measured.
_KAFKA_PROPERTIES: Final = (
    "auto.leader.rebalance.enable=false\nnum.io.threads=4\nnum.network.threads=2\nreserved.broker.max.id=65535"
)
_KCORE: Final = "from kcore.cli import main; main()"
_START_TIMEOUT_S: Final = 60.0
_STOP_TIMEOUT_S: Final = 10.0


class ControllerProcess(Started):
    """One controller for one run; nothing is left of it after the `with`."""

    host: Final = "127.0.0.1"
    port: int

    @abstractmethod
    def usage(self) -> Usage | None:
        """CPU time and memory; None once it has ended."""

    @abstractmethod
    def pids(self) -> list[int]:
        """The process id of the controller, while it runs."""


class KafkaController(ControllerProcess):
    """A broker of Kafka 3.9.1 that runs the only controller: hollow brokers have none. It never has replicas."""

    def __init__(self, zookeeper: str, heap: str, java_options: Sequence[str] = ()) -> None:
        self._is_profiled = bool(java_options)
        self._brokers = ZkBrokers(
            zookeeper, 1, first_id=CONTROLLER_ID, heap=heap, options=java_options, properties=_KAFKA_PROPERTIES
        )
        self.port = self._brokers.brokers[0].port

    def start(self) -> None:
        self._brokers.start()

    def usage(self) -> Usage | None:
        return self._brokers.brokers[0].usage()

    def pids(self) -> list[int]:
        broker = self._brokers.brokers[0]
        return [broker.pid] if broker.is_running else []

    def close(self) -> None:
        if self._is_profiled:
            self._brokers.stop()  # Its recording is whole only if the process ends by itself.
        self._brokers.close()


class KcoreController(ControllerProcess):
    """`kcore controller zk` as a process of its own."""

    def __init__(self, zookeeper: str) -> None:
        [self.port] = free_ports(1)
        self._zookeeper = zookeeper
        self._process: subprocess.Popen[bytes] | None = None
        self._log = Path(tempfile.mkstemp(prefix="kcore-controller-", suffix=".log")[1])

    def start(self) -> None:
        command = ("controller", "zk", "--zookeeper", self._zookeeper, "--listen", f"{self.host}:{self.port}")
        options = ("--broker-id", str(CONTROLLER_ID), "--config", "auto.leader.rebalance.enable=false")
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-c", _KCORE, *command, *options],
                stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip
        end = time.monotonic() + _START_TIMEOUT_S
        while f"controller {CONTROLLER_ID} is active, epoch " not in (text := self._log.read_text(errors="replace")):
            if self._process.poll() is not None or time.monotonic() > end:
                raise TargetError(f"kcore's controller did not start; the end of its log:\n{text[-2000:]}")
            time.sleep(0.05)

    def usage(self) -> Usage | None:
        return usage_of(self._process.pid) if self._process is not None and self._process.poll() is None else None

    def pids(self) -> list[int]:
        return [self._process.pid] if self._process is not None and self._process.poll() is None else []

    def close(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(_STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        self._log.unlink(missing_ok=True)


def controller_of(target: str, zookeeper: str, heap: str, java_options: Sequence[str] = ()) -> ControllerProcess:
    """The controller that a target's name means; `heap` is java's -Xmx."""
    return KafkaController(zookeeper, heap, java_options) if target == KAFKA_ZK else KcoreController(zookeeper)
