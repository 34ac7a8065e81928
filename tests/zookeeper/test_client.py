"""The client batches operations into few requests, and each operation has its own outcome: on a tree in memory."""

import asyncio
from dataclasses import fields
from typing import Any

import numpy as np
import pytest
from kazoo import exceptions
from kazoo.exceptions import NoAuthError

from kcore.errors import ControllerMovedError, TableError, ZookeeperError
from kcore.metadata.table.changes import PartitionChanges, UnwrittenChanges
from kcore.metadata.table.partition_table import PartitionTable
from kcore.metadata.table.topic_table import TopicTable
from kcore.metadata.zookeeper import znodes
from kcore.metadata.zookeeper.znode_operations import Create, Delete, Operation, OperationResult, SetData
from kcore.zookeeper.client import ZookeeperClient
from kcore.zookeeper.operations import name_of_error
from kcore.zookeeper.registration import elect, register_broker, take_over
from kcore.zookeeper.session import ReplyFrame
from net.loops import story
from reference import jute as twin
from zookeeper.tree import Tree, operations_in

DONE, BAD_VERSION = OperationResult.DONE, OperationResult.BAD_VERSION
COUNT = 2_300


def client_of(tree: Tree) -> ZookeeperClient:
    client = ZookeeperClient("nowhere:1")
    client.session = tree  # type: ignore[assignment]
    return client


def partitions() -> PartitionTable:
    """One topic, t0."""
    nobody = np.full(COUNT, -1)
    return PartitionTable.from_arrays(
        replicas=np.ones((COUNT, 1), np.int32),
        isr=np.ones((COUNT, 1), np.int32),
        leaders=np.ones(COUNT, np.int32),
        leader_epochs=nobody,
        partition_epochs=nobody,
        controller_epochs=nobody,
        topics=TopicTable(["t0"]),
        topic_rows=np.zeros(COUNT, np.int32),
    )


def changes_of(rows: Any, version: int) -> UnwrittenChanges:
    rows = np.asarray(rows, np.int32)
    ones = np.ones(len(rows), np.int32)
    offsets = np.arange(len(rows) + 1, dtype=np.int32)
    return UnwrittenChanges(rows, ones, offsets, ones, ones * 4, ones * version, np.zeros(len(rows), np.int8))


async def with_states(tree: Tree) -> tuple[ZookeeperClient, PartitionTable]:
    client, table = client_of(tree), partitions()
    await client.make_path(znodes.topic_path("t0"))
    await client.write([Create(znodes.CONTROLLER_EPOCH, b"1")])
    assert (await client.write_states(table, changes_of(range(COUNT), -1), 1)).all()
    tree.multis = tree.reads = 0
    return client, table


FENCE = (znodes.CONTROLLER_EPOCH, 0)


@pytest.mark.covers("article F.3")
@story
async def test_states_are_written_a_thousand_a_request() -> None:
    tree = Tree()
    client, table = await with_states(tree)
    assert (await client.write_states(table, changes_of(range(COUNT), 0), 1, fence=FENCE)).all()
    assert (tree.multis, tree.reads) == (3, 0)
    found = await client.read_states(table, np.arange(COUNT, dtype=np.int32)[::-1])
    assert tree.reads == 3
    assert found.changes.rows.tolist() == list(range(COUNT))
    assert set(found.changes.partition_epochs.tolist()) == {1}
    assert (await client.write_states(table, changes_of([], 0), 1)).tolist() == []
    nothing = await client.read_states(table, np.empty(0, np.int32))
    assert (len(nothing.changes), nothing.changes.isr_offsets.tolist()) == (0, [0])


@story
async def test_of_many_refused_states_one_look_finds_all() -> None:
    tree = Tree()
    client, table = await with_states(tree)
    assert (await client.write_states(table, changes_of(range(0, COUNT, 2), 0), 1)).all()
    tree.multis = tree.reads = 0
    taken = await client.write_states(table, changes_of(range(COUNT), 0), 1, fence=FENCE)
    assert taken.tolist() == [row % 2 == 1 for row in range(COUNT)]
    assert (tree.multis, tree.reads) == (6, 3)  # Tried, looked, tried again.
    assert {version for path, (_, version, _, _) in tree.nodes.items() if path.endswith("/state")} == {1}


@story
async def test_a_state_that_changes_again_between_look_and_write() -> None:
    tree = Tree()
    client, table = await with_states(tree)
    victims = [5, 6, 7]

    def somebody_writes() -> None:
        if victims:
            path = znodes.state_path("t0", victims.pop())
            tree.nodes[path] = (b"{}", 9, *tree.nodes[path][2:])

    tree.before_multi = somebody_writes
    taken = await client.write_states(table, changes_of(range(10), 0), 1)
    assert np.flatnonzero(~taken).tolist() == [5, 6, 7]


@story
async def test_states_whose_znodes_went_or_came() -> None:
    tree = Tree()
    client, table = await with_states(tree)
    del tree.nodes[znodes.state_path("t0", 3)]
    assert (await client.write_states(table, changes_of(range(5), 0), 1)).tolist() == [True, True, True, False, True]
    created = await client.write_states(table, changes_of(range(5), -1), 1)
    assert created.tolist() == [False, False, False, True, False]
    found = await client.read_states(table, np.array([3, 4], np.int32))
    assert found.changes.partition_epochs.tolist() == [0, 1]


@pytest.mark.covers("A13")
@story
async def test_a_fence_that_fell_stops_everything() -> None:
    tree = Tree()
    client, table = await with_states(tree)
    before = dict(tree.nodes)
    for fence in ((znodes.CONTROLLER_EPOCH, 1), ("/no", 0)):
        with pytest.raises(ControllerMovedError, match=f"{fence[0]} does not have version"):
            await client.write_states(table, changes_of(range(COUNT), 0), 1, fence=fence)
        with pytest.raises(ControllerMovedError):
            await client.write([Create("/x")], fence=fence)
        with pytest.raises(ControllerMovedError):
            await client.write([Create("/x")], fence=fence, atomic=True)
    assert tree.nodes == before
    assert await client.write([SetData(znodes.CONTROLLER_EPOCH, b"2", 5)], fence=FENCE) == [BAD_VERSION]


def one_by_one(tree: Tree, operations: list[Operation]) -> list[OperationResult]:
    """The result of each operation by itself."""
    outcomes = {
        0: DONE,
        -101: OperationResult.NO_NODE,
        -103: BAD_VERSION,
        -110: OperationResult.NODE_EXISTS,
        -111: OperationResult.NOT_EMPTY,
    }
    kinds: dict[type, int] = {Create: 1, SetData: 5, Delete: 2}
    return [
        outcomes[
            tree._perform(
                kinds[type(operation)],
                operation.path,
                getattr(operation, "data", b""),
                getattr(operation, "version", 0),
            )[0]
        ]
        for operation in operations
    ]


@story
async def test_operations_in_order_are_as_one_by_one() -> None:
    dice = np.random.default_rng(7)
    for _ in range(60):
        operations: list[Operation] = []
        for _ in range(dice.integers(0, 25)):
            path = "/" + "/".join(dice.choice(["a", "b"], dice.integers(1, 4)))
            version = int(dice.integers(-1, 3))
            choices = [Create(path, b"x"), Create(path), SetData(path, b"y", version), Delete(path, version)]
            operations.append(choices[dice.integers(0, 4)])
        together, apart = Tree(), Tree()
        assert await client_of(together).write(operations) == one_by_one(apart, operations)
        assert {path: node[:2] for path, node in together.nodes.items()} == {
            path: node[:2] for path, node in apart.nodes.items()
        }


@story
async def test_a_thousand_deletions_of_what_is_not_there_are_two_requests() -> None:
    """Topics that were made without settings have no znode in /config/topics."""
    tree = Tree()
    client = client_of(tree)
    await client.write([Create("/t"), Create("/c"), *(Create(f"/t/{k}") for k in range(300))])
    tree.multis = tree.reads = 0
    deletions = [Delete(f"/{parent}/{k}") for k in range(300) for parent in ("c", "t")]
    assert await client.write(deletions) == [OperationResult.NO_NODE, DONE] * 300
    assert (tree.multis, tree.reads) == (2, 1)
    assert {*tree.nodes} == {"/", "/t", "/c"}


@story
async def test_partitions_go_a_thousand_znodes_a_request() -> None:
    tree = Tree()
    client, table = await with_states(tree)
    del tree.nodes[znodes.state_path("t0", 3)], tree.nodes[znodes.state_path("t0", 4)]
    del tree.nodes[znodes.partition_path("t0", 4)]
    await client.write([Create(f"{znodes.partition_path('t0', 7)}/mine")], fence=FENCE)
    tree.multis = tree.reads = 0
    await client.delete_partitions(table, np.arange(5, 2_005, dtype=np.int32), fence=FENCE)
    left = [path for path in tree.nodes if path.startswith("/brokers/topics/t0/partitions/")]
    assert len(left) == 2 * (COUNT - 2_000) + 2 - 3
    assert {f"{znodes.partition_path('t0', 7)}", f"{znodes.partition_path('t0', 7)}/mine"} <= {*left}
    assert (tree.multis, tree.reads) == (2 + 3, 1)
    await client.delete_partitions(table, np.arange(COUNT, dtype=np.int32), fence=FENCE)
    left = [path for path in tree.nodes if path.startswith("/brokers/topics/t0/partitions/")]
    assert {*left} == {f"{znodes.partition_path('t0', 7)}", f"{znodes.partition_path('t0', 7)}/mine"}
    with pytest.raises(ControllerMovedError):
        await client.delete_partitions(table, np.arange(3, dtype=np.int32), fence=("/controller_epoch", 8))


@story
async def test_one_transaction() -> None:
    tree = Tree()
    client = client_of(tree)
    assert await client.write([Create("/a"), SetData("/a", b"1", 0), Create("/a/b")], atomic=True) == [DONE] * 3
    outcomes = await client.write([Create("/c"), Delete("/a"), Create("/d")], atomic=True)
    assert outcomes == [OperationResult.NOT_TRIED, OperationResult.NOT_EMPTY, OperationResult.NOT_TRIED]
    assert set(tree.nodes) == {"/", "/a", "/a/b"}
    with pytest.raises(ZookeeperError, match="a transaction has 1,000"):
        await client.write([SetData("/a", bytes(1_000_000))], atomic=True)
    with pytest.raises(ZookeeperError, match="a transaction has 1,000"):
        await client.write([SetData("/a", b"2"), SetData("/a", bytes(1_000_000))])


@story
async def test_servers_without_multi_read_are_asked_one_by_one() -> None:
    tree, old = Tree(), Tree(has_multi_read=False)
    client, table = await with_states(tree)
    old.nodes = tree.nodes
    del tree.nodes[znodes.state_path("t0", 8)]
    rows = np.arange(0, 1_500, 4, dtype=np.int32)
    expected, found = await client.read_states(table, rows), await client_of(old).read_states(table, rows)
    for field in fields(PartitionChanges):
        assert getattr(expected.changes, field.name).tolist() == getattr(found.changes, field.name).tolist()
    assert 8 not in found.changes.rows
    assert old.reads == len(rows) + 1
    paths = ["/controller_epoch", "/no"]
    assert await client_of(old).read_nodes(paths) == await client.read_nodes(paths)


@story
async def test_a_state_that_is_none_is_left_out_and_named() -> None:
    tree = Tree()
    client, table = await with_states(tree)
    tree.nodes[znodes.state_path("t0", 1_700)] = (b"{}", 0, 0, 0)
    del tree.nodes[znodes.state_path("t0", 1_500)]
    tree.nodes[znodes.state_path("t0", 12)] = (b"none", 0, 0, 0)
    found = await client.read_states(table, np.arange(COUNT, dtype=np.int32))
    assert found.changes.rows.tolist() == [row for row in range(COUNT) if row not in (12, 1_500, 1_700)]
    assert len(found.changes.isr) == len(found.controller_epochs) == COUNT - 3
    messages = [str(each).split(": ")[0] for each in found.unreadable]
    assert messages == [znodes.state_path("t0", row) for row in (12, 1_700)]
    assert all(isinstance(each, TableError) for each in found.unreadable)


@pytest.mark.covers("A15", "article D.1")
@story
async def test_brokers_and_controllers() -> None:
    tree = Tree()
    client = client_of(tree)
    with pytest.raises(ZookeeperError, match="/brokers/ids/1: the znode or its parent does not exist"):
        await register_broker(client, 1, b"x")
    await client.make_path(znodes.BROKER_IDS)
    epoch = await register_broker(client, 1, b"x")
    assert tree.nodes["/brokers/ids/1"] == (b"x", 1, epoch, 77)
    tree.id = 78
    with pytest.raises(ZookeeperError, match="registered by session 0x4d"):
        await register_broker(client, 1, b"y")
    tree.past_ids = {77}
    assert await register_broker(client, 1, b"y") == tree.nodes["/brokers/ids/1"][2] > epoch
    assert await elect(client, 1, 5) == (1, 1)
    with pytest.raises(ControllerMovedError, match="controller 1 is active"):
        await elect(client, 2, 5)
    assert await take_over(client, 2, 5) == (2, 2)
    del tree.nodes[znodes.CONTROLLER]
    assert await take_over(client, 3, 5) == (3, 3)


@story
async def test_an_election_whose_answer_was_lost_is_won() -> None:
    """Made again it finds what it wrote itself (KafkaZkClient.registerControllerAndIncrementControllerEpoch)."""
    tree = Tree()
    client = client_of(tree)
    await client.write([Create(znodes.CONTROLLER_EPOCH, b"4")])

    def done_already() -> None:
        tree.nodes[znodes.CONTROLLER] = (znodes.encode_controller(9, 1), 0, 1, tree.id)
        tree.nodes[znodes.CONTROLLER_EPOCH] = (b"5", 1, 1, 0)

    tree.before_multi = done_already
    assert await elect(client, 9, 1) == (5, 1)


class Forbidding(Tree):
    """Refuses what is below /secret: NOAUTH."""

    def _perform(self, kind: int, path: str, data: bytes, version: int) -> tuple[int, tuple[int, Any]]:
        return (-102, (kind, None)) if path.startswith("/secret/") else super()._perform(kind, path, data, version)

    async def multi_read(self, body: bytes) -> ReplyFrame:
        paths = [path for _, path, _, _ in operations_in(body)]
        return ReplyFrame(twin.answer([(-1, -102 if path.startswith("/secret/") else -101) for path in paths]), 0, 1)

    async def ask(self, request: Any) -> Any:
        raise NoAuthError


def test_an_error_has_its_name_and_the_znodes_path() -> None:
    async def run() -> None:
        client = client_of(Forbidding())
        said = r"^/secret/b: ZooKeeper answers NOAUTH \(-102\)$"
        with pytest.raises(ZookeeperError, match=said):
            await client.read_nodes(["/a", "/secret/b", "/secret/c"])
        with pytest.raises(ZookeeperError, match=said):
            await client.write([Create("/a"), Create("/secret/b"), Create("/c")])
        with pytest.raises(ZookeeperError, match=said):
            await client.stat("/secret/b")

    asyncio.run(run())


def test_every_error_of_zookeeper_has_a_name() -> None:
    codes = [each.code for each in vars(exceptions).values() if isinstance(each, type) and hasattr(each, "code")]
    named = [code for code in codes if code not in (None, 0)]
    assert len(named) > 20
    assert [code for code in named if "unknown" in name_of_error(code)] == []
    assert name_of_error(-999) == "an unknown error (-999)"


@story
async def test_the_znodes_of_many_new_topics_are_created_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each part has one request, and other work follows it."""
    client, parts = client_of(Tree()), list[int]()
    write = client.write

    async def counted(operations: Any, **options: Any) -> Any:
        parts.append(len(operations))
        return await write(operations, **options)

    names = [f"t{number}" for number in range(COUNT)]
    await client.make_path(znodes.TOPICS)
    await client.write([Create(znodes.topic_path(name)) for name in names])
    monkeypatch.setattr(client, "write", counted)
    table = PartitionTable.from_arrays(
        np.ones((COUNT, 1), np.int32),
        topics=TopicTable(names),
        topic_rows=np.arange(COUNT),
        partition_indexes=[0] * COUNT,
    )
    assert (await client.write_states(table, changes_of(range(COUNT), -1), 1)).all()
    assert parts == [1_000, 1_000, 300]
