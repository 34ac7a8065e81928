"""Real Kafka brokers under one kcore controller: topics, records, a broker that is killed and comes back."""

from collections.abc import Iterator
from functools import partial

import pytest

from oracle.chaos.kraft_checks import (
    ALL,
    SMALL_SNAPSHOTS,
    active_controller,
    assert_no_complaints,
    await_isr,
    brokers,
    described,
    writing,
)
from oracle.kafka_tools import CONSOLE_CONSUMER, METADATA_QUORUM, OLDER_RELEASE, RELEASE, TOPICS
from oracle.kcore_brokers import topic_at, until
from oracle.kraft_clusters import KraftCluster, Node

CONSOLE_PRODUCER = "org.apache.kafka.tools.ConsoleProducer"  # 4.x has it there.


@pytest.fixture(params=[(RELEASE, False), (RELEASE, True), (OLDER_RELEASE, False)], ids=str)
def cluster(request: pytest.FixtureRequest) -> Iterator[KraftCluster]:
    release, formatted_by_kafka = request.param
    with KraftCluster(release=release, formatted_by_kafka=formatted_by_kafka) as started:
        yield started


def test_a_topic_lives_through_the_crash_of_a_broker(cluster: KraftCluster) -> None:
    """Created, written, read; a broker is killed, which the controller tells of, and joins again."""
    [controller] = cluster.controllers
    first, _, third = cluster.brokers
    at = ("--bootstrap-server", cluster.bootstrap)
    cluster.tool(TOPICS, *at, "--create", "--topic", "t", "--partitions", 3, "--replication-factor", 3)
    produce = (*at, "--topic", "t", "--command-property", "acks=all")
    cluster.tool(CONSOLE_PRODUCER, *produce, given="".join(f"a{k}\n" for k in range(100)))
    assert await_isr(first.address, ALL)
    third.kill()
    until(lambda: "broker 3 fenced" in controller.log_text(), controller.log_text)
    assert await_isr(first.address, frozenset({1, 2}))
    assert all(each.leader in (1, 2) for each in topic_at(first.address, "t").values())
    cluster.tool(CONSOLE_PRODUCER, *produce, given="".join(f"b{k}\n" for k in range(100)))
    third.start()
    assert await_isr(first.address, ALL)
    assert await_isr(third.address, ALL)
    found = cluster.tool(
        *(CONSOLE_CONSUMER, *at, "--topic", "t", "--from-beginning"),
        *("--max-messages", 200, "--timeout-ms", 60_000),
    ).split()
    assert sorted(found) == sorted(f"{run}{k}" for run in "ab" for k in range(100))
    assert_no_complaints(cluster)


def test_three_controllers_take_turns() -> None:
    """The active one is killed: another one goes on, and the first is back from its own snapshot or another's."""
    with KraftCluster(controllers=3, properties=SMALL_SNAPSHOTS) as cluster:
        at = ("--bootstrap-server", cluster.bootstrap)
        for turn in range(3):
            topic = f"t{turn}"
            cluster.tool(TOPICS, *at, "--create", "--topic", topic, "--partitions", 30, "--replication-factor", 3)
            active = [each for each in cluster.controllers if is_active(each)]
            assert len(active) == 1
            active[0].kill()
            others = [each for each in cluster.controllers if each is not active[0]]
            until(partial(any_active, others), lambda: "no other controller is active")
            cluster.tool(TOPICS, *at, "--create", "--topic", f"{topic}-after", "--replication-factor", 3)
            active[0].start()
            active[0].await_log("is loaded")
        listed = cluster.tool(TOPICS, *at, "--list").split()
        assert set(listed) == {f"t{turn}{which}" for turn in range(3) for which in ("", "-after")}
        assert any("snapshot" in each.log_text() and "is written" in each.log_text() for each in cluster.controllers)
        assert_no_complaints(cluster)


def test_a_fresh_controller_fetches_the_snapshot() -> None:
    """One that lost its directory is removed, comes back empty, is added; it then stands in for another one."""
    with KraftCluster(controllers=3, properties=SMALL_SNAPSHOTS) as cluster:
        at = brokers(cluster)
        cluster.tool(TOPICS, *at, "--create", "--topic", "t", "--partitions", 60, "--replication-factor", 3)
        with writing(cluster, run=1):
            active = active_controller(cluster)
            lost, other = (each for each in cluster.controllers if each is not active)
            lost.kill()
            named = ("--controller-id", lost.node_id, "--controller-directory-id", lost.directory_id)
            cluster.tool(METADATA_QUORUM, *at, "remove-controller", *named)
            cluster.format_anew(lost)
            lost.start()
            lost.await_log("is loaded", timeout_s=120)
            config = ("--command-config", lost.properties)
            cluster.tool(METADATA_QUORUM, *at, *config, "add-controller")
            until(lambda: len(described(cluster).current_voters) == 3, lambda: described(cluster))
            other.kill()
            cluster.tool(TOPICS, *at, "--create", "--topic", "after", "--replication-factor", 3)
            await_isr(cluster.brokers[0].address, ALL, "after")
        assert "snapshot" in lost.log_text()
        assert_no_complaints(cluster)


def any_active(nodes: list[Node]) -> bool:
    return any(map(is_active, nodes))


def is_active(node: Node) -> bool:
    """By its own log: it has said so after it said otherwise."""
    said = node.log_text()
    return node.is_running and said.rfind("is the active controller") > said.rfind("is not the active controller")
