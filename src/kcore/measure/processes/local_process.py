"""Local helpers: the CPU time and memory of a process, free ports of the loopback interface, random UUIDs."""

import base64
import fcntl
import itertools
import os
import socket
import sys
import tempfile
import time
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from kcore.errors import TargetError

KCORE: Final = (sys.executable, "-c", "from kcore.cli import main; main()")  # Runs the command of this installation.
_PORTS: Final = range(19_000, 32_000)  # Below Linux's ephemeral ports, which a client's connection may take.
# The clock bits of clock_getcpuclockid for a process. /proc/PID/stat has steps of 10 ms, too coarse for a storm.
_CPU_CLOCK: Final = 2


@dataclass(frozen=True, slots=True)
class Usage:
    """The CPU time and memory that a process has used."""

    cpu_s: float
    rss_bytes: int
    peak_rss_bytes: int


def usage_of(pid: int) -> Usage | None:
    """CPU time and memory of a process on this machine; None if it does not run."""
    try:
        cpu_s = time.clock_gettime(~pid << 3 | _CPU_CLOCK)
        status = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
        rss, peak = (int(status[name].split()[0]) * 1024 for name in ("VmRSS", "VmHWM"))
    except (OSError, KeyError):
        return None
    return Usage(cpu_s, rss, peak)


def random_uuid() -> str:
    """A UUID in Kafka's base64 form without a leading dash, which Kafka's tools would take for an option."""
    while (text := base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")).startswith("-"):
        pass
    return text


class _Reservations:
    """The ports that this process has reserved, each by a lock on one byte of a file that all of a user's processes
    share.

    The system ends the locks with the process. Before a server starts, and while a killed server is down, the server's
    port has no listener and looks free. The lock keeps other processes from taking the port.
    """

    def __init__(self) -> None:
        self._file: int | None = None
        self.held: dict[int, None] = {}  # The ports as keys, in order of reservation.

    def reserve(self, port: int) -> bool:
        """Reserves the port; False if another process has reserved it."""
        if self._file is None:
            path = Path(tempfile.gettempdir()) / f"kcore-ports-{os.getuid()}"
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, port)
        except OSError:
            return False
        self.held.pop(port, None)
        self.held[port] = None
        return True


_reservations: Final = _Reservations()


def free_ports(count: int) -> list[int]:
    """Free ports of the loopback interface, reserved for this process while it lives.

    Ports of earlier calls are returned again only after all others. Raises TargetError if too few are free.
    """
    found: list[int] = []
    before = [*_reservations.held]
    fresh = (port for port in _PORTS[os.getpid() % 1000 :: 7] if port not in _reservations.held)
    for port in itertools.chain(fresh, before):
        if len(found) == count:
            return found
        if _is_free(port) and _reservations.reserve(port):
            found.append(port)
    if len(found) < count:
        raise TargetError(f"no {count} free ports between {_PORTS.start} and {_PORTS.stop}")
    return found


def _is_free(port: int) -> bool:
    """True if no process listens at the port."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) != 0
