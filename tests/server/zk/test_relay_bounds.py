"""The bounds of what nodes of ZooKeeper mode pass on to each other: descriptors, connections, sizes of answers."""

import asyncio
from collections.abc import Collection, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from kcore.errors import DisconnectedError
from kcore.metadata.table.broker_table import Endpoint
from kcore.net.security.client_security import Security
from kcore.net.server import RequestContext, serve
from kcore.schema.api_versions import ApiVersion
from kcore.schema.cluster_metadata import DescribeClusterRequest, DescribeClusterResponse
from kcore.schema.find_coordinator import FindCoordinatorRequest
from kcore.server.broker import broker_connections
from kcore.server.zk_broker import document_forwarding, node_admin
from kcore.server.zk_broker.document_forwarding import DocumentForwarding
from kcore.server.zk_broker.node_admin import NodeAdmin
from kcore.server.zk_node import relay as broker_relay
from kcore.server.zk_node.document_routing import BUMPED
from kcore.server.zk_node.relay import CHECKED, Address, BrokerRelay
from net.loops import context_in, raw_server, request_frame, settled, story, until
from server.zk.test_document_routing import MUTATIONS, frame_of

NEWEST = FindCoordinatorRequest.versions.highest
DESCRIBE = request_frame(DescribeClusterRequest(), 0, 5)[4:]


@pytest.mark.parametrize("is_secure", [False, True])
@story
async def test_a_relay_leaves_the_descriptors_of_files_alone(monkeypatch: pytest.MonkeyPatch, is_secure: bool) -> None:
    """The broker's connection is closed again; the client's connection too, so that its descriptor is free."""
    monkeypatch.setattr(broker_relay, "may_be_connections", lambda descriptor: False)

    async def describe(context: RequestContext, request: Any) -> Any:
        return DescribeClusterResponse(cluster_id="c")

    async with await serve("127.0.0.1", 0, describe, {"DescribeCluster": (0, 1)}) as server:

        async def brokers() -> Sequence[Address]:
            return [Address("127.0.0.1", server.port)]

        relay = BrokerRelay(brokers, tuple, lambda: None, security=Security if is_secure else None)
        with pytest.raises(DisconnectedError, match="no file descriptor is left"):
            await relay.ask(context_in(DESCRIBE))
        await until(lambda: server.metrics.connections_opened == server.metrics.connections_closed)
        relay.forget(1)


@pytest.mark.parametrize(("only", "newest"), [(CHECKED, NEWEST), (None, NEWEST + 1)])
def test_a_request_whose_rights_are_checked_has_a_version_that_can_be_read(
    only: Collection[str] | None, newest: int
) -> None:
    """A broker may have newer versions: their fields are not known, so neither is what they ask for."""

    async def nobody() -> Sequence[Address]:
        return []

    relay = BrokerRelay(nobody, tuple, lambda: None, only=only)
    theirs = ApiVersion(api_key=FindCoordinatorRequest.api_key, min_version=0, max_version=NEWEST + 1)
    assert relay._relayed(theirs).highest == newest


@story
async def test_an_answer_of_the_controller_is_not_larger_than_a_frame(monkeypatch: pytest.MonkeyPatch) -> None:
    limits = replace(broker_connections.LIMITS, frame_bytes=100)
    monkeypatch.setattr(broker_connections, "LIMITS", limits)

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(4)
        writer.write((101).to_bytes(4) + bytes(101))
        await reader.read()

    async with raw_server(talk) as port:
        relay = DocumentForwarding(lambda: Endpoint(port, "127.0.0.1", "PLAINTEXT", 0), lambda session: True)
        with pytest.raises(DisconnectedError, match="101 bytes"):
            await relay.ask(context_in(frame_of(MUTATIONS[0], BUMPED[type(MUTATIONS[0])] - 1)))


@story
async def test_mutations_that_are_passed_on_at_once_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each has a connection of its own."""
    monkeypatch.setattr(document_forwarding, "MOST_PROXIED", 3)
    opened = 0

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal opened
        opened += 1
        await reader.read()

    async with raw_server(talk) as port:
        where = Endpoint(port, "127.0.0.1", "PLAINTEXT", 0)
        relay = DocumentForwarding(lambda: where, lambda session: True)
        context = context_in(frame_of(MUTATIONS[0], BUMPED[type(MUTATIONS[0])] - 1))
        asked = [asyncio.create_task(relay.ask(context)) for _ in range(6)]
        await until(lambda: opened >= 3)
        await settled(lambda: opened)
        assert opened == 3
        for each in asked:
            each.cancel()
        await asyncio.gather(*asked, return_exceptions=True)


@story
async def test_the_registered_brokers_are_not_read_for_each_client(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client without a coordinator asks ten times a second."""
    now_s, reads = 0.0, 0
    monkeypatch.setattr(node_admin, "time", SimpleNamespace(monotonic=lambda: now_s))

    async def read_children(paths: Sequence[str]) -> list[list[str]]:
        nonlocal reads
        reads += 1
        return [[]]

    async def read_nodes(paths: Sequence[str]) -> list[None]:
        return []

    zookeeper: Any = SimpleNamespace(read_children=read_children, read_nodes=read_nodes)
    manager: Any = SimpleNamespace(broker_id=1)
    admin = NodeAdmin(manager, zookeeper, "PLAINTEXT", {})
    for _ in range(3):
        assert not await admin.has_coordinators()
    assert reads == 1
    now_s = node_admin.KNOWN_S
    assert not await admin.has_coordinators() and reads == 2
