"""Runs Apache Ivy, which fetches jars from Maven Central. PySpark ships Ivy's jar."""

import os
import selectors
import subprocess
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Final, TypeAlias
from urllib.parse import urlsplit
from urllib.request import getproxies

from kcore.errors import TargetError
from kcore.extras import install_command
from kcore.spark.java import java_home

Say: TypeAlias = Callable[[str], None]  # Takes a line of progress.

_SILENCE_S: Final = 90.0  # Ivy is killed after this time without output; its own longest time-out is shorter.
_PROGRESS_S: Final = 5.0  # The least time between two lines of progress.
_JAVA_OPTIONS: Final = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
_FETCHED: Final = b"[SUCCESSFUL ]"  # Ivy prints this text for each fetched jar.
_FOUND: Final = b"\tfound "  # Ivy prints this text for each module that it resolves.
# Maven Central is the resolver's default. Ivy's SHA-1 check is off: the lock files have SHA-256.
_RESOLVER: Final = (
    '<ibiblio name="central" m2compatible="true" usepoms="{poms}" useMavenMetadata="false" checksums="" '
    'timeoutConstraint="patient"/>'
)
_SETTINGS: Final = """<ivysettings>
  <settings defaultResolver="central"/>
  <property name="ivy.checksums" value=""/>
  <timeout-constraints>
    <timeout-constraint name="patient" connectionTimeout="15000" readTimeout="60000"/>
  </timeout-constraints>
  <resolvers>{resolver}</resolvers>
</ivysettings>
"""
_MODULE: Final = """<ivy-module version="2.0">
  <info organisation="kcore" module="jars"/>
  <configurations><conf name="default"/></configurations>
  <dependencies>{dependencies}</dependencies>
</ivy-module>
"""


def retrieve(work: Path, dependencies: str, pattern: str, say: Say, *, count: int = 0, poms: bool = False) -> None:
    """Fetches the jars of Ivy's `dependencies` into paths by Ivy's `pattern`, below the folder `work`.

    `poms`: Ivy reads POMs and fetches what they depend on. `count`: the expected number of jars, for progress; 0 if it
    is unknown. TargetError with the reason if Ivy fails or hangs; NoJavaError without Java.
    """
    resolver = _RESOLVER.format(poms=str(poms).lower())
    (work / "settings.xml").write_text(_SETTINGS.format(resolver=resolver))
    (work / "ivy.xml").write_text(_MODULE.format(dependencies=dependencies))
    _run_ivy(work, pattern, count, say)


def _run_ivy(work: Path, pattern: str, count: int, say: Say) -> None:
    """Runs Apache Ivy on `ivy.xml` in the folder `work`."""
    java = [str(java_home() / "bin" / "java"), *_JAVA_OPTIONS, *_proxy_options(), "-jar", str(ivy_jar())]
    options = ["-settings", "settings.xml", "-ivy", "ivy.xml", "-cache", "cache"]
    options += ["-retrieve", pattern, "-types", "jar", "bundle"]
    command = [*java, *options]
    environment = os.environ | {"LANGUAGE": "en"}  # The texts of the system's errors; file names keep their encoding.
    with subprocess.Popen(
        command, cwd=work, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as process:
        try:
            printed = _output(process, count, say)
        except BaseException:
            process.kill()
            raise
    if process.returncode:
        raise TargetError(f"Apache Ivy could not fetch the jars: {reason_in(printed)}")


def _output(process: subprocess.Popen[bytes], count: int, say: Say) -> str:
    """Ivy's whole output; passes progress to `say`. Raises TargetError if Ivy prints nothing for _SILENCE_S."""
    assert process.stdout is not None
    printed, next_s = b"", time.monotonic() + _PROGRESS_S
    with selectors.DefaultSelector() as selector:  # select() refuses file descriptors from 1,024 on.
        selector.register(process.stdout, selectors.EVENT_READ)
        while True:
            if not selector.select(_SILENCE_S):
                raise TargetError(f"Apache Ivy could not fetch the jars: no answer for {_SILENCE_S:.0f} seconds")
            if not (piece := os.read(process.stdout.fileno(), 1 << 16)):
                return printed.decode(errors="replace")
            printed += piece
            if time.monotonic() >= next_s:
                fetched = printed.count(_FETCHED)
                say(f"{fetched} of {count} jars" if count else f"{printed.count(_FOUND)} modules, {fetched} jars")
                next_s = time.monotonic() + _PROGRESS_S


def reason_in(printed: str) -> str:
    """The line of Ivy's output with the cause of its failure: an unreachable server, or a missing file."""
    lines = [line.strip(": \t") for line in printed.splitlines()]
    for begin in ("Server access error", "module not found", "[FAILED", "download failed", "Exception", "Error"):
        for line in lines:
            if line.startswith(begin):
                return line
    return next((line for line in reversed(lines) if line), "it printed nothing")


def ivy_jar() -> Path:
    """The path of Apache Ivy's jar in PySpark; TargetError without PySpark."""
    spec = find_spec("pyspark")
    folder = Path(spec.origin).parent / "jars" if spec and spec.origin else None
    found = sorted(folder.glob("ivy-*.jar")) if folder else []
    if not found:
        raise TargetError(f"Kafka's jars are fetched by Apache Ivy, which PySpark ships: {install_command('spark')}")
    return found[-1]


def _proxy_options() -> list[str]:
    """Java options for the proxies in http_proxy and https_proxy, since Java does not read these variables."""
    options = []
    for scheme, address in getproxies().items():
        proxy = urlsplit(address if "//" in address else f"//{address}")
        if scheme in ("http", "https") and proxy.hostname:
            options += [f"-D{scheme}.proxyHost={proxy.hostname}", f"-D{scheme}.proxyPort={proxy.port or 80}"]
    return options
