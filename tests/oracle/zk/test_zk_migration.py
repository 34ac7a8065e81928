"""A live cluster of kcore's brokers goes from ZooKeeper to KRaft under a real controller of Kafka 3.9.1 (KIP-866).

At first kcore's own controller of ZooKeeper mode controls it. A producer and a consumer work all the way; they are
librdkafka's, by partition, since kcore's brokers hold no consumer groups.
"""

import asyncio
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import product
from pathlib import Path
from typing import Final

import pytest

from kcore.errors import TableError
from kcore.measure.processes.local_process import free_ports
from kcore.measure.processes.zk_cluster import ZookeeperProcess
from kcore.measure.report.exits import Exit
from kcore.metadata.image.image import ClusterImage
from kcore.metadata.table.directory_table import MIGRATING_UUID
from kcore.metadata.zookeeper import znodes
from kcore.types import Uuid
from kcore.wire.metadata_frames import decode_metadata_record
from kcore.wire.records import decode_records
from kcore.zookeeper.client import ZookeeperClient
from oracle.chaos.kraft_states import NodeFiles
from oracle.kafka_tools import TOPICS, run_tool
from oracle.kcore_brokers import Seen, topic_at, until
from oracle.librdkafka_clients import CommittedReader, Writer, all_records
from oracle.migrating import CONTROLLER_ID, MigratingBroker, MigratingController
from oracle.zk_controllers import Controller

TOPIC: Final = "t"
REPLICAS: Final = {0: (1, 2, 3), 1: (2, 3, 1), 2: (3, 1, 2)}
OPTIONS: Final = ("--session-timeout", "12000", "--config", "replica.lag.time.max.ms=6000")
CONFIG: Final = "kafka.admin.ConfigCommand"
EXPECTED: Final = ("goes offline", "has failed while the broker migrates")  # Errors about the removed directory.
POST_MIGRATION: Final = 3  # ZkMigrationState
WITHIN_S: Final = 120.0


class Cluster:
    """Three brokers with two log directories each, and whoever controls them."""

    def __init__(self, folder: Path, zookeeper: ZookeeperProcess) -> None:
        self.folder, self.zookeeper = folder, zookeeper
        ports = enumerate(free_ports(3), 1)
        self.brokers = [
            MigratingBroker(each, port, folder, zookeeper.address, *OPTIONS, directories=2) for each, port in ports
        ]
        self.kraft: MigratingController | None = None

    @property
    def bootstrap(self) -> str:
        return ",".join(each.address for each in self.brokers)

    def quorum(self) -> MigratingController:
        """Kafka's controller, for the cluster that is there."""
        cluster_id = self.brokers[0].metas()[0].cluster_id
        assert cluster_id is not None
        self.kraft = MigratingController(self.zookeeper.address, self.folder, cluster_id)
        self.kraft.start()
        return self.kraft

    def create(self, topic: str) -> None:
        assignment = ",".join(":".join(map(str, replicas)) for replicas in REPLICAS.values())
        run_tool(
            *(TOPICS, "--bootstrap-server", self.bootstrap, "--create", "--topic", topic),
            *("--replica-assignment", assignment, "--config", "min.insync.replicas=2"),
        )

    def until_whole(self, topic: str = TOPIC) -> None:
        """Every replica is in sync, by what each broker tells."""

        def is_whole() -> bool:
            wanted = {index: frozenset(replicas) for index, replicas in REPLICAS.items()}
            views = [topic_at(each.address, topic) for each in self.brokers]
            return all({index: seen.isr for index, seen in view.items()} == wanted for view in views)

        until(is_whole, self.story, WITHIN_S)

    def story(self) -> Sequence[object]:
        views: list[dict[int, Seen]] = [topic_at(each.address, TOPIC) for each in self.brokers]
        return views, [each.said()[-1500:] for each in self.brokers], self.kraft and self.kraft.log_text()[-3000:]

    def faults(self) -> list[str]:
        """The log lines that an operator should be woken for, or that look like a fault of ours."""
        lines = [line for each in self.brokers for line in each.said().splitlines()]
        faults = [line for line in lines if " ERROR " in line or " CRITICAL " in line or line.startswith("Traceback")]
        return [line for line in faults if not any(each in line for each in EXPECTED)]

    def lying(self) -> dict[tuple[int, str, int], Uuid | None]:
        """By broker, topic and index, the id of the directory that has the log."""
        return {
            (broker.broker_id, topic, index): meta.directory_id
            for broker in self.brokers
            for path, meta in zip(broker.log_dirs, broker.metas(), strict=True)
            for topic in (TOPIC, "u")
            for index in REPLICAS
            if (path / f"{topic}-{index}").is_dir()
        }

    def close(self) -> None:
        for each in self.brokers:
            each.kill()
        if self.kraft is not None:
            self.kraft.kill()


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with ZookeeperProcess(tick_ms=1_000) as zookeeper:
        made = Cluster(tmp_path, zookeeper)
        try:
            yield made
        finally:
            made.close()


def progress(writer: Writer, count: int = 50) -> None:
    """So many more records are acknowledged."""
    wanted, end_s = writer.done + count, time.monotonic() + WITHIN_S
    while writer.done < wanted:
        writer.check()
        assert time.monotonic() < end_s, f"{writer.done} of {wanted}"
        time.sleep(0.05)


async def _read(zookeeper: str) -> tuple[znodes.Controller | None, set[str], set[str]]:
    async with ZookeeperClient(zookeeper) as client:
        [node] = await client.read_nodes([znodes.CONTROLLER])
        brokers, topics = await client.read_children([znodes.BROKER_IDS, znodes.TOPICS])
        return None if node is None else znodes.decode_controller(node.data), {*(brokers or ())}, {*(topics or ())}


def in_zookeeper(cluster: Cluster) -> tuple[znodes.Controller | None, set[str], set[str]]:
    """The znode /controller, the ids of registered brokers, and the names of topics."""
    return asyncio.run(_read(cluster.zookeeper.address))


def into_migration(cluster: Cluster, controller: Controller, writer: Writer) -> MigratingController:
    """To dual-write mode: the quorum is there, each broker is registered with it, and it takes the cluster over."""
    kraft = cluster.quorum()
    for broker in cluster.brokers:
        assert [each.directory_id for each in broker.metas()] == [None, None]
        broker.migrates(kraft.voters)
        broker.restart()
        broker.await_logged("which migrates, is registered in KRaft")
        broker.await_logged("is RUNNING")
        cluster.until_whole()
        progress(writer)
        if broker is not cluster.brokers[-1]:
            kraft.await_log("Still waiting for ZK brokers")
    kraft.await_log("Completed migration of metadata from ZooKeeper to KRaft", WITHIN_S)
    kraft.await_log("to DUAL_WRITE state", WITHIN_S)
    assert controller.stop() == 0, "it has lost control, and stands by for nothing"
    holder, registered, _ = in_zookeeper(cluster)
    assert holder is not None and holder.broker_id == CONTROLLER_ID and (holder.kraft_controller_epoch or -1) > 0
    assert registered == {"1", "2", "3"}
    for broker in cluster.brokers:
        broker.await_logged(f"controller {CONTROLLER_ID} is the controller now")
        assert all(each.version == 0 and each.directory_id is not None for each in broker.metas())
    return kraft


def under_the_quorum(cluster: Cluster, writer: Writer) -> None:
    """The brokers are still in ZooKeeper mode: what clients ask goes on to the quorum, which writes to both."""
    cluster.create("u")
    cluster.until_whole("u")
    of_topic = ("--bootstrap-server", cluster.bootstrap, "--entity-type", "topics", "--entity-name", "u")
    run_tool(CONFIG, *of_topic, "--alter", "--add-config", "retention.ms=1234567")
    until(lambda: "u" in in_zookeeper(cluster)[2], lambda: in_zookeeper(cluster))
    until(lambda: "retention.ms=1234567" in run_tool(CONFIG, *of_topic, "--describe"), cluster.story)
    loses_a_directory(cluster, cluster.brokers[1], writer)


def loses_a_directory(cluster: Cluster, broker: MigratingBroker, writer: Writer) -> None:
    """It stops, and does not begin without the directory: others lead until it is back, still in ZooKeeper mode."""
    directory, aside = broker.log_dirs[1], cluster.folder / "aside"
    directory.rename(aside)
    directory.write_bytes(b"")
    assert broker.wait() == Exit.FAILED
    broker.await_logged("has failed while the broker migrates from ZooKeeper")
    until(lambda: broker.broker_id not in _leaders(cluster), cluster.story, WITHIN_S)
    progress(writer)
    broker.launch()
    assert broker.wait() == Exit.USAGE
    broker.await_logged("a broker that migrates needs all log directories")
    directory.unlink()
    aside.rename(directory)
    broker.start()
    cluster.until_whole()
    progress(writer)


def _leaders(cluster: Cluster) -> set[int]:
    return {seen.leader for seen in topic_at(cluster.brokers[0].address, TOPIC).values()}


def into_kraft(cluster: Cluster, kraft: MigratingController, writer: Writer) -> None:
    """The brokers one by one, on the same directories; then the controller, without ZooKeeper."""
    for broker in cluster.brokers:
        before = broker.metas()
        broker.in_kraft_mode(kraft.voters)
        count = broker.said().count("is RUNNING")
        broker.restart()
        broker.await_logged("is RUNNING", count + 1)
        cluster.until_whole()
        progress(writer)
        assert broker.metas() == before, "its id, and those of its directories"
    until(lambda: in_zookeeper(cluster)[1] == set(), lambda: in_zookeeper(cluster))
    assert kraft.terminate() == 143, kraft.log_text()[-2000:]
    kraft.configure(migrates=False)
    kraft.start()
    kraft.await_log("from MIGRATION to POST_MIGRATION", WITHIN_S)
    cluster.zookeeper.kill()
    cluster.until_whole()
    progress(writer)


def check_log(cluster: Cluster, kraft: MigratingController) -> None:
    """No broker of KRaft mode was ever unfenced while one of its replicas was in MIGRATING (KIP-858)."""
    files = NodeFiles.read("the controller", kraft.folder / "data" / "__cluster_metadata-0", is_real=True)
    assert not files.snapshots, "all records are there"
    image, seen_migrating = ClusterImage(), False
    for batch in files.batches:
        for record in decode_records(batch.data) if not batch.is_control else ():
            image.apply(decode_metadata_record(record.value or b"")[0], record.offset)
            open_ = {
                broker_id
                for broker_id, each in image.brokers.registrations().items()
                if not (each.is_migrating_zk_broker or each.fenced)
            }
            unknown = {broker for (broker, *_), place in assigned(image).items() if place == MIGRATING_UUID}
            seen_migrating |= bool(unknown)
            assert open_.isdisjoint(unknown), (record.offset, open_, unknown)
    assert seen_migrating
    assert assigned(image) == cluster.lying()
    assert image.zk_migration_state == POST_MIGRATION


def assigned(image: ClusterImage) -> dict[tuple[int, str, int], Uuid | None]:
    """By broker, topic and index, the directory that the log has."""
    found: dict[tuple[int, str, int], Uuid | None] = {}
    for topic, index in product((TOPIC, "u"), REPLICAS):
        with suppress(TableError):  # Its record has not come yet.
            known = image.partition(topic, index)
            for broker_id, place in zip(known.replicas, known.directories, strict=True):
                found[broker_id, topic, index] = place
    return found


@pytest.mark.covers("KIP-858 migration 1", "KIP-858 migration 3", "KIP-858 migration 7", "KIP-858 migration 8")
def test_a_live_cluster_goes_from_zookeeper_to_kraft(cluster: Cluster, tmp_path: Path) -> None:
    with Controller(cluster.zookeeper.address, tmp_path, 1000, "--session-timeout", "12000") as controller:
        for broker in cluster.brokers:
            broker.start()
        cluster.create(TOPIC)
        cluster.until_whole()
        writer = Writer("w", cluster.bootstrap, TOPIC)
        reader = CommittedReader("r", cluster.bootstrap, TOPIC, len(REPLICAS))
        for client in (writer, reader):
            client.start()
        progress(writer)
        kraft = into_migration(cluster, controller, writer)
        under_the_quorum(cluster, writer)
        into_kraft(cluster, kraft, writer)
        writer.stop()
        found = all_records(cluster.bootstrap, TOPIC, len(REPLICAS))
        writer.check_records(found)
        reader.check_records(found)
        reader.stop()
        for broker in cluster.brokers:
            assert broker.terminate() == 0
        kraft.terminate()
        check_log(cluster, kraft)
        assert cluster.faults() == []
