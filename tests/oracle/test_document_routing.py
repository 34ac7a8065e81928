"""A cluster of kcore's controllers and brokers over a real ZooKeeper, rolled to the routing of KIP-590's document."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from kcore.broker.replicas.config import BrokerConfig
from kcore.controller.zk.authorizer_settings import AclAuthorizerSettings
from kcore.controller.zk.config import ControllerConfig
from kcore.net.connect import connect
from kcore.net.versions import api_name
from kcore.processes.zk_cluster import ZookeeperProcess
from kcore.protocol_errors import Errors
from kcore.schema.structure import Message
from kcore.schema.topics import CreatableTopic, CreateTopicsRequest
from kcore.server.audit import AuditLog
from kcore.server.broker.zk_process import ZkBrokerServer
from kcore.server.controller.process import ControllerServer
from kcore.server.document_routing import BUMPED, DocumentRouting
from net.loops import until
from server.test_document_routing import MUTATIONS, asked, errors_of, lines

ROUTING = DocumentRouting("3.0")
OLD, NEW = "2.8", "3.9"
EVERYBODY = AclAuthorizerSettings(super_users=frozenset({"User:ANONYMOUS"}))


@asynccontextmanager
async def controller(zookeeper: str, number: int, protocol: str, audit: AuditLog) -> AsyncIterator[ControllerServer]:
    config = ControllerConfig(
        number, inter_broker_protocol=protocol, authorizer=EVERYBODY, delegation_token_secret_key="secret"
    )
    async with ControllerServer(config, zookeeper, audit=audit, routing=ROUTING) as server:
        yield server


@asynccontextmanager
async def broker(zookeeper: str, number: int, protocol: str, folder: Path) -> AsyncIterator[ZkBrokerServer]:
    config, path = BrokerConfig(number, inter_broker_protocol=protocol), folder / str(number)
    path.mkdir(exist_ok=True)
    async with ZkBrokerServer(config, zookeeper, [path], routing=ROUTING) as server:
        await until(lambda: server.manager.cluster.controller_id >= 0)
        yield server


def wanted(request: Message) -> Errors:
    """Nobody is known by name at a plaintext listener, so nobody gets a token."""
    is_of_tokens = "DelegationToken" in api_name(type(request))
    return Errors.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED if is_of_tokens else Errors.NONE


async def rolled(zookeeper: str, folder: Path, path: Path) -> None:
    """The controllers are rolled first, then one broker after the other."""
    for protocols in ((OLD, OLD), (OLD, NEW), (NEW, NEW)):
        path.unlink(missing_ok=True)
        audit = AuditLog(path)
        async with controller(zookeeper, 1000, protocols[1], audit) as active:
            await until(lambda active=active: active.active.is_active)
            async with (
                controller(zookeeper, 1001, protocols[1], audit) as standby,
                broker(zookeeper, 1, protocols[0], folder) as one,
                broker(zookeeper, 2, protocols[1], folder) as two,
            ):
                await topic_made(active)
                for server, protocol in ((one, protocols[0]), (two, protocols[1])):
                    await until(lambda server=server: "t" in server.manager.cluster.table.topics)
                    await mutated(server, active, standby, path, is_routed=protocol == NEW)
        audit.close()


async def topic_made(active: ControllerServer) -> None:
    topic = CreatableTopic(name="t", num_partitions=1, replication_factor=1)
    async with await connect("127.0.0.1", active.port) as connection:
        told = await connection.send(CreateTopicsRequest(topics=[topic], timeout_ms=5_000))
    assert told.topics[0].error_code in (Errors.NONE, Errors.TOPIC_ALREADY_EXISTS)


async def mutated(
    server: ZkBrokerServer, active: ControllerServer, standby: ControllerServer, path: Path, *, is_routed: bool
) -> None:
    """Every mutation, at a broker of the one protocol or the other."""
    for request in MUTATIONS:
        new, before = BUMPED[type(request)], len(lines(path))
        if not is_routed:
            if "Configs" in api_name(type(request)):
                assert errors_of(await asked(server.port, request, new - 1)) == [Errors.NONE]
            else:  # These are relayed to a broker of Kafka's, and there is none.
                with pytest.raises(asyncio.IncompleteReadError):
                    await asked(server.port, request, new - 1)
            if new > type(request).versions.highest:  # No version of Kafka's: it has come only with the roll.
                with pytest.raises(asyncio.IncompleteReadError):
                    await asked(server.port, request, new)
            assert len(lines(path)) == before, "the broker did it itself"
            continue
        assert errors_of(await asked(server.port, request, new - 1)) == [wanted(request)]
        [line] = lines(path)[before:]
        assert (line["request"], line["principal"]) == (api_name(type(request)), "User:ANONYMOUS")
        # Who is not known may not name another to get a token: the line is the broker's own then.
        through = "User:ANONYMOUS" if wanted(request) is Errors.NONE else None
        assert line.get("through") == through
        refusing: tuple[Any, ...] = (server, standby)
        for each in refusing:
            assert errors_of(await asked(each.port, request, new)) == [Errors.NOT_CONTROLLER]
        assert errors_of(await asked(active.port, request, new)) == [wanted(request)]
        assert "through" not in lines(path)[-1]


@pytest.mark.covers("KIP-590 11", "KIP-590 1")
def test_brokers_of_both_sides_of_the_second_roll(tmp_path: Path) -> None:
    with ZookeeperProcess(tick_ms=500) as zookeeper:
        asyncio.run(asyncio.wait_for(rolled(zookeeper.address, tmp_path, tmp_path / "audit"), 100))
