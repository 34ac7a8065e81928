"""A disk that is full at kcore's broker, under Kafka's controller and under kcore's: nothing acknowledged is lost.

Broker 1 is Kafka's, 11 and 12 are kcore's; 11 has two log directories. A limit of the size of its files (setrlimit)
acts like a full disk: a write ends in the middle of a batch, and later writes fail. Only files that are large already
reach the limit.
"""

import resource
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from kcore.measure.processes.local_process import free_ports
from kcore.measure.processes.zk_cluster import ZkBrokers, ZookeeperProcess
from kcore.metadata.zookeeper import znodes
from kcore.protocol_errors import Errors
from oracle.kafka_tools import ELECT, TOPICS, run_tool
from oracle.kcore_brokers import KcoreBroker, Seen, check, consumed, producing, topic_at, try_to_produce, until
from oracle.zk_controllers import Controller, children_of

TOPIC = "t"
REPLICAS = {0: (11, 12, 1), 1: (11, 1, 12), 2: (11, 12, 1), 3: (12, 1, 11)}
PROPERTIES = "replica.lag.time.max.ms=4000\nauto.leader.rebalance.enable=false\n"
FULL_BYTES = 3 << 20  # No file of the broker's is larger, once its disk is full.
BATCH_BYTES = 400_000


class Cluster:
    """Three brokers, and in charge of them kcore's controller or the real broker's."""

    def __init__(self, zookeeper: str, real: ZkBrokers, folder: Path) -> None:
        self.zookeeper, self.real, self.folder = zookeeper, real, folder
        [first, second] = free_ports(2)
        self.kcore = {
            11: KcoreBroker(11, first, folder, zookeeper, directories=2),
            12: KcoreBroker(12, second, folder, zookeeper),
        }

    @property
    def bootstrap(self) -> str:
        return ",".join([self.real.bootstrap, *(each.address for each in self.kcore.values())])

    def seen(self) -> dict[int, Seen]:
        """By Kafka's broker."""
        return topic_at(self.real[1].address, TOPIC)

    def story(self) -> object:
        return self.seen(), [each.said()[-3000:] for each in self.kcore.values()]

    def await_leaders(self, leaders: dict[int, int]) -> None:
        until(lambda: leaders.items() <= {each: seen.leader for each, seen in self.seen().items()}.items(), self.story)

    def await_isrs(self, *gone: int, of: tuple[int, ...] = tuple(REPLICAS)) -> None:
        """The ISRs of these partitions have all replicas but `gone`, and the brokers report `gone` as offline."""

        def holds() -> bool:
            seen = self.seen()
            return seen.keys() == REPLICAS.keys() and all(
                seen[each].isr == {*REPLICAS[each]} - {*gone} and seen[each].offline == {*gone} for each in of
            )

        until(holds, self.story)

    def lie_in(self, number: int) -> list[int]:
        """The partitions in a log directory of broker 11."""
        return [each for each in REPLICAS if (self.kcore[11].log_dirs[number] / f"{TOPIC}-{each}").exists()]

    def fill(self, leader: int, partition: int) -> int:
        """Batches until the leader's disk refuses one; how many records were acknowledged."""
        address, batch = self.kcore[leader].address, b"x" * BATCH_BYTES
        for count in range(2 * FULL_BYTES // BATCH_BYTES):
            error, _ = try_to_produce(address, TOPIC, partition, batch, acks=-1)
            if error is not Errors.NONE:
                assert error is Errors.KAFKA_STORAGE_ERROR
                return count
        raise AssertionError("the disk is not full yet")

    def set_limit(self, broker_id: int, size: int) -> None:
        """Sets the largest size of a running broker's files."""
        _, most = resource.prlimit(self.kcore[broker_id].pid, resource.RLIMIT_FSIZE)
        resource.prlimit(self.kcore[broker_id].pid, resource.RLIMIT_FSIZE, (size, most))


@pytest.fixture(scope="module", params=["Kafka's controller", "kcore's controller"])
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with ExitStack() as stack:
        folder = tmp_path_factory.mktemp("full-disk")
        zookeeper = stack.enter_context(ZookeeperProcess())
        if request.param == "kcore's controller":
            settings = ("--config", "auto.leader.rebalance.enable=false")
            stack.enter_context(Controller(zookeeper.address, folder, 1000, *settings))
        real = stack.enter_context(ZkBrokers(zookeeper.address, 1, properties=PROPERTIES))
        made = Cluster(zookeeper.address, real, folder)
        for each in made.kcore.values():
            stack.callback(each.kill)
            each.start()
        assignment = ",".join(":".join(map(str, replicas)) for replicas in REPLICAS.values())
        where = ("--bootstrap-server", real.bootstrap, "--create", "--topic", TOPIC)
        run_tool(TOPICS, *where, "--replica-assignment", assignment, "--config", "min.insync.replicas=2")
        made.await_isrs()
        yield made


def test_one_of_two_directories_then_the_other(cluster: Cluster) -> None:
    """Others lead what lay in the first, the broker goes on with the second; without it, it ends."""
    broker = cluster.kcore[11]
    until(lambda: len(cluster.lie_in(0)) == len(cluster.lie_in(1)) == 2, cluster.story)
    first, second = cluster.lie_in(0), cluster.lie_in(1)
    with producing(cluster.folder, cluster.bootstrap, TOPIC, 1) as acknowledged:
        cluster.set_limit(11, FULL_BYTES)
        full = next(each for each in first if REPLICAS[each][0] == 11)
        filled = {full: cluster.fill(11, full)}
        cluster.await_isrs(11, of=tuple(first))
        cluster.await_isrs(of=tuple(second))
        leaders = {each: next(broker for broker in REPLICAS[each] if broker != 11) for each in first}
        cluster.await_leaders(leaders | {each: REPLICAS[each][0] for each in second})
        until(lambda: children_of(cluster.zookeeper, znodes.LOG_DIR_EVENT_NOTIFICATION) == [], cluster.story)
        until(lambda: topic_at(cluster.kcore[12].address, TOPIC) == cluster.seen(), cluster.story)
        assert broker.is_running and broker.said().count("goes offline") == 1
        errors = [try_to_produce(broker.address, TOPIC, each, b"late")[0] for each in first]
        assert errors == [Errors.KAFKA_STORAGE_ERROR] * 2

        full = next(each for each in second if REPLICAS[each][0] == 11)
        filled[full] = cluster.fill(11, full)
        assert broker.wait() == 1
        assert "no log directory is left" in broker.said()
        cluster.await_isrs(11)
        broker.start()
        cluster.await_isrs()
        elect_preferred(cluster)
    there = consumed(cluster.bootstrap, TOPIC, len(REPLICAS), acknowledged)
    check(there, acknowledged, 1)
    assert min(filled.values()) > 0
    large = {each: sum(len(value) == BATCH_BYTES for value in there[each]) for each in filled}
    assert large == filled, "no more than was acknowledged, and no less"


def elect_preferred(cluster: Cluster) -> None:
    where = ("--bootstrap-server", cluster.real.bootstrap, "--election-type", "PREFERRED")
    run_tool(ELECT, *where, "--all-topic-partitions")
    cluster.await_leaders({partition: replicas[0] for partition, replicas in REPLICAS.items()})


def test_a_follower_whose_disk_is_full(cluster: Cluster) -> None:
    """It ends, with its only directory; the leader goes on without it."""
    broker = cluster.kcore[12]
    with producing(cluster.folder, cluster.bootstrap, TOPIC, 2) as acknowledged:
        log = broker.log_dirs[0] / f"{TOPIC}-0" / f"{0:020}.log"
        cluster.set_limit(12, max(FULL_BYTES, log.stat().st_size + BATCH_BYTES))
        while broker.is_running:
            error, _ = try_to_produce(cluster.kcore[11].address, TOPIC, 0, b"y" * BATCH_BYTES, acks=-1)
            assert error is Errors.NONE
        assert broker.wait() == 1
        cluster.await_isrs(12)
        cluster.await_leaders({3: 1})
        broker.start()
        cluster.await_isrs()
        elect_preferred(cluster)
    check(consumed(cluster.bootstrap, TOPIC, len(REPLICAS), acknowledged), acknowledged, 2)
