"""The client against a real ZooKeeper 3.8.4, the one that Kafka 3.9.1 ships."""

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import fields

import numpy as np
import pytest

from kcore.errors import ControllerMovedError, DisconnectedError, SessionExpiredError, ZookeeperError
from kcore.measure.processes.zk_cluster import ZookeeperProcess
from kcore.metadata.table.changes import PartitionChanges, UnwrittenChanges
from kcore.metadata.table.partition_table import PartitionTable
from kcore.metadata.table.topic_table import TopicTable
from kcore.metadata.zookeeper import znodes
from kcore.metadata.zookeeper.znode_operations import Create, Delete, Node, OperationResult, SetData
from kcore.zookeeper.client import ZookeeperClient
from kcore.zookeeper.registration import elect, register_broker, take_over
from kcore.zookeeper.session import SessionEvent, Watch
from net.loops import story, until

DONE, NO_NODE, NODE_EXISTS, BAD_VERSION = (
    OperationResult.DONE,
    OperationResult.NO_NODE,
    OperationResult.NODE_EXISTS,
    OperationResult.BAD_VERSION,
)


@pytest.fixture(scope="module")
def server() -> Iterator[ZookeeperProcess]:
    with ZookeeperProcess(tick_ms=500) as process:
        yield process


@asynccontextmanager
async def clean(server: ZookeeperProcess, **options: object) -> AsyncIterator[ZookeeperClient]:
    """A client, and nothing of Kafka's in ZooKeeper."""
    async with ZookeeperClient(server.address, session_timeout_s=6.0, **options) as client:  # type: ignore[arg-type]
        [names] = await client.read_children(["/"])
        await remove(client, [f"/{name}" for name in names or [] if name != "zookeeper"])
        yield client


async def remove(client: ZookeeperClient, paths: list[str]) -> None:
    """With all that is below."""
    if paths:
        lists = zip(paths, await client.read_children(paths), strict=True)
        await remove(client, [f"{path}/{name}" for path, names in lists for name in names or []])
        await client.write([Delete(path) for path in paths])


def table_of(topics: int, partitions: int) -> PartitionTable:
    """Topics t0 ... of so many partitions, replicas 1, 2, 3, without states."""
    count = topics * partitions
    nobody = np.full(count, -1)
    return PartitionTable.from_arrays(
        replicas=np.tile([1, 2, 3], (count, 1)),
        isr=np.full((count, 1), -1),
        leaders=nobody,
        leader_epochs=nobody,
        partition_epochs=nobody,
        controller_epochs=nobody,
        topics=TopicTable([f"t{topic}" for topic in range(topics)]),
        topic_rows=np.repeat(np.arange(topics), partitions),
        partition_indexes=np.tile(np.arange(partitions), topics),
    )


def changes_of(rows: object, version: int, leader: int = 1) -> UnwrittenChanges:
    """Leader epoch 7, ISR [leader, 3]; every third is recovering."""
    rows = np.asarray(rows, np.int32)
    return UnwrittenChanges(
        rows=rows,
        leaders=np.full(len(rows), leader, np.int32),
        isr_offsets=np.arange(0, 2 * len(rows) + 1, 2, dtype=np.int32),
        isr=np.tile(np.array([leader, 3], np.int32), len(rows)),
        leader_epochs=np.full(len(rows), 7, np.int32),
        partition_epochs=np.full(len(rows), version, np.int32),
        recovery=(rows % 3 == 0).astype(np.int8),
    )


def same(found: PartitionChanges, expected: PartitionChanges) -> None:
    for field in fields(PartitionChanges):
        np.testing.assert_array_equal(getattr(found, field.name), getattr(expected, field.name), field.name)


@story
async def test_nodes_one_by_one_and_in_bulk(server: ZookeeperProcess) -> None:
    async with clean(server) as client:
        paths = [f"/n{at}" for at in range(2_500)]
        assert set(await client.write([Create(path, path.encode()) for path in paths])) == {DONE}
        assert await client.write([SetData("/n7", b"x"), SetData("/n7", b"y", 1), SetData("/n7", b"z", 1)]) == [
            DONE, DONE, BAD_VERSION,
        ]  # fmt: skip
        nodes = await client.read_nodes([*paths, "/no"])
        assert nodes[-1] is None
        assert nodes[7] is not None and nodes[7][:2] == (b"y", 2)
        for at in (0, 7, 999, 1_000, 2_499):
            node, stat = nodes[at], await client.stat(paths[at])
            assert node is not None and stat is not None
            assert (node.version, node.czxid, len(node.data)) == (stat.version, stat.czxid, stat.dataLength)
            assert [node] == await client.read_nodes([paths[at]])
            assert [node] == await client.read_nodes([paths[at]], watch=lambda *_: None)
        [names] = await client.read_children(["/"])
        assert sorted(names or []) == sorted([*(path[1:] for path in paths), "zookeeper"])


@story
async def test_without_multi_read_the_same_is_read(server: ZookeeperProcess) -> None:
    """ZooKeeper before 3.6"""
    async with clean(server) as client:
        await client.write([Create("/a", b"1"), Create("/b"), SetData("/b", b"22")])
        bulk = await client.read_nodes(["/a", "/no", "/b"])
        client._has_multi_read = False
        assert await client.read_nodes(["/a", "/no", "/b"]) == bulk
        assert bulk[0] is not None and bulk[0].data == b"1"


@story
async def test_operations_that_fail_fail_alone(server: ZookeeperProcess) -> None:
    async with clean(server) as client:
        operations = [
            Create("/p"), Create("/p/q", b"1"), Create("/p"), Delete("/p"), SetData("/x", b""), Create("/p/r"),
            Delete("/p/q", 5), Delete("/p/q", 0), Delete("/x"), Create("/x/y"), SetData("/p/r", b"2", 0),
        ]  # fmt: skip
        assert await client.write(operations) == [
            DONE, DONE, NODE_EXISTS, OperationResult.NOT_EMPTY, NO_NODE, DONE,
            BAD_VERSION, DONE, NO_NODE, NO_NODE, DONE,
        ]  # fmt: skip
        assert await client.write([]) == []


@story
async def test_all_or_none(server: ZookeeperProcess) -> None:
    async with clean(server) as client:
        await client.write([Create("/f")])
        first = [Create("/a"), Create("/a/b"), SetData("/a", b"1", 0)]
        assert await client.write(first, atomic=True, fence=("/f", 0)) == [DONE] * 3
        second = [Create("/c"), SetData("/a", b"2", 7), Create("/d")]
        assert await client.write(second, atomic=True) == [
            OperationResult.NOT_TRIED,
            BAD_VERSION,
            OperationResult.NOT_TRIED,
        ]
        assert await client.read_nodes(["/c", "/d"]) == [None, None]
        with pytest.raises(ZookeeperError, match="a transaction has 2,000,109 bytes"):
            await client.write([Create("/e", bytes(1_000_000)), Create("/f", bytes(1_000_000))], atomic=True)


@story
async def test_a_request_never_has_more_bytes_than_zookeeper_takes(server: ZookeeperProcess) -> None:
    async with clean(server) as client:
        assert set(await client.write([Create(f"/b{at}", bytes(9_000)) for at in range(300)])) == {DONE}
        nodes = await client.read_nodes([f"/b{at}" for at in range(300)])
        assert all(node is not None and node.data == bytes(9_000) for node in nodes)


@story
async def test_states_are_created_written_and_read(server: ZookeeperProcess) -> None:
    async with clean(server) as client:
        table = table_of(7, 400)
        await client.make_path(znodes.TOPICS)
        await client.write([Create(znodes.topic_path(name)) for name in table.topics.names])
        assert len((await client.read_states(table, np.arange(len(table), dtype=np.int32))).changes) == 0
        await client.write([Create(znodes.CONTROLLER_EPOCH, b"3")])
        fence = (znodes.CONTROLLER_EPOCH, 0)
        new = changes_of(np.arange(2_700), -1)
        assert (await client.write_states(table, new, 3, fence=fence)).all()
        found = await client.read_states(table, np.arange(len(table), dtype=np.int32))
        same(found.changes, new.written())
        assert set(found.controller_epochs.tolist()) == {3}
        [node] = await client.read_nodes([znodes.state_path("t6", 298)])
        assert node is not None
        assert node.data == b'{"controller_epoch":3,"leader":1,"version":1,"leader_epoch":7,"isr":[1,3]}'
        # Growth: what is there already stays, and is not taken.
        more = changes_of(np.arange(2_690, 2_800), -1, leader=2)
        assert np.flatnonzero(await client.write_states(table, more, 3)).tolist() == list(range(10, 110))
        with pytest.raises(ControllerMovedError):
            await client.write_states(table, changes_of([5], 0), 4, fence=(znodes.CONTROLLER_EPOCH, 1))
        with pytest.raises(ControllerMovedError):
            await client.write_states(table, changes_of([5], 0), 4, fence=("/no", 0))
        [node] = await client.read_nodes([znodes.state_path("t0", 5)])
        assert node is not None and node.version == 0


@story
async def test_states_of_other_versions_are_refused_alone(server: ZookeeperProcess) -> None:
    async with clean(server) as client:
        table = table_of(1, 2_500)
        await client.make_path(znodes.topic_path("t0"))
        await client.write_states(table, changes_of(np.arange(2_400), -1), 1)
        others = [0, 1, 500, 998, 999, 1_000, 1_777, 2_399]
        await client.write([SetData(znodes.state_path("t0", row), b"{}") for row in others])
        taken = await client.write_states(table, changes_of(np.arange(2_450), 0, leader=2), 2)
        assert np.flatnonzero(~taken).tolist() == [*others, *range(2_400, 2_450)]
        nodes = await client.read_nodes([znodes.state_path("t0", row) for row in range(2_400)])
        assert {node.version for node in nodes if node} == {1}
        assert [row for row, node in enumerate(nodes) if node and node.data == b"{}"] == others
        found = await client.read_states(table, np.arange(2_500, dtype=np.int32))
        assert len(found.changes) == 2_400 - len(others)
        messages = [str(error) for error in found.unreadable]
        assert [line.split("/state: ")[0].rpartition("/")[2] for line in messages] == [str(row) for row in others]
        assert all("no 'leader'" in line for line in messages)
        # As nobody writes them, but as JSON may be.
        data = b'{ "isr" : [2], "leader":2,\n"leader_epoch":1,"controller_epoch":4,"by":"hand" }'
        await client.write([SetData(znodes.state_path("t0", row), data) for row in others])
        found = await client.read_states(table, np.array([0, 1, 2, 2_399], np.int32))
        assert found.changes.leaders.tolist() == [2, 2, 2, 2]
        assert found.changes.isr.tolist() == [2, 2, 2, 3, 2]
        assert found.changes.partition_epochs.tolist() == [2, 2, 1, 2]
        assert found.controller_epochs.tolist() == [4, 4, 2, 4]


@story
async def test_partitions_are_deleted_in_bulk(server: ZookeeperProcess) -> None:
    """Missing znodes and znodes with other children are passed over; a moved fence stops the deletion."""
    async with clean(server) as client:
        table = table_of(1, 2_500)
        await client.make_path(znodes.topic_path("t0"))
        await client.write_states(table, changes_of(np.arange(2_400), -1), 1)
        await client.write([Delete(znodes.state_path("t0", 7)), Create(f"{znodes.partition_path('t0', 9)}/mine")])
        with pytest.raises(ControllerMovedError):
            await client.delete_partitions(table, np.arange(5, dtype=np.int32), fence=(znodes.topic_path("t0"), 9))
        await client.delete_partitions(table, np.arange(2_500, dtype=np.int32), fence=(znodes.topic_path("t0"), 0))
        [left] = await client.read_children([znodes.partitions_path("t0")])
        assert left == ["9"]
        outcomes = await client.write([Delete(znodes.partitions_path("t0")), Delete("/none"), Delete("/none/too")])
        assert outcomes == [OperationResult.NOT_EMPTY, NO_NODE, NO_NODE]


@story
async def test_watches_fire_once_each_and_in_order(server: ZookeeperProcess) -> None:
    fired: list[tuple[str, str]] = []

    def watch(path: str, kind: str) -> None:
        fired.append((path, kind))

    async with clean(server) as client, ZookeeperClient(server.address) as other:
        await client.write([Create("/a"), Create("/b")])
        assert [node and node.data for node in await client.read_nodes(["/a", "/b", "/c"], watch)] == [
            b"",
            b"",
            None,
        ]
        assert await client.read_nodes(["/a"], watch) == await client.read_nodes(["/a"])  # Twice is once.
        assert await client.read_children(["/a", "/d"], watch) == [[], None]
        await other.write([SetData("/a", b"1"), SetData("/a", b"2"), Create("/c"), Create("/a/x"), Create("/a/y")])
        await other.write([Delete("/b"), Create("/d")])
        await until(lambda: len(fired) == 5)
        # A watch comes before any answer that shows what it tells of.
        assert await client.read_nodes(["/no"]) == [None]
        assert fired == [
            ("/a", "changed"), ("/c", "created"), ("/a", "children"), ("/b", "deleted"), ("/d", "created"),
        ]  # fmt: skip


@story
async def test_many_watches_are_set_at_once(server: ZookeeperProcess) -> None:
    fired: list[tuple[str, str]] = []
    async with clean(server) as client, ZookeeperClient(server.address) as other:
        paths = [f"/n{at}" for at in range(2_500)]
        await client.write([Create(path) for path in paths])
        await client.write([Delete("/n7"), Delete("/n8")])
        nodes = await client.read_nodes(paths, lambda path, kind: fired.append((path, kind)))
        assert [at for at, node in enumerate(nodes) if node is None] == [7, 8]
        await other.write([Create("/n7"), Create("/n7/x"), SetData("/n9", b"1"), SetData("/n9", b"2"), Delete("/n10")])
        await until(lambda: len(fired) == 3)
        assert await client.read_nodes(["/no"]) == [None]
        assert fired == [("/n7", "created"), ("/n9", "changed"), ("/n10", "deleted")]


@story
async def test_what_changes_between_a_read_and_its_watch_fires(server: ZookeeperProcess) -> None:
    fired: list[tuple[str, str]] = []
    async with clean(server) as client, ZookeeperClient(server.address) as other:
        paths = [f"/n{at}" for at in range(6)]
        await client.write([Create(path) for path in paths[:5]])
        set_watches = client.session.set_watches

        async def late(zxid: int, watches: Sequence[Watch]) -> None:
            await other.write([SetData("/n1", b"1"), Delete("/n2"), Create("/n5")])
            await client.stat("/n1")  # An answer that shows more.
            await set_watches(zxid, watches)

        client.session.set_watches = late  # type: ignore[method-assign]
        nodes = await client.read_nodes(paths, lambda path, kind: fired.append((path, kind)))
        assert [node and node.data for node in nodes] == [b"", b"", b"", b"", b"", None]
        await until(lambda: len(fired) == 3)
        assert sorted(fired) == [("/n1", "changed"), ("/n2", "deleted"), ("/n5", "created")]


@story
async def test_a_chroot(server: ZookeeperProcess) -> None:
    fired: list[tuple[str, str]] = []
    async with clean(server) as client, ZookeeperClient(f"{server.address}/one/kafka") as below:
        await below.make_path("/brokers/ids")
        await below.read_nodes(["/brokers"], lambda path, kind: fired.append((path, kind)))
        assert await below.read_children(["/", "/brokers"]) == [["brokers"], ["ids"]]
        assert await client.read_children(["/one/kafka"]) == [["brokers"]]
        await client.write([SetData("/one/kafka/brokers", b"x")])
        await until(lambda: fired)
        assert fired == [("/brokers", "changed")]
        table = table_of(1, 2)
        await below.make_path("/brokers/topics/t0")
        assert (await below.write_states(table, changes_of([0, 1], -1), 1)).all()
        found = await below.read_states(table, np.array([1], np.int32))
        assert found.changes.rows.tolist() == [1]
        assert (await client.read_nodes(["/one/kafka/brokers/topics/t0/partitions/1/state"]))[0] is not None


@story
async def test_sequences_get_their_numbers(server: ZookeeperProcess) -> None:
    async with clean(server) as client:
        await client.make_path(znodes.CONFIG_CHANGES)
        change = Create(
            f"{znodes.CONFIG_CHANGES}/config_change_", znodes.encode_config_change("topics/t"), sequential=True
        )
        assert await client.write([change, change]) == [DONE, DONE]
        [names] = await client.read_children([znodes.CONFIG_CHANGES])
        assert sorted(names or []) == ["config_change_0000000000", "config_change_0000000001"]


@story
async def test_a_broker_registers_and_its_czxid_comes_back(server: ZookeeperProcess) -> None:
    async with clean(server) as client:
        await client.make_path(znodes.BROKER_IDS)
        epoch = await register_broker(client, 5, b"data")
        [node] = await client.read_nodes([znodes.broker_path(5)])
        assert node == Node(b"data", 1, epoch)
        assert await register_broker(client, 5, b"data") == epoch  # As after a lost answer.
        async with ZookeeperClient(server.address) as other:
            with pytest.raises(ZookeeperError, match=f"/brokers/ids/5: .* session {client.session.id:#x}"):
                await register_broker(other, 5, b"data")
    async with ZookeeperClient(server.address) as other:
        assert await register_broker(other, 5, b"data") > epoch


@story
async def test_a_znode_of_a_session_of_ours_that_expired_is_replaced(server: ZookeeperProcess) -> None:
    """KAFKA-7165"""
    async with clean(server) as client, ZookeeperClient(server.address) as old:
        await client.make_path(znodes.BROKER_IDS)
        epoch = await register_broker(old, 5, b"old")
        client.session.past_ids.add(old.session.id)
        assert await register_broker(client, 5, b"new") > epoch
        [node] = await client.read_nodes([znodes.broker_path(5)])
        assert node is not None and node.data == b"new"


@story
async def test_controllers_are_elected_and_taken_over_from(server: ZookeeperProcess) -> None:
    async with clean(server) as client, ZookeeperClient(server.address) as other:
        assert await elect(client, 1, 1_000) == (1, 1)
        nodes = await client.read_nodes([znodes.CONTROLLER, znodes.CONTROLLER_EPOCH])
        assert [node and node.data for node in nodes] == [znodes.encode_controller(1, 1_000), b"1"]
        with pytest.raises(ControllerMovedError, match="controller 1 is active"):
            await elect(other, 2, 1_000)
        epoch = await take_over(other, 2, 2_000)
        assert epoch == (2, 2)
        [node] = await client.read_nodes([znodes.CONTROLLER])
        assert node is not None and znodes.decode_controller(node.data).broker_id == 2
        with pytest.raises(ControllerMovedError):
            await client.write([Create("/late")], fence=(znodes.CONTROLLER_EPOCH, 1))
        await other.write([Delete(znodes.CONTROLLER)])
        assert await take_over(client, 1, 3_000) == (3, 3)
        await client.write([Delete(znodes.CONTROLLER)])
        assert await elect(other, 2, 3_000) == (4, 4)


@story
async def test_zookeeper_is_killed_and_comes_back(server: ZookeeperProcess) -> None:
    """Reads and writes wait; the session, its ephemeral znode and its watches live on."""
    events: list[SessionEvent] = []
    fired: list[tuple[str, str]] = []

    def watch(path: str, kind: str) -> None:
        fired.append((path, kind))

    async with clean(server, on_session=events.append) as client:
        await client.make_path(znodes.BROKER_IDS)
        epoch = await register_broker(client, 5, b"data")
        await client.read_nodes(["/brokers", "/later"], watch)
        await client.read_children(["/brokers"], watch)
        session = client.session.id
        server.kill()
        reads = [asyncio.create_task(client.read_nodes([znodes.broker_path(5)])) for _ in range(20)]
        write = asyncio.create_task(client.write([SetData("/brokers", b"x"), Create("/later")]))
        await until(lambda: SessionEvent.SUSPENDED in events)
        await asyncio.to_thread(server.start)
        assert [await read for read in reads] == [[Node(b"data", 1, epoch)]] * 20
        assert await write == [DONE, DONE]
        await until(lambda: len(fired) == 2)
        await client.write([Create("/brokers/more")])
        await until(lambda: len(fired) == 3)
        assert sorted(fired) == [("/brokers", "changed"), ("/brokers", "children"), ("/later", "created")]
        assert client.session.id == session
        assert events == [SessionEvent.CONNECTED, SessionEvent.SUSPENDED, SessionEvent.CONNECTED]


@story
async def test_what_changed_while_there_was_no_connection_fires(server: ZookeeperProcess) -> None:
    fired: list[tuple[str, str]] = []
    async with clean(server) as client, ZookeeperClient(server.address) as other:
        await client.make_path("/a/b")
        await client.read_nodes(["/a", "/a/b", "/c"], lambda path, kind: fired.append((path, kind)))
        client.session._kazoo._connection._socket.shutdown(socket.SHUT_RDWR)
        await other.write([SetData("/a", b"1"), Delete("/a/b"), Create("/c")])
        await until(lambda: len(fired) == 3)
        assert sorted(fired) == [("/a", "changed"), ("/a/b", "deleted"), ("/c", "created")]


@story
async def test_a_session_expires(server: ZookeeperProcess) -> None:
    """Waiting operations fail, none of them runs in the next session, and the next session works."""
    events: list[SessionEvent] = []
    async with clean(server, on_session=events.append) as client, ZookeeperClient(server.address) as other:
        await client.make_path(znodes.BROKER_IDS)
        epoch = await register_broker(client, 5, b"data")
        old = client.session.id
        # Another connection takes the session and closes it (as the Java client's tests expire one).
        thief = ZookeeperClient(server.address)
        thief.session._kazoo._session_id, thief.session._kazoo._session_passwd = client.session._kazoo.client_id
        async with thief:
            pass
        await until(lambda: SessionEvent.EXPIRED in events and events[-1] == SessionEvent.CONNECTED)
        assert client.session.id != old
        assert client.session.past_ids == {old}
        assert await other.read_nodes([znodes.broker_path(5)]) == [None]
        assert await register_broker(client, 5, b"data") > epoch


@story
async def test_calls_under_way_when_a_session_expires_fail(server: ZookeeperProcess) -> None:
    async with clean(server) as client:
        await client.make_path(znodes.BROKER_IDS)
        server.kill()
        waiting = [
            asyncio.create_task(client.write([Create("/stale")])),
            asyncio.create_task(register_broker(client, 5, b"data")),
        ]
        await asyncio.sleep(0.1)
        client.session._kazoo._session_id = 0x123  # One that the server will not know.
        await asyncio.to_thread(server.start)
        for task in waiting:
            with pytest.raises(SessionExpiredError):
                await task
        assert await client.read_nodes(["/stale", znodes.broker_path(5)]) == [None, None]


@story
async def test_a_client_that_is_closed_says_so(server: ZookeeperProcess) -> None:
    events: list[SessionEvent] = []
    async with clean(server, on_session=events.append) as client:
        server.kill()
        waiting = asyncio.create_task(client.read_nodes(["/"]))
        await until(lambda: SessionEvent.SUSPENDED in events)
    with pytest.raises(DisconnectedError):
        await waiting
    with pytest.raises(DisconnectedError):
        await client.read_nodes(["/"])
    assert events == [SessionEvent.CONNECTED, SessionEvent.SUSPENDED]
    await asyncio.to_thread(server.start)
