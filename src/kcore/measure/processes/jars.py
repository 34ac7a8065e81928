"""Fetches Kafka's jars by Apache Ivy, checks their SHA-256 in a lock file, and keeps them in the user's cache.

kcore ships the lock files of some releases. For another release Ivy resolves the jars at the first use, and their
SHA-256 are kept in a lock file beside the jars. A jar is renamed into the cache once its SHA-256 is right. A lock on
the folder lets one process at a time fetch into it.
"""

import fcntl
import hashlib
import os
import re
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple, Self

from kcore.errors import TargetError
from kcore.measure.processes import ivy
from kcore.measure.processes.ivy import Say
from kcore.spark.java import cache_directory
from kcore.storage.files import LOCK, is_there, open_file, open_reader, read_text

ASYNC_PROFILER: Final = "async-profiler-4.2"
FIRST_RELEASE: Final = (3, 7)  # The oldest release that storms start: its controllers answer DescribeConfigs (KIP-919).
FIRST_KRAFT_ONLY: Final = 4  # The first major release without ZooKeeper.
PINNED: Final = "jars.lock"  # The lock file of a release that kcore ships none for, in the folder of its jars.
_RELEASE: Final = re.compile(r"(\d{1,3})\.(\d{1,3})\.\d{1,3}(-rc\d+)?")
_LINE: Final = re.compile(r"[0-9a-f]{64}  [A-Za-z0-9_-][A-Za-z0-9._-]*(/[A-Za-z0-9_-][A-Za-z0-9._-]*){3,}")
_AT_ONCE: Final = 8
_MOST_BYTES: Final = 1 << 20  # The largest lock file that is read.
_PATTERN: Final = "jars/[artifact]-[revision].[ext]"
_MAVEN_PATTERN: Final = "jars/[organisation]/[module]/[revision]/[artifact]-[revision](-[classifier]).[ext]"
# POMs are not read: the lock file names every jar.
_LOCKED: Final = """
    <dependency org="{0.group}" name="{0.artifact}" rev="{0.version}" transitive="false" conf="default->default">
      <artifact name="{0.artifact}" type="jar" ext="jar"/>
    </dependency>"""
_WITH_ITS_OWN: Final = '<dependency org="{}" name="{}" rev="{}" conf="default->default"/>'
_KAFKA: Final = ("org.apache.kafka", "kafka_2.13")
# Kafka's POM names no implementation of its log, which is part of the distribution only.
_LOG4J: Final = ("org.slf4j", "slf4j-reload4j", "1.7.36")
_LOG4J2: Final = ("org.apache.logging.log4j", "log4j-slf4j-impl", "2.25.4")


class Jar(NamedTuple):
    """One line of a lock file: a SHA-256, and the jar's path in Maven Central."""

    sha256: str
    group: str
    artifact: str
    version: str

    @classmethod
    def of(cls, line: str) -> Self:
        """Parses a line such as `c0ffee... org/slf4j/slf4j-api/1.7.36/slf4j-api-1.7.36.jar`; ValueError."""
        if not _LINE.fullmatch(line):
            raise ValueError(f"{line!r:.60} is not a SHA-256 and the path of a jar")
        sha256, path = line.split()
        return cls._of_path(sha256, path)

    @classmethod
    def _of_path(cls, sha256: str, path: str) -> Self:
        *group, artifact, version, name = path.split("/")
        if name != f"{artifact}-{version}.jar":
            raise ValueError(f"{path}: a lock file names jars without a classifier")
        return cls(sha256, ".".join(group), artifact, version)

    @property
    def line(self) -> str:
        """The line of a lock file, without its end."""
        return f"{self.sha256}  {self.group.replace('.', '/')}/{self.artifact}/{self.version}/{self.name}"

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


def print_progress(line: str) -> None:
    """Prints a line to stderr, after the command's name."""
    print(f"kcore: {line}", file=sys.stderr, flush=True)


def check_release(release: str, *, in_zookeeper: bool = False) -> None:
    """Raises TargetError for a text that is no release which kcore can start, without a look into Maven Central."""
    found = _RELEASE.fullmatch(release)
    if found is None:
        raise TargetError(f"Kafka {release}: a release has a form such as 4.4.0")
    number = int(found[1]), int(found[2])
    if number < FIRST_RELEASE:
        raise TargetError(f"Kafka {release}: kcore starts releases from 3.7.0 on")
    if in_zookeeper and number[0] >= FIRST_KRAFT_ONLY:
        raise TargetError(f"Kafka {release} has no ZooKeeper mode: 3.9 was the last")


def kafka_jars(release: str, say: Say = print_progress) -> Path:
    """The folder with the jars of a Kafka release (44 MB), fetched at the first use. Errors as in `fetch`.

    For a release without a lock file in this package, the first use resolves the jars, and writes the lock file.
    Later uses compare the jars with it.
    """
    shipped = files("kcore.measure.processes").joinpath(f"kafka-{release}.lock")
    folder = cache_directory() / f"kafka-{release}"
    return fetch(shipped.read_text(), folder, say) if shipped.is_file() else _pinned(release, folder, say)


def _pinned(release: str, folder: Path, say: Say) -> Path:
    """The folder with the jars of its own lock file; TargetError if one of them is another jar."""
    check_release(release)
    lock = folder / PINNED
    try:
        if not is_there(lock):
            folder.mkdir(parents=True, exist_ok=True)
            with _locked(folder, say):
                if not is_there(lock):
                    _pin(release, folder, say)
        text = read_text(lock, _MOST_BYTES)
        jars = _of_release(text, release, folder)
    except (OSError, ValueError) as error:
        raise TargetError(f"{lock}: {error}: remove {folder}, and kcore fetches the jars again") from error
    for jar in _missing(jars, folder):
        if is_there(folder / jar.name):
            raise TargetError(f"{folder / jar.name} is not the jar of {lock}: remove the jar, and kcore fetches it")
    return fetch(text, folder, say)


def _of_release(lock: str, release: str, folder: Path) -> list[Jar]:
    """The jars of the folder's lock file; ValueError if it is damaged, or of another release.

    Java's class path has every jar of the folder, so the lock file must name every one.
    """
    jars = [Jar.of(line) for line in lock.splitlines()]
    if not any((jar.group, jar.artifact, jar.version) == (*_KAFKA, release) for jar in jars):
        raise ValueError(f"it does not name Kafka {release}")
    if unknown := {path.name for path in folder.glob("*.jar")} - {jar.name for jar in jars}:
        raise ValueError(f"it does not name {min(unknown)}")
    return jars


def _pin(release: str, folder: Path, say: Say) -> None:
    """Resolves the jars of a release, moves them into the folder, and writes the folder's lock file last."""
    log = _LOG4J if int(release.split(".")[0]) < FIRST_KRAFT_ONLY else _LOG4J2
    wanted = "".join(_WITH_ITS_OWN.format(*each) for each in ((*_KAFKA, release), log))
    say(f"resolving the jars of Kafka {release} from Maven Central into {folder} (once)")
    with TemporaryDirectory(prefix="fetch-", dir=folder) as name:
        work = Path(name)
        try:
            ivy.retrieve(work, wanted, _MAVEN_PATTERN, say, poms=True)
        except TargetError as error:
            if f"module not found: {'#'.join(_KAFKA)};" in str(error):
                raise TargetError(f"Maven Central has no Kafka {release}") from None
            raise
        jars = []
        for path in sorted((work / "jars").rglob("*.jar")):
            group, *rest = path.relative_to(work / "jars").parts
            jar = Jar._of_path(_sha256(path), "/".join([*group.split("."), *rest]))
            path.replace(folder / jar.name)
            jars.append(jar)
        text = "".join(f"{line}\n" for line in sorted(jar.line for jar in jars))
        (work / PINNED).write_text(text)
        (work / PINNED).replace(folder / PINNED)
    digest = hashlib.sha256(text.encode()).hexdigest()
    say(f"pinned {len(jars)} jars of Kafka {release} in {folder / PINNED}, whose SHA-256 is {digest}")


def jars_digest(folder: Path) -> str:
    """The SHA-256 of the sorted lines NAME SHA-256 of all jars in a folder; TargetError if one is unreadable."""
    paths = sorted(folder.glob("*.jar"), key=lambda path: path.name)
    try:
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            lines = [f"{path.name} {sha256}\n" for path, sha256 in zip(paths, pool.map(_sha256, paths), strict=True)]
    except OSError as error:
        raise TargetError(f"{folder}: {error}") from error
    return hashlib.sha256("".join(lines).encode()).hexdigest()


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
        say(f"fetching {len(jars)} jars from Maven Central into {folder} (once)")
        ivy.retrieve(work, "".join(map(_LOCKED.format, jars)), _PATTERN, say, count=len(jars))
        for jar in jars:
            if not jar.is_in(work / "jars"):
                raise TargetError(f"{jar.name}: its SHA-256 is not that of the lock file")
            (work / "jars" / jar.name).replace(folder / jar.name)
    say(f"fetched {len(jars)} jars; their SHA-256 are those of the lock file")


def _sha256(path: Path) -> str:
    with open_reader(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
