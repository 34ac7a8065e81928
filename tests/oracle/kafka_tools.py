"""Kafka's own tools, run as a person would: their jar comes beside those of the processes that kcore starts."""

import subprocess
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from kcore.measure.processes.jars import fetch, kafka_jars
from kcore.measure.processes.zk_cluster import ZK_RELEASE
from kcore.spark.java import cache_directory, java_home

RELEASE = "4.4.0"
OLDER_RELEASE = "4.3.1"  # A part of the tests runs with its nodes, too.
DUMP_LOG_SEGMENTS = "org.apache.kafka.tools.DumpLogSegments"
TOPICS = "org.apache.kafka.tools.TopicCommand"
CONFIGS = "kafka.admin.ConfigCommand"
REASSIGN = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
ELECT = "org.apache.kafka.tools.LeaderElectionCommand"
FEATURES = "org.apache.kafka.tools.FeatureCommand"
CONSOLE_PRODUCER = "kafka.tools.ConsoleProducer"
CONSOLE_CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"
CONSUMER_GROUPS = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
TRANSACTIONS = "org.apache.kafka.tools.TransactionsCommand"
TRANSACTIONAL_COPIER = "org.apache.kafka.tools.TransactionalMessageCopier"
PRODUCER_PERFORMANCE = "org.apache.kafka.tools.ProducerPerformance"
LOG_DIRS = "org.apache.kafka.tools.LogDirsCommand"
DELETE_RECORDS = "org.apache.kafka.tools.DeleteRecordsCommand"
VERIFIABLE_PRODUCER = "org.apache.kafka.tools.VerifiableProducer"
VERIFIABLE_CONSUMER = "org.apache.kafka.tools.VerifiableConsumer"
ACLS = "org.apache.kafka.tools.AclCommand"
CLIENT_METRICS = "org.apache.kafka.tools.ClientMetricsCommand"
CLUSTER = "org.apache.kafka.tools.ClusterTool"
DELEGATION_TOKENS = "org.apache.kafka.tools.DelegationTokenCommand"
GROUPS = "org.apache.kafka.tools.GroupsCommand"
METADATA_QUORUM = "org.apache.kafka.tools.MetadataQuorumCommand"
MOVED = {"4.4.0": {CONFIGS: "org.apache.kafka.tools.ConfigCommand"}}  # Main classes with another name, by release.
OPTIONS = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dfile.encoding=UTF-8")


@cache
def class_path(release: str) -> str:
    """The jars of a release with its tools."""
    lock = Path(__file__).with_name(f"kafka-tools-{release}.lock")
    folders = kafka_jars(release), fetch(lock.read_text(), cache_directory() / lock.stem)
    return ":".join(f"{folder}/*" for folder in folders)


def tool_command(main: str, *arguments: object, release: str = ZK_RELEASE) -> list[str]:
    """The command line of one of Kafka's tools, by its main class."""
    java = str(java_home() / "bin" / "java")
    main = MOVED.get(release, {}).get(main, main)
    return [java, *OPTIONS, "-cp", class_path(release), main, *map(str, arguments)]


def run_tool(main: str, *arguments: object, given: str | None = None, timeout_s: float = 120) -> str:
    """The output of a tool of Kafka 3.9.1; `given` is its standard input. It must end well."""
    code, printed, complaints = try_tool(main, *arguments, given=given, timeout_s=timeout_s)
    assert code == 0, f"{main} {arguments}: {code}\n{printed}\n{complaints}"
    return printed


def try_tool(main: str, *arguments: object, given: str | None = None, timeout_s: float = 120) -> tuple[int, str, str]:
    """A tool's exit code, what it prints, and what it complains about."""
    command = tool_command(main, *arguments)
    done = subprocess.run(command, input=given, capture_output=True, encoding="utf-8", check=False, timeout=timeout_s)
    return done.returncode, done.stdout, done.stderr


def consume(wanted: Iterable[str], *where: object) -> list[str]:
    """All words that Kafka's own consumer finds, those `wanted` among them if they are there.

    It ends when nothing comes for a while. A busy machine may need longer than that to begin with: what is missing
    counts as missing only if it is so again after a long wait.
    """
    for wait_ms in (8_000, 60_000):
        found = run_tool(CONSOLE_CONSUMER, *where, "--timeout-ms", wait_ms, timeout_s=240).split()
        if {*wanted} <= {*found}:
            break
    return found


def dump_log(files: list[Path], *options: str) -> tuple[list[str], str]:
    """Runs kafka-dump-log over these files, which must succeed; returns the lines of its stdout, and its stderr."""
    command = tool_command(DUMP_LOG_SEGMENTS, "--files", ",".join(map(str, files)), *options, release=RELEASE)
    done = subprocess.run(command, capture_output=True, encoding="utf-8", check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines(), done.stderr
