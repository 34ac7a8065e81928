"""A broker forwards requests while the controller moves: it ignores the old controller's answers, loses no request."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from harness.exhausted import Failing
from kcore.errors import DisconnectedError, NetworkError
from kcore.metadata.table.broker_table import Endpoint
from kcore.protocol_errors import Errors
from kcore.schema.broker_lifecycle import UnregisterBrokerRequest, UnregisterBrokerResponse
from kcore.server.broker import broker_connections
from kcore.server.broker.broker_connections import ControllerClient
from net.loops import story, until


class Node:
    """A controller at an address: whether it is the active one, and what it was asked."""

    def __init__(self, port: int) -> None:
        self.where = Endpoint(port, "127.0.0.1", "PLAINTEXT", 0)
        self.is_active, self.request_count, self.connections = False, 0, 0
        self.holds = asyncio.Event()  # Answers go once it is set.
        self.holds.set()
        self.failing = Failing(0, lambda: None)


class Connections:
    """Stands for a Dialer over nodes; a connection that was aborted answers nothing more."""

    def __init__(self, *nodes: Node) -> None:
        self.nodes = {each.where: each for each in nodes}

    async def connect(self, where: Endpoint, client_id: str) -> Any:
        node = self.nodes[where]
        node.connections += 1
        connection = SimpleNamespace(versions=SimpleNamespace(choose=lambda kind: 0), closed=False, aborted=False)

        async def send(request: Any, version: int) -> Any:
            node.request_count += 1
            node.failing()
            was_active = node.is_active
            await node.holds.wait()
            if connection.aborted:
                raise DisconnectedError("aborted")
            return UnregisterBrokerResponse(
                error_code=int(Errors.NONE if was_active else Errors.NOT_CONTROLLER), error_message=f"{where.port}"
            )

        def abort() -> None:
            connection.aborted = True

        connection.send, connection.abort = send, abort
        return connection

    async def renew(self, connection: Any) -> None: ...


class World:
    """Two controllers, of which the first one is active, and a broker that may not know yet which one is."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(broker_connections, "RETRY_S", 0.0)
        self.first, self.second = Node(1), Node(2)
        self.first.is_active = True
        self.known: Endpoint | None = self.first.where
        connections: Any = Connections(self.first, self.second)
        self.client = ControllerClient("broker-1", lambda: self.known, connections)
        self.epoch = 1  # The broker's epoch: each try names the newest.
        self.sent: list[int] = []

    async def ask(self) -> str:
        def make(choose: Any) -> Any:
            self.sent.append(self.epoch)
            return UnregisterBrokerRequest(), choose(UnregisterBrokerRequest)

        answer = await self.client.ask(make)
        assert answer.error_code == 0
        return str(answer.error_message)

    def move(self, *, is_known: bool = True) -> None:
        self.first.is_active, self.second.is_active = False, True
        if is_known:
            self.known = self.second.where


@story
async def test_a_refusal_of_the_last_controller_is_asked_again_of_the_next_one(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch)
    assert await world.ask() == "1"
    world.move(is_known=False)
    asking = asyncio.create_task(world.ask())
    await until(lambda: world.first.request_count > 4)
    world.epoch, world.known = 2, world.second.where
    assert await asking == "2" and world.sent[-1] == 2
    assert world.first.connections > 2, "a controller that is none is not kept"
    before = world.first.request_count
    assert await world.ask() == "2" and world.first.request_count == before
    world.client.close()


@story
async def test_a_connection_to_the_last_controller_is_not_used_for_the_next_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World(monkeypatch)
    assert await world.ask() == "1"
    world.move()
    assert await world.ask() == "2"
    assert (world.first.request_count, world.second.request_count) == (1, 1)
    world.client.close()


@story
async def test_one_request_waits_for_the_answer_to_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """So no answer of before the move comes between."""
    world = World(monkeypatch)
    world.first.holds.clear()
    tasks = [asyncio.create_task(world.ask()) for _ in range(3)]
    await until(lambda: world.first.request_count == 1)
    for _ in range(20):
        await asyncio.sleep(0)
    assert world.first.request_count == 1
    world.move()
    world.first.holds.set()
    answers = [await each for each in tasks]
    assert answers == ["1", "2", "2"], "the first one was decided before the controller moved"
    world.client.close()


@pytest.mark.parametrize("count", [1, 12])
@story
async def test_a_controller_whose_connections_break_is_asked_until_it_answers(
    monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    def fail() -> None:
        raise NetworkError("broken")

    world = World(monkeypatch)
    for _ in range(2):
        world.first.failing = Failing(count, fail)
        before = world.first.connections
        assert await world.ask() == "1"
        assert world.first.connections - before >= count, "a broken connection is not used again"
    world.client.close()


@story
async def test_a_request_that_is_given_up_leaves_the_turn_to_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch)
    world.known = None
    asking = asyncio.create_task(world.ask())
    for _ in range(20):
        await asyncio.sleep(0)
    asking.cancel()
    await asyncio.gather(asking, return_exceptions=True)
    world.known = world.first.where
    assert await world.ask() == "1"
    world.client.close()
