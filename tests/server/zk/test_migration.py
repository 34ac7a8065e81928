"""The broker's part in the migration from ZooKeeper mode to KRaft (KIP-866, and KIP-858's migration).

ZooKeeper is a tree in memory. The quorum's log is followed from nowhere: who its controller is, the tests say.
"""

import asyncio
import shutil
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

import kcore
from kcore.broker.lifecycle.machine import BrokerState
from kcore.constants import METADATA_TOPIC, UNKNOWN_BROKER_EPOCH
from kcore.errors import StorageError
from kcore.metadata.metadata_version import FEATURE_NAME
from kcore.metadata.table.broker_table import Endpoint
from kcore.metadata.zookeeper import znodes
from kcore.net.connect import connect
from kcore.net.server import RequestContext
from kcore.protocol_errors import Errors
from kcore.releases.known import RELEASES
from kcore.schema import IncrementalAlterConfigsRequest, LeaderAndIsrRequest, UpdateMetadataRequest
from kcore.schema.alter_partition import AlterPartitionRequest
from kcore.schema.broker_lifecycle import (
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
)
from kcore.schema.cluster_metadata import MetadataRequest
from kcore.schema.configs import IncrementalAlterConfigsResponse
from kcore.schema.controlled_shutdown import ControlledShutdownRequest
from kcore.schema.envelope import EnvelopeRequest, EnvelopeResponse
from kcore.schema.headers import RequestHeader, ResponseHeader
from kcore.schema.producers import AllocateProducerIdsRequest
from kcore.schema.transactions import InitProducerIdRequest
from kcore.schema.update_features import UpdateFeaturesRequest
from kcore.server.kraft_broker.kraft_broker_server import KraftBrokerServer
from kcore.server.kraft_broker.kraft_broker_settings import broker_settings_of
from kcore.server.properties.values import SettingsError
from kcore.server.zk_broker.migration import BrokerMigration
from kcore.server.zk_broker.migration_settings import MigrationSettings, feature_level, migration_settings_of
from kcore.server.zk_broker.zk_broker_server import ZkBrokerServer
from kcore.storage.checkpoints import read_offsets, write_offsets
from kcore.storage.meta_properties import MetaProperties, read_meta_properties, write_meta_properties
from kcore.storage.raft.file_raft_log import RECOVERY_POINTS
from kcore.storage.raft.raft_dir import METADATA_FOLDER
from kcore.wire.codec import decode_from, encode
from net.loops import story, until
from server.kraft.test_kraft_broker import CLUSTER, cluster_in
from server.replicas import APIS, CONTROLLER, TOPIC_ID, Brokers, FakeController

QUORUM, KRAFT_EPOCH, LEVEL_OF_3_9 = 3000, 5, 21
GIVEN = {
    "zookeeper.metadata.migration.enable": "true",
    "controller.quorum.voters": f"{QUORUM}@127.0.0.1:1",
    "controller.listener.names": "CONTROLLER",
    "broker.heartbeat.interval.ms": "50",
}


def settings(**given: str) -> MigrationSettings:
    made = migration_settings_of(GIVEN | {name.replace("_", "."): value for name, value in given.items()})
    assert made is not None
    return made


class FakeQuorum(FakeController):
    """An active KRaft controller that registers everybody, each with the next epoch from 100 on."""

    def __init__(self) -> None:
        super().__init__()
        self.apis = {**APIS, "BrokerRegistration": (0, 4), "BrokerHeartbeat": (0, 1), "Envelope": (0, 0)}
        self.epochs: dict[int, int] = {}
        self.forwarded: list[Any] = []
        self.may_stop = True

    def registration(self, broker_id: int) -> BrokerRegistrationRequest:
        """Its last one."""
        [*_, found] = [each for each in self.of(BrokerRegistrationRequest) if each.broker_id == broker_id]
        return found

    def heartbeats(self, broker_id: int) -> list[BrokerHeartbeatRequest]:
        return [each for each in self.of(BrokerHeartbeatRequest) if each.broker_id == broker_id]

    @property
    def endpoint(self) -> Endpoint:
        assert self.server is not None
        return Endpoint(self.server.port, "127.0.0.1", "CONTROLLER", 0)

    async def _handle(self, context: RequestContext, request: Any) -> Any:
        if isinstance(request, BrokerRegistrationRequest):
            self.requests.append(request)
            self.epochs[request.broker_id] = 100 + len(self.of(BrokerRegistrationRequest))
            return BrokerRegistrationResponse(broker_epoch=self.epochs[request.broker_id])
        if isinstance(request, BrokerHeartbeatRequest):
            self.requests.append(request)
            stops = request.want_shut_down and self.may_stop
            return BrokerHeartbeatResponse(is_caught_up=True, is_fenced=request.want_fence, should_shut_down=stops)
        if isinstance(request, EnvelopeRequest):
            self.requests.append(request)
            header, at = decode_from(RequestHeader, 2, request.request_data)
            inner, _ = decode_from(IncrementalAlterConfigsRequest, 1, request.request_data, at)
            self.forwarded.append(inner)
            head = encode(ResponseHeader(correlation_id=header.correlation_id), 1)
            return EnvelopeResponse(
                response_data=bytes(head) + encode(IncrementalAlterConfigsResponse(responses=[]), 1)
            )
        return await super()._handle(context, request)


class Migrating(Brokers):
    """Brokers 1 and 2, registered with a quorum, too."""

    quorum: FakeQuorum

    def broker(self, broker_id: int) -> ZkBrokerServer:
        return self.servers[broker_id]

    def migration(self, broker_id: int) -> BrokerMigration:
        found = self.servers[broker_id].link.migration
        assert found is not None
        return found

    def state(self, broker_id: int) -> BrokerState:
        return self.migration(broker_id).lifecycle.machine.state

    async def until_unfenced(self) -> None:
        await until(lambda: all(self.state(each) is BrokerState.RUNNING for each in (1, 2)))

    def claimed(self, controller_epoch: int = 2) -> None:
        """The quorum's controller takes `/controller`."""
        self.elected(controller_epoch)
        self.tree.nodes[znodes.CONTROLLER] = znodes.encode_controller(QUORUM, 0, KRAFT_EPOCH), 0, 0, 5

    async def order(
        self, broker_id: int, leader: int, leader_epoch: int, *, partition_epoch: int = 1, **fields: Any
    ) -> Errors:
        """By UpdateMetadata and LeaderAndIsr of a KRaft controller, unless `fields` say otherwise."""
        state = {"partitionIndex": 0, "controllerEpoch": 2, "leader": leader, "leaderEpoch": leader_epoch}
        state |= {"isr": [leader], "replicas": [1, 2]}
        cached = state | {"zkVersion": partition_epoch, "offlineReplicas": []}
        led = state | {"partitionEpoch": partition_epoch, "addingReplicas": [], "removingReplicas": [], "isNew": True}
        who = {"controllerId": QUORUM, "isKRaftController": True, "controllerEpoch": 2, "type": 1}
        who |= {"brokerEpoch": self.quorum.epochs[broker_id]} | fields
        assert self.controller.server is not None
        ports = {each: self.servers[each].port for each in (1, 2)} | {CONTROLLER: self.controller.server.port}
        live = [{"id": each, "endpoints": [{"port": ports[each], **_AT_HOME}], "rack": None} for each in ports]
        update = self._request(UpdateMetadataRequest, 8, who | {"liveBrokers": live}, [cached])
        response = await self.ask(broker_id, update, 8)
        become = self._request(LeaderAndIsrRequest, 7, who | {"liveLeaders": []}, [led | {"leaderRecoveryState": 0}])
        answer = await self.ask(broker_id, become, 7)
        assert response.error_code == answer.error_code
        codes = {each.error_code for topic in answer.topics for each in topic.partition_errors}
        return Errors.of(max(codes, default=answer.error_code))

    def _request(self, message: Any, version: int, fields: dict[str, Any], states: list[Any]) -> Any:
        named = {"topicName": "t", "topicId": str(TOPIC_ID), "partitionStates": states}
        return kcore.from_json(message.__name__, version, fields | {"topicStates": [named]})


_AT_HOME = {"host": "127.0.0.1", "listener": "PLAINTEXT", "securityProtocol": 0}


@asynccontextmanager
async def brokers_in(
    folder: Path, monkeypatch: pytest.MonkeyPatch, before: Brokers | None = None, *, directories: int = 2
) -> AsyncIterator[Migrating]:
    """`before`: those that ran in the folder."""
    async with AsyncExitStack() as stack:
        made = Migrating(stack, folder)
        if before is not None:
            made.tree.nodes[znodes.CLUSTER_ID] = before.tree.nodes[znodes.CLUSTER_ID]
        made.quorum = FakeQuorum()
        await made.quorum.open(stack)
        monkeypatch.setattr(BrokerMigration, "controller", lambda self: made.quorum.endpoint)
        await made.open(directories=directories, server={"migration": settings()})
        await made.until_unfenced()
        yield made


def metas(folder: Path, broker_id: int) -> list[MetaProperties]:
    return [read_meta_properties(folder / each / "meta.properties") for each in (str(broker_id), f"{broker_id}-2")]


@pytest.mark.covers("KIP-858 migration 2", "KIP-858 migration 3")
@story
async def test_the_registration_has_the_directories_of_meta_properties(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with brokers_in(tmp_path, monkeypatch) as brokers:
        found = metas(tmp_path, 1)
        assert [(each.version, each.node_id) for each in found] == [(0, 1)] * 2, "as in ZooKeeper mode"
        response = brokers.quorum.registration(1)
        assert response.log_dirs == sorted(each.directory_id for each in found if each.directory_id is not None)
        assert len({*response.log_dirs, *brokers.quorum.registration(2).log_dirs}) == 4
        assert response.is_migrating_zk_broker and response.cluster_id == found[0].cluster_id
        assert (response.previous_broker_epoch, response.rack) == (-1, None)
        [listener] = response.listeners
        assert (listener.name, listener.host, listener.port) == ("PLAINTEXT", "127.0.0.1", brokers.broker(1).port)
        levels = {each.name: (each.min_supported_version, each.max_supported_version) for each in response.features}
        assert levels[FEATURE_NAME] == (LEVEL_OF_3_9, LEVEL_OF_3_9), "its protocol, and nothing else"
        first, *_ = brokers.quorum.heartbeats(1)
        assert first.want_fence and first.broker_epoch == brokers.quorum.epochs[1]
        assert znodes.broker_path(1) in brokers.tree.nodes, "it stays in ZooKeeper"


@story
async def test_directories_keep_their_ids_and_the_old_metadata_log_goes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log may be of a quorum that is no more (KafkaRaftManager.maybeDeleteMetadataLogDir)."""
    async with brokers_in(tmp_path, monkeypatch) as before:
        first = metas(tmp_path, 1)
    stale = tmp_path / "1" / METADATA_FOLDER / "00000000000000000007.checkpoint"
    stale.write_bytes(b"of another quorum")
    points = tmp_path / "1" / RECOVERY_POINTS
    write_offsets(points, {(METADATA_TOPIC, 0): 306, ("t", 0): 5})
    async with brokers_in(tmp_path, monkeypatch, before):
        assert metas(tmp_path, 1) == first
        assert (tmp_path / "1" / METADATA_FOLDER).is_dir() and not stale.exists()
        assert read_offsets(points) == {("t", 0): 5}, "a log that is gone has no end that it must reach"


@story
async def test_a_metadata_directory_apart_is_the_brokers_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    apart = tmp_path / "apart"
    monkeypatch.setattr(
        ZkBrokerServer, "_metadata_dir", property(lambda self: apart / str(self.runtime.manager.broker_id))
    )
    async with brokers_in(tmp_path, monkeypatch, directories=1) as made:
        found = read_meta_properties(apart / "1" / "meta.properties")
        assert found.node_id == 1 and found.directory_id is not None
        assert found.directory_id not in made.quorum.registration(1).log_dirs, "no replica can be there"
        assert (apart / "1" / METADATA_FOLDER).is_dir() and not (tmp_path / "1" / METADATA_FOLDER).exists()


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (lambda folder: _copy_id(folder), "which is that of"),
        (lambda folder: _not_a_directory(folder), "a broker that migrates needs all log directories"),
    ],
    ids=["an id that is there twice", "a directory that is offline"],
)
@pytest.mark.covers("KIP-858 migration 4")
@story
async def test_directories_that_cannot_be_are_refused_at_the_start(
    spoil: Callable[[Path], None], why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with brokers_in(tmp_path, monkeypatch) as before:
        pass
    spoil(tmp_path)
    with pytest.raises(StorageError, match=why):
        async with brokers_in(tmp_path, monkeypatch, before):
            pass


def _copy_id(folder: Path) -> None:
    [first, second] = metas(folder, 1)
    write_meta_properties(folder / "1-2" / "meta.properties", first)
    assert first.directory_id != second.directory_id


def _not_a_directory(folder: Path) -> None:
    shutil.rmtree(folder / "1-2")
    (folder / "1-2").write_bytes(b"")


@pytest.mark.covers("KIP-858 migration 4")
@story
async def test_a_directory_that_fails_stops_the_broker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A failed directory ends the broker: its controller reads no LeaderAndIsr response and no znode about it."""
    async with brokers_in(tmp_path, monkeypatch) as brokers:
        broker = brokers.broker(1)
        directory = broker.runtime.logs.directories[1]
        broker.runtime.directories_failed(broker.runtime.logs.directories.fail(directory, "a test"))
        assert broker.runtime.tasks.failed.is_set()
        assert not [path for path in brokers.tree.nodes if path.startswith(znodes.LOG_DIR_EVENT_NOTIFICATION + "/")]


@story
async def test_a_migrating_broker_accepts_the_controller_that_zookeeper_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with brokers_in(tmp_path, monkeypatch) as brokers:
        await brokers.elect(1)
        assert await brokers.order(1, 1, 7) is Errors.NOT_CONTROLLER, "not before /controller says so"
        brokers.claimed()
        lie = {"isKRaftController": False, "brokerEpoch": -1}
        assert await brokers.order(1, 1, 7, **lie) is Errors.NOT_CONTROLLER, "of the other kind than ZooKeeper has it"
        assert await brokers.order(1, 1, 7) is Errors.NONE
        assert brokers.broker(1).control.is_kraft
        stale = {"brokerEpoch": brokers.quorum.epochs[1] - 1}
        assert await brokers.order(1, 1, 8, **stale) is Errors.STALE_BROKER_EPOCH
        assert brokers.broker(1).runtime.manager.broker_epoch != brokers.quorum.epochs[1], (
            "that of the znode is another one"
        )


@story
async def test_a_broker_that_does_not_migrate_obeys_no_quorum(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        made = Migrating(stack, tmp_path)
        made.quorum = FakeQuorum()
        made.quorum.epochs = {1: -1, 2: -1}
        await made.open()
        made.claimed()
        assert await made.order(1, 1, 7) is Errors.NOT_CONTROLLER
        for server in made.servers.values():
            server.runtime.manager.cluster.controller_id = -1  # No server would answer the controlled shutdown.


@story
async def test_what_it_asks_goes_to_the_quorum_with_the_epoch_that_it_has_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with brokers_in(tmp_path, monkeypatch) as brokers:
        await brokers.elect(1)
        own = brokers.broker(1).runtime.manager.broker_epoch
        begin = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1)
        await brokers.ask(1, begin)
        [asked] = brokers.controller.of(AllocateProducerIdsRequest)
        assert asked.broker_epoch == own and not brokers.quorum.of(AllocateProducerIdsRequest)
        brokers.claimed()
        for broker_id in (1, 2):
            assert await brokers.order(broker_id, 1, 7) is Errors.NONE
        await until(lambda: brokers.quorum.of(AlterPartitionRequest))  # Broker 2 comes into the ISR.
        first, *_ = brokers.quorum.of(AlterPartitionRequest)
        assert first.broker_epoch == brokers.quorum.epochs[1]
        [partition] = first.topics[0].partitions
        epochs = {each.broker_id: each.broker_epoch for each in partition.new_isr_with_epochs}
        assert epochs == {1: UNKNOWN_BROKER_EPOCH, 2: UNKNOWN_BROKER_EPOCH}, "a znode's epoch is none of the quorum's"
        for _ in range(2):
            await brokers.ask(1, begin)
        assert {each.broker_epoch for each in brokers.quorum.of(AllocateProducerIdsRequest)} == {first.broker_epoch}
        assert not brokers.controller.of(AlterPartitionRequest)


@story
async def test_requests_of_administrators_go_on_once_the_quorum_controls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = IncrementalAlterConfigsRequest(resources=[], validate_only=False)
    async with brokers_in(tmp_path, monkeypatch) as brokers:
        await brokers.elect(1)
        await brokers.ask(1, request, 1)
        assert not brokers.quorum.forwarded, "it answers that itself"
        response = await brokers.ask(1, MetadataRequest(topics=None), 12)
        assert response.controller_id == CONTROLLER
        brokers.claimed()
        assert await brokers.order(1, 1, 7) is Errors.NONE
        await brokers.ask(1, request, 1)
        assert len(brokers.quorum.forwarded) == 1
        response = await brokers.ask(1, MetadataRequest(topics=None), 12)
        assert response.controller_id == 1, "clients cannot ask the quorum"
        async with brokers.connected(1) as connection:
            versions = connection.versions
            assert versions is not None
            named = kcore.schema.CreateTopicsRequest
            assert versions.choose(named) == 7


@pytest.mark.parametrize("equal", [True, False], ids=["a KRaft controller's", "a ZooKeeper-mode controller's"])
@story
async def test_an_equal_leader_epoch_is_new_of_a_kraft_controller_alone(
    equal: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with brokers_in(tmp_path, monkeypatch) as brokers:
        if equal:
            brokers.claimed()
            assert await brokers.order(1, 1, 7) is Errors.NONE
            assert await brokers.order(1, 1, 7, partition_epoch=2) is Errors.NONE
            assert brokers.broker(1).runtime.manager.replicas["t", 0].partition_epoch == 2
            assert await brokers.order(1, 1, 6, partition_epoch=3) is Errors.STALE_CONTROLLER_EPOCH
        else:
            zookeeper = {
                "controllerId": CONTROLLER,
                "isKRaftController": False,
                "controllerEpoch": 1,
                "brokerEpoch": -1,
            }
            assert await brokers.order(1, 1, 7, **zookeeper) is Errors.NONE
            assert await brokers.order(1, 1, 7, partition_epoch=2, **zookeeper) is Errors.STALE_CONTROLLER_EPOCH


@story
async def test_its_leaders_are_moved_away_by_heartbeats(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with brokers_in(tmp_path, monkeypatch) as brokers:
        brokers.claimed()
        for broker_id in (1, 2):
            assert await brokers.order(broker_id, 1, 7) is Errors.NONE
        brokers.quorum.may_stop = False
        stopping = asyncio.create_task(_stop(brokers.broker(1)))
        await until(lambda: brokers.quorum.heartbeats(1)[-1].want_shut_down)
        assert not stopping.done(), "not before the controller agrees"
        brokers.quorum.may_stop = True
        await stopping
        assert not brokers.controller.of(ControlledShutdownRequest)


async def _stop(broker: ZkBrokerServer) -> None:
    await broker._controlled_shutdown()


@story
async def test_directories_of_zookeeper_mode_go_on_in_kraft_mode(tmp_path: Path) -> None:
    """Under a release of Kafka that still knows ZooKeeper; their version stays 0, as in KafkaRaftServer."""
    async with cluster_in(tmp_path, brokers=0, levels={FEATURE_NAME: LEVEL_OF_3_9}) as cluster:
        directory = tmp_path / "1"
        directory.mkdir()
        write_meta_properties(directory / "meta.properties", MetaProperties(0, cluster_id=CLUSTER, node_id=1))
        settings = broker_settings_of(cluster.properties(1))._replace(release="3.9.1")
        async with KraftBrokerServer(settings) as broker:
            await broker.until_running()
            meta = read_meta_properties(directory / "meta.properties")
            registered = cluster.controller.controller.image.brokers[1]
            assert (meta.version, meta.node_id) == (0, 1)
            assert registered.directories == (meta.directory_id,) and not registered.is_migrating_zk_broker
            response = broker.lifecycle.machine.config.features
            levels = {each.name: (each.min_supported_version, each.max_supported_version) for each in response}
            assert levels == RELEASES["3.9.1"].supported_features, "what a broker of that release has"
            async with await connect("127.0.0.1", broker.port) as connection:
                assert connection.versions is not None
                assert connection.versions.choose(UpdateFeaturesRequest) == 1, "as its controllers have it"


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"controller.quorum.voters": ""}, "give either controller.quorum.voters or"),
        ({"controller.quorum.bootstrap.servers": "a:1"}, "give either controller.quorum.voters or"),
        ({"controller.listener.names": ""}, "controller.listener.names is missing"),
        ({"zookeeper.metadata.migration.enable": "yes"}, "give true or false"),
        ({"listener.security.protocol.map": "CONTROLLER:SSL"}, "CONTROLLER is SSL: kcore's listener is plaintext"),
    ],
)
def test_settings_that_cannot_be(given: dict[str, str], why: str) -> None:
    with pytest.raises(SettingsError, match=why):
        migration_settings_of(GIVEN | given)


def test_without_the_switch_nothing_migrates() -> None:
    assert migration_settings_of({}) is None
    assert migration_settings_of(GIVEN | {"zookeeper.metadata.migration.enable": "false"}) is None


@pytest.mark.parametrize(
    ("protocol", "directories", "level"), [("3.9", 2, 21), ("3.9-IV0", 1, 21), ("3.7", 3, 19), ("3.4", 1, 8)]
)
def test_the_level_is_that_of_the_protocol(protocol: str, directories: int, level: int) -> None:
    assert feature_level(protocol, directories) == level


@pytest.mark.parametrize(
    ("protocol", "directories", "why"),
    [
        ("3.3", 1, "needs 3.4-IV0 or newer"),
        ("2.8", 1, "it cannot migrate from ZooKeeper"),
        ("3.6", 2, "with several log directories needs 3.7-IV2 or newer"),
    ],
)
def test_protocols_that_cannot_migrate(protocol: str, directories: int, why: str) -> None:
    with pytest.raises(SettingsError, match=why):
        feature_level(protocol, directories)
