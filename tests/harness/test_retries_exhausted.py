"""Retries that are exhausted and resources that are broken: lost writes, dead streams, executors that go twice."""

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from controller.zk import admin
from controller.zk.admin import epoch_of, small
from harness.exhausted import Failing
from kcore import schema
from kcore.broker.directories.failures import DirectoryFailures
from kcore.controller.zk.brokers.producer_ids import MAX_ATTEMPTS as BLOCK_TRIES
from kcore.controller.zk.state_changes import MAX_ATTEMPTS as STATE_TRIES
from kcore.errors import DisconnectedError, ZookeeperError
from kcore.metadata.acl_codes import ALLOW, LITERAL, READ, TOPIC, WRITE
from kcore.metadata.zookeeper import znodes
from kcore.metadata.zookeeper.znode_acls import PERSISTENT_PATHS, AclBinding, encode_acls, resource_path
from kcore.metadata.zookeeper.znode_operations import WriteNodes, WriteStates
from kcore.metadata.zookeeper.znodes import ProducerIdsBlock
from kcore.net.request_context import ClientSession, RequestContext
from kcore.node.zk.acls import ZkAcls
from kcore.node.zk.admin.acls import MOST_TRIES as ACL_TRIES
from kcore.node.zk.admin.quotas import MOST_TRIES as QUOTA_TRIES
from kcore.protocol_errors import Errors
from kcore.schema.acls import AclCreation, CreateAclsRequest
from kcore.schema.headers import RequestHeader
from kcore.schema.quotas import AlterClientQuotasRequest, AlterClientQuotasRequestEntryData, EntityData, OpData
from kcore.server.zk_node import notification_watcher
from kcore.server.zk_node.client_quotas import ZkClientQuotas
from kcore.server.zk_node.relay import Address, BrokerRelay
from kcore.spark import pieces
from kcore.spark.failures import ENDED, LOST
from kcore.steps import finished
from kcore.types import Uuid
from net.loops import story, until
from server.zookeepers import Client, Zookeeper

# Writes that others always win, in ZooKeeper mode.


def _before(kind: type[Any], failing: Failing) -> Callable[[Any], None]:
    return lambda effect: failing() if isinstance(effect, kind) else None


@pytest.mark.parametrize("count", [0, 1, STATE_TRIES - 1, STATE_TRIES, STATE_TRIES + 1])
def test_a_state_that_others_write_is_decided_again_and_given_up_after_ten_lost_writes(count: int) -> None:
    made = small([3, 1, 2], [3, 2, 1], brokers=(1, 2, 3))
    epochs = iter(range(100))
    hurry = lambda: made.write_state("t", 0, 3, [3, 1, 2], leader_epoch=next(epochs), controller_epoch=1)  # noqa: E731
    failing = Failing(count, hurry)
    made.before = _before(WriteStates, failing)
    made.unregister(3)
    made.run()
    assert failing.calls == min(count + 1, STATE_TRIES)
    assert made.state("t", 1)[0] == 2, "the other one was written at once"
    leader = made.state("t", 0)[0]
    assert leader == (1 if count < STATE_TRIES else 3)
    made.before = lambda effect: None
    made.unregister(2)
    made.run()
    assert made.state("t", 1)[0] == 1 and made.state("t", 0)[0] == 1, "the next event finds both"


@pytest.mark.parametrize("count", [0, BLOCK_TRIES - 1, BLOCK_TRIES])
def test_a_block_of_producer_ids_is_refused_after_so_many_lost_writes(count: int) -> None:
    made = small()
    taken = iter(range(100))

    def hurry() -> None:
        first = next(taken) * 1000
        block = znodes.encode_producer_id_block(ProducerIdsBlock(2, first, first + 999))
        made.tree.set_data(znodes.LATEST_PRODUCER_ID_BLOCK, block)

    made.before = _before(WriteNodes, Failing(count, hurry))
    request = schema.AllocateProducerIdsRequest(broker_id=1, broker_epoch=epoch_of(made, 1))
    response = admin.ask(made, request)
    refused = count >= BLOCK_TRIES
    assert Errors(response.error_code) is (Errors.UNKNOWN_SERVER_ERROR if refused else Errors.NONE)
    assert refused or response.producer_id_start == 1000 * count
    response = admin.ask(made, request)
    assert response.producer_id_start == 1000 * (count if refused else count + 1), "no block twice"


@pytest.mark.parametrize("count", [0, ACL_TRIES - 1, ACL_TRIES])
def test_acls_that_others_write_are_refused_after_so_many_lost_writes(count: int) -> None:
    """The node does not keep what was refused as if it were written."""
    made = small()
    acls = ZkAcls()
    made.active.acls = acls
    for above in PERSISTENT_PATHS:
        made.tree.create(above, parents=True)
    path, others = resource_path((TOPIC, LITERAL, "t")), iter(range(100))

    def hurry() -> None:
        binding = AclBinding(TOPIC, LITERAL, "t", f"User:other-{next(others)}", "*", WRITE, ALLOW)
        if made.tree.create(path, encode_acls([binding]), parents=True).name != "DONE":
            made.tree.set_data(path, encode_acls([binding]))

    made.before = _before(WriteNodes, Failing(count, hurry))
    entry = AclCreation(resource_type=TOPIC, resource_name="t", principal="User:alice", host="*", operation=READ)
    entry.permission_type, entry.resource_pattern_type = ALLOW, LITERAL
    response = admin.ask(made, CreateAclsRequest(creations=[entry]))
    refused = count >= ACL_TRIES
    [result] = response.results
    assert Errors(result.error_code) is (Errors.UNKNOWN_SERVER_ERROR if refused else Errors.NONE)
    assert (b"alice" in made.tree.nodes[path].data) is not refused
    every = finished(acls.matching(lambda _: True))
    assert any("alice" in each.principal for each in every) is not refused


@pytest.mark.parametrize("count", [0, QUOTA_TRIES - 1, QUOTA_TRIES])
def test_quotas_that_others_write_are_refused_after_so_many_lost_writes(count: int) -> None:
    made = small()
    path, others = f"{znodes.CONFIG}/users/alice", iter(range(100))
    made.tree.create(path, znodes.encode_config({}), parents=True)

    def hurry() -> None:
        made.tree.set_data(path, znodes.encode_config({"consumer_byte_rate": f"{next(others)}"}))

    made.before = _before(WriteNodes, Failing(count, hurry))
    entity = [EntityData(entity_type="user", entity_name="alice")]
    row = AlterClientQuotasRequestEntryData(entity=entity, ops=[OpData(key="producer_byte_rate", value=5.0)])
    response = admin.ask(made, AlterClientQuotasRequest(entries=[row]))
    refused = count >= QUOTA_TRIES
    [result] = response.entries
    assert Errors(result.error_code) is (Errors.UNKNOWN_SERVER_ERROR if refused else Errors.NONE)
    data = made.tree.nodes[path].data
    assert (b"producer_byte_rate" in data) is not refused and (b"consumer" in data) is bool(count)


# ZooKeeper and brokers that do not answer.


class Refusing(Client):
    """It answers no read so many times."""

    failing = Failing(0, print)

    async def read_children(self, *arguments: Any) -> Any:
        self.failing()
        return await super().read_children(*arguments)


@story
async def test_what_follows_zookeeper_goes_on_after_many_failures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notification_watcher, "AGAIN_S", 0.0)
    zookeeper = Zookeeper()
    client = Refusing(zookeeper, on_session=lambda event: None)
    quotas = ZkClientQuotas(client)  # type: ignore[arg-type]
    watcher = notification_watcher.NotificationWatcher(client, quotas)  # type: ignore[arg-type]
    await watcher.open()
    task = asyncio.create_task(watcher.follow())

    def fail() -> None:
        raise ZookeeperError("no connection")

    for turn in range(2):
        client.failing = Failing(11, fail)
        name = f"user-{turn}"
        path, quota = f"{znodes.CONFIG}/users/{name}", znodes.encode_config({"request_percentage": "5"})
        zookeeper.tree.create(path, quota, parents=True)
        note = znodes.encode_config_change(f"users/{name}")
        zookeeper.tree.create_sequential(f"{znodes.CONFIG_CHANGES}/change_", note)
        zookeeper.tell()
        await until(lambda name=name: (("user", name),) in quotas.quotas)
        assert client.failing.left == 0
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


HEAD = bytes(4)  # The correlation id, which an echo repeats.


def sent(frame: bytes, connection_id: int) -> RequestContext:
    """The context of a request with any bytes."""
    session = ClientSession("PLAINTEXT", "127.0.0.1")
    return RequestContext("a test", connection_id, RequestHeader(), session, frame=frame)


@story
async def test_a_client_whose_brokers_stream_died_is_answered_when_it_asks_again() -> None:
    """Several times: each time by a new connection, and never by what is left of the old one."""
    connections = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        mine = connections
        size = int.from_bytes(await reader.readexactly(4))
        frame = await reader.readexactly(size)
        if mine % 2:
            writer.write((100).to_bytes(4) + b"a part")  # It ends in the midst of its answer.
        else:
            writer.write(len(frame).to_bytes(4) + frame)
            await reader.read(1)
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]

        async def brokers() -> list[Address]:
            return [Address("127.0.0.1", port)]

        relay = BrokerRelay(brokers, lambda: (), lambda: None)
        for turn in range(3):
            frame = b"frame %d" % turn
            with pytest.raises(DisconnectedError):
                await relay.ask(sent(frame, 7))
            assert await relay.ask(sent(frame, 7)) == HEAD + frame
            relay.forget(7)
        assert connections == 6 and not relay._connections
        frame = b"the last one"
        with pytest.raises(DisconnectedError):
            await relay.ask(sent(frame, 7))
        assert not relay._connections, "what is broken is not kept"


@story
async def test_a_relay_asks_the_next_broker_where_one_is_gone() -> None:
    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        size = await reader.readexactly(4)
        writer.write(size + await reader.readexactly(int.from_bytes(size)))
        await reader.read(1)
        writer.close()

    async with await asyncio.start_server(echo, "127.0.0.1", 0) as gone:
        dead = gone.sockets[0].getsockname()[1]
    async with await asyncio.start_server(echo, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        addresses = [Address("127.0.0.1", dead)] * 3 + [Address("127.0.0.1", port)]

        async def brokers() -> list[Address]:
            return addresses

        relay = BrokerRelay(brokers, lambda: (), lambda: None)
        assert await relay.ask(sent(b"frame", 1)) == HEAD + b"frame"
        relay.forget(1)
        addresses.pop()
        with pytest.raises(DisconnectedError, match="no live broker"):
            await relay.ask(sent(b"frame", 1))


# Executors, and disks.


class Spark:
    """A context with so many executors, and a clock."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count, self.now_s, self.is_stopped = 1, 0.0, False
        monkeypatch.setattr(pieces, "executors", lambda context: self.count)
        monkeypatch.setattr(pieces, "_is_stopped", lambda context: self.is_stopped)
        monkeypatch.setattr(pieces, "time", SimpleNamespace(monotonic=lambda: self.now_s))


def test_executors_that_go_twice_are_waited_for_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    spark = Spark(monkeypatch)
    patience = pieces._Patience(None, 60.0)  # type: ignore[arg-type]
    for _ in range(3):
        spark.count = 0
        spark.now_s += 60.0
        assert patience.over() == "", "exactly the limit is not beyond it"
        spark.count = 1
        spark.now_s += 1_000.0
        assert patience.over() == ""
    spark.count = 0
    spark.now_s += 60.5
    assert patience.over() == f"{LOST}: there has been no executor for 60 s"
    spark.is_stopped = True
    assert patience.over() == ENDED


def test_the_last_directory_that_fails_ends_the_broker_and_none_before() -> None:
    directories = [Uuid(bytes([each]) * 16) for each in (1, 2, 3)]
    failures = DirectoryFailures(directories, 3, timeout_ms=30_000)
    outputs = [[type(each).__name__ for each in failures.on_failed(each, 0)] for each in directories]
    assert ["ShutDown" in each for each in outputs] == [False, False, True]
