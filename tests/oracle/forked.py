"""kcore's commands as processes that are forked where all is imported already: a restart costs no second of CPU."""

import multiprocessing
import os
import signal
import sys
from collections.abc import Sequence
from multiprocessing.context import ForkServerContext
from multiprocessing.context import ForkServerProcess as Process
from pathlib import Path
from subprocess import TimeoutExpired

from oracle.kraft_clusters import Node

IMPORTED = [
    *("kcore.cli.servers.kraft_run", "kcore.server.kraft_controller.kraft_controller_server"),
    *("kcore.cli.servers.broker_kraft_run", "kcore.server.kraft_broker.kraft_broker_server", "oracle.forked"),
]


def _context() -> ForkServerContext:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(IMPORTED)
    return context


def _run(arguments: Sequence[str], log: Path) -> None:
    """In the new process."""
    os.setsid()
    with log.open("ab") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    sys.argv = ["kcore", *arguments]
    from kcore.cli import main

    main()


class _Forked:
    """As much of `subprocess.Popen` as JavaProcess asks of it."""

    def __init__(self, process: Process) -> None:
        self._process = process

    @property
    def pid(self) -> int:
        assert self._process.pid is not None
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        return self._process.exitcode

    def poll(self) -> int | None:
        return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        self._process.join(timeout)
        if (code := self._process.exitcode) is None:
            raise TimeoutExpired("a forked process", timeout or 0.0)
        return code

    def kill(self) -> None:
        self._process.kill()

    def send_signal(self, number: int) -> None:
        os.kill(self.pid, number)


class ForkedNode(Node):
    """A node of kcore's; its command has the arguments of `kcore`."""

    @property
    def is_ready(self) -> bool:
        """Whether the process that runs has said so: of what was killed the cluster may not know yet."""
        return self.is_running and self._ready in self.log_text()

    def start(self, *, wait: bool = True) -> None:
        assert not self.is_running, f"{self.name} runs already"
        self._begin = self.log.stat().st_size if self.log.exists() else 0
        self.log.touch()
        process = _context().Process(target=_run, args=(self._command, self.log), daemon=True)
        process.start()
        self._process = _Forked(process)  # type: ignore[assignment]
        if wait:
            self.await_ready()
