"""Runs py-spy: one process of py-spy for each of kcore's controllers, during a scenario.

py-spy reads the controller's memory from outside and does not stop the controller (--nonblocking). It leaves out a
stack that changed while it was read.
"""

import shutil
import signal
import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from threading import Timer
from typing import Final

from kcore.errors import TargetError
from kcore.measure.storm.profile.samples import Sample, samples_of_py_spy

RATE_HZ: Final = 1_000
_WAIT_S: Final = 20.0
_OPTIONS: Final = ("--nonblocking", "--threads", "--nolineno", "--full-filenames", "--format", "raw")
NOT_PERMITTED: Final = (
    "py-spy may not read another process here: run as root, with CAP_SYS_PTRACE (docker run --cap-add SYS_PTRACE), "
    "or after sysctl kernel.yama.ptrace_scope=0"
)


def py_spy() -> str:
    """The py-spy program of this Python, otherwise the one on PATH. TargetError if there is none."""
    own = Path(sysconfig.get_path("scripts")) / "py-spy"
    found = str(own) if own.is_file() else shutil.which("py-spy")
    if found is None:
        raise TargetError("--profile of kcore's controllers needs py-spy: pip install py-spy")
    return found


def check_permitted() -> None:
    """Raises a TargetError if py-spy is missing, or may not read processes other than its children."""
    program = py_spy()
    sleeper = subprocess.Popen([sys.executable, "-c", "print(flush=True); input()"], stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE)  # fmt: skip
    try:
        assert sleeper.stdout is not None
        sleeper.stdout.readline()
        done = subprocess.run(
            [program, "dump", "--nonblocking", "--pid", str(sleeper.pid)], capture_output=True, text=True, check=False
        )
    finally:
        sleeper.kill()
        sleeper.communicate()
    if done.returncode:
        raise TargetError(_reason(done.stderr))


def _reason(printed: str) -> str:
    """The reason why py-spy did not sample, in one line, from what it printed."""
    if "permission" in printed.lower() or "not permitted" in printed.lower():
        return NOT_PERMITTED
    last = printed.strip().splitlines()[-1:] or ["it said nothing"]
    return f"py-spy does not work here: {last[0]}"


@dataclass(slots=True)
class PySpy:
    """The samplers of one window, and what they printed."""

    folder: Path  # For the samplers' output.
    cpu_s: float = 0.0  # CPU time of the samplers themselves.
    _running: list[tuple[int, subprocess.Popen[bytes], Path]] = field(default_factory=list)

    def begin(self, pids: Sequence[int], name: str) -> None:
        """Starts a sampler for each process, and returns when all sample. TargetError if one cannot."""
        for pid in pids:
            output = self.folder / f"{name}-{pid}.raw"
            command = [
                py_spy(),
                "record",
                *_OPTIONS,
                "--rate",
                str(RATE_HZ),
                "--pid",
                str(pid),
                "--output",
                str(output),
            ]
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip
            self._running.append((pid, process, output))
        for _, process, _ in self._running:
            self._await(process)

    def _await(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdout is not None
        printed = b""
        ending = Timer(_WAIT_S, process.kill)
        ending.start()
        try:
            while line := process.stdout.readline():
                printed += line
                if b"Sampling process" in line:
                    return
        finally:
            ending.cancel()
        raise TargetError(_reason(printed.decode(errors="replace")))

    def end(self) -> dict[int, list[Sample]]:
        """Ends the samplers, and returns the samples by process."""
        for _, process, _ in self._running:
            process.send_signal(signal.SIGINT)
        found = {}
        for pid, process, output in self._running:
            self._wait(process)
            found[pid] = [*samples_of_py_spy(output.read_text(errors="replace"))] if output.exists() else []
            output.unlink(missing_ok=True)
        self._running.clear()
        return found

    def _wait(self, process: subprocess.Popen[bytes]) -> None:
        try:
            process.communicate(timeout=_WAIT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()

    def close(self) -> None:
        """Ends the samplers that still run."""
        for _, process, _ in self._running:
            process.kill()
            process.communicate()
        self._running.clear()
