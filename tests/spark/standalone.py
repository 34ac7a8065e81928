"""Spark's standalone master and workers from pip's PySpark, as processes on loopback."""

import os
import re
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import psutil
import pyspark

from kcore.spark.java import java_home

SPARK_CLASS: Final = Path(pyspark.__file__).parent / "bin" / "spark-class"
LOOPBACK: Final = "127.0.0.1"
PATIENCE_S: Final = 300.0  # A busy machine starts a process slowly.
POLL_S: Final = 0.05
_EXECUTOR: Final = "org.apache.spark.executor.CoarseGrainedExecutorBackend"


class Daemon:
    """A master or a worker. Its output is in the file `log`."""

    def __init__(self, log: Path, name: str, *arguments: str) -> None:
        """Starts the class `name` of Spark; a free port is taken."""
        self.log = log
        environment = os.environ | {"JAVA_HOME": str(java_home()), "SPARK_LOCAL_IP": LOOPBACK}
        common = ("--host", LOOPBACK, "--port", "0", "--webui-port", "0")
        with log.open("wb") as output:
            self.process = subprocess.Popen(
                [SPARK_CLASS, f"org.apache.spark.deploy.{name}", *common, *arguments],
                stdout=output,
                stderr=subprocess.STDOUT,
                env=environment,
                start_new_session=True,
            )

    def wait_for(self, pattern: str) -> re.Match[str]:
        """The first match of the pattern in the output; AssertionError if the process ends before."""
        found: list[re.Match[str]] = []

        def is_there() -> bool:
            found.extend(re.finditer(pattern, self.log.read_text()))
            return bool(found)

        wait_until(is_there, self.process, lambda: f"no {pattern!r} in:\n{self.log.read_text()}")
        return found[0]

    def executors(self) -> list[psutil.Process]:
        """The executors that a worker has started, as Java processes."""
        return [each for each in descendants(self.process.pid) if _EXECUTOR in command_of(each)]

    def kill(self) -> None:
        """Ends the process and all that it started, by SIGKILL."""
        kill_all([*descendants(self.process.pid), psutil.Process(self.process.pid)])
        self.process.wait(PATIENCE_S)

    def stop(self) -> None:
        """Ends the process by SIGTERM, if it still runs: a worker stops its executors before it ends."""
        self.process.terminate()
        self.process.wait(PATIENCE_S)


class Standalone:
    """A master and its workers, which have one core each. Their logs and work folders are in `folder`."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(exist_ok=True)
        self._folder = folder
        self.master = Daemon(folder / "master.log", "master.Master")
        self.workers: list[Daemon] = []
        self.url = self.master.wait_for(r"Starting Spark master at (spark://\S+)")[1]

    def add_worker(self) -> Daemon:
        """Starts a worker; it has registered with the master when this method returns."""
        log = self._folder / f"worker-{len(self.workers) + 1}.log"
        options = ("--cores", "1", "--memory", "1g", "--work-dir", str(log.with_suffix("")))
        worker = Daemon(log, "worker.Worker", *options, self.url)
        self.workers.append(worker)
        worker.wait_for("Successfully registered with master")
        return worker

    def kill(self) -> None:
        """Ends the master, then the workers with their executors, by SIGKILL."""
        for daemon in (self.master, *self.workers):
            if daemon.process.poll() is None:
                daemon.kill()

    def stop(self) -> None:
        """Ends everything by SIGTERM, the workers first."""
        for daemon in (*self.workers, self.master):
            daemon.stop()


@contextmanager
def standalone(folder: Path, workers: int) -> Iterator[Standalone]:
    """A master with registered workers of one core each, all gone at the end."""
    cluster = Standalone(folder)
    try:
        for _ in range(workers):
            cluster.add_worker()
        yield cluster
    finally:
        cluster.stop()


def wait_until(is_so: Callable[[], bool], process: subprocess.Popen[bytes], said: Callable[[], str]) -> None:
    """Waits for the condition; AssertionError with `said` if the process ends before, or after PATIENCE_S."""
    deadline = time.monotonic() + PATIENCE_S
    while not is_so():
        assert time.monotonic() < deadline and process.poll() is None, said()
        time.sleep(POLL_S)


def descendants(pid: int) -> list[psutil.Process]:
    """The processes that a process started, and those that they started."""
    return list(psutil.Process(pid).children(recursive=True))


def command_of(process: psutil.Process) -> list[str]:
    """The command line of a process; empty if the process has ended."""
    with suppress(psutil.NoSuchProcess, psutil.ZombieProcess):
        return list(process.cmdline())
    return []


def kill_all(processes: list[psutil.Process]) -> None:
    """Ends these processes by SIGKILL, whether they still run or not."""
    for each in processes:
        with suppress(psutil.NoSuchProcess):
            each.kill()
