"""The rolls of KIP-380 over real 3.9.1 brokers: the protocol between controller and brokers goes up, messages go on.

A controller of an older inter.broker.protocol.version sends older requests: without broker epochs at 2.1, with broker
epochs from 2.2 on. At 3.9 the topics get topic ids, and the requests name them.
"""

import re
from collections.abc import Iterator

import pytest

from oracle.kafka_tools import TOPICS
from oracle.zk_controllers import PROPERTIES, TOPIC, Cluster

SENT = {
    "2.1": {"LeaderAndIsr 1", "UpdateMetadata 4"},
    "2.2": {"LeaderAndIsr 2", "UpdateMetadata 5"},
    "3.9": {"LeaderAndIsr 7", "UpdateMetadata 8"},
}


def protocol(version: str) -> str:
    return f"inter.broker.protocol.version={version}\n"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("rolls")
    options = ("--inter-broker-protocol", "2.1")
    with Cluster.started(folder, protocol("2.1"), *options, chroot="/kafka") as started:
        yield started


def lines_of(log: str) -> set[str]:
    """Name and version of the requests of two kinds that a controller sent, by its own account at its end."""
    return {*re.findall(r"request ((?:LeaderAndIsr|UpdateMetadata) \d+): ", log)}


def roll_brokers(cluster: Cluster, version: str) -> None:
    """One after the other."""
    for broker in cluster.brokers.brokers:
        broker.terminate()
        broker.configure(PROPERTIES + protocol(version))
        broker.start()
        cluster.agree()
        cluster.clients_go_on()


@pytest.mark.covers("first roll")
def test_without_broker_epochs(cluster: Cluster) -> None:
    """Leaders write their ISRs to ZooKeeper themselves, and leave a note of it."""
    cluster.tool(TOPICS, "--create", "--topic", TOPIC, "--partitions", 6, "--replication-factor", 3)
    cluster.start_clients()
    cluster.clients_go_on()
    cluster.agree()
    cluster.brokers[2].kill()
    cluster.agree()
    cluster.brokers[2].start()
    cluster.agree()
    cluster.clients_go_on()


@pytest.mark.covers("second roll")
@pytest.mark.parametrize(("before", "after"), [("2.1", "2.2"), ("2.2", "3.9")])
def test_the_protocol_goes_up(cluster: Cluster, before: str, after: str) -> None:
    log = cluster.controller.log
    cluster.succeed("--inter-broker-protocol", after)
    assert lines_of(log.read_text()) == SENT[before]
    cluster.agree()
    roll_brokers(cluster, after)


def test_no_message_was_lost(cluster: Cluster) -> None:
    cluster.stop_clients()
    cluster.controller.stop()
    assert lines_of(cluster.controller.log.read_text()) == SENT["3.9"]
