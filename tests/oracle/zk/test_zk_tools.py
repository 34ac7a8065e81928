"""Kafka's own tools in a cluster of Kafka's and kcore's brokers under kcore's controller, which they take for a broker.

Brokers 1 and 2 are Kafka's, 7 is kcore's, 1000 is kcore's controller. Each tool does what it does with Kafka's alone.
"""

import asyncio
import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from kcore.measure.processes.local_process import free_ports
from kcore.measure.processes.zk_cluster import ZkBrokers, ZookeeperProcess
from kcore.metadata.zookeeper import znodes
from kcore.metadata.zookeeper.znode_operations import Create
from kcore.zookeeper.client import ZookeeperClient
from oracle.kafka_tools import CONFIGS, DELETE_RECORDS, ELECT, LOG_DIRS, REASSIGN, TOPICS, run_tool, try_tool
from oracle.kcore_brokers import KcoreBroker, produce_to, topic_at, until
from oracle.zk_controllers import Controller

PROPERTIES = "auto.leader.rebalance.enable=false\n"
THROTTLE = 50_000_000
RATES = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")


class Cluster:
    """All of it."""

    def __init__(self, folder: Path, zookeeper: str, real: ZkBrokers, controller: Controller) -> None:
        self.folder, self.zookeeper, self.real, self.controller = folder, zookeeper, real, controller
        [port] = free_ports(1)
        self.kcore = KcoreBroker(7, port, folder, zookeeper)

    @property
    def at(self) -> tuple[str, str]:
        """Any of them may be asked: also the controller and kcore's broker alone."""
        return "--bootstrap-server", f"{self.real.bootstrap},{self.kcore.address}"

    def configs(self, *arguments: object, at: str = "") -> str:
        return run_tool(CONFIGS, *(("--bootstrap-server", at) if at else self.at), *arguments)

    def create(self, topic: str, *replicas: int) -> None:
        """One partition."""
        assignment = ":".join(map(str, replicas))
        run_tool(TOPICS, *self.at, "--create", "--topic", topic, "--replica-assignment", assignment)
        addresses = [*self.real.bootstrap.split(","), self.kcore.address]
        for address in addresses:
            until(lambda address=address: self.isr(topic, address) == {*replicas}, self.story)  # type: ignore[misc]

    def isr(self, topic: str, address: str = "") -> set[int]:
        seen = topic_at(address or self.real[1].address, topic)
        return {*seen[0].isr} if seen else set()

    def story(self) -> object:
        return self.kcore.said()[-3000:], self.controller.log.read_text()[-3000:]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("tools")
    with ExitStack() as stack:
        zookeeper = stack.enter_context(ZookeeperProcess())
        controller = stack.enter_context(Controller(zookeeper.address, folder, 1000, "--session-timeout", "6000"))
        real = stack.enter_context(ZkBrokers(zookeeper.address, 2, properties=PROPERTIES))
        made = Cluster(folder, zookeeper.address, real, controller)
        stack.callback(made.kcore.kill)
        made.kcore.start()
        yield made


def test_log_directories_of_all(cluster: Cluster) -> None:
    """The controller is described too: it has one, and nothing in it."""
    cluster.create("logs", 7, 1)
    produce_to(cluster.kcore.address, "logs", 0, b"value")
    printed = run_tool(LOG_DIRS, *cluster.at, "--describe", "--topic-list", "logs").splitlines()
    brokers = {each["broker"]: each["logDirs"] for each in json.loads(printed[-1])["brokers"]}
    assert brokers.keys() == {1, 2, 7, 1000}
    assert [each["logDir"] for each in brokers[1000]] == ["none"]
    [ours] = brokers[7]
    assert (ours["logDir"], ours["error"]) == (str(cluster.kcore.log_dirs[0]), None)
    [partition] = ours["partitions"]
    size = (cluster.kcore.log_dirs[0] / "logs-0" / f"{0:020}.log").stat().st_size
    assert (partition["partition"], partition["size"], partition["offsetLag"]) == ("logs-0", size, 0)


def test_settings_of_one_broker_and_of_all(cluster: Cluster) -> None:
    of_seven = ("--entity-type", "brokers", "--entity-name", "7")
    cluster.configs("--alter", *of_seven, "--add-config", f"{RATES[0]}={THROTTLE}")
    assert f"{RATES[0]}={THROTTLE}" in cluster.configs("--describe", *of_seven)
    assert "replica.lag.time.max.ms=4000" in cluster.configs("--describe", "--all", *of_seven)
    cluster.configs("--alter", *of_seven, "--delete-config", RATES[0])
    assert RATES[0] not in cluster.configs("--describe", *of_seven)
    cluster.configs("--describe", "--all", "--entity-type", "brokers", "--entity-name", "1000")
    default = ("--entity-type", "brokers", "--entity-default")
    cluster.configs("--alter", *default, "--add-config", "log.cleaner.threads=2", at=cluster.controller.address)
    for address in (cluster.controller.address, cluster.kcore.address, cluster.real[1].address):
        until(
            lambda address=address: "log.cleaner.threads=2" in cluster.configs("--describe", *default, at=address),
            cluster.story,
        )
    cluster.configs("--alter", *default, "--delete-config", "log.cleaner.threads")
    of_topic = ("--entity-type", "topics", "--entity-name", "logs")
    for address in (cluster.controller.address, cluster.kcore.address):
        cluster.configs("--alter", *of_topic, "--add-config", "retention.ms=12345", at=address)
        assert "retention.ms=12345" in cluster.configs("--describe", *of_topic, at=address)


def test_credentials_of_users(cluster: Cluster) -> None:
    alice = ("--entity-type", "users", "--entity-name", "alice")
    cluster.configs("--alter", *alice, "--add-config", "SCRAM-SHA-256=[iterations=8192,password=secret]")
    cluster.configs("--alter", *alice, "--add-config", "SCRAM-SHA-512=[password=secret]")
    printed = cluster.configs("--describe", *alice)
    assert "SCRAM-SHA-256=iterations=8192" in printed and "SCRAM-SHA-512=iterations=4096" in printed
    cluster.configs("--alter", *alice, "--delete-config", "SCRAM-SHA-256")
    assert "SCRAM-SHA-256" not in cluster.configs("--describe", *alice)
    code, _, complaints = try_tool(CONFIGS, *cluster.at, "--alter", *alice, "--delete-config", "SCRAM-SHA-256")
    assert code != 0 and complaints


def test_records_are_deleted(cluster: Cluster) -> None:
    cluster.create("shorter", 7, 1, 2)
    produce_to(cluster.kcore.address, "shorter", 0, *[b"v"] * 10)
    wanted = cluster.folder / "delete.json"
    wanted.write_text(json.dumps({"partitions": [{"topic": "shorter", "partition": 0, "offset": 4}], "version": 1}))
    until(
        lambda: "low_watermark: 4" in run_tool(DELETE_RECORDS, *cluster.at, "--offset-json-file", wanted), cluster.story
    )


def test_replicas_move_to_kcores_broker_and_back_with_a_throttle(cluster: Cluster) -> None:
    """--verify takes the throttle off every broker that is listed, the controller included."""
    cluster.create("moving", 1, 2)
    plan = cluster.folder / "plan.json"
    for targets in ([7, 2], [2, 1]):
        partition: dict[str, Any] = {"topic": "moving", "partition": 0, "replicas": targets}
        plan.write_text(json.dumps({"version": 1, "partitions": [partition]}))
        run_tool(REASSIGN, *cluster.at, "--reassignment-json-file", plan, "--execute", "--throttle", THROTTLE)
        until(lambda targets=targets: cluster.isr("moving") == {*targets}, cluster.story)  # type: ignore[misc]
        until(lambda: _is_completed(cluster, plan), cluster.story)
        for broker in (1, 2, 7):
            printed = cluster.configs("--describe", "--entity-type", "brokers", "--entity-name", broker)
            assert not any(rate in printed for rate in RATES)


def _is_completed(cluster: Cluster, plan: Path) -> bool:
    return "is completed" in run_tool(REASSIGN, *cluster.at, "--reassignment-json-file", plan, "--verify")


def test_an_election_of_all_ends_well_while_a_topic_is_being_deleted(cluster: Cluster) -> None:
    """Broker 2 is away, so that the deletion waits for it."""
    cluster.create("deleted", 1, 2)
    cluster.real[2].kill()
    until(lambda: cluster.isr("deleted") == {1}, cluster.story)
    wish = Create(znodes.delete_topic_path("deleted"))  # DeleteTopics writes this, without waiting for the deletion.
    asyncio.run(_write(cluster.zookeeper, wish))
    run_tool(TOPICS, *cluster.at, "--create", "--topic", "elected", "--replica-assignment", "7:1")
    code, printed, complaints = try_tool(ELECT, *cluster.at, "--election-type", "UNCLEAN", "--all-topic-partitions")
    assert (code, "deleted" in printed + complaints) == (0, False), (printed, complaints)
    cluster.real[2].start()
    until(lambda: "deleted" not in run_tool(TOPICS, *cluster.at, "--list").split(), cluster.story)


async def _write(zookeeper: str, operation: Create) -> None:
    async with ZookeeperClient(zookeeper) as client:
        await client.write([operation])


def test_nobody_places_replicas_on_the_controller(cluster: Cluster) -> None:
    code, printed, complaints = try_tool(
        TOPICS, *cluster.at, "--create", "--topic", "here", "--replica-assignment", "1000:1,1:7"
    )
    assert code != 0 and "includes brokers that may not hold its replicas: 1000" in printed + complaints
    assert cluster.controller.faults() == []
