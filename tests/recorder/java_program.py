"""Runs the Java programs of this folder from their source, on the classes of a Kafka release."""

import subprocess
from pathlib import Path
from typing import Final

from kcore.spark.java import java_home

HERE: Final = Path(__file__).parent
OPTIONS: Final = (
    "-Xmx512m",
    "-XX:-UsePerfData",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-Dfile.encoding=UTF-8",
)
_PATIENCE_S: Final = 1800.0


def printed(program: str, class_path: str, *arguments: str, given: str = "") -> str:
    """The standard output of a program such as `ReleaseFacts.java`; `given` is its standard input."""
    java = str(java_home() / "bin" / "java")
    command = [java, *OPTIONS, "-Dstdout.encoding=UTF-8", "-cp", class_path, str(HERE / program), *arguments]
    done = subprocess.run(command, input=given, capture_output=True, encoding="utf-8", check=False, timeout=_PATIENCE_S)
    if done.returncode:
        raise RuntimeError(f"{program}: {done.stderr.strip()[-2000:]}")
    return done.stdout
