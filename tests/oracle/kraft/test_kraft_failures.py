"""Real Kafka brokers under one and under three of kcore's controllers: what fails, and what administrators do
meanwhile, loses no record that was acknowledged.

The cluster begins at metadata.version 3.9-IV0; the second test upgrades it. Under each test a verifiable producer runs.
"""

import json
import re
import signal
from collections.abc import Iterator
from functools import partial

import pytest

from oracle.chaos.kraft_checks import (
    ALL,
    SMALL_SNAPSHOTS,
    active_controller,
    assert_no_complaints,
    await_all,
    await_isr,
    writing,
)
from oracle.kafka_tools import FEATURES, REASSIGN, TOPICS
from oracle.kcore_brokers import topic_at, until
from oracle.kraft_clusters import KraftCluster, Node

FIRST_LEVEL = "3.9-IV0"
LAST_LEVEL = "4.4-IV2"
DURABLE = "min.insync.replicas=2"


@pytest.fixture(scope="module", params=(1, 3), ids=("one_controller", "three_controllers"))
def cluster(request: pytest.FixtureRequest) -> Iterator[KraftCluster]:
    options = ("--release-version", FIRST_LEVEL)
    with KraftCluster(controllers=request.param, properties=SMALL_SNAPSHOTS, options=options) as started:
        create(started, "t", 3)
        yield started


def create(cluster: KraftCluster, topic: str, partitions: int) -> None:
    """Three replicas each, two of which must have a record before it is acknowledged."""
    at = ("--bootstrap-server", cluster.bootstrap)
    size = ("--partitions", partitions, "--replication-factor", 3, "--config", DURABLE)
    cluster.tool(TOPICS, *at, "--create", "--topic", topic, *size)
    await_all(cluster, topic)


def test_brokers_are_killed_and_come_back(cluster: KraftCluster) -> None:
    """Kill -9, one after the other; the last one is back at once, while its old session still lasts."""
    with writing(cluster, run=1):
        for broker in cluster.brokers:
            broker.kill()
            others = [each for each in cluster.brokers if each is not broker]
            await_isr(others[0].address, ALL - {broker.node_id})
            broker.start()
            await_all(cluster)
        quickest = cluster.brokers[0]
        quickest.kill()
        quickest.start()
        await_all(cluster)


def test_the_metadata_version_is_upgraded(cluster: KraftCluster) -> None:
    at = ("--bootstrap-server", cluster.bootstrap)
    assert finalized(cluster)["metadata.version"] == FIRST_LEVEL
    with writing(cluster, run=2):
        cluster.tool(FEATURES, *at, "upgrade", "--release-version", LAST_LEVEL)
        until(lambda: finalized(cluster)["metadata.version"] == LAST_LEVEL, lambda: finalized(cluster))
        cluster.tool(TOPICS, *at, "--create", "--topic", "after", "--replication-factor", 3)
    assert finalized(cluster)["transaction.version"] == "2"


def finalized(cluster: KraftCluster) -> dict[str, str]:
    """The level of each feature, as a broker tells it."""
    printed = cluster.tool(FEATURES, "--bootstrap-server", cluster.bootstrap, "describe")
    return dict(re.findall(r"Feature: (\S+).*FinalizedVersionLevel: (\S+)", printed))


def test_the_active_controller_is_killed(cluster: KraftCluster) -> None:
    """More than once; it comes back from its snapshot. A broker dies while none is active."""
    with writing(cluster, run=3):
        for broker in cluster.brokers[:2]:
            active = active_controller(cluster)
            active.kill()
            broker.kill()
            if len(cluster.controllers) == 1:
                active.start()
            active_controller(cluster)
            alive = next(each for each in cluster.brokers if each is not broker)
            await_isr(alive.address, ALL - {broker.node_id})
            if not active.is_running:
                active.start()
            broker.start()
            await_all(cluster)
    wrote = [node for node in cluster.controllers if has_snapshot(node)]
    assert wrote == cluster.controllers


def has_snapshot(node: Node) -> bool:
    return any((node.data / "__cluster_metadata-0").glob("*.checkpoint"))


def test_controllers_are_restarted_one_after_the_other(cluster: KraftCluster) -> None:
    with writing(cluster, run=4):
        for node in cluster.controllers:
            assert node.terminate() == 0 or cluster.real
            node.start()
            active_controller(cluster)
        create(cluster, "restarted", 1)


def test_brokers_are_restarted_one_after_the_other(cluster: KraftCluster) -> None:
    """By controlled shutdown: no partition is without a leader; each one starts again at once."""
    with writing(cluster, run=5):
        for broker in cluster.brokers:
            assert broker.terminate(timeout_s=90) == 128 + signal.SIGTERM
            others = [each for each in cluster.brokers if each is not broker]
            led = topic_at(others[0].address, "t")
            assert all(each.leader in ALL - {broker.node_id} for each in led.values()), led
            broker.start()
            await_all(cluster)


def test_replicas_move_while_controllers_fail(cluster: KraftCluster) -> None:
    """To the one broker that has none, and back; the active controller is killed in between."""
    at = ("--bootstrap-server", cluster.bootstrap)
    assignment = ("--replica-assignment", "1:2,2:1,1:2,2:1")
    cluster.tool(TOPICS, *at, "--create", "--topic", "moving", *assignment)
    plan = cluster.folder / "plan.json"
    with writing(cluster, run=6, topic="moving"):
        for first, second in ((3, 1), (2, 3), (1, 2)):
            targets = [[first, second], [second, first]] * 2
            partitions = [{"topic": "moving", "partition": at, "replicas": each} for at, each in enumerate(targets)]
            plan.write_text(json.dumps({"version": 1, "partitions": partitions}))
            cluster.tool(REASSIGN, *at, "--reassignment-json-file", plan, "--execute", timeout_s=240)
            active = active_controller(cluster)
            active.kill()
            active.start()
            await_isr(cluster.brokers[first - 1].address, frozenset({first, second}), "moving")
            until(partial(is_completed, cluster), lambda: "the reassignment does not end", within_s=120)


def is_completed(cluster: KraftCluster) -> bool:
    at = ("--bootstrap-server", cluster.bootstrap)
    printed = cluster.tool(REASSIGN, *at, "--reassignment-json-file", cluster.folder / "plan.json", "--verify")
    return printed.count("is completed") == 4


def test_nobody_complained(cluster: KraftCluster) -> None:
    assert_no_complaints(cluster)
