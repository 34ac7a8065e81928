"""Stock transactional clients and groups beside kcore's brokers, which lead data partitions; Kafka's coordinate.

Brokers 1 and 2 are Kafka's, 11 and 12 are kcore's, 1000 is kcore's controller.
"""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

import kcore
from kcore.measure.processes.local_process import free_ports
from kcore.measure.processes.zk_cluster import ZkBrokers, ZookeeperProcess
from kcore.storage.log.partition_folder import Log
from oracle.kafka_tools import (
    CONSOLE_CONSUMER,
    CONSUMER_GROUPS,
    ELECT,
    PRODUCER_PERFORMANCE,
    TOPICS,
    TRANSACTIONAL_COPIER,
    TRANSACTIONS,
    VERIFIABLE_PRODUCER,
    consume,
    run_tool,
    try_tool,
)
from oracle.kcore_brokers import OPTIONS, KcoreBroker, topic_at, until
from oracle.zk_controllers import Controller, Tool

REPLICAS = {0: (11, 1, 12), 1: (12, 11, 2), 2: (1, 12, 11)}
INTERNAL_PARTITIONS = 6
# Any broker that is asked for a coordinator has its topic created, with the broker's own settings: all have the same.
OF_COORDINATORS = (
    f"offsets.topic.num.partitions={INTERNAL_PARTITIONS}",
    "offsets.topic.replication.factor=2",
    f"transaction.state.log.num.partitions={INTERNAL_PARTITIONS}",
    "transaction.state.log.replication.factor=2",
)
PROPERTIES = "\n".join(("replica.lag.time.max.ms=4000", "auto.leader.rebalance.enable=false", *OF_COORDINATORS))
OF_KCORE = (*OPTIONS, *(word for line in OF_COORDINATORS for word in ("--config", line)))
RECORDS = 900
# By whichever broker is asked first where the coordinator is: by kcore's itself, or by kcore's as the coordinator.
REFUSALS = ("coordinates nothing; kafka-reassign-partitions can move it", "The version of API is not supported")


class Cluster:
    """Under kcore's controller, or under Kafka's if there is none of kcore's."""

    def __init__(self, folder: Path, zookeeper: str, real: ZkBrokers, controller: Controller | None) -> None:
        self.folder, self.real, self.controller = folder, real, controller
        ports = zip((11, 12), free_ports(2), strict=True)
        self.kcore = {each: KcoreBroker(each, port, folder, zookeeper, *OF_KCORE) for each, port in ports}

    @property
    def bootstrap(self) -> str:
        return ",".join([self.real.bootstrap, *(each.address for each in self.kcore.values())])

    def create(self, topic: str, *replicas: tuple[int, ...]) -> None:
        """With these replicas, as soon as all are in sync."""
        assignment = ",".join(":".join(map(str, each)) for each in replicas)
        run_tool(TOPICS, *self.at, "--create", "--topic", topic, "--replica-assignment", assignment)
        self.await_whole(topic, *replicas)

    def await_whole(self, topic: str, *replicas: tuple[int, ...]) -> None:
        wanted = {partition: frozenset(each) for partition, each in enumerate(replicas)}
        for address in self.bootstrap.split(","):
            until(
                lambda address=address: (  # type: ignore[misc]
                    {each: seen.isr for each, seen in topic_at(address, topic).items()} == wanted
                ),
                lambda: (topic_at(self.real[1].address, topic), [each.said()[-2000:] for each in self.kcore.values()]),
            )

    @property
    def at(self) -> tuple[str, str]:
        return "--bootstrap-server", self.bootstrap

    def committed(self, topic: str) -> list[list[str]]:
        """The records of each partition that a read_committed consumer gets."""
        where = (*self.at, "--topic", topic, "--offset", "earliest", "--isolation-level", "read_committed")
        wait = ("--timeout-ms", 8_000)
        return [
            run_tool(CONSOLE_CONSUMER, *where, "--partition", partition, *wait, timeout_s=240).split()
            for partition in REPLICAS
        ]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("transactions")
    with ExitStack() as stack:
        zookeeper = stack.enter_context(ZookeeperProcess())
        controller = stack.enter_context(Controller(zookeeper.address, folder, 1000, "--session-timeout", "6000"))
        real = stack.enter_context(ZkBrokers(zookeeper.address, 2, properties=PROPERTIES))
        made = Cluster(folder, zookeeper.address, real, controller)
        for each in made.kcore.values():
            stack.callback(each.kill)
            each.start()
        yield made


def holders(cluster: Cluster, topic: str) -> set[int]:
    """The brokers that have a replica of a topic."""
    return {broker for seen in topic_at(cluster.real[1].address, topic).values() for broker in seen.isr}


def test_groups_and_transactions_go_on_while_leaders_die(cluster: Cluster) -> None:
    """A stock copier reads with its group and writes in transactions, a third of which it aborts."""
    for topic in ("in", "out"):
        cluster.create(topic, *REPLICAS.values())
    run_tool(VERIFIABLE_PRODUCER, *cluster.at, "--topic", "in", "--max-messages", RECORDS, "--throughput", -1)
    copier = Tool(
        cluster.folder,
        TRANSACTIONAL_COPIER,
        *("--broker-list", cluster.bootstrap, "--input-topic", "in", "--input-partition", 0, "--output-topic", "out"),
        *(
            "--max-messages",
            -1,
            "--consumer-group",
            "copiers",
            "--transaction-size",
            10,
            "--transactional-id",
            "copier",
        ),
        *("--transaction-timeout", 30_000, "--enable-random-aborts", "--group-mode", "--use-group-metadata"),
    )
    try:
        for victim in (11, 12):
            seen = len(copier.events())
            until(lambda seen=seen: len(copier.events()) > seen + 12, lambda: _said(copier))  # type: ignore[misc]
            cluster.kcore[victim].kill()
            until(lambda victim=victim: _is_led_by_another(cluster, victim), lambda: _said(copier))  # type: ignore[misc]
            cluster.kcore[victim].start()
            cluster.await_whole("out", *REPLICAS.values())
            run_tool(ELECT, *cluster.at, "--election-type", "PREFERRED", "--all-topic-partitions")
        until(lambda: copier.process.poll() is not None, lambda: _said(copier), 240)
        assert copier.process.returncode == 0, _said(copier)
    finally:
        copier.kill()
    sent = cluster.committed("in")
    assert sum(map(len, sent)) == RECORDS
    assert cluster.committed("out") == sent, "each committed record once, in order"
    for topic in ("__consumer_offsets", "__transaction_state"):
        assert holders(cluster, topic) == {1, 2}
    groups = run_tool(CONSUMER_GROUPS, *cluster.at, "--list").split()
    assert groups == ["copiers"]
    [header, *lines] = run_tool(CONSUMER_GROUPS, *cluster.at, "--describe", "--group", "copiers").strip().splitlines()
    assert "LAG" in header and len(lines) == 3
    assert {line.split()[header.split().index("LAG")] for line in lines} == {"0"}


def _is_led_by_another(cluster: Cluster, victim: int) -> bool:
    leaders = {seen.leader for seen in topic_at(cluster.real[1].address, "out").values()}
    return bool(leaders) and not leaders & {victim, -1}


def _said(copier: Tool) -> tuple[str, str]:
    return copier.log.read_text()[-2000:], copier.log.with_suffix(".err").read_text()[-4000:]


def test_transactions_are_listed_described_and_aborted(cluster: Cluster) -> None:
    cluster.create("hanging", (11, 12))
    listed = run_tool(TRANSACTIONS, *cluster.at, "list").splitlines()
    assert [line.split()[0] for line in listed if "TransactionalId" not in line] == ["copier"]
    known = []
    for index in REPLICAS:  # Records without keys go where the producer likes: a partition may have none.
        described = run_tool(TRANSACTIONS, *cluster.at, "describe-producers", "--topic", "out", "--partition", index)
        header, *producers = [line.split() for line in described.strip().splitlines()]
        assert header[:2] == ["ProducerId", "ProducerEpoch"]
        known += producers
    assert known
    found = run_tool(TRANSACTIONS, *cluster.at, "find-hanging", "--broker-id", 11)
    assert len(found.strip().splitlines()) <= 1, "only the header"


def test_the_producer_of_transactions_measures_itself(cluster: Cluster) -> None:
    """Transactions one after another to partitions that kcore leads: verified once each, with no time between them."""
    cluster.create("fast", (11, 12), (12, 11))
    how = ("--num-records", 4000, "--record-size", 100, "--throughput", -1, "--transactional-id", "fast")
    properties = ("--producer-props", f"bootstrap.servers={cluster.bootstrap}", "batch.size=1000")
    printed = run_tool(PRODUCER_PERFORMANCE, "--topic", "fast", *how, "--transaction-duration-ms", 50, *properties)
    assert "4000 records sent" in printed
    counted = consume([], *cluster.at, "--topic", "fast", "--from-beginning", "--isolation-level", "read_committed")
    assert len(counted) == 4000


def test_replicas_of_both_kinds_know_the_same_transactions(cluster: Cluster) -> None:
    """Equal logs, and equal transaction indexes: Kafka's follower made its own from the same batches."""
    cluster.await_whole("out", *REPLICAS.values())
    for each in cluster.kcore.values():
        assert each.terminate() == 0
    cluster.real.stop()
    compared = 0
    for partition, (_, *others) in REPLICAS.items():
        folders = [_folder(cluster, broker, partition) for broker in REPLICAS[partition]]
        with Log(folders[0]) as first:
            aborted = [each for segment in first.segments for each in segment.aborted]
        for other, folder in zip(others, folders[1:], strict=True):
            assert kcore.files.diverge(folders[0], folder).reason == "same", (partition, other)
            with Log(folder) as log:
                assert [each for segment in log.segments for each in segment.aborted] == aborted
            compared += len(aborted)
    assert compared > 0, "a third of the transactions was aborted"


def _folder(cluster: Cluster, broker: int, partition: int) -> Path:
    log_dir = cluster.kcore[broker].log_dirs[0] if broker in cluster.kcore else cluster.real[broker].log_dirs[0]
    return log_dir / f"out-{partition}"


def test_under_kafkas_controller_who_hashes_to_kcore_gives_up_at_once(tmp_path: Path) -> None:
    """It places internal topics where it likes: groups and transactions of ours fail, and nobody goes on asking."""
    with ExitStack() as stack:
        zookeeper = stack.enter_context(ZookeeperProcess())
        real = stack.enter_context(ZkBrokers(zookeeper.address, 1, properties=PROPERTIES))
        cluster = Cluster(tmp_path, zookeeper.address, real, None)
        stack.callback(cluster.kcore[11].kill)
        cluster.kcore[11].start()
        del cluster.kcore[12]
        for topic in ("__consumer_offsets", "__transaction_state"):
            cluster.create(topic, *[(11,)] * INTERNAL_PARTITIONS)
        cluster.create("t", (11,))
        # The consumer ends by itself, long before its time-out, and says why in its log alone.
        where = (*cluster.at, "--topic", "t", "--group", "g", "--from-beginning", "--timeout-ms", 3_600_000)
        _, _, printed = try_tool(CONSOLE_CONSUMER, *where, timeout_s=300)
        assert "Processed a total of 0 messages" in printed
        how = ("--num-records", 10, "--record-size", 10, "--throughput", -1, "--transactional-id", "x")
        properties = ("--producer-props", f"bootstrap.servers={cluster.bootstrap}")
        transaction = ("--transaction-duration-ms", 50)
        code, printed, complaints = try_tool(PRODUCER_PERFORMANCE, "--topic", "t", *how, *transaction, *properties)
        assert code != 0 and any(each in complaints for each in REFUSALS), (code, printed, complaints)
        run_tool(CONSUMER_GROUPS, *cluster.at, "--list")
        run_tool(TRANSACTIONS, *cluster.at, "list")
        said = cluster.kcore[11].said()
        assert "partitions of __consumer_offsets, __transaction_state, and coordinates no groups" in said
        assert len(said.splitlines()) < 200, said[-2000:]
