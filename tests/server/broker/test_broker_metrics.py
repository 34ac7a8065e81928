"""The page of metrics of a KRaft broker."""

import asyncio
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

from kcore.measure.processes.local_process import free_ports
from kcore.protocol_errors import Errors
from kcore.schema.partitions import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from kcore.server.kraft_broker import kraft_broker_metric_families as families
from kcore.server.metrics.page import MetricsPage
from net.loops import story, until
from server.kraft.test_kraft_broker import Cluster, cluster_in
from server.test_metrics_page import samples, samples_of

REPLICAS = "kafka_server_ReplicaManager_"
COUNTS = ("PartitionCount", "LeaderCount", "OfflineReplicaCount")
HEALTH = ("UnderReplicatedPartitions", "UnderMinIsrPartitionCount", "AtMinIsrPartitionCount")
QUEUED = "kafka_server_AssignmentsManager_QueuedReplicaToDirAssignments"


@asynccontextmanager
async def page_of(cluster: Cluster, broker_id: int) -> AsyncIterator[MetricsPage]:
    page = MetricsPage("127.0.0.1", 0)
    async with page.serving(families.collector(cluster.brokers[broker_id])):
        yield page


async def read(page: MetricsPage, *names: str) -> list[float]:
    found = await samples(page)
    return [found[name, ()] for name in names]


@story
async def test_replicas_sessions_and_requests(tmp_path: Path) -> None:
    async with cluster_in(tmp_path) as cluster, page_of(cluster, 1) as page:
        assert await cluster.create("t", [1, 2], [2, 1], min_insync_replicas="2") is Errors.NONE
        assert await cluster.create("u", [1, 2]) is Errors.NONE
        assert await cluster.create("v", [1], min_insync_replicas="2") is Errors.NONE
        manager = cluster.brokers[1].runtime.manager
        await until(lambda: len(manager.partitions) == 4)
        counts, health = [REPLICAS + name for name in COUNTS], [REPLICAS + name for name in HEALTH]
        assert await read(page, *counts) == [4, 3, 0]
        assert await read(page, *health) == [0, 0, 2], "the replica of v is alone, and that is as many as can be"
        found = await samples(page)
        assert found["kafka_server_KafkaServer_BrokerState", ()] == 3
        assert found["kafka_server_FetchSessionCache_NumIncrementalFetchSessions", ()] == 1, "broker 2's"
        assert found["kafka_server_FetchSessionCache_NumIncrementalFetchPartitionsCached", ()] == 2
        assert found["kafka_server_broker_metadata_metrics_last_applied_record_offset", ()] > 0
        assert ("kafka_server_DelayedOperationPurgatory_PurgatorySize", ("Fetch",)) in found
        assert found["kcore_request_seconds_count", ("Fetch",)] > 0
        await cluster.stop(2)
        await until(lambda: {each.isr for each in manager.partitions.values()} == {(1,)})
        assert await read(page, *counts, *health) == [4, 4, 0, 3, 2, 2]


@story
async def test_replicas_that_are_being_added_are_not_missing(tmp_path: Path) -> None:
    async with cluster_in(tmp_path) as cluster, page_of(cluster, 1) as page:
        await cluster.create("t", [1])
        await cluster.until_led("t", 1, 1)
        await cluster.stop(2)
        partition = ReassignablePartition(partition_index=0, replicas=[1, 2])
        request = AlterPartitionReassignmentsRequest(topics=[ReassignableTopic(name="t", partitions=[partition])])
        await cluster.ask(1, request)
        received = cluster.brokers[1].runtime.manager.partitions["t", 0]
        await until(lambda: received.received is not None and received.received.replicas == (1, 2))
        assert await read(page, f"{REPLICAS}UnderReplicatedPartitions") == [0]


@story
async def test_directories(tmp_path: Path) -> None:
    async with (
        cluster_in(tmp_path, brokers=1, log_dirs="{folder}/a,{folder}/b") as cluster,
        page_of(cluster, 1) as page,
    ):
        logs = "kafka_log_LogManager_"
        await cluster.create("t", *[[1]] * 4)
        broker = cluster.brokers[1]
        await until(lambda: len(broker.runtime.manager.partitions) == 4 and broker.directories.queued_assignments == 0)
        wanted = (f"{REPLICAS}OfflineReplicaCount", f"{logs}OfflineLogDirectoryCount", QUEUED)
        assert await read(page, *wanted) == [0, 0, 0]
        broker.runtime.directories_failed(
            broker.runtime.logs.directories.fail(broker.runtime.logs.directories[1], "a test")
        )
        broker.directories.machine.queue.is_supported = False  # Queued assignments stay queued.
        assert await read(page, *wanted) == [2, 1, broker.directories.queued_assignments]
        found = await samples(page)
        offline = [found[f"{logs}LogDirectoryOffline", (f"{tmp_path}/{each}",)] for each in "ab"]
        assert offline == [0, 1] and found[f"{logs}CordonedLogDirectoryCount", ()] == 0


@story
async def test_the_command_has_the_page(tmp_path: Path) -> None:
    async with cluster_in(tmp_path, brokers=0) as cluster:
        cluster.format(1)
        config, port = tmp_path / "server.properties", free_ports(1)[0]
        config.write_text("".join(f"{name}={value}\n" for name, value in cluster.properties(1).items()))
        command = (sys.executable, "-m", "kcore", "broker", "kraft", "run", "-c", str(config), "--metrics", str(port))
        log = tmp_path / "log"
        with log.open("wb") as output, subprocess.Popen(command, stdout=output, stderr=output) as process:
            try:
                while await asyncio.to_thread(state_at, port) != 3:
                    await asyncio.sleep(0.05)
            finally:
                process.send_signal(signal.SIGTERM)
            assert await asyncio.to_thread(process.wait, 60) == 0, log.read_text()


def state_at(port: int) -> float | None:
    """BrokerState; None while there is no page."""
    try:
        with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as answer:
            found = samples_of(answer.read().decode())
    except URLError:
        return None
    return found.get(("kafka_server_KafkaServer_BrokerState", ()))


@story
async def test_quotas_and_throttles(tmp_path: Path) -> None:
    async with cluster_in(tmp_path, brokers=1) as cluster, page_of(cluster, 1) as page:
        quotas, throttles = cluster.brokers[1].handlers.quotas, cluster.brokers[1].runtime.manager.quotas
        quotas.requests.now_ms = lambda: 1_000_000
        owner = {(("user", "alice"),): {"producer_byte_rate": 10.0, "consumer_byte_rate": 50.0}}
        quotas.produce.record(owner, "alice", "c", 200.0, 1_000_000)
        quotas.fetch.record(owner, "alice", "c", 500.0, 1_000_000)
        throttles.follower.record(1 << 30)
        found = await samples(page)
        assert found["kafka_server_Produce_byte_rate", ("", "alice")] == 20
        assert found["kafka_server_Fetch_byte_rate", ("", "alice")] == 50
        for quota, count, seconds in (("Produce", 1, 10), ("Fetch", 0, 0), ("Request", 0, 0)):
            assert found["kcore_throttled_requests_total", (quota,)] == count
            assert found["kcore_throttle_time_seconds_total", (quota,)] == seconds
        rates = [found[f"kafka_server_{each}Replication_byte_rate", ()] for each in ("Leader", "Follower")]
        assert rates[0] == found["kafka_server_AlterLogDirsReplication_byte_rate", ()] == 0 < rates[1]
