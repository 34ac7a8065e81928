"""Describes the conditions of a measurement: the machine, its load, and the versions."""

import os
import platform
import re
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final

from kcore.measure.report.own_code import own_code

PACKAGES: Final = ("kcore", "numpy", "numba", "pyarrow", "pyspark")
_IDLE: Final = (3, 4)  # Fields of /proc/stat: idle, and waiting for a disk.
_STOLEN: Final = 7  # Time that the host took from a virtual machine.
_TIMES: Final = 8  # Fields that are read. Later fields, the times of guests, are contained in earlier ones.
_JVM_PROPERTY: Final = re.compile(r"^\s*java\.(vm\.name|vm\.version|vendor) = (.+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Load:
    """How busy the machine is, as of one moment; None if the system does not report the load."""

    average: float | None  # of the last minute: processes that run or wait for a core
    times: tuple[int, ...] | None  # of all cores since the system's start, by field of /proc/stat

    @classmethod
    def now(cls) -> "Load":
        """The load at this moment."""
        average = os.getloadavg()[0] if hasattr(os, "getloadavg") else None
        try:
            first = Path("/proc/stat").read_text().split("\n", 1)[0].split()
        except OSError:
            return cls(average, None)  # Not Linux.
        return cls(average, tuple(map(int, first[1 : 1 + _TIMES])))

    def since(self) -> dict[str, float | None]:
        """The load average before, and the shares of all cores' time from then until now that were busy and stolen."""
        found: dict[str, float | None] = {"load_before": self.average, "busy_share": None, "stolen_share": None}
        now = Load.now().times
        if self.times is None or now is None:
            return found
        spent = [after - before for before, after in zip(self.times, now, strict=True)]
        whole = sum(spent)
        if whole > 0:
            found["busy_share"] = round(1 - sum(spent[at] for at in _IDLE) / whole, 4)
            found["stolen_share"] = round(spent[_STOLEN] / whole, 4) if len(spent) > _STOLEN else None
        return found


def facts(start: Load | None = None) -> dict[str, Any]:
    """The machine, the versions of packages, the code of kcore and, with `start`, how busy the machine has been since
    then."""
    found = {
        "when": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": {
            "host": platform.node(),
            "processor": _processor(),
            "cores": cores(),
            "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
            "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        },
        "versions": {"python": platform.python_version()} | {name: _version(name) for name in PACKAGES},
        "code": own_code()._asdict(),
    }
    return found | ({"load": start.since()} if start is not None else {})


def jvm_name(java: Path) -> str | None:
    """Name, version and vendor that a Java executable prints for its virtual machine; None if it prints none."""
    command = [str(java), "-XshowSettings:properties", "-version"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=30.0)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return described_jvm(jvm_properties(done.stderr + done.stdout))


def jvm_properties(printed: str) -> list[tuple[str, str]]:
    """The values for `described_jvm` in what java prints with -XshowSettings:properties."""
    return _JVM_PROPERTY.findall(printed)


def described_jvm(properties: Iterable[tuple[str, str]]) -> str | None:
    """As `jvm_name`, from the values of java.vm.name, java.vm.version and java.vendor by name without "java."."""
    values = dict(properties)
    if not values.get("vm.name"):
        return None
    vendor = f" ({values['vendor'].strip()})" if values.get("vendor") else ""
    return f"{values['vm.name'].strip()} {values.get('vm.version', '').strip()}{vendor}"


def cores() -> int | None:
    """The number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def _processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass  # Not Linux.
    return platform.processor() or platform.machine()
