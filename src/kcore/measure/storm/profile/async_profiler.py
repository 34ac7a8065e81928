"""async-profiler in Kafka's controllers: an agent that samples running threads, also those of the virtual machine.

The agent starts with the process and writes a recording in the format of the JDK's Flight Recorder. The converter
extracts the stacks of a window of time from the recording. If the kernel does not permit perf events, the agent uses
timers of CPU time. Both jars are from Maven Central (`kcore/measure/processes/jars.py`).
"""

import platform
import subprocess
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from kcore.errors import TargetError
from kcore.measure.processes.jars import async_profiler_jars
from kcore.measure.storm.profile.samples import Sample, samples_of_async_profiler
from kcore.spark.java import java_home

_AGENT: Final = "start,event=cpu,interval=1ms,jfr,chunktime=5s"  # A process that is killed loses its last chunk.
_PLATFORMS: Final = {"x86_64": "linux-x64", "aarch64": "linux-arm64"}
_LIBRARY: Final = "libasyncProfiler.so"
_CONVERT: Final = ("--cpu", "--threads", "--dot", "--norm", "--output", "collapsed")
_JAVA_OPTIONS: Final = ("-Xmx1g", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")


def converter(*arguments: str) -> None:
    """Runs async-profiler's converter; TargetError with the first line that it printed, if it fails."""
    _, jar = async_profiler_jars()
    java = str(java_home() / "bin" / "java")
    command = [java, *_JAVA_OPTIONS, "-jar", str(jar), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    if done.returncode:
        said = (done.stderr or done.stdout).strip().splitlines() or ["nothing"]
        raise TargetError(f"async-profiler's converter failed: {said[0]}")


@dataclass(slots=True)
class AsyncProfiler:
    """The recordings of one cell's controllers."""

    folder: Path
    _library: Path = field(init=False)

    def __post_init__(self) -> None:
        """Unpacks the agent. TargetError if async-profiler has none for this machine, or it cannot be downloaded."""
        machine = _PLATFORMS.get(platform.machine())
        if machine is None:
            raise TargetError(f"--profile: async-profiler has no library for {platform.machine()}")
        profiler, _ = async_profiler_jars()
        with zipfile.ZipFile(profiler) as jar:
            self._library = self.folder / _LIBRARY
            self._library.write_bytes(jar.read(f"{machine}/{_LIBRARY}"))

    @property
    def java_options(self) -> tuple[str, ...]:
        """JVM options of the sampled processes: the agent, and exact frames between safepoints."""
        file = self.folder / "recording-%p.jfr"
        agent = f"-agentpath:{self._library}={_AGENT},file={file}"
        return agent, "-XX:+UnlockDiagnosticVMOptions", "-XX:+DebugNonSafepoints"

    def samples(self, pid: int, begin_ms: int, end_ms: int) -> Iterator[Sample]:
        """The samples of a process that has ended, between two times in Unix ms."""
        recording, stacks = self.folder / f"recording-{pid}.jfr", self.folder / "stacks.txt"
        if not recording.exists():
            return
        converter(*_CONVERT, "--from", str(begin_ms), "--to", str(end_ms), str(recording), str(stacks))
        yield from samples_of_async_profiler(stacks.read_text(errors="replace"))
