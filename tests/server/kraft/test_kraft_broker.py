"""Brokers under a KRaft controller, all in one process: clients over real sockets, logs on a real disk."""

import asyncio
import shutil
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Self

import pytest

from kcore.constants import KRAFT_VERSION
from kcore.controller.kraft.activation import Bootstrap
from kcore.errors import DisconnectedError, StorageError
from kcore.measure.processes.local_process import free_ports
from kcore.metadata.table.directory_table import UNASSIGNED_UUID
from kcore.net.connect import connect
from kcore.protocol_errors import Errors
from kcore.raft.log.memory_log import MemoryLog
from kcore.raft.membership.replicas import Address, ReplicaKey, Voter
from kcore.raft.raft_config import RaftConfig
from kcore.releases.known import DEFAULT_RELEASE, RELEASES
from kcore.replication.raft_log import OffsetAndEpoch
from kcore.schema import configs
from kcore.schema.api_versions import ApiVersionsRequest
from kcore.schema.cluster_metadata import DescribeClusterRequest, MetadataRequest, MetadataRequestTopic
from kcore.schema.describe_quorum import DescribeQuorumRequest
from kcore.schema.fetch import FetchPartition, FetchRequest, FetchTopic
from kcore.schema.find_coordinator import FindCoordinatorRequest
from kcore.schema.log_dirs import DescribeLogDirsRequest
from kcore.schema.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kcore.schema.topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    DeleteTopicState,
)
from kcore.schema.transactions import InitProducerIdRequest
from kcore.schema.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from kcore.server.clock import wall_ms
from kcore.server.kraft_broker.kraft_broker_request_handlers import apis
from kcore.server.kraft_broker.kraft_broker_server import KraftBrokerServer
from kcore.server.kraft_broker.kraft_broker_settings import broker_settings_of
from kcore.server.kraft_controller.kraft_controller_server import KraftServer
from kcore.server.quorum_node.elections import MemoryElections
from kcore.storage.checkpoints import TopicPartition
from kcore.storage.raft.file_raft_log import DiskRaftLog
from kcore.storage.raft.raft_format import format_log_directories
from kcore.types import ZERO_UUID, Uuid
from kcore.wire.records import decode_records
from kraft_configs import controller_config
from net.loops import story, until
from storage import building

CLUSTER = "a-cluster-of-the-tests"
LEVELS = {"metadata.version": 30, "group.version": 1}
Where = dict[str, Any]


class Cluster:
    """A controller, 7, and brokers 1 and 2 that can be stopped and started again."""

    def __init__(self, stack: AsyncExitStack, folder: Path) -> None:
        self._stack, self.folder = stack, folder
        self.port = free_ports(1)[0]
        self.brokers: dict[int, KraftBrokerServer] = {}
        self._closing: dict[int, AsyncExitStack] = {}
        self.connected: dict[int, Any] = {}

    async def open(
        self,
        *,
        brokers: int = 2,
        levels: Mapping[str, int] = LEVELS,
        release: str = DEFAULT_RELEASE,
        **settings: str,
    ) -> Self:
        """`release`: the controller's; brokers have the default release."""
        config = controller_config(
            *(7, CLUSTER, release),
            supported_features=RELEASES[release].supported_features,
            broker_session_timeout_ms=2_000,
        )
        where = {"CONTROLLER": Address("127.0.0.1", self.port)}
        raft = RaftConfig(CLUSTER, 7, Uuid(b"c" * 16), where, lambda bound: 0, voters=(Voter(ReplicaKey(7), where),))
        bootstrap = Bootstrap.of_features(levels, "a test")
        self.controller = KraftServer(
            config,
            raft,
            MemoryLog(),
            MemoryElections(),
            bootstrap,
            host="127.0.0.1",
            port=self.port,
            answer_loop="plain",
        )
        await self._stack.enter_async_context(self.controller)
        for broker_id in range(1, brokers + 1):
            self.format(broker_id, **settings)
            await self.start(broker_id, **settings)
        return self

    def properties(self, broker_id: int, **settings: str) -> dict[str, str]:
        return {
            "process.roles": "broker",
            "node.id": str(broker_id),
            "controller.quorum.voters": f"7@127.0.0.1:{self.port}",
            "controller.listener.names": "CONTROLLER",
            "listeners": "PLAINTEXT://127.0.0.1:0",
            "log.dirs": str(self.folder / str(broker_id)),
            "broker.heartbeat.interval.ms": "100",
            "cordoned.log.dirs": "",
            "replica.fetch.backoff.ms": "50",
            "replica.fetch.wait.max.ms": "50",
        } | {name.replace("_", "."): value.format(folder=self.folder) for name, value in settings.items()}

    def format(self, broker_id: int, **settings: str) -> None:
        made = broker_settings_of(self.properties(broker_id, **settings))
        format_log_directories(made.log_dirs, node_id=broker_id, cluster_id=CLUSTER)

    async def start(self, broker_id: int, *, is_awaited: bool = True, **settings: str) -> KraftBrokerServer:
        closing = self._closing[broker_id] = AsyncExitStack()
        server = KraftBrokerServer(broker_settings_of(self.properties(broker_id, **settings)))
        self.brokers[broker_id] = await closing.enter_async_context(server)
        self._stack.push_async_callback(closing.aclose)
        if is_awaited:
            await self.brokers[broker_id].until_running()
        return server

    async def stop(self, broker_id: int) -> None:
        """Cleanly."""
        await self._closing[broker_id].aclose()

    async def ask(self, broker_id: int, request: Any, version: int | None = None) -> Any:
        async with await connect("127.0.0.1", self.brokers[broker_id].port) as connection:
            return await connection.send(request, version)

    async def create(self, name: str, *replicas: list[int], broker_id: int = 1, **settings: str) -> Errors:
        topic = CreatableTopic(
            name=name,
            num_partitions=-1,
            replication_factor=-1,
            assignments=[
                CreatableReplicaAssignment(partition_index=index, broker_ids=each)
                for index, each in enumerate(replicas)
            ],
            configs=[CreatableTopicConfig(name=each.replace("_", "."), value=settings[each]) for each in settings],
        )
        response = await self.ask(broker_id, CreateTopicsRequest(topics=[topic], timeout_ms=5_000))
        return Errors.of(response.topics[0].error_code)

    async def produce(self, broker_id: int, topic: str, *values: bytes, **header: Any) -> Any:
        data = [PartitionProduceData(index=0, records=building.batch(0, values, **header))]
        topics = [TopicProduceData(name=topic, partition_data=data)]
        request = ProduceRequest(acks=-1, timeout_ms=5_000, topic_data=topics)
        answer = await self.ask(broker_id, request, 9)
        return answer.responses[0].partition_responses[0]

    async def values(self, broker_id: int, topic: str) -> list[bytes]:
        """Read by a consumer, of any replica."""
        image = self.controller.controller.image
        partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=100_000)
        wanted = FetchTopic(topic_id=image.topic_ids[topic], partitions=[partition])
        request = FetchRequest(max_wait_ms=50, min_bytes=1, topics=[wanted], forgotten_topics_data=[])
        answer = await self.ask(broker_id, request, 13)
        [data] = answer.responses[0].partitions
        assert data.error_code == Errors.NONE, Errors.of(data.error_code)
        return [record.value or b"" for record in decode_records(data.records or b"")]

    def partition(self, topic: str) -> Any:
        return self.controller.controller.image.partition(topic, 0)

    async def until_led(self, topic: str, leader: int, *isr: int) -> None:
        def holds() -> bool:
            known = self.partition(topic)
            return bool(known.leader == leader and {*known.isr} == {*isr})

        await until(holds)
        await until(lambda: all(self.role(each, topic) == ("leader" if each == leader else "follower") for each in isr))

    def role(self, broker_id: int, topic: str) -> str:
        found = self.brokers[broker_id].runtime.manager.partitions.get((topic, 0))
        return "none" if found is None else found.role.value


@asynccontextmanager
async def cluster_in(folder: Path, **settings: Any) -> AsyncIterator[Cluster]:
    async with AsyncExitStack() as stack:
        yield await Cluster(stack, folder).open(**settings)


@story
async def test_clients_that_mean_another_cluster_or_broker_bootstrap_again(tmp_path: Path) -> None:
    """KIP-1242, at a broker of 4.4.0; an older one does not have this version of ApiVersions."""
    async with cluster_in(tmp_path) as cluster:
        settings = broker_settings_of(cluster.properties(9))
        format_log_directories(settings.log_dirs, node_id=9, cluster_id=CLUSTER)
        async with KraftBrokerServer(settings._replace(release="4.4.0")) as server:
            await server.until_running()
            async with await connect("127.0.0.1", server.port) as connection:
                for cluster_id, node_id, error in (
                    (CLUSTER, 9, Errors.NONE),
                    (CLUSTER, 1, Errors.REBOOTSTRAP_REQUIRED),
                    ("another", 9, Errors.REBOOTSTRAP_REQUIRED),
                    (None, -1, Errors.NONE),
                ):
                    asked = ApiVersionsRequest(
                        client_software_name="a", client_software_version="1", cluster_id=cluster_id, node_id=node_id
                    )
                    assert (await connection.send(asked, 5)).error_code == error
        assert apis("4.3.1")["ApiVersions"] == (0, 4)


@story
async def test_brokers_finalize_the_kraft_version_of_raft(tmp_path: Path) -> None:
    async with cluster_in(tmp_path, brokers=1) as cluster:

        async def finalized() -> dict[str, int]:
            answer = await cluster.ask(1, ApiVersionsRequest(client_software_name="a", client_software_version="1"))
            return {each.name: each.max_version_level for each in answer.finalized_features}

        assert await finalized() == LEVELS
        update = FeatureUpdateKey(feature=KRAFT_VERSION, max_version_level=1, upgrade_type=1)
        response = await cluster.ask(1, UpdateFeaturesRequest(feature_updates=[update]))
        assert response.error_code == Errors.NONE, response
        async with asyncio.timeout(30):
            while await finalized() != LEVELS | {KRAFT_VERSION: 1}:
                await asyncio.sleep(0.05)


@story
async def test_what_is_acknowledged_is_on_both_and_outlives_restarts(tmp_path: Path) -> None:
    async with cluster_in(tmp_path) as cluster:
        assert await cluster.create("t", [1, 2]) is Errors.NONE
        await cluster.until_led("t", 1, 1, 2)
        response = await cluster.produce(1, "t", b"a", b"b")
        assert (response.error_code, response.base_offset) == (0, 0)
        epoch = cluster.brokers[1].runtime.manager.broker_epoch
        await cluster.stop(1)
        await cluster.until_led("t", 2, 2)
        assert (await cluster.produce(2, "t", b"c")).base_offset == 2
        await cluster.start(1)
        assert cluster.brokers[1].lifecycle.machine.config.previous_broker_epoch == epoch
        await cluster.until_led("t", 2, 1, 2)
        assert (await cluster.produce(1, "t", b"d")).error_code == Errors.NOT_LEADER_OR_FOLLOWER
        assert (await cluster.produce(2, "t", b"d")).base_offset == 3
        await cluster.stop(2)
        await cluster.until_led("t", 1, 1)
        assert await cluster.values(1, "t") == [b"a", b"b", b"c", b"d"]
    logs = {(tmp_path / each / "t-0" / f"{0:020}.log").read_bytes() for each in ("1", "2")}
    assert len(logs) == 1


@story
async def test_what_clients_ask_besides(tmp_path: Path) -> None:
    async with cluster_in(tmp_path) as cluster:
        assert await cluster.create("t", [2, 1], min_insync_replicas="2") is Errors.NONE
        assert await cluster.create("t", [2, 1]) is Errors.TOPIC_ALREADY_EXISTS
        await cluster.until_led("t", 2, 1, 2)
        for broker_id in (1, 2):
            response = await cluster.ask(broker_id, MetadataRequest(topics=[MetadataRequestTopic(name="t")]), 12)
            assert {each.node_id for each in response.brokers} == {1, 2} and response.controller_id == broker_id
            assert response.topics[0].partitions[0].leader_id == 2 and response.cluster_id == CLUSTER
        assert cluster.brokers[2].runtime.manager.partitions["t", 0].settings.min_insync_replicas == 2
        described = await cluster.ask(1, DescribeClusterRequest(endpoint_type=1))
        assert described.cluster_id == CLUSTER
        quorum = await cluster.ask(1, DescribeQuorumRequest())
        assert quorum.error_code == Errors.NONE
        [found] = (await cluster.ask(1, DescribeLogDirsRequest(topics=None))).results
        assert [each.name for each in found.topics] == ["t"]
        request = configs.DescribeConfigsRequest(
            resources=[
                configs.DescribeConfigsResource(resource_type=2, resource_name="t", configuration_keys=None),
                configs.DescribeConfigsResource(resource_type=4, resource_name="1", configuration_keys=None),
            ]
        )
        of_topic, of_broker = (await cluster.ask(1, request)).results
        assert {each.name: each.value for each in of_topic.configs}["min.insync.replicas"] == "2"
        assert {each.name: each.value for each in of_broker.configs}["broker.heartbeat.interval.ms"] == "100"
        begin = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1)
        first, second = [(await cluster.ask(each, begin)).producer_id for each in (1, 2)]
        assert first // 1000 != second // 1000
        delete = DeleteTopicsRequest(topics=[DeleteTopicState(name="t", topic_id=ZERO_UUID)], timeout_ms=5_000)
        assert (await cluster.ask(1, delete, 6)).responses[0].error_code == Errors.NONE
        await until(lambda: cluster.role(1, "t") == cluster.role(2, "t") == "none")
    assert not list(tmp_path.glob("*/t-0"))


@story
async def test_settings_change_while_a_replica_leads(tmp_path: Path) -> None:
    async with cluster_in(tmp_path, brokers=1) as cluster:
        await cluster.create("t", [1])
        await cluster.until_led("t", 1, 1)
        setting = configs.IncrementalAlterConfigsRequestAlterableConfig(
            name="max.message.bytes", config_operation=0, value="100"
        )
        resource = configs.IncrementalAlterConfigsRequestAlterConfigsResource(
            resource_type=2, resource_name="t", configs=[setting]
        )
        change = configs.IncrementalAlterConfigsRequest(resources=[resource])
        assert (await cluster.ask(1, change)).responses[0].error_code == Errors.NONE
        await until(lambda: cluster.brokers[1].runtime.manager.partitions["t", 0].settings.log.max_message_bytes == 100)
        assert (await cluster.produce(1, "t", b"x" * 200)).error_code == Errors.MESSAGE_TOO_LARGE


@story
async def test_producers_that_are_silent_for_long_are_forgotten(tmp_path: Path) -> None:
    """On the leader and on its follower, by the times of their records."""
    settings = {"producer_id_expiration_ms": "3600000", "producer_id_expiration_check_interval_ms": "50"}
    async with cluster_in(tmp_path, **settings) as cluster:
        await cluster.create("t", [1, 2])
        await cluster.until_led("t", 1, 1, 2)
        for producer_id, time_ms in ((7, wall_ms() - 7_200_000), (8, wall_ms())):
            response = await cluster.produce(1, "t", b"v", producer=(producer_id, 0, 0), time_ms=time_ms)
            assert response.error_code == Errors.NONE
        logs = [cluster.brokers[each].runtime.manager.partitions["t", 0].log for each in (1, 2)]
        await until(lambda: all(log.end_offset == 2 and [*log.producers.by_id] == [8] for log in logs))


@story
async def test_old_segments_are_deleted(tmp_path: Path) -> None:
    """By size on the leader and on its follower, by time the last one too; the start offset outlives a restart."""
    settings = {"log_retention_check_interval_ms": "50"}
    async with cluster_in(tmp_path, **settings) as cluster:
        await cluster.create("t", [1, 2], segment_bytes="1048576", retention_bytes="2500000", retention_ms="-1")
        await cluster.create("u", [1, 2], segment_bytes="1048576", retention_ms="3600000")
        await cluster.until_led("t", 1, 1, 2)
        await cluster.until_led("u", 1, 1, 2)
        for topic in ("t", "u"):
            for _ in range(10):
                assert (await cluster.produce(1, topic, b"x" * 500_000)).error_code == Errors.NONE

        def starts(broker_id: int) -> list[int]:
            logs = cluster.brokers[broker_id].runtime.logs.directories[0].logs
            return [logs[TopicPartition(topic, 0)].start_offset for topic in ("t", "u")]

        # The records of `building` were made long ago.
        await until(lambda: starts(1) == [4, 10])
        # A follower's segments may begin elsewhere: it takes several batches at once.
        await until(lambda: 4 <= starts(2)[0] <= 6 and starts(2)[1] == 10)
        await until(lambda: len([*(tmp_path / "2" / "u-0").glob("*.log")]) == 1)
        assert [len([*(tmp_path / "1" / each).glob("*.log")]) for each in ("t-0", "u-0")] == [3, 1]
        before = starts(2)
        await cluster.stop(2)
        await cluster.start(2, **settings)
        await cluster.until_led("t", 1, 1, 2)
        assert starts(2) == before


@story
async def test_segments_roll_as_the_broker_and_the_topic_have_it(tmp_path: Path) -> None:
    async with cluster_in(tmp_path, brokers=1, log_roll_hours="2") as cluster:
        await cluster.create("t", [1])
        await cluster.create("u", [1], segment_ms="5")
        for topic in ("t", "u"):
            await cluster.until_led(topic, 1, 1)
        logs = cluster.brokers[1].runtime.logs.directories[0].logs
        for topic, segments in (("t", 1), ("u", 2)):
            for time_ms in (building.TIME_MS, building.TIME_MS + 6):
                assert (await cluster.produce(1, topic, b"v", time_ms=time_ms)).error_code == Errors.NONE
            assert len([*logs[TopicPartition(topic, 0)].folder.glob("*.log")]) == segments
        assert cluster.brokers[1].runtime.manager.settings["t"].segment_ms == 7_200_000


@pytest.mark.parametrize("release", ["4.3.1", "4.4.0"])
@story
async def test_directories_are_cordoned_unless_it_is_set(tmp_path: Path, release: str) -> None:
    """From 4.4.0 on a controller refuses to assign replicas to such a broker by hand, too."""
    two = "{folder}/a,{folder}/b"
    async with cluster_in(tmp_path, brokers=1, release=release, log_dirs=two, cordoned_log_dirs="*") as cluster:
        image = cluster.controller.controller.image
        await until(lambda: image.brokers[1].cordoned_directories)
        assert {*(image.brokers[1].cordoned_directories or ())} == {*image.brokers[1].directories}
        topic = CreatableTopic(name="t", num_partitions=1, replication_factor=1)
        response = await cluster.ask(1, CreateTopicsRequest(topics=[topic], timeout_ms=5_000))
        assert response.topics[0].error_code == Errors.INVALID_REPLICATION_FACTOR
        if release == "4.3.1":
            assert await cluster.create("t", [1]) is Errors.NONE
            await cluster.until_led("t", 1, 1)
        else:
            assert await cluster.create("t", [1]) is Errors.INVALID_REPLICA_ASSIGNMENT
        found = await cluster.ask(1, FindCoordinatorRequest(key_type=0, coordinator_keys=["g"]), 4)
        assert found.coordinators[0].error_code == Errors.UNSUPPORTED_VERSION


@story
async def test_partitions_are_spread_over_directories(tmp_path: Path) -> None:
    async with cluster_in(tmp_path, brokers=1, log_dirs="{folder}/a,{folder}/b") as cluster:
        await cluster.create("t", *[[1]] * 6)
        await until(lambda: len(cluster.brokers[1].runtime.manager.partitions) == 6)
        broker = cluster.brokers[1]
        assert [len(each.logs) for each in broker.runtime.logs.directories] == [3, 3]
        image = cluster.controller.controller.image

        def response() -> list[Uuid]:
            return [image.partition("t", index).directories[0] for index in range(6)]

        await until(lambda: broker.directories.queued_assignments == 0 and UNASSIGNED_UUID not in response())
        for directory in broker.runtime.logs.directories:
            assert {key.partition for key in directory.logs} == {
                index for index, each in enumerate(response()) if each == directory.directory_id
            }


@story
async def test_a_lost_directory_is_in_the_heartbeats(tmp_path: Path) -> None:
    async with cluster_in(tmp_path, brokers=1, log_dirs="{folder}/a,{folder}/b") as cluster:
        await cluster.create("t", *[[1]] * 2)
        await until(lambda: len(cluster.brokers[1].runtime.manager.partitions) == 2)
        broker, image = cluster.brokers[1], cluster.controller.controller.image
        left, lost = broker.runtime.logs.directories  # The first has the metadata log.
        broker.runtime.directories_failed(broker.runtime.logs.directories.fail(lost, "a test"))
        await until(lambda: image.brokers[1].directories == (left.directory_id,))
        assert not broker.runtime.tasks.failed.is_set()


@story
async def test_a_broker_that_is_far_behind_deletes_nothing(tmp_path: Path) -> None:
    """It begins with an old copy of the metadata log, which lacks its partitions."""
    async with cluster_in(tmp_path, brokers=1) as cluster:
        await cluster.stop(1)
        shutil.copytree(tmp_path / "1" / "__cluster_metadata-0", tmp_path / "old")
        await cluster.start(1)
        await cluster.create("t", [1])
        await cluster.until_led("t", 1, 1)
        await cluster.produce(1, "t", b"a")
        await cluster.stop(1)
        shutil.rmtree(tmp_path / "1" / "__cluster_metadata-0")
        (tmp_path / "old").rename(tmp_path / "1" / "__cluster_metadata-0")
        await cluster.start(1)
        await cluster.until_led("t", 1, 1)
        assert await cluster.values(1, "t") == [b"a"]


@story
async def test_snapshots_of_the_metadata_are_written_and_loaded(tmp_path: Path) -> None:
    settings = {"metadata_log_max_record_bytes_between_snapshots": "1"}
    async with cluster_in(tmp_path, brokers=1, **settings) as cluster:
        await cluster.create("t", [1])
        await cluster.until_led("t", 1, 1)
        await cluster.produce(1, "t", b"a")
        folder = tmp_path / "1" / "__cluster_metadata-0"
        await until(lambda: len([*folder.glob("*.checkpoint")]) > 1)
        await cluster.stop(1)
        await cluster.start(1, **settings)
        await cluster.until_led("t", 1, 1)
        assert await cluster.values(1, "t") == [b"a"]
        await until(lambda: cluster.brokers[1].link.loader.image == cluster.controller.controller.image)


@story
async def test_a_snapshot_that_a_full_disk_refuses_is_a_line_of_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not a traceback; the next one is written."""
    settings = {"metadata_log_max_record_bytes_between_snapshots": "1"}
    full = [True]

    def refused(log: DiskRaftLog, snapshot: OffsetAndEpoch, data: bytes) -> int:
        if full:
            full.clear()
            raise StorageError("no space")
        return append(log, snapshot, data)

    append = DiskRaftLog.append_snapshot
    monkeypatch.setattr(DiskRaftLog, "append_snapshot", refused)
    async with cluster_in(tmp_path, brokers=1, **settings) as cluster:
        await until(lambda: "was not written: no space" in caplog.text)
        await cluster.create("t", [1])
        await until(lambda: [*(tmp_path / "1" / "__cluster_metadata-0").glob("*.checkpoint")])
    assert "Traceback" not in caplog.text


@story
async def test_before_it_has_caught_up_clients_ask_another_broker(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        cluster = Cluster(stack, tmp_path)
        cluster.format(1)
        await cluster.start(1, is_awaited=False)
        with pytest.raises(DisconnectedError):
            await cluster.ask(1, MetadataRequest(topics=None), 12)


@story
async def test_a_broker_that_cannot_register_stops(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        cluster = Cluster(stack, tmp_path)
        cluster.format(1)
        server = await cluster.start(1, is_awaited=False, initial_broker_registration_timeout_ms="300")
        async with asyncio.timeout(20):
            await server.wait_failed()
