"""Kafka's own tools, run as a person would: the jars come from Maven Central, once, into the user's cache."""

import os
import subprocess
from pathlib import Path

POM = Path(__file__).with_name("pom.xml")
CACHE = Path(os.environ.get("KCORE_CACHE") or Path.home() / ".cache" / "kcore") / "oracle" / "kafka-4.3.1"
DUMP_LOG_SEGMENTS = "org.apache.kafka.tools.DumpLogSegments"
JVM = ("java", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")


def jars() -> Path:
    """The folder with Kafka's jars, filled if it is not yet."""
    done = CACHE / "complete"
    if not done.exists():
        goal = ("dependency:copy-dependencies", f"-DoutputDirectory={CACHE}", "-DincludeScope=runtime")
        subprocess.run(["mvn", "--batch-mode", "--quiet", "--file", POM, *goal], check=True)
        done.touch()
    return CACHE


def run_tool(main_class: str, *arguments: object) -> tuple[list[str], str]:
    """The lines on stdout, and all of stderr; the tool must end well."""
    command = [*JVM, "-Dfile.encoding=UTF-8", "-cp", f"{jars()}/*", main_class, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, encoding="utf-8", check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines(), done.stderr


def dump_log(files: list[Path], *options: str) -> tuple[list[str], str]:
    """What kafka-dump-log prints of these files, and what it complains about."""
    return run_tool(DUMP_LOG_SEGMENTS, "--files", ",".join(map(str, files)), *options)
