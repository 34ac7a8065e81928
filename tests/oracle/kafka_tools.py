"""Kafka's own tools, run as a person would: their jar comes beside those of kcore's own controllers."""

import subprocess
from pathlib import Path

from kcore.hollow.jars import fetch, kafka_jars
from kcore.spark.java import cache_directory, java_home

RELEASE = "4.3.1"
LOCK = Path(__file__).with_name(f"kafka-tools-{RELEASE}.lock")
DUMP_LOG_SEGMENTS = "org.apache.kafka.tools.DumpLogSegments"
OPTIONS = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dfile.encoding=UTF-8")


def dump_log(files: list[Path], *options: str) -> tuple[list[str], str]:
    """What kafka-dump-log prints of these files, and what it complains about; it must end well."""
    folders = kafka_jars(RELEASE), fetch(LOCK.read_text(), cache_directory() / LOCK.stem)
    java = [java_home() / "bin" / "java", *OPTIONS, "-cp", ":".join(f"{folder}/*" for folder in folders)]
    command = [*java, DUMP_LOG_SEGMENTS, "--files", ",".join(map(str, files)), *options]
    done = subprocess.run(command, capture_output=True, encoding="utf-8", check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines(), done.stderr
