"""A raft node's requests to other nodes, and the errors that the node receives when requests fail."""

import asyncio
import gc
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from kcore.errors import DisconnectedError, RefusedError
from kcore.measure.processes.local_process import free_ports
from kcore.net.address import network_errors
from kcore.net.security.client_security import Sasl, Security
from kcore.net.security.sasl_mechanisms import NoCredentials, PlainUsers
from kcore.net.security.sasl_server import SaslListener
from kcore.net.server import RequestContext, Server, serve
from kcore.net.versions import api_versions_request
from kcore.protocol_errors import Errors
from kcore.raft.effects import Send
from kcore.raft.membership.replicas import Address
from kcore.schema.api_versions import ApiVersionsResponse
from kcore.schema.fetch import FetchRequest, FetchResponse
from kcore.schema.raft_votes import VoteRequest, VoteResponse
from kcore.schema.structure import Message
from kcore.scram import ScramCredential, scram_credential
from kcore.server.quorum_node.peers import MOST_LANES, MOST_WAITING, QuorumPeers
from net.loops import story, until


class Peer:
    """A node that answers votes at once, and fetches when `held` is set."""

    def __init__(self) -> None:
        self.versions: list[tuple[str, int]] = []
        self.connections: set[int] = set()
        self.held = asyncio.Event()
        self.held.set()
        self.server: Server | None = None

    @property
    def address(self) -> Address:
        assert self.server is not None
        return Address("127.0.0.1", self.server.port)

    async def handle(self, context: RequestContext, request: Any) -> Any:
        self.versions.append((type(request).__name__, context.version))
        self.connections.add(context.connection_id)
        if isinstance(request, FetchRequest):
            await self.held.wait()
            return FetchResponse(error_code=Errors.NONE.value)
        return VoteResponse(error_code=Errors.CLUSTER_AUTHORIZATION_FAILED.value)


class Results:
    """The results that the node receives, by correlation id."""

    def __init__(self, level: str = "4.3", security: Callable[[], Security] | None = None) -> None:
        self.answers: dict[int, Message | None] = {}
        self.refused: list[int] = []
        self.peers = QuorumPeers(level, "raft-client-1", self._received, self.refused.append, security)

    def _received(self, correlation_id: int, response: Message | None) -> None:
        assert correlation_id not in self.answers, "one result each"
        self.answers[correlation_id] = response

    def ask(self, correlation_id: int, request: Message, address: Address, timeout_ms: int = 2_000) -> None:
        self.peers.send(Send(2, address, correlation_id, request, timeout_ms))
        assert correlation_id not in self.answers, "never from within"

    async def answer(self, correlation_id: int) -> Any:
        await until(lambda: correlation_id in self.answers)
        return self.answers[correlation_id]


@asynccontextmanager
async def peer(
    apis: dict[str, tuple[int, int]] | None = None, level: str = "4.3"
) -> AsyncIterator[tuple[Results, Peer]]:
    results, there = Results(level), Peer()
    there.server = await serve("127.0.0.1", 0, there.handle, apis or {"Vote": (0, 2), "Fetch": (4, 18)})
    try:
        yield results, there
    finally:
        results.peers.close()
        there.held.set()
        await there.server.close()


@story
async def test_the_newest_version_that_both_speak() -> None:
    async with peer() as (results, there):
        results.ask(1, VoteRequest(), there.address)
        results.ask(2, FetchRequest(max_wait_ms=0), there.address)
        answer = await results.answer(1)
        assert answer == VoteResponse(error_code=Errors.CLUSTER_AUTHORIZATION_FAILED.value)
        await results.answer(2)
        assert sorted(there.versions) == [("FetchRequest", 18), ("VoteRequest", 2)]


@story
async def test_a_node_of_3_9_knows_no_pre_vote() -> None:
    """Vote 2 and Fetch 18 came with 4.0 and 4.1 (KIP-996, KIP-1166)."""
    async with peer(level="3.9") as (results, there):
        results.ask(1, VoteRequest(), there.address)
        results.ask(2, FetchRequest(max_wait_ms=0), there.address)
        await results.answer(1)
        await results.answer(2)
        assert sorted(there.versions) == [("FetchRequest", 17), ("VoteRequest", 1)]
    async with peer({"Vote": (0, 0)}) as (results, there):
        results.ask(1, VoteRequest(), there.address)
        await results.answer(1)
        assert there.versions == [("VoteRequest", 0)]


@story
async def test_a_new_voter_is_asked_for_its_versions() -> None:
    """ApiVersions: no request that levels know anything about."""
    async with peer() as (results, there):
        results.ask(1, api_versions_request(), there.address)
        answer = await results.answer(1)
        assert isinstance(answer, ApiVersionsResponse)
        assert VoteRequest.api_key in [each.api_key for each in answer.api_keys]


@story
async def test_no_common_version_is_an_answer() -> None:
    """So that a node which wants a pre-vote learns that there is none: error 35."""
    async with peer({"Fetch": (4, 18)}) as (results, there):
        results.ask(1, VoteRequest(), there.address)
        answer = await results.answer(1)
        assert isinstance(answer, VoteResponse)
        assert answer.error_code == Errors.UNSUPPORTED_VERSION


@story
async def test_a_vote_does_not_wait_behind_a_fetch() -> None:
    """A leader holds a fetch back until there is something; a server answers a connection's requests one by one."""
    async with peer() as (results, there):
        there.held.clear()
        results.ask(1, FetchRequest(max_wait_ms=500), there.address)
        results.ask(2, VoteRequest(), there.address)
        await results.answer(2)
        assert 1 not in results.answers
        there.held.set()
        await results.answer(1)
        assert len(there.connections) == 2


@story
async def test_connections_are_kept() -> None:
    async with peer() as (results, there):
        for at in range(5):
            results.ask(at, VoteRequest(), there.address)
            await results.answer(at)
        assert len(there.connections) == 1


@story
async def test_so_many_connections_are_kept_at_most() -> None:
    """A node connects to every claimed leader, under any id, and closes the least recently used connection."""
    async with peer() as (results, there):
        assert there.server is not None
        for at in range(2 * MOST_LANES):
            for correlation_id, destination in ((2 * at, 7), (2 * at + 1, 1_000 + at)):
                results.peers.send(Send(destination, there.address, correlation_id, VoteRequest(), 2_000))
                assert await results.answer(correlation_id) is not None
        assert len(there.connections) == 2 * MOST_LANES + 1, "that of node 7 stays"
        await until(lambda: there.server is not None and len(there.server.connections.served) == MOST_LANES)


@story
async def test_nobody_there() -> None:
    results, [port] = Results(), free_ports(1)
    results.ask(1, VoteRequest(), Address("127.0.0.1", port))
    await until(lambda: results.refused == [1])
    assert not results.answers, "refused at once, and answered after the back-off"
    assert await results.answer(1) is None
    results.peers.close()


@story
async def test_a_name_with_several_addresses_that_all_refuse() -> None:
    """And not where one of them is not known to: nobody may be there, or the network be cut."""
    for errors, is_refused in (([111, 111], True), ([111, 113], False)):
        text = ", ".join(f"[Errno {each}] Connect call failed ('host', 9)" for each in errors)
        with pytest.raises(DisconnectedError) as caught, network_errors("a:9", 1.0):
            raise OSError(f"Multiple exceptions: {text}")
        assert isinstance(caught.value, RefusedError) == is_refused


@pytest.mark.parametrize(("host", "port"), [("a" * 64, 9092), ("nul\0", 9092), ("\ud800", 1), ("127.0.0.1", 65_536)])
@story
async def test_a_voter_at_an_impossible_address_loses_each_request_and_is_logged_once(
    host: str, port: int, caplog: pytest.LogCaptureFixture
) -> None:
    """As AddRaftVoter may have it: each request is lost in its time, and the log says why, once."""
    caplog.set_level(logging.INFO)
    results = Results()
    for at in range(4):
        results.ask(at, VoteRequest(), Address(host, port))
        assert await results.answer(at) is None
    [record] = [each for each in caplog.records if each.name.endswith("peers")]
    assert "no connection to" in record.getMessage()
    assert record.getMessage().isprintable()
    results.peers.close()


@story
async def test_an_unexpected_error_of_connecting_ends_the_attempt(monkeypatch: pytest.MonkeyPatch) -> None:
    async def fails(*_: Any, **__: Any) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("kcore.server.quorum_node.peers.connect", fails)
    faults: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: faults.append(context["exception"]))
    results = Results()
    for at in range(2):
        results.ask(at, VoteRequest(), Address("127.0.0.1", 1))
        assert await results.answer(at) is None
    gc.collect()
    assert [type(each) for each in faults] == [ZeroDivisionError] * 2
    results.peers.close()


@story
async def test_the_requests_that_wait_for_a_connection_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    async def never(*_: Any, **__: Any) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr("kcore.server.quorum_node.peers.connect", never)
    results = Results()
    for at in range(MOST_WAITING + 5):
        results.ask(at, VoteRequest(), Address("127.0.0.1", 1))
    await until(lambda: len(results.answers) == 5)
    assert {*results.answers} == {MOST_WAITING + at for at in range(5)}
    results.peers.close()
    await until(lambda: len(results.answers) == MOST_WAITING + 5)


@story
async def test_a_peer_that_comes_back_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    results, [port], there = Results(), free_ports(1), Peer()
    results.ask(1, VoteRequest(), Address("127.0.0.1", port))
    assert await results.answer(1) is None
    there.server = await serve("127.0.0.1", port, there.handle, {"Vote": (0, 2)})
    results.ask(2, VoteRequest(), Address("127.0.0.1", port))
    assert await results.answer(2) is not None
    assert [each.getMessage().split(": ")[-1] for each in caplog.records if each.name.endswith("peers")][1:] == [
        "connected"
    ]
    results.peers.close()
    await there.server.close()


@story
async def test_no_answer_in_time_and_a_connection_that_ends() -> None:
    async with peer() as (results, there):
        there.held.clear()
        results.ask(1, FetchRequest(max_wait_ms=500), there.address, timeout_ms=50)
        assert await results.answer(1) is None
        results.ask(2, FetchRequest(max_wait_ms=500), there.address)
        await until(lambda: len(there.versions) == 2)
        assert there.server is not None
        for connection in list(there.server.connections.served):
            connection.abort()
        assert await results.answer(2) is None
        there.held.set()
        results.ask(3, VoteRequest(), there.address)
        assert await results.answer(3) is not None


@story
async def test_a_node_that_has_moved() -> None:
    """The log may name another address of a voter (KIP-853): what was on its way to the old one is lost."""
    async with peer() as (results, old), peer() as (_, new):
        old.held.clear()
        results.ask(1, FetchRequest(max_wait_ms=500), old.address)
        await until(lambda: len(old.versions) == 1)
        results.ask(2, FetchRequest(max_wait_ms=500), new.address)
        assert await results.answer(1) is None
        assert await results.answer(2) is not None
        assert len(new.versions) == 1


@story
async def test_closed_while_it_connects() -> None:
    results, [port] = Results(), free_ports(1)
    results.ask(1, VoteRequest(), Address("127.0.0.1", port))
    results.peers.close()
    assert await results.answer(1) is None


SESSION_MS = 1_300  # A client may begin anew once a second.


class Users(NoCredentials):
    """Knows one."""

    def secret(self) -> bytes | None:
        return None

    def scram(self, mechanism: str, username: str) -> ScramCredential | None:
        return scram_credential(mechanism, b"geheim", bytes(16), 4096) if username == "a" else None


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
@story
async def test_a_connection_is_authenticated_again_before_its_session_ends(mechanism: str) -> None:
    there, results = Peer(), Results(security=lambda: Security(sasl=Sasl(mechanism, "a", "geheim")))
    sasl = SaslListener(
        (mechanism,), lambda: 0, PlainUsers({"a": "geheim"}), Users(), {mechanism: SESSION_MS}, failure_delay_s=0
    )
    sasl_apis = {"SaslHandshake": (0, 1), "SaslAuthenticate": (0, 2), "Vote": (0, 2), "Fetch": (4, 18)}
    async with await serve("127.0.0.1", 0, there.handle, sasl_apis, sasl=sasl) as there.server:
        for correlation_id in range(50):
            results.ask(correlation_id, VoteRequest(), there.address)
            results.ask(1000 + correlation_id, FetchRequest(max_wait_ms=1), there.address)
            await until(lambda now=correlation_id: {now, 1000 + now} <= {*results.answers})
            await asyncio.sleep(0.05)
        assert None not in results.answers.values()
        assert len(there.connections) == 2 and not there.server.metrics.errors
        results.peers.close()
