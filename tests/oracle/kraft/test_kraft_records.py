"""Kafka's own tools for records, groups, transactions and replicas, over real brokers under kcore's controllers.

Each broker has two log directories.
"""

import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from oracle.chaos.kraft_checks import (
    assert_no_complaints,
    await_isr,
    await_printed,
    brokers,
    controllers,
)
from oracle.kafka_tools import (
    CONFIGS,
    CONSOLE_CONSUMER,
    CONSUMER_GROUPS,
    DELETE_RECORDS,
    ELECT,
    GROUPS,
    LOG_DIRS,
    PRODUCER_PERFORMANCE,
    REASSIGN,
    TOPICS,
    TRANSACTIONAL_COPIER,
    TRANSACTIONS,
    VERIFIABLE_CONSUMER,
    VERIFIABLE_PRODUCER,
)
from oracle.kcore_brokers import topic_at, until
from oracle.kraft_clusters import KraftCluster

CALM = "auto.leader.rebalance.enable=false\n"
RATES = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")


@pytest.fixture(scope="module", params=(1, 3), ids=("one_controller", "three_controllers"))
def cluster(request: pytest.FixtureRequest) -> Iterator[KraftCluster]:
    with KraftCluster(controllers=request.param, properties=CALM, of_brokers=CALM, log_dirs=2) as started:
        yield started


def create(cluster: KraftCluster, topic: str, assignment: str, *options: object) -> None:
    """By an assignment such as 1:2,2:3; returns when every broker knows it."""
    cluster.tool(TOPICS, *brokers(cluster), "--create", "--topic", topic, "--replica-assignment", assignment, *options)
    replicas = [frozenset(map(int, each.split(":"))) for each in assignment.split(",")]
    for broker in cluster.brokers:
        await_isrs(broker.address, topic, replicas)


def await_isrs(address: str, topic: str, wanted: list[frozenset[int]]) -> None:
    until(lambda: isrs(address, topic) == wanted, lambda: isrs(address, topic), within_s=120)


def isrs(address: str, topic: str) -> list[frozenset[int]]:
    return [each.isr for _, each in sorted(topic_at(address, topic).items())]


def leaders(cluster: KraftCluster, topic: str) -> list[int]:
    return [each.leader for _, each in sorted(topic_at(cluster.brokers[0].address, topic).items())]


def await_leaders(cluster: KraftCluster, topic: str, wanted: set[int]) -> None:
    until(lambda: {*leaders(cluster, topic)} == wanted, lambda: leaders(cluster, topic), within_s=120)


def test_records_of_the_verifiable_clients(cluster: KraftCluster) -> None:
    create(cluster, "verified", "1:2:3,2:3:1")
    to = ("--topic", "verified", "--max-messages", 500)
    keys = ("--repeating-keys", 10)  # Without keys all of so few records may come into one partition.
    printed = cluster.tool(VERIFIABLE_PRODUCER, *brokers(cluster), *to, *keys).splitlines()
    sent = [json.loads(line) for line in printed if line.startswith("{")]
    assert sent[-1]["sent"] == sent[-1]["acked"] == 500
    for protocol in ("classic", "consumer"):
        group = ("--group-id", f"verified-{protocol}", "--group-protocol", protocol)
        printed = cluster.tool(
            VERIFIABLE_CONSUMER, *brokers(cluster), *to, *group, "--reset-policy", "earliest"
        ).splitlines()
        found = [json.loads(line) for line in printed if line.startswith("{")]
        assert sum(each["count"] for each in found if each["name"] == "records_consumed") == 500
    groups = cluster.tool(GROUPS, *brokers(cluster), "--list")
    assert {"verified-classic", "verified-consumer"} <= set(groups.split())


def test_groups(cluster: KraftCluster) -> None:
    """Described, reset, deleted."""
    at = (CONSUMER_GROUPS, *brokers(cluster))
    for group in ("verified-classic", "verified-consumer"):
        await_printed(cluster, "Empty", *at, "--describe", "--group", group, "--state")
        assert sum(offsets(cluster, group)) == 500
        reset = ("--reset-offsets", "--group", group, "--topic", "verified", "--to-earliest", "--execute")
        cluster.tool(*at, *reset)
        assert sum(offsets(cluster, group)) == 0
        cluster.tool(*at, "--delete", "--group", group)
        assert group not in cluster.tool(*at, "--list").split()


def offsets(cluster: KraftCluster, group: str) -> list[int]:
    """The offsets that the group has committed, by partition."""
    printed = cluster.tool(CONSUMER_GROUPS, *brokers(cluster), "--describe", "--group", group)
    rows = [line.split() for line in printed.splitlines() if line.startswith(group)]
    return [int(row[3]) for row in rows]


def test_transactions(cluster: KraftCluster) -> None:
    """Copied in transactions, a third of which are aborted: committed ones are there, once."""
    create(cluster, "copied", "2:3:1")
    options = ("--broker-list", cluster.bootstrap, "--input-topic", "verified", "--output-topic", "copied")
    rest = (
        "--input-partition",
        0,
        "--transactional-id",
        "copier",
        "--consumer-group",
        "copier",
        "--transaction-size",
        50,
    )
    cluster.tool(TRANSACTIONAL_COPIER, *options, *rest, timeout_s=240)
    printed = cluster.tool(TRANSACTIONS, *brokers(cluster), "list")
    assert re.search(r"(?m)^copier\s.*CompleteCommit", printed), printed
    described = cluster.tool(TRANSACTIONS, *brokers(cluster), "describe", "--transactional-id", "copier")
    assert "CompleteCommit" in described
    read = (CONSOLE_CONSUMER, *brokers(cluster), "--timeout-ms", 8000, "--isolation-level", "read_committed")
    given = cluster.tool(*read, "--topic", "verified", "--partition", 0, "--offset", "earliest").splitlines()
    found = cluster.tool(*read, "--topic", "copied", "--from-beginning").splitlines()
    values = Counter(filter(str.isdecimal, given))  # A consumer that waits no longer prints that as well.
    assert values
    assert Counter(filter(str.isdecimal, found)) == values


def test_performance_of_the_producer(cluster: KraftCluster) -> None:
    create(cluster, "fast", "3:1:2")
    size = ("--num-records", 20_000, "--record-size", 100, "--throughput", -1)
    printed = cluster.tool(
        PRODUCER_PERFORMANCE, "--topic", "fast", *size, *brokers(cluster), "--command-property", "acks=all"
    )
    assert "20000 records sent" in printed


def test_records_are_deleted(cluster: KraftCluster) -> None:
    wanted = cluster.folder / "delete.json"
    wanted.write_text(json.dumps({"partitions": [{"topic": "fast", "partition": 0, "offset": 4000}], "version": 1}))
    assert "low_watermark: 4000" in cluster.tool(DELETE_RECORDS, *brokers(cluster), "--offset-json-file", wanted)


def test_log_directories(cluster: KraftCluster) -> None:
    """Told; and a replica moves from one to the other of its broker."""
    there = directories(cluster, "fast")
    assert there.keys() == {1, 2, 3}
    folder = cluster.brokers[0].folder
    [old] = there[1]
    new = next(str(each) for each in (folder / "data", folder / "data-2") if str(each) != old)
    partition = {"topic": "fast", "partition": 0, "replicas": [3, 1, 2], "log_dirs": ["any", new, "any"]}
    plan = written(cluster, partition)
    cluster.tool(REASSIGN, *brokers(cluster), "--reassignment-json-file", plan, "--execute")
    until(lambda: directories(cluster, "fast")[1] == [new], lambda: directories(cluster, "fast"))
    until(lambda: is_completed(cluster, brokers(cluster), plan), str)
    assert isrs(cluster.brokers[0].address, "fast") == [frozenset({1, 2, 3})]


def directories(cluster: KraftCluster, topic: str) -> dict[int, list[str]]:
    """Where each broker has replicas of a topic, those on their way included."""
    printed = cluster.tool(LOG_DIRS, *brokers(cluster), "--describe", "--topic-list", topic).splitlines()
    return {
        each["broker"]: [one["logDir"] for one in each["logDirs"] if one["partitions"]]
        for each in json.loads(printed[-1])["brokers"]
    }


def written(cluster: KraftCluster, *partitions: dict[str, object]) -> Path:
    plan = cluster.folder / "plan.json"
    plan.write_text(json.dumps({"version": 1, "partitions": partitions}))
    return plan


def is_completed(cluster: KraftCluster, at: tuple[str, str], plan: Path) -> bool:
    """True once no part of it goes on."""
    printed = cluster.tool(REASSIGN, *at, "--reassignment-json-file", plan, "--verify")
    return "is completed" in printed and "still in progress" not in printed


def test_replicas_move(cluster: KraftCluster) -> None:
    """By a plan that the tool makes; with a throttle, which --verify takes off."""
    create(cluster, "moving", "1:2,2:1")
    topics = cluster.folder / "topics.json"
    topics.write_text(json.dumps({"version": 1, "topics": [{"topic": "moving"}]}))
    generate = ("--generate", "--topics-to-move-json-file", topics, "--broker-list", "2,3")
    printed = cluster.tool(REASSIGN, *brokers(cluster), *generate)
    proposed = json.loads(printed.splitlines()[-1])
    for part in proposed["partitions"]:
        assert set(part["replicas"]) == {2, 3}
    plan = written(cluster, *({k: v for k, v in each.items() if k != "log_dirs"} for each in proposed["partitions"]))
    execute = ("--reassignment-json-file", plan, "--execute", "--throttle", 50_000_000)
    cluster.tool(REASSIGN, *brokers(cluster), *execute)
    until(lambda: is_completed(cluster, brokers(cluster), plan), str)
    assert isrs(cluster.brokers[2].address, "moving") == [frozenset({2, 3})] * 2
    for broker in (1, 2, 3):
        of_broker = ("--entity-type", "brokers", "--entity-name", broker)
        printed = cluster.tool(CONFIGS, *brokers(cluster), "--describe", *of_broker)
        assert not any(rate in printed for rate in RATES)


def test_a_move_is_cancelled(cluster: KraftCluster) -> None:
    """While a throttle holds it up: by way of brokers, and at controllers."""
    create(cluster, "staying", "1:2")
    size = ("--num-records", 20_000, "--record-size", 500, "--throughput", -1)  # More than one fetch brings.
    cluster.tool(PRODUCER_PERFORMANCE, "--topic", "staying", *size, *brokers(cluster))
    for way in (brokers(cluster), controllers(cluster)):
        plan = written(cluster, {"topic": "staying", "partition": 0, "replicas": [1, 3]})
        cluster.tool(REASSIGN, *brokers(cluster), "--reassignment-json-file", plan, "--execute", "--throttle", 100)
        printed = await_printed(cluster, "staying-0", REASSIGN, *way, "--list")
        assert "adding: 3" in printed
        cluster.tool(REASSIGN, *way, "--reassignment-json-file", plan, "--cancel")
        await_printed(cluster, "No partition reassignments found.", REASSIGN, *way, "--list")
        await_isrs(cluster.brokers[1].address, "staying", [frozenset({1, 2})])


def test_preferred_leaders_are_elected(cluster: KraftCluster) -> None:
    create(cluster, "preferred", "1:2:3,2:3:1,3:1:2")
    for topics in (("--all-topic-partitions",), ("--topic", "preferred", "--partition", 1)):
        second = cluster.brokers[1]
        second.terminate()
        await_leaders(cluster, "preferred", {1, 3})
        second.start()
        await_isr(cluster.brokers[0].address, frozenset({1, 2, 3}), "preferred")
        assert leaders(cluster, "preferred") != [1, 2, 3]
        cluster.tool(ELECT, *brokers(cluster), "--election-type", "preferred", *topics)
        await_leaders(cluster, "preferred", {1, 2, 3})
        assert leaders(cluster, "preferred") == [1, 2, 3]


def test_an_unclean_leader_is_elected(cluster: KraftCluster) -> None:
    """The last in-sync replica is lost; the other one leads only after an unclean election is requested."""
    create(cluster, "unclean", "2:3")
    second, third = cluster.brokers[1:]
    third.kill()
    first = cluster.brokers[0].address
    await_isr(first, frozenset({2}), "unclean")
    second.kill()
    await_leaders(cluster, "unclean", {-1})
    third.start()
    one = ("--topic", "unclean", "--partition", 0)
    code, printed, complaints = cluster.try_tool(ELECT, *brokers(cluster), "--election-type", "preferred", *one)
    assert code != 0 and "PreferredLeaderNotAvailableException" in printed + complaints
    assert leaders(cluster, "unclean") == [-1]
    cluster.tool(ELECT, *brokers(cluster), "--election-type", "unclean", *one)
    await_leaders(cluster, "unclean", {3})
    second.start()
    await_isr(first, frozenset({2, 3}), "unclean")


def test_nobody_complained(cluster: KraftCluster) -> None:
    assert_no_complaints(cluster)
