"""Quotas on bytes and throttles of replication: kcore's broker beside Kafka's, under a controller of Kafka's.

Kafka's own clients and tools use both brokers at the same time for a minute. The rates must be within 10 % of each
other.
"""

import json
import re
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import pytest

from oracle.kafka_tools import CONFIGS, PRODUCER_PERFORMANCE, REASSIGN, tool_command
from oracle.kraft_clusters import CORDONED, FIRST_CONTROLLER, KraftCluster
from oracle.raft_quorums import until

CONSUMER_PERFORMANCE: Final = "org.apache.kafka.tools.ConsumerPerformance"
OURS, KAFKAS, OTHER = 1, 2, 3  # Brokers: kcore's, and two of Kafka's.
RATE: Final = 600_000  # Bytes a second.
MINUTE_S: Final = 60
RECORDS: Final = RATE * (MINUTE_S + 10) // 1_000  # Ten seconds' bytes pass at once.
KEPT: Final = RATE * (MINUTE_S + 30) // 1_000  # Records of topics that move for a minute.
CLIENT: Final = "perf"  # The client id with quotas.
WITHIN: Final = 0.1
OF_BROKERS: Final = """offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
replica.fetch.max.bytes=100000
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[KraftCluster]:
    """Topics `NAME-BROKER` with one replica at brokers 1 and 2, and records for more than a minute."""
    with KraftCluster(
        brokers=3, real={FIRST_CONTROLLER}, kcore_brokers={OURS}, log_dirs=(2, 2, 1), of_brokers=OF_BROKERS
    ) as made:
        for broker in (OURS, KAFKAS):
            for name in ("produced", "kept"):
                made.place(f"{name}-{broker}", str(broker))
        fill(made, "kept")
        quotas = f"producer_byte_rate={RATE},consumer_byte_rate={RATE}"
        made.tool(
            CONFIGS, *at(made), "--alter", "--entity-type", "clients", "--entity-name", CLIENT, "--add-config", quotas
        )
        yield made


def at(cluster: KraftCluster) -> tuple[str, str]:
    """Where the tools connect to."""
    return "--bootstrap-server", cluster.brokers[OTHER - 1].address


def fill(cluster: KraftCluster, name: str) -> None:
    """Produces KEPT records to both topics of this name, without a quota."""
    topics = [f"{name}-{each}" for each in (OURS, KAFKAS)]
    together([performance(cluster, PRODUCER_PERFORMANCE, each, "filling", count=KEPT) for each in topics])


def performance(
    cluster: KraftCluster, main: str, topic: str, client_id: str, *options: object, count: int = RECORDS
) -> list[str]:
    """The command line of a tool that produces or consumes records of 1,000 bytes."""
    common = ("--topic", topic, "--num-records", count, "--command-property", f"client.id={client_id}")
    if main == PRODUCER_PERFORMANCE:
        common = (*common, "--record-size", 1_000, "--throughput", -1)
    return tool_command(main, *at(cluster), *common, *options, release=cluster.release)


def together(commands: Sequence[list[str]]) -> list[str]:
    """The output of commands that run at the same time."""
    running = [subprocess.Popen(each, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) for each in commands]
    printed = [each.communicate(timeout=6 * MINUTE_S)[0] for each in running]
    assert [each.returncode for each in running] == [0] * len(running), printed
    return printed


def check(ours: float, kafkas: float, limit: float = RATE) -> None:
    """The rates in bytes a second; both are near the limit."""
    print(f"kcore's broker {ours:,.0f} bytes a second, Kafka's {kafkas:,.0f}, the limit {limit:,.0f}")
    assert abs(ours - kafkas) <= WITHIN * kafkas, (ours, kafkas)
    assert kafkas <= limit * 1.25, (ours, kafkas)


def test_a_stock_producer(cluster: KraftCluster) -> None:
    commands = [performance(cluster, PRODUCER_PERFORMANCE, f"produced-{each}", CLIENT) for each in (OURS, KAFKAS)]
    rates = []
    for printed in together(commands):
        [summary] = re.findall(rf"^{RECORDS} records sent, ([\d.]+) records/sec", printed, re.MULTILINE)
        rates.append(float(summary) * 1_000)
    check(rates[0], rates[1])


def test_a_stock_consumer(cluster: KraftCluster) -> None:
    options = ("--hide-header", "--timeout", 60_000, "--command-property", "max.partition.fetch.bytes=100000")
    commands = [performance(cluster, CONSUMER_PERFORMANCE, f"kept-{each}", CLIENT, *options) for each in (OURS, KAFKAS)]
    rates = []
    for printed in together(commands):
        values = printed.strip().splitlines()[-1].split(", ")
        megabytes, fetch_ms = float(values[2]), float(values[7])
        rates.append(megabytes * (1 << 20) / fetch_ms * 1_000)
    check(rates[0], rates[1])


def limited(cluster: KraftCluster, rate: str) -> None:
    """Both brokers have this limit, and no other."""
    rates = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
    for each in (OURS, KAFKAS):
        where = ("--alter", "--entity-type", "brokers", "--entity-name", each)
        cluster.tool(CONFIGS, *at(cluster), *where, "--add-config", f"{rate}={RATE}")
        for other in {*rates} - {rate}:
            cluster.try_tool(CONFIGS, *at(cluster), *where, "--delete-config", other)


def throttle_all(cluster: KraftCluster, topic: str) -> None:
    lists = ",".join(f"{side}.replication.throttled.replicas=*" for side in ("leader", "follower"))
    where = ("--alter", "--entity-type", "topics", "--entity-name", topic)
    cluster.tool(CONFIGS, *at(cluster), *where, "--add-config", lists)


def reassign(cluster: KraftCluster, name: str, partitions: list[dict[str, object]], *options: object) -> Path:
    """Begins to move partitions, also to kcore's broker; the file with the plan."""
    cluster.alter_kcore_brokers("--add-config", f"{CORDONED}=")
    plan = cluster.folder / f"{name}.json"
    plan.write_text(json.dumps({"version": 1, "partitions": [{"partition": 0} | each for each in partitions]}))
    cluster.tool(REASSIGN, *at(cluster), "--reassignment-json-file", plan, "--execute", *options)
    return plan


def folder_of(cluster: KraftCluster, broker: int, topic: str) -> Path:
    """The folder of the broker's replica, once it is there."""
    paths = cluster.log_dirs(cluster.brokers[broker - 1])
    until(lambda: any((each / f"{topic}-0").exists() for each in paths), lambda: paths)
    return next(each / f"{topic}-0" for each in paths if (each / f"{topic}-0").exists())


def rates_of(folders: dict[int, Path]) -> list[float]:
    """The bytes a second by which each folder has grown within a minute."""

    def sizes() -> dict[int, int]:
        return {broker: sum(each.stat().st_size for each in path.glob("*.log")) for broker, path in folders.items()}

    until(lambda: min(sizes().values()) > 0, sizes)
    began_s, before = time.monotonic(), sizes()
    time.sleep(MINUTE_S)
    after, took_s = sizes(), time.monotonic() - began_s
    return [(after[broker] - before[broker]) / took_s for broker in (OURS, KAFKAS)]


def finish(cluster: KraftCluster, plan: Path) -> None:
    """Removes the throttles, and waits until all replicas are there."""
    for each in (OURS, KAFKAS, OTHER):
        where = ("--alter", "--entity-type", "brokers", "--entity-name", each)
        for rate in ("leader.replication.throttled.rate", "follower.replication.throttled.rate"):
            cluster.try_tool(CONFIGS, *at(cluster), *where, "--delete-config", rate)

    def verified() -> str:
        return cluster.tool(REASSIGN, *at(cluster), "--reassignment-json-file", plan, "--verify")

    until(lambda: "still in progress" not in verified(), verified)


def test_leaders_with_a_throttle(cluster: KraftCluster) -> None:
    limited(cluster, "leader.replication.throttled.rate")
    for each in (OURS, KAFKAS):
        throttle_all(cluster, f"kept-{each}")
    moved = [{"topic": f"kept-{each}", "replicas": [each, OTHER]} for each in (OURS, KAFKAS)]
    plan = reassign(cluster, "leaders", moved)
    check(*rates_of({each: folder_of(cluster, OTHER, f"kept-{each}") for each in (OURS, KAFKAS)}))
    finish(cluster, plan)


def test_moves_between_directories(cluster: KraftCluster) -> None:
    targets = {}
    for each in (OURS, KAFKAS):
        current = folder_of(cluster, each, f"kept-{each}").parent
        [targets[each]] = {*cluster.log_dirs(cluster.brokers[each - 1])} - {current}
    moved = [
        {"topic": f"kept-{each}", "replicas": [each, OTHER], "log_dirs": [str(targets[each]), "any"]}
        for each in (OURS, KAFKAS)
    ]
    plan = reassign(cluster, "moves", moved, "--replica-alter-log-dirs-throttle", RATE)
    folders = {}
    for each in (OURS, KAFKAS):
        until(lambda each=each: [*targets[each].glob(f"kept-{each}-0*future")], lambda: targets)
        [folders[each]] = targets[each].glob(f"kept-{each}-0*future")
    check(*rates_of(folders))
    cluster.tool(REASSIGN, *at(cluster), "--reassignment-json-file", plan, "--verify", "--preserve-throttles")


def test_followers_with_a_throttle(cluster: KraftCluster) -> None:
    """Broker 3 leads both topics."""
    for each in (OURS, KAFKAS):
        cluster.place(f"followed-{each}", str(OTHER))
        throttle_all(cluster, f"followed-{each}")
    fill(cluster, "followed")
    limited(cluster, "follower.replication.throttled.rate")
    moved = [{"topic": f"followed-{each}", "replicas": [OTHER, each]} for each in (OURS, KAFKAS)]
    plan = reassign(cluster, "followers", moved)
    check(*rates_of({each: folder_of(cluster, each, f"followed-{each}") for each in (OURS, KAFKAS)}))
    finish(cluster, plan)


def test_the_throttle_of_the_tool(cluster: KraftCluster) -> None:
    """kcore's broker leads one topic and follows the other; so does Kafka's."""
    followers = {OURS: KAFKAS, KAFKAS: OURS}
    moved = [{"topic": f"kept-{each}", "replicas": [each, OTHER, to]} for each, to in followers.items()]
    plan = reassign(cluster, "throttled", moved, "--throttle", RATE)
    check(*rates_of({leader: folder_of(cluster, to, f"kept-{leader}") for leader, to in followers.items()}))
    finish(cluster, plan)
    described = cluster.tool(CONFIGS, *at(cluster), "--describe", "--entity-type", "topics", "--entity-name", "kept-1")
    assert "throttled.replicas" not in described
