"""Kafka's own tools for ACLs, users, quotas and delegation tokens, over real brokers under kcore's controllers.

Brokers and controllers have Kafka's StandardAuthorizer. Clients of the plaintext listener are super users; clients of
the SASL listener have the principal that they authenticate as.
"""

import re
from collections.abc import Iterator

import pytest

from oracle.chaos.kraft_checks import (
    assert_no_complaints,
    await_not_printed,
    await_printed,
    brokers,
    refusal,
    ways,
)
from oracle.kafka_tools import ACLS, CONFIGS, CONSOLE_CONSUMER, DELEGATION_TOKENS, TOPICS
from oracle.kcore_brokers import until
from oracle.kraft_clusters import KraftCluster

CONSOLE_PRODUCER = "org.apache.kafka.tools.ConsoleProducer"
AUTHORIZER = """authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:ANONYMOUS;User:root
delegation.token.secret.key=a secret of brokers and controllers
"""
SASL = """listeners=PLAINTEXT://{address},SASL://{second}
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SASL:SASL_PLAINTEXT
inter.broker.listener.name=PLAINTEXT
sasl.enabled.mechanisms=SCRAM-SHA-256,SCRAM-SHA-512
listener.name.sasl.scram-sha-256.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required;
listener.name.sasl.scram-sha-512.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required;
"""
PASSWORD = "correct-horse"


@pytest.fixture(scope="module", params=(1, 3), ids=("one_controller", "three_controllers"))
def cluster(request: pytest.FixtureRequest) -> Iterator[KraftCluster]:
    of_brokers = AUTHORIZER + SASL
    with KraftCluster(controllers=request.param, properties=AUTHORIZER, of_brokers=of_brokers) as started:
        started.tool(TOPICS, *brokers(started), "--create", "--topic", "t", "--replication-factor", 3)
        yield started


def as_user(cluster: KraftCluster, name: str, password: str, *, token: bool = False) -> tuple[object, ...]:
    """Options of a tool that comes as that user, by the SASL listener."""
    config = cluster.folder / f"{name}.properties"
    config.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=SCRAM-SHA-256\n"
        "sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required "
        f'username="{name}" password="{password}"{" tokenauth=true" if token else ""};\n'
    )
    bootstrap = ",".join(node.second_address for node in cluster.brokers)
    return "--bootstrap-server", bootstrap, "--command-config", config


def make_user(cluster: KraftCluster, name: str) -> None:
    user = ("--entity-type", "users", "--entity-name", name)
    change = f"SCRAM-SHA-256=[iterations=4096,password={PASSWORD}]"
    cluster.tool(CONFIGS, *brokers(cluster), "--alter", *user, "--add-config", change)


def test_users(cluster: KraftCluster) -> None:
    """With SCRAM credentials, which admit them at once."""
    make_user(cluster, "alice")
    alice = ("--entity-type", "users", "--entity-name", "alice")
    at = (CONFIGS, *brokers(cluster))
    cluster.tool(*at, "--alter", *alice, "--add-config", "SCRAM-SHA-512=[password=secret]")
    printed = await_printed(cluster, "SCRAM-SHA-512=iterations=4096", *at, "--describe", *alice)
    assert "SCRAM-SHA-256=iterations=4096" in printed
    until(lambda: may_come(cluster, as_user(cluster, "alice", PASSWORD)), str, within_s=120)
    printed = refusal(cluster, TOPICS, *as_user(cluster, "alice", "wrong"), "--list")
    assert "SaslAuthenticationException" in printed
    cluster.tool(*at, "--alter", *alice, "--delete-config", "SCRAM-SHA-512")
    await_not_printed(cluster, "SCRAM-SHA-512", *at, "--describe", *alice)
    printed = refusal(cluster, *at, "--alter", *alice, "--delete-config", "SCRAM-SHA-512")
    assert "ResourceNotFoundException" in printed


def may_come(cluster: KraftCluster, who: tuple[object, ...]) -> bool:
    """Whether the brokers admit the client that these options authenticate."""
    code, _, _ = cluster.try_tool(TOPICS, *who, "--list")
    return code == 0


def test_acls(cluster: KraftCluster) -> None:
    """Written by way of brokers and at controllers; what they allow and deny holds for clients."""
    make_user(cluster, "bob")
    bob = as_user(cluster, "bob", PASSWORD)
    until(lambda: may_come(cluster, bob), str, within_s=120)
    assert not can_create(cluster, bob, "bobs-1")
    for way, prefix in zip(ways(cluster), ("bobs", "more"), strict=True):
        rule = ("--allow-principal", "User:bob", "--topic", prefix, "--resource-pattern-type", "prefixed")
        cluster.tool(ACLS, *way, "--add", *rule, "--operation", "All")
        await_printed(cluster, f"name={prefix}, patternType=PREFIXED", ACLS, *way, "--list")
        await_creation(cluster, bob, f"{prefix}-1")
        deny = ("--deny-principal", "User:bob", "--topic", f"{prefix}-2", "--operation", "Create")
        cluster.tool(ACLS, *way, "--add", *deny)
        await_printed(cluster, f"name={prefix}-2, patternType=LITERAL", ACLS, *brokers(cluster), "--list")
        assert not can_create(cluster, bob, f"{prefix}-2")
    group = ("--allow-principal", "User:bob", "--consumer", "--topic", "bobs-1", "--group", "bobs-group")
    cluster.tool(ACLS, *brokers(cluster), "--add", *group)
    values = [f"v{number}" for number in range(10)]
    cluster.tool(CONSOLE_PRODUCER, *bob, "--topic", "bobs-1", given="\n".join([*values, ""]))
    read = ("--group", "bobs-group", "--from-beginning", "--max-messages", 10, "--timeout-ms", 60_000)
    assert cluster.tool(CONSOLE_CONSUMER, *bob, "--topic", "bobs-1", *read).split() == values
    for way, prefix in zip(ways(cluster), ("bobs", "more"), strict=True):
        rule = ("--topic", prefix, "--resource-pattern-type", "prefixed")
        cluster.tool(ACLS, *way, "--remove", "--force", *rule)
        await_not_printed(cluster, f"name={prefix}, patternType=PREFIXED", ACLS, *brokers(cluster), "--list")
        assert not can_create(cluster, bob, f"{prefix}-3")


def test_brokers_and_controllers_describe_the_same_acls(cluster: KraftCluster) -> None:
    of_brokers, of_controllers = (cluster.tool(ACLS, *way, "--list") for way in ways(cluster))
    assert "ResourcePattern(" in of_brokers
    assert sorted(of_controllers.splitlines()) == sorted(of_brokers.splitlines())


def can_create(cluster: KraftCluster, who: tuple[object, ...], topic: str) -> bool:
    """Or it is there already."""
    code, printed, complaints = cluster.try_tool(TOPICS, *who, "--create", "--topic", topic)
    assert code == 0 or "uthorization" in printed + complaints or "TopicExists" in printed + complaints, (
        printed + complaints
    )
    return code == 0 or "TopicExists" in printed + complaints


def await_creation(cluster: KraftCluster, who: tuple[object, ...], topic: str) -> None:
    until(lambda: can_create(cluster, who, topic), lambda: f"{topic} cannot be created", within_s=120)


QUOTAS = (
    (("--entity-type", "users", "--entity-name", "carol"), "producer_byte_rate=1024.0"),
    (("--entity-type", "users", "--entity-default"), "consumer_byte_rate=2048.0"),
    (("--entity-type", "clients", "--entity-name", "c1"), "request_percentage=50.0"),
    (("--entity-type", "clients", "--entity-default"), "request_percentage=75.0"),
    (("--user", "carol", "--client", "c1"), "controller_mutation_rate=3.0"),
    (("--entity-type", "ips", "--entity-name", "127.0.0.9"), "connection_creation_rate=10.0"),
)


def test_quotas(cluster: KraftCluster) -> None:
    """Quotas of users, of clients, of both, of addresses, and the defaults of each are set, shown and deleted."""
    at = (CONFIGS, *brokers(cluster))
    for entity, quota in QUOTAS:
        cluster.tool(*at, "--alter", *entity, "--add-config", quota.removesuffix(".0"))
        await_printed(cluster, quota, *at, "--describe", *entity)
        name = quota.partition("=")[0]
        cluster.tool(*at, "--alter", *entity, "--delete-config", name)
        await_not_printed(cluster, name, *at, "--describe", *entity)
    printed = refusal(cluster, *at, "--alter", *QUOTAS[0][0], "--add-config", "producer_byte_rate=-1")
    assert "InvalidRequestException" in printed, printed


def test_delegation_tokens(cluster: KraftCluster) -> None:
    """Made, renewed, used in place of a password, and expired."""
    make_user(cluster, "dave")
    dave = as_user(cluster, "dave", PASSWORD)
    until(lambda: may_come(cluster, dave), str, within_s=120)
    allowed = ("--allow-principal", "User:dave", "--topic", "t", "--operation", "Describe")
    cluster.tool(ACLS, *brokers(cluster), "--add", *allowed)
    await_printed(cluster, "t", TOPICS, *dave, "--list")
    printed = cluster.tool(
        *(DELEGATION_TOKENS, *dave, "--create", "--max-life-time-period", 3_600_000),
        *("--renewer-principal", "User:dave"),
    )
    token_id, hmac = re.findall(r"(?m)^(\S{22}) +(\S+) +User:dave", printed)[0]
    owned = ("--describe", "--owner-principal", "User:dave")  # 4.3.1 lists none without an owner.
    await_printed(cluster, token_id, DELEGATION_TOKENS, *dave, *owned)
    with_token = as_user(cluster, token_id, hmac, token=True)
    until(lambda: may_come(cluster, with_token), str, within_s=120)
    assert cluster.tool(TOPICS, *with_token, "--list").split() == ["t"]
    renewed = cluster.tool(DELEGATION_TOKENS, *dave, "--renew", "--renew-time-period", 60_000, "--hmac", hmac)
    assert "Completed renew operation" in renewed
    create = ("--create", "--max-life-time-period", 1000, "--renewer-principal", "User:dave")
    assert "DelegationToken" in refusal(cluster, DELEGATION_TOKENS, *with_token, *create)  # A token makes no tokens.
    cluster.tool(DELEGATION_TOKENS, *dave, "--expire", "--expiry-time-period", -1, "--hmac", hmac)
    await_not_printed(cluster, token_id, DELEGATION_TOKENS, *dave, *owned)
    until(lambda: not may_come(cluster, with_token), str, within_s=120)


def test_nobody_complained(cluster: KraftCluster) -> None:
    assert_no_complaints(cluster)
