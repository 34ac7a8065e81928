"""Of this machine: what a process has taken of it, free ports of its loopback interface, random UUIDs."""

import base64
import os
import socket
import time
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from kcore.errors import TargetError

_PORTS: Final = range(19_000, 32_000)  # Below Linux's ephemeral ports: one of those may be taken by a client.
_CPU_CLOCK: Final = 2  # Of a process: clock_getcpuclockid's. /proc/PID/stat counts by 10 ms, too coarse for a scenario.


@dataclass(frozen=True, slots=True)
class Usage:
    """What a process has taken of the machine."""

    cpu_s: float
    rss_bytes: int
    peak_rss_bytes: int


def usage_of(pid: int) -> Usage | None:
    """CPU time and memory of a process on this machine; None if there is none."""
    try:
        cpu_s = time.clock_gettime(~pid << 3 | _CPU_CLOCK)
        status = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
        rss, peak = (int(status[name].split()[0]) * 1024 for name in ("VmRSS", "VmHWM"))
    except (OSError, KeyError):
        return None
    return Usage(cpu_s, rss, peak)


def random_uuid() -> str:
    """A UUID as Kafka writes them; none that begins with a dash, which its tools would take for an option."""
    while (text := base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")).startswith("-"):
        pass
    return text


def free_ports(count: int) -> list[int]:
    """Free ports of the loopback interface."""
    found: list[int] = []
    for port in _PORTS[os.getpid() % 1000 :: 7]:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) != 0:
                found.append(port)
        if len(found) == count:
            return found
    raise TargetError(f"no free ports between {_PORTS.start} and {_PORTS.stop}")
