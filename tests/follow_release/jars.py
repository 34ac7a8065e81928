"""The jars of a Kafka release from Maven Central, by a lock file with their SHA-256.

The first run for a release resolves `kafka_2.13` with its dependencies, and `kafka-tools`, by Apache Ivy. It writes the
lock file. Later runs fetch and check what the lock file names.
"""

import hashlib
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple

from kcore.errors import TargetError
from kcore.measure.processes.jars import Say, fetch, ivy_jar, reason_in
from kcore.spark.java import cache_directory, java_home
from recorder.real_controller import folders_of

_SETTINGS: Final = """<ivysettings>
  <settings defaultResolver="central"/>
  <property name="ivy.checksums" value=""/>
  <resolvers>
    <ibiblio name="central" m2compatible="true" usepoms="true" useMavenMetadata="false" checksums=""/>
  </resolvers>
</ivysettings>
"""
_MODULE: Final = """<ivy-module version="2.0">
  <info organisation="kcore" module="jars"/>
  <configurations><conf name="default"/></configurations>
  <dependencies>
    <dependency org="org.apache.kafka" name="kafka_2.13" rev="{0}" conf="default->default"/>
    <dependency org="org.apache.kafka" name="kafka-tools" rev="{0}" conf="default->master"/>
  </dependencies>
</ivy-module>
"""
_PATTERN: Final = "jars/[organisation]/[module]/[revision]/[artifact]-[revision].[ext]"
_PATIENCE_S: Final = 900.0


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


def jars_of(release: str, lock: Path, say: Say) -> Jars:
    """The jars that the lock file names; without a lock file they are resolved and it is written.

    Raises TargetError for a release that Maven Central lacks, and as `fetch` does.
    """
    if not lock.exists():
        say(f"resolving the jars of Kafka {release} from Maven Central")
        _resolve(release, lock)
        say(f"wrote {lock}: {len(lock.read_text().splitlines())} jars")
    return Jars(release, (fetch(lock.read_text(), cache_directory() / f"follow-{release}", say),))


def _resolve(release: str, lock: Path) -> None:
    folder = cache_directory() / f"follow-{release}"
    folder.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix="resolve-", dir=folder) as name:
        work = Path(name)
        (work / "settings.xml").write_text(_SETTINGS)
        (work / "ivy.xml").write_text(_MODULE.format(release))
        java = [str(java_home() / "bin" / "java"), "-Xmx256m", "-XX:+UseSerialGC", "-jar", str(ivy_jar())]
        options = ["-settings", "settings.xml", "-ivy", "ivy.xml", "-cache", "cache", "-retrieve", _PATTERN]
        done = subprocess.run(
            [*java, *options], cwd=work, capture_output=True, text=True, check=False, timeout=_PATIENCE_S
        )
        if done.returncode:
            raise TargetError(f"Apache Ivy could not resolve Kafka {release}: {reason_in(done.stdout)}")
        found = sorted((work / "jars").rglob("*.jar"))
        lines = [f"{_sha256(path)}  {path.relative_to(work / 'jars')}\n" for path in found]
        for path in found:
            path.replace(folder / path.name)
        lock.parent.mkdir(parents=True, exist_ok=True)
        lock.write_text("".join(sorted(_with_maven_path(line) for line in lines)))


def _with_maven_path(line: str) -> str:
    """A line of a lock file: the dots of the group become slashes."""
    sha256, path = line.split("  ")
    group, _, rest = path.partition("/")
    return f"{sha256}  {group.replace('.', '/')}/{rest}"


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
