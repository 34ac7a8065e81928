"""Brokers over real sockets, with a controller, clients and followers."""

import asyncio
import errno
import shutil
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from kcore.broker.zk_control import control_requests
from kcore.errors import DisconnectedError, KcoreError, SessionExpiredError, ZookeeperError
from kcore.metadata.zookeeper import znodes
from kcore.net.connect import connect
from kcore.protocol_errors import Errors
from kcore.schema.alter_partition import AlterPartitionRequest
from kcore.schema.cluster_metadata import DescribeClusterRequest, MetadataRequest
from kcore.schema.controlled_shutdown import ControlledShutdownRequest
from kcore.schema.fetch import FetchPartition, FetchRequest, FetchTopic
from kcore.schema.find_coordinator import FindCoordinatorRequest
from kcore.schema.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kcore.schema.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kcore.schema.structure import Message
from kcore.schema.transactions import InitProducerIdRequest
from kcore.server.broker.group_coordinators import java_hash
from kcore.server.zk_broker import control_request_receiver, controlled_shutdown, zk_link
from kcore.storage.checkpoints import read_offsets
from kcore.storage.files import OsFileSystem
from kcore.wire.column_codec import decode_columns
from kcore.wire.columns import Columns
from kcore.wire.records import decode_records
from kcore.zookeeper.session import SessionEvent
from net.loops import story, until
from server.replicas import CONTROLLER, TOPIC_ID, Brokers
from storage import building


@asynccontextmanager
async def brokers_in(folder: Path, **settings: Any) -> AsyncIterator[Brokers]:
    async with AsyncExitStack() as stack:
        yield await Brokers(stack, folder).open(**settings)


class FullDisk(OsFileSystem):
    """Every write is refused."""

    def write(self, file: int, data: bytes | memoryview) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")


def values(fetched: Any) -> list[bytes]:
    [data] = fetched.responses[0].partitions
    assert data.error_code == Errors.NONE
    return [record.value or b"" for record in decode_records(data.records or b"")]


@pytest.mark.covers("article 1", "article startReplica 2", "article startReplica 1", "article becomeLeader 2")
@pytest.mark.covers("article becomeLeader 3")
@story
async def test_what_is_acknowledged_is_on_both(tmp_path: Path) -> None:
    async with brokers_in(tmp_path) as brokers:
        await brokers.elect(1)
        response = await brokers.produce(1, b"a", b"b")
        assert (response.error_code, response.base_offset) == (0, 0)
        fetched = await brokers.fetch(1)
        assert values(fetched) == [b"a", b"b"] and fetched.session_id == 0
        assert fetched.responses[0].topic_id == TOPIC_ID
        await brokers.elect(2)
        assert (await brokers.produce(1, b"c")).error_code == Errors.NOT_LEADER_OR_FOLLOWER
        assert (await brokers.produce(2, b"c")).base_offset == 2
        assert values(await brokers.fetch(2)) == [b"a", b"b", b"c"]
        assert values(await brokers.fetch(2, 3)) == []
        assert (await brokers.fetch(2, session_id=5, session_epoch=1)).error_code == Errors.FETCH_SESSION_ID_NOT_FOUND
        logs = [
            next(iter(server.runtime.logs.directories.online[0].logs.values())) for server in brokers.servers.values()
        ]
        await until(lambda: [log.high_watermark for log in logs] == [3, 3])
    marks = [read_offsets(tmp_path / each / "replication-offset-checkpoint") for each in ("1", "2")]
    assert marks == [{("t", 0): 3}] * 2
    assert len({(tmp_path / each / "t-0" / f"{0:020}.log").read_bytes() for each in ("1", "2")}) == 1


@story
async def test_acks_0_has_no_answer_and_a_refusal_closes(tmp_path: Path) -> None:
    async with brokers_in(tmp_path) as brokers:
        await brokers.elect(1)
        with pytest.raises(DisconnectedError):
            await brokers.produce(2, b"a", acks=0)


@story
async def test_what_clients_ask_besides(tmp_path: Path) -> None:
    async with brokers_in(tmp_path) as brokers:
        await brokers.elect(1)
        response = await brokers.ask(2, MetadataRequest(topics=None), 12)
        assert {each.node_id for each in response.brokers} == {
            1,
            2,
            CONTROLLER,
        } and response.controller_id == CONTROLLER
        [topic] = response.topics
        assert (topic.name, topic.topic_id, topic.partitions[0].leader_id) == ("t", TOPIC_ID, 1)
        described = await brokers.ask(1, DescribeClusterRequest(endpoint_type=1))
        assert described.cluster_id == response.cluster_id != ""
        ids = [
            await brokers.ask(1, InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1))
            for _ in range(3)
        ]
        assert [each.producer_id for each in ids] == [1000, 1001, 2000]
        transactional = InitProducerIdRequest(transactional_id="x", transaction_timeout_ms=1)
        assert (await brokers.ask(1, transactional)).error_code == Errors.NOT_COORDINATOR
        found = await brokers.ask(1, FindCoordinatorRequest(key_type=0, coordinator_keys=["g"]), 4)
        assert found.coordinators[0].error_code == Errors.UNSUPPORTED_VERSION, "nobody coordinates here"
        await brokers.produce(1, b"a")
        asked = ListOffsetsPartition(partition_index=0, timestamp=-1)
        request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name="t", partitions=[asked])])
        assert (await brokers.ask(1, request)).topics[0].partitions[0].offset == 1


@pytest.mark.parametrize("version", range(1, 10))
@story
async def test_list_offsets_of_every_version(version: int, tmp_path: Path) -> None:
    """Versions 1 to 3 have no leader epoch in the answer."""
    async with brokers_in(tmp_path) as brokers:
        await brokers.elect(1)
        await brokers.produce(1, b"a")
        asked = ListOffsetsPartition(partition_index=0, timestamp=-1)
        request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name="t", partitions=[asked])])
        [response] = (await brokers.ask(1, request, version)).topics[0].partitions
        assert (response.error_code, response.offset, response.leader_epoch) == (
            Errors.NONE,
            1,
            1 if version >= 4 else -1,
        )


@story
async def test_a_waiting_request_ends_with_its_client(tmp_path: Path) -> None:
    """A request may wait for 24 days: requests of clients that disconnect would fill the memory."""
    async with brokers_in(tmp_path, replica_lag_time_max_ms=10_000_000) as brokers:
        await brokers.elect(1)
        await brokers.servers[2].runtime.fetchers.close()  # So that nothing more is committed.
        manager = brokers.servers[1].runtime.manager
        partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=10_000)
        topics = [FetchTopic(topic_id=TOPIC_ID, partitions=[partition])]
        fetch = FetchRequest(max_wait_ms=2**31 - 1, min_bytes=1, topics=topics, forgotten_topics_data=[])
        data = PartitionProduceData(index=0, records=building.batch(0, [b"a"]))
        produced = [TopicProduceData(name="t", partition_data=[data])]
        produce = ProduceRequest(acks=-1, timeout_ms=2**31 - 1, topic_data=produced)
        for request, version, waiting in ((fetch, 13, manager.fetching), (produce, 9, manager.producing)):
            async with await connect("127.0.0.1", brokers.servers[1].port) as connection:
                answer = connection.send(request, version)
                await until(lambda waiting=waiting: waiting.by_id)
            await until(lambda waiting=waiting: not waiting.by_id)
            with pytest.raises(DisconnectedError):
                await answer
            assert not brokers.servers[1].handlers._replicas._waiting


@story
async def test_a_request_for_a_producer_id_ends_with_its_client(tmp_path: Path) -> None:
    """No controller is known: the broker asks for one again and again."""
    async with brokers_in(tmp_path) as brokers:
        server = brokers.servers[1]
        async with await connect("127.0.0.1", server.port) as connection:
            answer = connection.send(InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1))
            allocating = server.runtime.requests._allocating
            await until(allocating.locked)
        await until(lambda: not allocating.locked())
        with pytest.raises(DisconnectedError):
            await answer


@story
async def test_who_is_gone_leaves_the_isr(tmp_path: Path) -> None:
    async with brokers_in(tmp_path, replica_lag_time_max_ms=300) as brokers:
        await brokers.elect(1)
        await brokers.produce(1, b"a")
        await brokers.servers[2].runtime.fetchers.close()
        response = await brokers.produce(1, b"b")
        assert response.error_code == Errors.NONE, "the controller took it out"
        request = brokers.controller.of(AlterPartitionRequest)[-1]
        assert [each.broker_id for each in request.topics[0].partitions[0].new_isr_with_epochs] == [1]
        assert request.broker_epoch == brokers.servers[1].runtime.manager.broker_epoch


@story
async def test_an_older_protocol_writes_the_isr_itself(tmp_path: Path) -> None:
    async with brokers_in(tmp_path, replica_lag_time_max_ms=300, inter_broker_protocol="2.6") as brokers:
        path = znodes.state_path("t", 0)
        state = znodes.PartitionStateNode(1, 1, (1, 2), 1)
        brokers.tree.nodes[path] = (znodes.encode_state(state), 1, 0, 0)
        await brokers.elect(1)
        await brokers.servers[2].runtime.fetchers.close()
        assert (await brokers.produce(1, b"a")).error_code == Errors.NONE
        data, version, *_ = brokers.tree.nodes[path]
        assert (znodes.decode_state(path, data), version) == (state._replace(isr=(1,)), 2)
        [response] = [each for each in brokers.tree.nodes if each.startswith(znodes.ISR_CHANGE_NOTIFICATION + "/")]
        assert znodes.decode_isr_change(response, brokers.tree.nodes[response][0]) == [("t", 0)]
        assert not brokers.controller.of(AlterPartitionRequest)


@story
async def test_a_topics_configuration(tmp_path: Path) -> None:
    async with brokers_in(tmp_path) as brokers:
        path, change = znodes.config_path("topics", "t"), f"{znodes.CONFIG_CHANGES}/{znodes.CONFIG_CHANGE_PREFIX}0"
        nodes = brokers.tree.nodes
        nodes[path] = (znodes.encode_config({"min.insync.replicas": "2"}), 0, 0, 0)
        await brokers.elect(1, 1)
        assert (await brokers.produce(1, b"a")).error_code == Errors.NOT_ENOUGH_REPLICAS
        nodes[path] = (znodes.encode_config({"min.insync.replicas": "1"}), 1, 0, 0)
        nodes[change] = (znodes.encode_config_change("topics/t"), 0, 0, 0)
        brokers.tree.fire(znodes.CONFIG_CHANGES)
        settings = brokers.servers[1].runtime.manager.settings
        await until(lambda: settings["t"].min_insync_replicas == 1)
        assert (await brokers.produce(1, b"a")).error_code == Errors.NONE


@pytest.mark.covers("A15")
@story
async def test_a_lost_session_is_followed_by_a_new_epoch(tmp_path: Path) -> None:
    async with brokers_in(tmp_path) as brokers:
        server = brokers.servers[1]
        before = server.runtime.manager.broker_epoch
        brokers.tree.past_ids.add(brokers.tree.id)
        brokers.tree.id += 1
        server._session_changed(SessionEvent.EXPIRED)
        await until(lambda: server.runtime.manager.broker_epoch > before)
        data, _, czxid, owner = brokers.tree.nodes[znodes.broker_path(1)]
        assert (czxid, owner) == (server.runtime.manager.broker_epoch, brokers.tree.id) and data


@pytest.mark.covers("A12")
@story
async def test_a_leader_and_isr_that_zookeeper_cut_short_is_taken_when_it_comes_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """KAFKA-9769: its leader epoch must not be known already, or the broker would pass over it."""
    async with brokers_in(tmp_path) as brokers:
        server = brokers.servers[1]
        failures = [ZookeeperError("the connection is lost")]
        read = server._zookeeper.read_nodes

        async def read_nodes(paths: Sequence[str], *arguments: Any, **options: Any) -> Any:
            if failures and znodes.config_path("topics", "t") in paths:
                raise failures.pop()
            return await read(paths, *arguments, **options)

        monkeypatch.setattr(server._zookeeper, "read_nodes", read_nodes)
        with pytest.raises(DisconnectedError):
            await brokers.elect(1)
        assert (failures, server.runtime.manager.replicas, [*server.runtime.logs.keys()]) == ([], {}, [])
        brokers.epoch -= 1
        await brokers.elect(1)
        assert server.runtime.manager.replicas["t", 0].leader_epoch == 1
        assert (await brokers.produce(1, b"a")).error_code == Errors.NONE


@pytest.mark.covers("article F.1")
@story
async def test_controlled_shutdown_is_tried_again_with_the_new_epoch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """380.5"""
    monkeypatch.setattr(controlled_shutdown, "SHUTDOWN_BACKOFF_S", 0.2)
    async with brokers_in(tmp_path) as brokers:
        await brokers.elect(1)
        server = brokers.servers[2]
        old = server.runtime.manager.broker_epoch
        brokers.controller.refusals = [Errors.STALE_BROKER_EPOCH]
        stopping = asyncio.create_task(server._controlled_shutdown())
        await until(lambda: len(brokers.controller.of(ControlledShutdownRequest)) == 1)
        server.runtime.manager.broker_epoch = old + 50
        await stopping
        assert [each.broker_epoch for each in brokers.controller.of(ControlledShutdownRequest)] == [old, old + 50]


@story
async def test_a_full_disk_ends_the_broker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other broker has the acknowledged records."""
    async with brokers_in(tmp_path) as brokers:
        await brokers.elect(1)
        await brokers.produce(1, b"a")
        log = next(iter(brokers.servers[1].runtime.logs.directories.online[0].logs.values()))
        monkeypatch.setattr(log._log._writer, "_files", FullDisk())
        assert (await brokers.produce(1, b"b")).error_code == Errors.KAFKA_STORAGE_ERROR
        await brokers.servers[1].wait_failed()
        await brokers.elect(2, 2)
        assert values(await brokers.fetch(2)) == [b"a"]
        asked = brokers.controller.of(ControlledShutdownRequest)
    assert [each.broker_id for each in brokers.controller.of(ControlledShutdownRequest)[len(asked) :]] == [2]


@story
async def test_a_directory_that_cannot_be_opened_at_the_start_is_offline(tmp_path: Path) -> None:
    """KIP-112: with the other the broker goes on, and the controller hears which replicas it has not."""
    async with brokers_in(tmp_path) as brokers:
        await brokers.elect(1)
        await brokers.produce(1, b"a")
        await until(lambda: brokers.servers[2].runtime.manager.partitions["t", 0].log.end_offset == 1)
    for name in ("1-2", "2-2"):
        (tmp_path / name).write_text("no directory")
    shutil.rmtree(tmp_path / "2")
    (tmp_path / "1" / "meta.properties").unlink()  # Another cluster is about to begin.
    async with brokers_in(tmp_path, directories=2) as brokers:
        await brokers.elect(1, 1)
        assert values(await brokers.fetch(1)) == [b"a"]
        assert not any(server.runtime.tasks.failed.is_set() for server in brokers.servers.values())
        with pytest.raises(AssertionError):  # The answer names an error.
            await brokers.elect(2, 2)
        assert (await brokers.produce(2, b"b")).error_code == Errors.KAFKA_STORAGE_ERROR
        assert [*brokers.servers[2].runtime.logs.keys()] == []
    for name in ("1", "2"):
        shutil.rmtree(tmp_path / name)
        (tmp_path / name).write_text("no directory either")
    with pytest.raises(KcoreError, match="no log directory can be used"):
        async with brokers_in(tmp_path, directories=2):
            raise AssertionError("it has none")


@story
async def test_a_control_request_is_decoded_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The machine takes the columns in which its topics were looked up."""
    decoded: list[str] = []

    def counted(message: type[Message], version: int, data: memoryview) -> Columns:
        decoded.append(message.__name__)
        return decode_columns(message, version, data)

    for module in (control_requests, control_request_receiver):
        monkeypatch.setattr(module, "decode_columns", counted)
    async with brokers_in(tmp_path) as brokers:
        await brokers.elect(1, 1)
        assert decoded == ["UpdateMetadataRequest", "LeaderAndIsrRequest"]


@story
async def test_a_failed_directory_is_reported_until_zookeeper_takes_the_notification(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of two directories is full: the broker continues with the other."""
    monkeypatch.setattr(zk_link, "AGAIN_S", 0.05)
    async with brokers_in(tmp_path, directories=2) as brokers:
        await brokers.elect(1)
        server = brokers.servers[1]
        write, failures = server._zookeeper.write, [SessionExpiredError("gone"), ZookeeperError("refused")]

        async def fails(*operations: Any, **options: Any) -> Any:
            if failures:
                raise failures.pop()
            return await write(*operations, **options)

        monkeypatch.setattr(server._zookeeper, "write", fails)
        log = next(iter(server.runtime.logs.directories.online[0].logs.values()))
        monkeypatch.setattr(log._log._writer, "_files", FullDisk())
        assert (await brokers.produce(1, b"b")).error_code == Errors.KAFKA_STORAGE_ERROR
        prefix = f"{znodes.LOG_DIR_EVENT_NOTIFICATION}/{znodes.LOG_DIR_EVENT_PREFIX}"
        await until(lambda: any(path.startswith(prefix) for path in brokers.tree.nodes))
        [path] = [path for path in brokers.tree.nodes if path.startswith(prefix)]
        assert znodes.decode_log_dir_event(path, brokers.tree.nodes[path][0]) == 1
        assert len(server.runtime.logs.directories.online) == 1 and not server.runtime.tasks.failed.is_set()


def test_java_hash() -> None:
    """String.hashCode, as Utils.abs has it."""
    assert [java_hash(text) for text in ("", "a", "console-consumer-1", "polygenelubricants")] == [
        *(0, 97, java_hash("console-consumer-1"), 0)
    ]
    assert java_hash("group") == 98629247
