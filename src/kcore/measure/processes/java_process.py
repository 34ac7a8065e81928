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
_LAST_LINES: Final = 3  # That an error shows of a log, without the frames of stack traces.
_LINE: Final = 200  # Characters of each.
_FRAME: Final = ("at ", "... ")


class ChildProcess:
    """A process that can be started again; `log` has the output of all its runs in order."""

    def __init__(self, name: str, log: Path, command: Sequence[str], ready: str) -> None:
        """The process is ready once its log contains `ready`."""
        self.name, self.log = name, log
        self._command = [*command]
        self._ready = ready
        self._process: subprocess.Popen[bytes] | None = None
        self._begin = 0  # The size of the log before the latest start.
        self._is_ended_by_us = False

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
        """The exit code and the last lines of a process that has ended, in one line; otherwise an empty text."""
        if self._process is None or self._process.poll() is None:
            return ""
        last = last_lines(self.log_text())
        return f"{self.name} has ended with exit code {self._process.returncode}{last and f': {last}'}"

    @property
    def failure(self) -> str:
        """The text of `end` if the process ended although nobody called a method that ends it; otherwise empty."""
        return "" if self._is_ended_by_us else self.end

    def start(self, *, wait: bool = True) -> None:
        """Starts the process; if `wait`, raises TargetError with the end of its log unless it becomes ready."""
        assert not self.is_running, f"{self.name} runs already"
        self._is_ended_by_us = False
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
                raise TargetError(self.end or f"{self.name} did not log {text!r} in time: {last_lines(logged)}")
            time.sleep(_POLL_S)

    def log_text(self) -> str:
        """The log since the latest start."""
        with self.log.open("rb") as log:
            log.seek(self._begin)
            return log.read().decode(errors="replace")

    def terminate(self, timeout_s: float = 30.0) -> int:
        """Sends SIGTERM and returns the exit code; kills the process with SIGKILL after the time-out."""
        if self.is_running:
            self.ask_to_end()
        return self.wait(timeout_s)

    def ask_to_end(self) -> None:
        """Sends SIGTERM, and does not wait."""
        self._is_ended_by_us = True
        self._signal(signal.SIGTERM)

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
            self._is_ended_by_us = self._is_ended_by_us or self.is_running
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


def last_lines(text: str) -> str:
    """The last lines of a log, in one line, without the frames of stack traces."""
    lines = [line for each in text.splitlines() if (line := each.strip()) and not line.startswith(_FRAME)]
    return "; ".join(line[:_LINE] for line in lines[-_LAST_LINES:])


def stop_all(processes: Sequence[ChildProcess], timeout_s: float = 30.0) -> None:
    """Sends SIGTERM to all processes; kills those that still run after the time-out."""
    running = [process for process in processes if process.is_running]
    for process in running:
        process.resume()  # A paused process does not act on SIGTERM.
        process.ask_to_end()
    end = time.monotonic() + timeout_s
    for process in running:
        process.wait(max(0.1, end - time.monotonic()))
