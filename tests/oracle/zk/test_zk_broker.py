"""kcore's brokers beside real 3.9.1 ones, under the real controller: stock clients lose nothing that was acknowledged.

Brokers 1 and 2 are Kafka's, 11 and 12 are kcore's. Each of the replicas of a partition leads in turn.
"""

import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack
from itertools import combinations
from pathlib import Path

import pytest

import kcore
from kcore.measure.processes.local_process import free_ports
from kcore.measure.processes.zk_cluster import ZkBroker, ZkBrokers, ZookeeperProcess
from kcore.storage.log.partition_folder import Log
from oracle.kafka_tools import ELECT, TOPICS, run_tool
from oracle.kcore_brokers import KcoreBroker, Seen, check, consumed, produce_to, producing, topic_at, until

TOPIC = "t"
FETCHES_END_S = 1.0  # A fetch that waits at the leader (replica.fetch.wait.max.ms) is answered, with nothing.
REPLICAS = {0: (11, 1, 12), 1: (1, 11, 12), 2: (12, 11, 2)}
PROPERTIES = "replica.lag.time.max.ms=4000\nauto.leader.rebalance.enable=false\n"


class Cluster:
    """Two brokers of each kind."""

    def __init__(self, zookeeper: str, real: ZkBrokers, folder: Path) -> None:
        self.real, self.folder = real, folder
        ports = zip((11, 12), free_ports(2), strict=True)
        self.kcore = {each: KcoreBroker(each, port, folder, zookeeper) for each, port in ports}

    def broker(self, broker_id: int) -> KcoreBroker | ZkBroker:
        return self.kcore[broker_id] if broker_id in self.kcore else self.real[broker_id]

    def log_dir(self, broker_id: int) -> Path:
        return self.kcore[broker_id].log_dirs[0] if broker_id in self.kcore else self.real[broker_id].log_dirs[0]

    @property
    def bootstrap(self) -> str:
        return ",".join([self.real.bootstrap, *(each.address for each in self.kcore.values())])

    def producing(self, run: int) -> AbstractContextManager[list[str]]:
        return producing(self.folder, self.bootstrap, TOPIC, run)

    def consumed(self, wanted: Sequence[str] = ()) -> list[list[str]]:
        return consumed(self.bootstrap, TOPIC, len(REPLICAS), wanted)

    def seen(self, but: int = -1) -> dict[int, Seen]:
        """By a broker of Kafka's that lives."""
        return topic_at(self.real[2 if but == 1 else 1].address, TOPIC)

    def await_leaders(self, leaders: dict[int, int], but: int = -1) -> None:
        """Until these lead."""
        until(
            lambda: leaders.items() <= {each: seen.leader for each, seen in self.seen(but).items()}.items(),
            lambda: (leaders, self.seen(but), [each.said()[-3000:] for each in self.kcore.values()]),
        )

    def elect_preferred(self) -> None:
        """The first replica of each partition leads."""
        self.await_whole_isrs()
        run_tool(
            ELECT, "--bootstrap-server", self.real.bootstrap, "--election-type", "PREFERRED", "--all-topic-partitions"
        )
        self.await_leaders({partition: replicas[0] for partition, replicas in REPLICAS.items()})

    def await_whole_isrs(self) -> None:
        """Until every replica is in sync, by what each broker tells clients."""
        wanted = {partition: frozenset(replicas) for partition, replicas in REPLICAS.items()}
        for address in self.bootstrap.split(","):
            until(
                lambda address=address: (  # type: ignore[misc]
                    {each: seen.isr for each, seen in topic_at(address, TOPIC).items()} == wanted
                ),
                lambda: (self.seen(), [each.said()[-3000:] for each in self.kcore.values()]),
            )


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with ExitStack() as stack:
        zookeeper = stack.enter_context(ZookeeperProcess())
        real = stack.enter_context(ZkBrokers(zookeeper.address, 2, properties=PROPERTIES))
        made = Cluster(zookeeper.address, real, tmp_path_factory.mktemp("kcore-brokers"))
        for each in made.kcore.values():
            stack.callback(each.kill)
            each.start()
        assignment = ",".join(":".join(map(str, replicas)) for replicas in REPLICAS.values())
        made_by = ("--bootstrap-server", real.bootstrap, "--create", "--topic", TOPIC)
        run_tool(TOPICS, *made_by, "--replica-assignment", assignment, "--config", "min.insync.replicas=2")
        made.await_whole_isrs()
        yield made


def test_nothing_acknowledged_is_lost(cluster: Cluster) -> None:
    with cluster.producing(1) as acknowledged:
        cluster.kcore[11].kill()
        cluster.await_leaders({0: 1, 1: 1})
        cluster.kcore[11].start()
        cluster.await_whole_isrs()

        cluster.real[1].kill()
        cluster.await_leaders({0: 11, 1: 11}, but=1)
        cluster.real[1].start()
        cluster.await_whole_isrs()

        cluster.kcore[12].kill()
        cluster.await_leaders({2: 11})
        cluster.kcore[12].start()
        cluster.await_whole_isrs()

        assert cluster.kcore[11].terminate() == 0
        assert "all leaders are moved" in cluster.kcore[11].said()
        cluster.await_leaders({0: 1, 1: 1, 2: 12})
        cluster.kcore[11].start()
        cluster.await_whole_isrs()
        cluster.elect_preferred()
    check(cluster.consumed(acknowledged), acknowledged, 1)


def test_a_zombie_leader_is_believed_by_nobody(cluster: Cluster) -> None:
    """It sleeps longer than its session lives, and wakes to find another in its place (003.8)."""
    led = {partition for partition, seen in cluster.seen().items() if seen.leader == 11}
    assert led
    with cluster.producing(2) as acknowledged:
        cluster.kcore[11].pause()
        until(lambda: 11 not in {seen.leader for seen in cluster.seen().values()}, cluster.seen)
        cluster.kcore[11].resume()
        cluster.await_whole_isrs()
        assert 11 not in {seen.leader for seen in cluster.seen().values()}
    assert "registering again" in cluster.kcore[11].said()
    check(cluster.consumed(acknowledged), acknowledged, 2)


@pytest.mark.parametrize("partition", [0, 1], ids=["led by one of ours", "led by one of Kafka's"])
def test_a_tail_that_nobody_else_has_is_cut(cluster: Cluster, partition: int) -> None:
    """The leader takes what its followers never see, dies, and comes back as a follower of one of them."""
    cluster.elect_preferred()
    leader, *others = REPLICAS[partition]
    for each in others:
        cluster.broker(each).pause()
    time.sleep(FETCHES_END_S)
    begin = produce_to(cluster.broker(leader).address, TOPIC, partition, b"lost 1", b"lost 2")
    cluster.broker(leader).kill()
    for each in others:
        cluster.broker(each).resume()
    until(
        lambda: cluster.seen(leader).get(partition, Seen(leader, frozenset())).leader in others,
        lambda: cluster.seen(leader),
    )
    successor = cluster.seen(leader)[partition].leader
    assert produce_to(cluster.broker(successor).address, TOPIC, partition, b"kept") == begin
    cluster.broker(leader).start()
    cluster.await_whole_isrs()
    assert cluster.consumed()[partition][-1:] == ["kept"]


def test_all_logs_are_equal_in_the_end(cluster: Cluster) -> None:
    cluster.await_whole_isrs()
    for each in cluster.kcore.values():
        assert each.terminate() == 0
    cluster.real.stop()
    compared = 0
    for partition, replicas in REPLICAS.items():
        folders = [cluster.log_dir(each) / f"{TOPIC}-{partition}" for each in replicas]
        for one, other in combinations(folders, 2):
            difference = kcore.files.diverge(one, other)
            # A broker that leads for a moment while the others stop has an epoch without records at the end.
            with Log(one) as log:
                assert difference.epoch_offset in (None, log.end_offset)
            assert difference.reason == "same", difference
            compared += 1
    assert compared == 9
