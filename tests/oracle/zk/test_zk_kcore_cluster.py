"""Nothing but kcore over a real ZooKeeper: three of its brokers, two of its controllers; the clients are Kafka's.

They produce and consume by partition, since kcore's brokers hold no consumer groups.
"""

from collections.abc import Iterator, Sequence
from itertools import combinations
from pathlib import Path

import pytest

import kcore
from kcore.measure.processes.zk_cluster import ZookeeperProcess
from kcore.storage.log.partition_folder import Log
from oracle.kafka_tools import ELECT, TOPICS, run_tool
from oracle.kcore_brokers import KcoreBroker, KcoreBrokers, Seen, check, consumed, producing, topic_at, until
from oracle.zk_controllers import Controller

TOPIC = "t"
REPLICAS = {0: (1, 2, 3), 1: (2, 3, 1), 2: (3, 1, 2)}
SESSION = ("--session-timeout", "3000")
BROKERS = (*SESSION, "--config", "replica.lag.time.max.ms=3000")


class Cluster:
    """All of it; `controllers` are the one in charge and the one that stands by."""

    def __init__(self, folder: Path, zookeeper: ZookeeperProcess, brokers: KcoreBrokers, *controllers: Controller):
        self.folder, self.zookeeper, self.brokers = folder, zookeeper, brokers
        self.controllers = [*controllers]

    def start_controller(self, broker_id: int) -> Controller:
        return Controller(self.zookeeper.address, self.folder, broker_id, *SESSION)

    def seen(self) -> dict[int, Seen]:
        """By kcore's controller that is in charge."""
        return topic_at(self.controllers[0].address, TOPIC)

    def story(self) -> object:
        return self.seen(), [each.said()[-2000:] for each in self.brokers.brokers]

    def leaders(self) -> dict[int, int]:
        return {partition: seen.leader for partition, seen in self.seen().items()}

    def await_leaders(self, leaders: dict[int, int]) -> None:
        until(lambda: leaders.items() <= self.leaders().items(), self.story)

    def await_whole(self) -> None:
        """Every replica is in sync, by what the controller and each broker tell clients; all tell the same."""
        wanted = {partition: frozenset(replicas) for partition, replicas in REPLICAS.items()}
        addresses = [self.controllers[0].address, *self.brokers.bootstrap.split(",")]

        def is_whole() -> bool:
            views = [topic_at(address, TOPIC) for address in addresses]
            isrs = {each: seen.isr for each, seen in views[0].items()}
            return isrs == wanted and all(view == views[0] for view in views)

        until(is_whole, self.story)

    def elect_preferred(self) -> None:
        """The first replica of each partition leads."""
        self.await_whole()
        where = ("--bootstrap-server", self.brokers.bootstrap)
        run_tool(ELECT, *where, "--election-type", "PREFERRED", "--all-topic-partitions")
        self.await_leaders({partition: replicas[0] for partition, replicas in REPLICAS.items()})

    def consumed(self, wanted: Sequence[str] = ()) -> list[list[str]]:
        return consumed(self.brokers.bootstrap, TOPIC, len(REPLICAS), wanted)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("kcore-alone")
    with (
        ZookeeperProcess(tick_ms=500) as zookeeper,
        Controller(zookeeper.address, folder, 1000, *SESSION) as first,
        KcoreBrokers(zookeeper.address, folder, *BROKERS) as brokers,
    ):
        made = Cluster(folder, zookeeper, brokers, first)
        assignment = ",".join(":".join(map(str, replicas)) for replicas in REPLICAS.values())
        where = ("--bootstrap-server", brokers.bootstrap, "--create", "--topic", TOPIC)
        run_tool(TOPICS, *where, "--replica-assignment", assignment, "--config", "min.insync.replicas=2")
        made.await_whole()
        try:
            yield made
        finally:
            for each in made.controllers:
                each.kill()


def faults(cluster: Cluster) -> list[str]:
    """The log lines that an operator should be woken for, or that look like a fault of ours."""
    logs = [each.log for each in (*cluster.brokers.brokers, *cluster.controllers)]
    lines = [line for log in logs for line in log.read_text().splitlines()]
    return [line for line in lines if " ERROR " in line or " CRITICAL " in line or line.startswith("Traceback")]


def test_leaders_die_and_come_back(cluster: Cluster) -> None:
    with producing(cluster.folder, cluster.brokers.bootstrap, TOPIC, 1) as acknowledged:
        for partition, (leader, second, _) in REPLICAS.items():
            assert cluster.leaders()[partition] == leader
            cluster.brokers[leader].kill()
            cluster.await_leaders({partition: second})
            cluster.brokers[leader].start()
            cluster.elect_preferred()
        assert cluster.brokers[1].terminate() == 0
        assert "all leaders are moved" in cluster.brokers[1].said()
        cluster.await_leaders({0: 2})
        cluster.brokers[1].start()
        cluster.elect_preferred()
    check(cluster.consumed(acknowledged), acknowledged, 1)
    assert faults(cluster) == []


def test_another_controller_takes_over_and_zookeeper_restarts(cluster: Cluster) -> None:
    with producing(cluster.folder, cluster.brokers.bootstrap, TOPIC, 2) as acknowledged:
        second = cluster.start_controller(1001)
        [first] = cluster.controllers
        first.kill()
        cluster.controllers = [second]
        second.await_log("controller 1001 is active")
        cluster.await_whole()
        cluster.zookeeper.kill()
        cluster.zookeeper.start()
        cluster.brokers[3].kill()
        cluster.await_leaders({2: 1})
        cluster.brokers[3].start()
        cluster.elect_preferred()
    check(cluster.consumed(acknowledged), acknowledged, 2)
    assert faults(cluster) == []


def test_lost_sessions_are_registered_again(cluster: Cluster) -> None:
    """One broker loses its session while others lead in its place, then all do while ZooKeeper restarts."""
    with producing(cluster.folder, cluster.brokers.bootstrap, TOPIC, 3) as acknowledged:
        lose_session(cluster, cluster.brokers[2])
        cluster.elect_preferred()
        everybody = [*cluster.brokers.brokers, *cluster.controllers]
        before = cluster.controllers[0].log.read_text().count("controller 1000 is active")
        for each in everybody:
            each.pause()
        cluster.zookeeper.kill()
        cluster.zookeeper.start()
        cluster.zookeeper.await_log("Expiring session", 60)
        for each in everybody:
            each.resume()
        cluster.await_whole()
        cluster.elect_preferred()
    assert before == 1
    assert all("registering again" in each.said() for each in cluster.brokers.brokers)
    check(cluster.consumed(acknowledged), acknowledged, 3)


def lose_session(cluster: Cluster, broker: KcoreBroker) -> None:
    """It sleeps until nothing is led by it."""
    broker.pause()
    until(lambda: broker.broker_id not in cluster.leaders().values(), cluster.story)
    broker.resume()
    until(lambda: broker.said().count("is registered") > broker.said().count("registering again"), cluster.story)
    cluster.await_whole()


def test_all_logs_are_equal_in_the_end(cluster: Cluster) -> None:
    cluster.await_whole()
    for each in cluster.brokers.brokers:
        assert each.terminate() == 0
    compared = 0
    for partition in REPLICAS:
        folders = [each.log_dirs[0] / f"{TOPIC}-{partition}" for each in cluster.brokers.brokers]
        for one, other in combinations(folders, 2):
            difference = kcore.files.diverge(one, other)
            with Log(one) as log:  # A broker that leads only while the others stop has an epoch without records.
                assert difference.epoch_offset in (None, log.end_offset)
            assert difference.reason == "same", difference
            compared += 1
    assert compared == 9
