"""Kafka's own tools for topics, settings, features and the cluster itself: real brokers under kcore's controllers.

Each does what it does under Kafka's, also where it asks controllers themselves (--bootstrap-controller).
"""

import re
from collections.abc import Iterator

import pytest

from oracle.chaos.kraft_checks import (
    active_controller,
    assert_no_complaints,
    await_all,
    await_not_printed,
    await_printed,
    brokers,
    controllers,
    refusal,
    ways,
)
from oracle.kafka_tools import CLIENT_METRICS, CLUSTER, CONFIGS, FEATURES, METADATA_QUORUM, TOPICS
from oracle.kcore_brokers import until
from oracle.kraft_clusters import KraftCluster

LEVEL = "4.4-IV2"


@pytest.fixture(scope="module", params=(1, 3), ids=("one_controller", "three_controllers"))
def cluster(request: pytest.FixtureRequest) -> Iterator[KraftCluster]:
    with KraftCluster(controllers=request.param) as started:
        yield started


def test_topics(cluster: KraftCluster) -> None:
    at = brokers(cluster)
    cluster.tool(
        *(TOPICS, *at, "--create", "--topic", "t", "--partitions", 4, "--replication-factor", 3),
        *("--config", "retention.ms=100000", "--config", "cleanup.policy=compact"),
    )
    await_all(cluster)
    cluster.tool(TOPICS, *at, "--create", "--topic", "placed", "--replica-assignment", "1:2,3:1")
    cluster.tool(TOPICS, *at, "--create", "--topic", "t", "--if-not-exists")
    cluster.tool(TOPICS, *at, "--alter", "--topic", "placed", "--partitions", 3, "--replica-assignment", "1:2,3:1,2:3")
    cluster.tool(TOPICS, *at, "--alter", "--topic", "t", "--partitions", 6)
    assert set(cluster.tool(TOPICS, *at, "--list").split()) == {"t", "placed"}
    printed = await_printed(
        cluster, "PartitionCount: 6\tReplicationFactor: 3", TOPICS, *at, "--describe", "--topic", "t"
    )
    assert "cleanup.policy=compact" in printed and "retention.ms=100000" in printed
    assert printed.count("Leader: ") == 6
    await_not_printed(cluster, "Leader: none", TOPICS, *at, "--describe")
    replicas = re.findall(r"Replicas: (\S+)", cluster.tool(TOPICS, *at, "--describe", "--topic", "placed"))
    assert replicas == ["1,2", "3,1", "2,3"]
    for condition in ("--under-replicated-partitions", "--unavailable-partitions", "--under-min-isr-partitions"):
        await_not_printed(cluster, "Topic:", TOPICS, *at, "--describe", condition)
    cluster.tool(TOPICS, *at, "--delete", "--topic", "placed")
    await_not_printed(cluster, "placed", TOPICS, *at, "--list")


def test_topics_that_cannot_be(cluster: KraftCluster) -> None:
    create = (TOPICS, *brokers(cluster), "--create", "--topic")
    assert "TopicExistsException: Topic 't' already exists." in refusal(cluster, *create, "t")
    printed = refusal(cluster, *create, "wide", "--replication-factor", 4)
    assert "InvalidReplicationFactorException: Unable to replicate the partition 4 time(s)" in printed
    assert "InvalidTopicException" in refusal(cluster, *create, "a b")
    assert "InvalidReplicaAssignmentException" in refusal(cluster, *create, "far", "--replica-assignment", "1:9")
    printed = refusal(cluster, *create, "odd", "--config", "retention.ms=x")
    assert "Invalid value x for configuration retention.ms: Not a number of type LONG" in printed
    printed = refusal(cluster, TOPICS, *brokers(cluster), "--alter", "--topic", "t", "--partitions", 2)
    assert (
        "InvalidPartitionsException: The topic t currently has 6 partition(s); 2 would not be an increase." in printed
    )
    refusal(cluster, TOPICS, *brokers(cluster), "--delete", "--topic", "nowhere")


def test_settings_of_topics(cluster: KraftCluster) -> None:
    """Changed by each way, described by both; with --all, since the tool lists no topics of a controller."""
    topic = ("--entity-type", "topics", "--entity-name", "t")
    for way in ways(cluster):
        alter = (CONFIGS, *way, "--alter", *topic)
        cluster.tool(*alter, "--add-config", "retention.ms=5000,cleanup.policy=[compact,delete]")
        for asked in ways(cluster):
            printed = await_printed(cluster, "  retention.ms=5000 ", CONFIGS, *asked, "--describe", *topic, "--all")
            assert "  cleanup.policy=compact,delete " in printed
        cluster.tool(*alter, "--delete-config", "retention.ms,cleanup.policy")
        for asked in ways(cluster):
            await_printed(cluster, "  retention.ms=604800000 ", CONFIGS, *asked, "--describe", *topic, "--all")
        printed = refusal(cluster, *alter, "--add-config", "segment.bytes=1")
        assert "InvalidConfigurationException: Invalid value 1 for configuration segment.bytes" in printed
        nowhere = (*topic[:3], "nowhere", "--add-config", "retention.ms=1")
        assert "UnknownTopicOrPartitionException" in refusal(cluster, CONFIGS, *way, "--alter", *nowhere)


def test_brokers_and_controllers_describe_the_same_settings_of_a_topic(cluster: KraftCluster) -> None:
    topic = ("--entity-type", "topics", "--entity-name", "t", "--all")
    of_broker, of_controller = (cluster.tool(CONFIGS, *asked, "--describe", *topic) for asked in ways(cluster))
    assert len(of_broker.splitlines()) > 25
    assert of_controller == of_broker


def test_settings_of_brokers(cluster: KraftCluster) -> None:
    """Dynamic ones, of one broker and of all; brokers take them."""
    at = (CONFIGS, *brokers(cluster))
    one, every = ("--entity-type", "brokers", "--entity-name", "2"), ("--entity-type", "brokers", "--entity-default")
    cluster.tool(*at, "--alter", *one, "--add-config", "leader.replication.throttled.rate=7000000")
    await_printed(cluster, "leader.replication.throttled.rate=7000000", *at, "--describe", *one)
    cluster.tool(*at, "--alter", *one, "--delete-config", "leader.replication.throttled.rate")
    await_not_printed(cluster, "throttled", *at, "--describe", *one)
    topic = ("--entity-type", "topics", "--entity-name", "t", "--all")
    for way, size in zip(ways(cluster), (2_000_000, 3_000_000), strict=True):
        cluster.tool(CONFIGS, *way, "--alter", *every, "--add-config", f"message.max.bytes={size}")
        for asked in ways(cluster):
            await_printed(cluster, f"message.max.bytes={size}", CONFIGS, *asked, "--describe", *every)
            await_printed(cluster, f"max.message.bytes={size}", CONFIGS, *asked, "--describe", *topic)
        cluster.tool(CONFIGS, *way, "--alter", *every, "--delete-config", "message.max.bytes")
    printed = refusal(cluster, *at, "--alter", *one, "--add-config", "log.cleaner.threads=x")
    assert "InvalidConfigurationException" in printed or "InvalidRequestException" in printed


def test_settings_of_the_controllers_themselves(cluster: KraftCluster) -> None:
    """The one that is asked tells of itself, defaults included; of others it does not."""
    for node in cluster.controllers:
        at = (CONFIGS, "--bootstrap-controller", node.address)
        own = ("--entity-type", "brokers", "--entity-name", node.node_id)
        printed = cluster.tool(*at, "--describe", *own, "--all")
        assert f"  node.id={node.node_id} " in printed and "  broker.session.timeout.ms=6000 " in printed
        assert "  num.io.threads=8 sensitive=false synonyms={DEFAULT_CONFIG:num.io.threads=8}" in printed
        cluster.tool(*at, "--alter", *own, "--add-config", "num.io.threads=4")
        await_printed(cluster, "num.io.threads=4 ", *at, "--describe", *own)
        cluster.tool(*at, "--alter", *own, "--delete-config", "num.io.threads")
        await_not_printed(cluster, "num.io.threads", *at, "--describe", *own)


def test_settings_of_groups(cluster: KraftCluster) -> None:
    group = ("--entity-type", "groups", "--entity-name", "g")
    for way in ways(cluster):
        alter = (CONFIGS, *way, "--alter", *group)
        cluster.tool(*alter, "--add-config", "consumer.session.timeout.ms=50000")
        for asked in ways(cluster):
            await_printed(cluster, "consumer.session.timeout.ms=50000", CONFIGS, *asked, "--describe", *group, "--all")
        cluster.tool(*alter, "--delete-config", "consumer.session.timeout.ms")
        printed = refusal(cluster, *alter, "--add-config", "consumer.session.timeout.ms=1")
        assert "InvalidConfigurationException" in printed


def test_settings_of_client_metrics(cluster: KraftCluster) -> None:
    metrics = (CLIENT_METRICS, *brokers(cluster))
    cluster.tool(*metrics, "--alter", "--name", "m", "--interval", 5000, "--metrics", "org.apache.kafka.")
    await_printed(cluster, "interval.ms=5000", *metrics, "--describe", "--name", "m")
    assert cluster.tool(*metrics, "--list").split() == ["m"]
    cluster.tool(*metrics, "--delete", "--name", "m")
    await_not_printed(cluster, "m", *metrics, "--list")


def test_features(cluster: KraftCluster) -> None:
    for at in ways(cluster):
        assert levels(cluster, at) == {
            "eligible.leader.replicas.version": "1",
            "group.version": "1",
            "kraft.version": "1",
            "metadata.version": LEVEL,
            "share.version": "2",
            "streams.version": "1",
            "transaction.version": "2",
        }
        printed = cluster.tool(FEATURES, *at, "downgrade", "--feature", "share.version=0", "--dry-run")
        assert "share.version can be downgraded to 0" in printed
        cluster.tool(FEATURES, *at, "downgrade", "--feature", "share.version=0", "--feature", "transaction.version=1")
        for asked in ways(cluster):
            await_levels(cluster, asked, {"transaction.version": "1", "share.version": "0"})
        cluster.tool(FEATURES, *at, "upgrade", "--feature", "share.version=2", "--feature", "transaction.version=2")
        for asked in ways(cluster):
            await_levels(cluster, asked, {"transaction.version": "2", "share.version": "2"})
        printed = refusal(cluster, FEATURES, *at, "upgrade", "--metadata", "9.9-IV0")
        assert "9.9-IV0" in printed
        printed = refusal(cluster, FEATURES, *at, "upgrade", "--feature", "share.version=7")
        assert "Could not upgrade share.version to 7" in printed
        printed = refusal(cluster, FEATURES, *at, "downgrade", "--metadata", "3.9-IV0")
        assert "Could not downgrade metadata.version to 21" in printed


def await_levels(cluster: KraftCluster, at: tuple[str, str], wanted: dict[str, str]) -> None:
    until(lambda: wanted.items() <= levels(cluster, at).items(), lambda: levels(cluster, at))


def levels(cluster: KraftCluster, at: tuple[str, str]) -> dict[str, str]:
    """The level of each feature."""
    printed = cluster.tool(FEATURES, *at, "describe")
    return dict(re.findall(r"Feature: (\S+).*FinalizedVersionLevel: (\S+)", printed))


def test_the_quorum(cluster: KraftCluster) -> None:
    """By a broker, which asks the active controller, and by controllers."""
    leader = active_controller(cluster).node_id
    for at in ways(cluster):
        status = cluster.tool(METADATA_QUORUM, *at, "describe", "--status")
        assert re.search(rf"LeaderId: +{leader}\n", status), status
        assert cluster.cluster_id in status
        voters = re.search(r"CurrentVoters: +(.*)\n", status)
        assert voters is not None
        assert voters[1].count('"id"') == len(cluster.controllers)
        printed = cluster.tool(METADATA_QUORUM, *at, "describe", "--replication", "--human-readable").splitlines()
        states = {int(line.split()[0]): line.split()[-1] for line in printed[1:]}
        others = {node.node_id: "Follower" for node in cluster.controllers if node.node_id != leader}
        assert states == {leader: "Leader", **others, 1: "Observer", 2: "Observer", 3: "Observer"}


def test_the_cluster(cluster: KraftCluster) -> None:
    """Its id, and its members."""
    for way in ways(cluster):
        assert cluster.tool(CLUSTER, "cluster-id", *way).split() == ["Cluster", "ID:", cluster.cluster_id]
    assert endpoints(cluster, *brokers(cluster)) == {1: "broker", 2: "broker", 3: "broker"}
    every = {node.node_id: "controller" for node in cluster.controllers}
    assert endpoints(cluster, *controllers(cluster)) == every


def endpoints(cluster: KraftCluster, *options: str) -> dict[int, str]:
    """By id, the type of each endpoint: broker or controller."""
    rows = [line.split() for line in cluster.tool(CLUSTER, "list-endpoints", *options).splitlines()[1:]]
    return {int(row[0]): row[-1] for row in rows}


def test_a_broker_that_has_ended_is_unregistered(cluster: KraftCluster) -> None:
    """And comes back."""
    third = cluster.brokers[2]
    known = (*brokers(cluster), "--include-fenced-brokers")
    for way in ways(cluster):
        third.terminate()
        printed = cluster.tool(CLUSTER, "list-endpoints", *known)
        assert re.search(r"(?m)^3 .* fenced +broker", printed), printed
        cluster.tool(CLUSTER, "unregister", *way, "--id", 3)
        until(lambda: 3 not in endpoints(cluster, *known), lambda: endpoints(cluster, *known))
        assert "BrokerIdNotRegisteredException" in refusal(cluster, CLUSTER, "unregister", *way, "--id", 3)
        third.start()
        await_all(cluster)


def test_a_standby_is_unregistered(cluster: KraftCluster) -> None:
    """And registers again, as a controller that runs does. The active one cannot be unregistered."""
    active = active_controller(cluster)
    for way in ways(cluster):
        for node in cluster.controllers:
            unregister = (CLUSTER, "unregister-controller", *way, "--id", node.node_id)
            if node is active:
                assert "Controller cannot unregister itself while it is active." in refusal(cluster, *unregister)
                continue
            cluster.tool(*unregister)
            await_printed(cluster, f"{node.node_id} ", CLUSTER, "list-endpoints", *controllers(cluster))
        unknown = refusal(cluster, CLUSTER, "unregister-controller", *way, "--id", 999)
        assert "Controller ID 999 is not currently registered." in unknown


def test_nobody_complained(cluster: KraftCluster) -> None:
    assert_no_complaints(cluster)
