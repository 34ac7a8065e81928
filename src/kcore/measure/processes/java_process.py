"""Controls a process: starts it, waits for a line of its log, pauses, ends and restarts it."""

import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from kcore.errors import TargetError
from kcore.measure.processes.local_process import Usage, usage_of
from kcore.spark.java import java_home

_POLL_S: Final = 0.05
_LAST_LINE: Final = 200  # Characters of the last line that `ChildProcess.end` shows.
_END_OF_LOG: Final = 2_000  # Characters of the log that an error shows.


class ChildProcess:
    """A process that can be started again; `log` has the output of all its runs in order."""

    def __init__(self, name: str, log: Path, command: Sequence[str], ready: str) -> None:
        """The process is ready once its log contains `ready`."""
        self.name, self.log = name, log
        self._command = [*command]
        self._ready = ready
        self._process: subprocess.Popen[bytes] | None = None
        self._begin = 0  # The size of the log before the latest start.

    @property
    def pid(self) -> int:
        """The process id of the running process, or of the last one."""
        assert self._process is not None, f"{self.name} was never started"
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def end(self) -> str:
        """The exit code and the last line of a process that has ended; otherwise an empty text."""
        if self._process is None or self._process.poll() is None:
            return ""
        lines = [line.strip() for line in self.log_text().splitlines() if line.strip()]
        last = f": {lines[-1][:_LAST_LINE]}" if lines else ""
        return f"{self.name} has ended with exit code {self._process.returncode}{last}"

    def start(self, *, wait: bool = True) -> None:
        """Starts the process; if `wait`, raises TargetError with the end of its log unless it becomes ready."""
        assert not self.is_running, f"{self.name} runs already"
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with self.log.open("ab") as log:
            self._begin = log.tell()
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
            )
        if wait:
            self.await_ready()

    def await_ready(self, timeout_s: float = 90.0) -> None:
        """Waits until the log contains the text `ready`."""
        self.await_log(self._ready, timeout_s)

    def await_log(self, text: str, timeout_s: float = 60.0) -> None:
        """Waits until this process logs `text`; TargetError if the process ends first, or at the time-out."""
        end = time.monotonic() + timeout_s
        while True:
            is_over = not self.is_running or time.monotonic() > end  # Asked first: the last lines of the log count.
            if text in (logged := self.log_text()):
                return
            if is_over:
                raise TargetError(f"{self.name} did not say {text!r}; the end of its log:\n{logged[-_END_OF_LOG:]}")
            time.sleep(_POLL_S)

    def log_text(self) -> str:
        """The log since the latest start."""
        with self.log.open("rb") as log:
            log.seek(self._begin)
            return log.read().decode(errors="replace")

    def terminate(self, timeout_s: float = 30.0) -> int:
        """Sends SIGTERM and returns the exit code; kills the process with SIGKILL after the time-out."""
        if self.is_running:
            self._signal(signal.SIGTERM)
        return self.wait(timeout_s)

    def wait(self, timeout_s: float = 30.0) -> int:
        """Waits for the process's end and returns the exit code; kills the process with SIGKILL after the time-out."""
        assert self._process is not None, f"{self.name} was never started"
        try:
            return self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.kill()
            return self._process.returncode

    def kill(self) -> None:
        """Kills the process with SIGKILL, which also ends a paused process."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def pause(self) -> None:
        """Sends SIGSTOP, which suspends the process."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Sends SIGCONT, which resumes a suspended process."""
        self._signal(signal.SIGCONT)

    @contextmanager
    def suspended(self) -> Iterator[None]:
        """A context in which the process is suspended; it keeps its connections."""
        self.pause()
        try:
            yield
        finally:
            self.resume()

    def usage(self) -> Usage | None:
        """The CPU time and memory of the process; None if it has ended."""
        return usage_of(self.pid) if self.is_running else None

    def _signal(self, number: signal.Signals) -> None:
        assert self._process is not None, f"{self.name} was never started"
        self._process.send_signal(number)


class JavaProcess(ChildProcess):
    """A process of a Java virtual machine."""

    def __init__(self, name: str, log: Path, arguments: Sequence[str], ready: str, *, java: Path | None = None) -> None:
        """`arguments`: of the program `java`; None: that of `java_home`."""
        program = str(java or java_home() / "bin" / "java")
        super().__init__(name, log, [program, "-XX:-UsePerfData", *arguments], ready)


def stop_all(processes: Sequence[ChildProcess], timeout_s: float = 30.0) -> None:
    """Sends SIGTERM to all processes; kills those that still run after the time-out."""
    running = [process for process in processes if process.is_running]
    for process in running:
        process.resume()  # A paused process does not act on SIGTERM.
        process._signal(signal.SIGTERM)
    end = time.monotonic() + timeout_s
    for process in running:
        process.wait(max(0.1, end - time.monotonic()))
