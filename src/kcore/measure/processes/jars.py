"""Fetches Kafka's jars with Apache Ivy, checks their SHA-256 in a lock file, and keeps them in the user's cache.

PySpark ships Ivy, whose default resolver is Maven Central. A jar is renamed into the cache once its SHA-256 is right. A
lock on the folder lets one process at a time fetch into it.
"""

import fcntl
import hashlib
import os
import selectors
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple, Self, TypeAlias
from urllib.parse import urlsplit
from urllib.request import getproxies

from kcore.errors import TargetError
from kcore.extras import install_command
from kcore.spark.java import cache_directory, java_home
from kcore.storage.files import LOCK, is_there, open_file, open_reader

Say: TypeAlias = Callable[[str], None]  # Takes a line of progress.

ASYNC_PROFILER: Final = "async-profiler-4.2"
FIRST_KRAFT_ONLY: Final = 4  # The first major release without ZooKeeper.
_AT_ONCE: Final = 8
_SILENCE_S: Final = 90.0  # Ivy is killed after this time without output; its own longest time-out is shorter.
_PROGRESS_S: Final = 5.0  # The least time between two lines of progress.
_JAVA_OPTIONS: Final = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
_FETCHED: Final = "[SUCCESSFUL ]"  # Ivy prints this text for each fetched jar.
_PATTERN: Final = "jars/[artifact]-[revision].[ext]"
# Maven Central is the resolver's default. POMs are not read: the lock file names every jar. Ivy's SHA-1 check is off:
# `Jar.is_in` checks SHA-256.
_RESOLVER: Final = (
    '<ibiblio name="central" m2compatible="true" usepoms="false" useMavenMetadata="false" checksums="" '
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
_DEPENDENCY: Final = """
    <dependency org="{0.group}" name="{0.artifact}" rev="{0.version}" transitive="false" conf="default->default">
      <artifact name="{0.artifact}" type="jar" ext="jar"/>
    </dependency>"""


class Jar(NamedTuple):
    """One line of a lock file: a SHA-256, and the jar's path in Maven Central."""

    sha256: str
    group: str
    artifact: str
    version: str

    @classmethod
    def of(cls, line: str) -> Self:
        """Parses a line such as `c0ffee... org/slf4j/slf4j-api/1.7.36/slf4j-api-1.7.36.jar`."""
        sha256, path = line.split()
        *group, artifact, version, name = path.split("/")
        assert name == f"{artifact}-{version}.jar", f"{path}: a lock file names jars without a classifier"
        return cls(sha256, ".".join(group), artifact, version)

    @property
    def name(self) -> str:
        """The file's name."""
        return f"{self.artifact}-{self.version}.jar"

    def is_in(self, folder: Path) -> bool:
        """True if the folder has this jar with this SHA-256; TargetError if the file is unreadable."""
        path = folder / self.name
        try:
            return is_there(path) and _sha256(path) == self.sha256
        except OSError as error:
            raise TargetError(f"{path}: {error}") from error


def releases() -> list[str]:
    """The releases of Kafka that can run as a controller quorum; kcore runs 3.9.1 over ZooKeeper only."""
    locks = (entry.name for entry in files("kcore.measure.processes").iterdir())
    names = (name[len("kafka-") : -len(".lock")] for name in locks if name.startswith("kafka-"))
    return sorted(name for name in names if int(name.split(".")[0]) >= FIRST_KRAFT_ONLY)


def print_progress(line: str) -> None:
    """Prints a line to stderr, after the command's name."""
    print(f"kcore: {line}", file=sys.stderr, flush=True)


def kafka_jars(release: str, say: Say = print_progress) -> Path:
    """The folder with the jars of a Kafka release (44 MB), fetched at the first use. Errors as in `fetch`."""
    lock = files("kcore.measure.processes").joinpath(f"kafka-{release}.lock").read_text()
    return fetch(lock, cache_directory() / f"kafka-{release}", say)


def async_profiler_jars(say: Say = print_progress) -> tuple[Path, Path]:
    """The jars of async-profiler and of its converter (1 MB), fetched at the first use. Errors as in `fetch`."""
    lock = files("kcore.measure.processes").joinpath(f"{ASYNC_PROFILER}.lock").read_text()
    folder = fetch(lock, cache_directory() / ASYNC_PROFILER, say)
    profiler, converter = (folder / Jar.of(line).name for line in lock.splitlines())
    return profiler, converter


def fetch(lock: str, folder: Path, say: Say = print_progress) -> Path:
    """Returns `folder` with every jar of a lock file in it. `lock`: lines of a SHA-256 and Maven's path.

    Jars in the folder are hashed, too, and a changed jar is fetched again. Raises TargetError if a jar cannot be
    fetched or its SHA-256 is wrong, NoJavaError if a jar is missing and there is no Java.
    """
    jars = [Jar.of(line) for line in lock.splitlines()]
    if not _missing(jars, folder):
        return folder
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with _locked(folder, say):
            if missing := _missing(jars, folder):  # Another process may have fetched them before this one got the lock.
                _fetch(missing, folder, say)
    except OSError as error:
        raise TargetError(f"{folder}: {error}") from error
    return folder


def _missing(jars: Sequence[Jar], folder: Path) -> list[Jar]:
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        return [
            jar for jar, there in zip(jars, pool.map(lambda jar: jar.is_in(folder), jars), strict=True) if not there
        ]


@contextmanager
def _locked(folder: Path, say: Say) -> Iterator[None]:
    """A context that one process, and one thread in it, enters at a time; the others wait."""
    descriptor = open_file(folder / LOCK, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"waiting for another process, which fetches into {folder}")
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _fetch(jars: Sequence[Jar], folder: Path, say: Say) -> None:
    """Fetches the jars by Ivy into a temporary folder inside `folder`, then renames them into place."""
    with TemporaryDirectory(prefix="fetch-", dir=folder) as name:
        work = Path(name)
        (work / "settings.xml").write_text(_SETTINGS.format(resolver=_RESOLVER))
        (work / "ivy.xml").write_text(_MODULE.format(dependencies="".join(map(_DEPENDENCY.format, jars))))
        say(f"fetching {len(jars)} jars from Maven Central into {folder} (once)")
        _run_ivy(work, len(jars), say)
        for jar in jars:
            if not jar.is_in(work / "jars"):
                raise TargetError(f"{jar.name}: its SHA-256 is not that of the lock file")
            (work / "jars" / jar.name).replace(folder / jar.name)
    say(f"fetched {len(jars)} jars; their SHA-256 are those of the lock file")


def _run_ivy(work: Path, count: int, say: Say) -> None:
    """Runs Apache Ivy on `ivy.xml` in the folder `work`; TargetError with the reason if it fails or hangs."""
    java = [str(java_home() / "bin" / "java"), *_JAVA_OPTIONS, *_proxy_options(), "-jar", str(ivy_jar())]
    options = ["-settings", "settings.xml", "-ivy", "ivy.xml", "-cache", "cache", "-retrieve", _PATTERN]
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
                say(f"{printed.count(_FETCHED.encode())} of {count} jars")
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


def _sha256(path: Path) -> str:
    with open_reader(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
