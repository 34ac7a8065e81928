"""The jars of a Kafka release, and the lock files with their SHA-256 that kcore and its tests would have of it."""

import hashlib
from importlib.resources import files
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple

from kcore.measure.processes import ivy
from kcore.measure.processes.ivy import Say
from kcore.measure.processes.jars import PINNED, fetch, kafka_jars
from kcore.spark.java import cache_directory
from recorder.real_controller import folders_of

_TOOLS: Final = "org/apache/kafka/kafka-tools/{0}/kafka-tools-{0}.jar"
_DEPENDENCY: Final = '<dependency org="org.apache.kafka" name="kafka-tools" rev="{}" transitive="false" conf="*->*"/>'


class Jars(NamedTuple):
    """The jars of one release, in one folder or more."""

    release: str
    folders: tuple[Path, ...]

    @property
    def class_path(self) -> str:
        """For `java -cp`."""
        return ":".join(f"{folder}/*" for folder in self.folders)

    @property
    def files(self) -> list[Path]:
        """All jars."""
        return sorted(path for folder in self.folders for path in folder.glob("*.jar"))

    @property
    def kafka(self) -> list[Path]:
        """Kafka's own jars."""
        return [path for path in self.files if path.name.startswith("kafka")]


def known_jars(release: str) -> Jars:
    """The jars of a release that the tests have lock files of."""
    return Jars(release, folders_of(release))


def jars_of(release: str, out: Path, say: Say) -> Jars:
    """The jars of any release. `out` gets its two lock files at the first use.

    Raises TargetError for a release that Maven Central lacks, and as `fetch` does.
    """
    kafka = kafka_jars(release, say)
    shipped = files("kcore.measure.processes").joinpath(f"kafka-{release}.lock")
    text = shipped.read_text() if shipped.is_file() else (kafka / PINNED).read_text()
    (out / f"kafka-{release}.lock").write_text(text)
    lock = out / f"kafka-tools-{release}.lock"
    if not lock.exists():
        lock.write_text(_tools_lock(release, say))
        say(f"wrote {lock}")
    return Jars(release, (kafka, fetch(lock.read_text(), cache_directory() / lock.stem, say)))


def _tools_lock(release: str, say: Say) -> str:
    """The line of a lock file for the jar of Kafka's tools, which Ivy fetches for it."""
    with TemporaryDirectory(prefix="kafka-tools-") as name:
        work = Path(name)
        ivy.retrieve(work, _DEPENDENCY.format(release), "[artifact]-[revision].[ext]", say, count=1)
        digest = hashlib.sha256((work / f"kafka-tools-{release}.jar").read_bytes()).hexdigest()
        return f"{digest}  {_TOOLS.format(release)}\n"
