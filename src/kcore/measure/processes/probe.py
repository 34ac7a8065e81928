"""Asks a target's program what it is: Kafka's release and JVM, as the process itself prints them."""

import subprocess
import zipfile
import zlib
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from re import MULTILINE
from re import compile as regex
from typing import Final

from kcore.errors import PlanError, TargetError
from kcore.measure.processes.jars import jars_digest
from kcore.measure.processes.kcore_quorum import KCORE_KRAFT
from kcore.measure.processes.target import Target
from kcore.measure.report.build import Build
from kcore.measure.report.machine import described_jvm, jvm_properties
from kcore.server.kraft_controller.kraft_controller_settings import settings_of
from kcore.server.properties.values import SettingsError
from kcore.version import __version__

_MAIN: Final = "kafka.Kafka"
_TIMEOUT_S: Final = 60.0
_RELEASE: Final = regex(r"^(\d+\.\d+\S*(?: \(Commit:[^)]*\))?)$", MULTILINE)  # Such as 4.3.1 (Commit:0123456789abcdef).
# Lines of a JVM that say only that it ended, or that say nothing about an error.
_EMPTY: Final = ("Error: A fatal exception", "Property settings:", "Picked up ")
_ENDED: Final = "Error: Could not create the Java"  # Also at the end of a line.
_REFUSED: Final = (_ENDED, "Error occurred during initialization of VM")  # The JVM cannot use its options.
_MOST_LINES: Final = 2


_NODE: Final = {  # A controller without properties of the user.
    "process.roles": "controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "listeners": "CONTROLLER://127.0.0.1:1",
    "controller.quorum.bootstrap.servers": "127.0.0.1:1",
}


def _check_properties(target: Target) -> None:
    """PlanError if kcore's KRaft controller refuses a property of the target."""
    try:
        settings_of(_NODE | dict(line.split("=", 1) for line in target.properties))
    except SettingsError as error:
        raise PlanError(f"{target.name}: --property {error}") from None


@cache
def build_of(target: Target, heap: str) -> Build:
    """The build of a target; `heap`: java's -Xmx of Kafka's processes. The program runs once for it.

    PlanError with the JVM's own words if the JVM refuses its options, or if kcore's controller refuses a property.
    TargetError with the JVM's words if the jars do not start, or with the reason if there are no jars of Kafka.
    NoJavaError without Java.
    """
    if target.is_kcore:
        if target.text == KCORE_KRAFT:
            _check_properties(target)
        return Build(target.text, f"kcore {__version__}", properties=target.properties)
    if not target.is_kafka:
        return Build(target.text)
    jars, options = target.jars(), (f"-Xmx{heap}", *target.jvm_options)
    command = [str(target.java_program), *options, "-XshowSettings:properties", "-cp", f"{jars}/*", _MAIN, "--version"]
    printed = _printed(target.name, command)
    if not (release := _RELEASE.findall(printed)):
        refused = PlanError if any(text in printed for text in _REFUSED) else TargetError
        raise refused(f"{target.name}: {_words(printed)}")
    jvm = described_jvm(jvm_properties(printed))
    return Build(target.text, release[-1], jvm, options, target.properties, jars_digest(jars))


def has_option(jars: Path, program: str, option: str) -> bool:
    """True if the classes of a program, such as kafka.tools.StorageTool, have the text of an option.

    TargetError for a jar that is damaged there.
    """
    prefix = program.replace(".", "/")
    for jar in filter(zipfile.is_zipfile, sorted(jars.glob("*.jar"))):
        try:
            with zipfile.ZipFile(jar) as file:
                names = [name for name in file.namelist() if name.startswith(prefix) and name.endswith(".class")]
                if any(option.encode() in file.read(name) for name in names):
                    return True
        except (zipfile.BadZipFile, zlib.error, EOFError, OSError, RuntimeError) as error:
            raise TargetError(f"{jar}: the jar is damaged: {error}") from error
    return False


def _printed(name: str, command: Sequence[str]) -> str:
    """All that a command prints; TargetError if it does not end."""
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            errors="replace", check=False, timeout=_TIMEOUT_S,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        raise TargetError(f"{name}: {error}") from error
    return done.stdout


def _words(printed: str) -> str:
    """The JVM's own words about its failure, in one line."""
    found = (line.partition(_ENDED)[0].rstrip() for line in printed.splitlines())
    lines = [line for line in found if line[:1].strip() and not line.startswith(_EMPTY)]
    errors = [line for line in lines if " warning: " not in line]
    return "; ".join((errors or lines)[:_MOST_LINES]) or "the JVM printed nothing"
