"""Real 3.9.1 brokers under kcore's ZooKeeper-mode controller, all over SASL_SSL with SCRAM, and Kafka's tools as users.

Credentials of all are in ZooKeeper: of the first ones by `kafka-configs.sh --zookeeper`, of the others by kcore.
Brokers take control requests on a listener of their own.
"""

import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import pytest

from kcore.measure.processes.local_process import free_ports
from kcore.measure.processes.zk_cluster import ZkBrokers, ZookeeperProcess
from kcore.net.security.jaas import MODULES
from net.authority import Authority
from oracle.kafka_tools import (
    CONFIGS,
    CONSOLE_CONSUMER,
    CONSOLE_PRODUCER,
    TOPICS,
    run_tool,
    try_tool,
)
from oracle.zk_controllers import GENEROUS_S, Controller, until

ACLS: Final = "kafka.admin.AclCommand"  # Its place in 3.9.1.
PASSWORD: Final = "correct-horse"
NOT_ALLOWED: Final = "authorization"
UNKNOWN: Final = "invalid credentials"
FIRST: Final = ("broker", "controller", "admin")
AUTHORIZER: Final = "kafka.security.authorizer.AclAuthorizer"
SETTINGS: Final = """listener.security.protocol.map=SECURE:SASL_SSL,CONTROL:SASL_SSL
inter.broker.listener.name=SECURE
control.plane.listener.name=CONTROL
sasl.enabled.mechanisms=SCRAM-SHA-512
sasl.mechanism.inter.broker.protocol=SCRAM-SHA-512
listener.name.secure.scram-sha-512.sasl.jaas.config={scram} required username="{name}" password="{password}";
listener.name.control.scram-sha-512.sasl.jaas.config={scram} required username="{name}" password="{password}";
ssl.keystore.type=PEM
ssl.keystore.location={keystore}
ssl.truststore.type=PEM
ssl.truststore.location={trusted}
authorizer.class.name={authorizer}
super.users=User:controller;User:broker;User:admin
delegation.token.secret.key=a-key-of-the-cluster
connections.max.reauth.ms=6000
"""
LISTENERS: Final = """listeners=SECURE://127.0.0.1:{port},CONTROL://127.0.0.1:{control}
advertised.listeners=SECURE://127.0.0.1:{port},CONTROL://127.0.0.1:{control}
"""


class Secured:
    """All that runs."""

    def __init__(self, folder: Path, authority: Authority, stack: ExitStack) -> None:
        self.folder, self.authority = folder, authority
        self.zookeeper = stack.enter_context(ZookeeperProcess())
        for name in FIRST:
            credential = ("--add-config", f"SCRAM-SHA-512=[password={PASSWORD}]")
            user = ("--entity-type", "users", "--entity-name", name)
            run_tool(CONFIGS, "--zookeeper", self.zookeeper.address, "--alter", *credential, *user)
        properties = folder / "controller.properties"
        properties.write_text(self.settings("controller"))
        self.controller = stack.enter_context(
            Controller(self.zookeeper.address, folder, 1000, "--security", str(properties))
        )
        self.brokers = ZkBrokers(self.zookeeper.address, 2)
        stack.callback(self.brokers.close)
        for broker, control in zip(self.brokers.brokers, free_ports(2), strict=True):
            broker.configure(self.settings("broker") + LISTENERS.format(port=broker.port, control=control))
        self.brokers.start()

    def settings(self, name: str) -> str:
        return SETTINGS.format(
            scram=MODULES["SCRAM-SHA-512"],
            name=name,
            password=PASSWORD,
            keystore=self.authority.keystore(name),
            trusted=self.authority.trusted,
            authorizer=AUTHORIZER,
        )

    def as_user(self, name: str, where: str = "", *, password: str = PASSWORD) -> tuple[object, ...]:
        """Options of a tool that comes to brokers as that user, or to `where`."""
        path = self.folder / f"{name}-{len(password)}.properties"
        path.write_text(
            "security.protocol=SASL_SSL\nsasl.mechanism=SCRAM-SHA-512\nssl.truststore.type=PEM\n"
            f"ssl.truststore.location={self.authority.trusted}\n"
            f'sasl.jaas.config={MODULES["SCRAM-SHA-512"]} required username="{name}" password="{password}";\n'
        )
        return ("--bootstrap-server", where or self.brokers.bootstrap, "--command-config", path)

    def client_of(self, name: str, option: str) -> tuple[object, ...]:
        _, bootstrap, _, path = self.as_user(name)
        return ("--bootstrap-server", bootstrap, option, path)


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    with ExitStack() as stack:
        authority = Authority(tmp_path_factory.mktemp("authority"))
        yield Secured(tmp_path_factory.mktemp("secured"), authority, stack)


def refused(main: str, *arguments: object) -> str:
    code, printed, complaints = try_tool(main, *arguments)
    assert code != 0, printed
    return printed + complaints


def until_refused(why: str, main: str, *arguments: object) -> None:
    """Until that is the reason why the tool fails."""
    end = time.monotonic() + GENEROUS_S
    while why not in (printed := refused(main, *arguments).lower()):
        assert time.monotonic() < end, printed
        time.sleep(0.5)


def test_brokers_are_controlled_and_replicate(secured: Secured) -> None:
    admin = secured.as_user("admin")
    run_tool(TOPICS, *admin, "--create", "--topic", "t", "--partitions", 2, "--replication-factor", 2)

    def described() -> str:
        return run_tool(TOPICS, *admin, "--describe", "--topic", "t")

    until(lambda: described().count("Isr: 1,2") + described().count("Isr: 2,1") >= 2, "both are in sync")
    values = [f"v{number}" for number in range(10)]
    producer = secured.client_of("admin", "--producer.config")
    run_tool(CONSOLE_PRODUCER, *producer, "--topic", "t", given="\n".join([*values, ""]))
    consumer = secured.client_of("admin", "--consumer.config")
    read = ("--from-beginning", "--max-messages", 10, "--timeout-ms", 60_000)
    assert sorted(run_tool(CONSOLE_CONSUMER, *consumer, "--topic", "t", *read).split()) == values


@pytest.mark.parametrize("at", ["brokers", "the controller"])
def test_rights_are_required_and_refusals_are_answered(at: str, secured: Secured) -> None:
    """At kcore's controller, and at brokers, which read the same znodes."""
    where = secured.controller.address if at != "brokers" else ""
    user, topic = ("alice", "alices") if where else ("bob", "bobs")
    admin, asking = secured.as_user("admin", where), secured.as_user(user, where)
    printed = refused(TOPICS, *asking, "--create", "--topic", topic)
    assert UNKNOWN in printed, "nobody knows the user yet"
    credential = ("--add-config", f"SCRAM-SHA-512=[password={PASSWORD}]")
    altered = (CONFIGS, *admin, "--alter", "--entity-type", "users", "--entity-name", user)
    run_tool(*altered, *credential)
    creates = (TOPICS, *asking, "--create", "--topic", topic)
    until_refused(NOT_ALLOWED, *creates)  # The user is known.
    assert NOT_ALLOWED in refused(ACLS, *asking, "--list").lower()
    rule = ("--allow-principal", f"User:{user}", "--topic", topic, "--operation", "All")
    run_tool(ACLS, *admin, "--add", *rule)
    until(lambda: try_tool(*creates)[0] == 0, "the user may create")
    assert topic in run_tool(TOPICS, *admin, "--list")
    printed = refused(TOPICS, *secured.as_user(user, where, password="wrong"), "--list")
    assert UNKNOWN in printed
    run_tool(
        CONFIGS, *admin, "--alter", "--entity-type", "users", "--entity-name", user, "--delete-config", "SCRAM-SHA-512"
    )
    until_refused(UNKNOWN, *creates)  # The user is gone.


def test_nobody_complained(secured: Secured) -> None:
    """Sessions end after seconds: brokers and the controller have authenticated again meanwhile."""
    until(lambda: len(secured.controller.log.read_text()) > 0, "it has a log")
    assert secured.controller.faults() == []
    text = secured.controller.log.read_text()
    assert PASSWORD not in text and "a-key-of-the-cluster" not in text
    assert "its session has expired" not in text
