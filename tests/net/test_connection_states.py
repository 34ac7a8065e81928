"""A connection's states: `enter` follows the table, each transition happens, and hostile clients find no other."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcore.errors import KcoreError
from kcore.net.adoption import Returned
from kcore.net.connect import authenticate, connect
from kcore.net.connection_states import KEPT, TRANSITIONS, ClientConnection, ConnectionState, Event, diagram
from kcore.net.limits.connection_limits import Limits
from kcore.net.request_context import ClientSession
from kcore.net.security.client_security import Security
from kcore.net.served_connection import ServedConnection
from kcore.net.server import Server, serve
from net.authority import Authority, client_tls
from net.limits.test_muting import muted, muting
from net.loops import HEARTBEAT, fenced, framed, request_frame, sockets, story, until
from net.security.test_tls_listener import ALICE, listener, tls_of
from net.security.test_tls_listener import APIS as SASL_APIS
from net.test_adoption import Holder, assert_answered, holding
from net.test_adoption import ask as ask_directly
from net.test_server import raw_client, rest
from net.transitions import watched_transitions

ROOT = Path(__file__).parents[2]
APIS = {"BrokerHeartbeat": (0, 1)}
ASK = request_frame(HEARTBEAT, 1, 7)
GARBAGE = framed(b"\0\3\0\0garbage")
PLAIN = Security(sasl=ALICE["PLAIN"])


def connection() -> ClientConnection:
    return ClientConnection(1, "10.0.0.1:9", ClientSession("PLAINTEXT", "10.0.0.1"))


# The table.


def test_each_event_has_one_target_and_every_state_is_reached_and_ends() -> None:
    by_event = {(way.source, way.event): way.target for way in TRANSITIONS}
    assert len(by_event) == len(TRANSITIONS)
    reached, new = set[ConnectionState](), {ConnectionState.ACCEPTED}
    while new:
        reached |= new
        new = {way.target for way in TRANSITIONS if way.source in reached} - reached
    assert reached == set(ConnectionState)
    ending = {way.source for way in TRANSITIONS if way.event is Event.END}
    assert ending == set(ConnectionState) - {ConnectionState.CLOSED} == {way.source for way in TRANSITIONS}
    assert {way.event for way in TRANSITIONS} == set(Event)


@given(st.lists(st.sampled_from(Event), max_size=40))
def test_any_events_follow_the_table_or_raise_and_change_nothing(events: list[Event]) -> None:
    made, taken = connection(), []
    for event in events:
        ways = [way for way in TRANSITIONS if (way.source, way.event) == (made.state, event)]
        if ways:
            made.enter(event)
            taken += ways
            assert made.state is ways[0].target
        else:
            before = made.state
            with pytest.raises(AssertionError, match="no transition from"):
                made.enter(event)
            assert made.state is before
        assert made.story == ("; ".join(map(str, taken[-KEPT:])) or "none")


def test_an_illegal_transition_raises_with_its_story() -> None:
    made = connection()
    made.enter(Event.BEGIN_SASL)
    with pytest.raises(AssertionError) as caught:
        made.enter(Event.ADOPT)
    assert str(caught.value) == (
        "10.0.0.1:9: no transition from Authenticating when the adopter takes it after an answer; transitions: "
        "Accepted -> Authenticating: its first request may follow at a listener with SASL"
    )


def test_the_diagram_of_the_guide_is_the_tables() -> None:
    text = (ROOT / "docs" / "guides" / "listeners.md").read_text("utf-8")
    drawn = text.partition("<!-- connection states -->\n")[2].partition("<!-- /connection states -->")[0]
    assert drawn == f"```mermaid\n{diagram()}```\n"


# Each transition, as a server takes it.


async def no_first_byte(_: Authority) -> None:
    async with await serve("127.0.0.1", 0, fenced, APIS) as server:
        with sockets(server, 1):
            await until(lambda: len(server.connections.admission) == 1)
        await until(lambda: not len(server.connections.admission))


async def plaintext(_: Authority) -> None:
    async with await serve("127.0.0.1", 0, fenced, APIS) as server:
        async with await connect("127.0.0.1", server.port) as client:
            await client.send(HEARTBEAT)
        async with raw_client(server) as (reader, writer):
            writer.write(GARBAGE)
            assert await rest(reader) == b""


async def authenticated_twice(_: Authority) -> None:
    sasl = listener(max_reauth_ms={"PLAIN": 3_600_000})
    async with await serve("127.0.0.1", 0, fenced, SASL_APIS, sasl=sasl) as server:
        async with await connect("127.0.0.1", server.port, security=PLAIN) as client:
            await authenticate(client, ALICE["PLAIN"])
            await client.send(HEARTBEAT)
        async with raw_client(server) as (reader, writer):
            writer.write(GARBAGE)
            assert await rest(reader) == b""
        async with raw_client(server) as (_, writer):
            writer.write(ASK[:3])
            await until(lambda: server.connections.served)
        await until(lambda: not server.connections.served)


async def over_tls(authority: Authority) -> None:
    trusting = client_tls(authority.trusted)
    for sasl, used in ((None, None), (listener(), ALICE["PLAIN"])):
        async with await serve("127.0.0.1", 0, fenced, SASL_APIS, tls=tls_of(authority), sasl=sasl) as server:
            async with await connect("127.0.0.1", server.port, security=Security(trusting, used)) as client:
                await client.send(HEARTBEAT)
            async with raw_client(server) as (reader, writer):
                writer.write(GARBAGE)
                await rest(reader)


async def adopted(_: Authority) -> None:
    async with holding() as (server, holder):
        async with raw_client(server) as (reader, writer):
            writer.write(ask_directly(1))
            await assert_answered(reader, 1)
            holder.hand_back()
            writer.write(ask_directly(2))
            await assert_answered(reader, 2)
        [held] = holder.held
        held.abort()
        assert not server.connections.adopted


async def throttled(_: Authority) -> None:
    async with await serve("127.0.0.1", 0, muting, APIS) as server:
        for ends in (False, True):
            async with raw_client(server) as (_, writer):
                writer.write(ASK)
                await until(lambda: muted(server))
                if ends:
                    [channel] = muted(server)
                    channel.end()
                    await until(lambda: not muted(server))
            await until(lambda: not server.connections.served)


STORIES = [no_first_byte, plaintext, authenticated_twice, over_tls, adopted, throttled]


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


def test_a_server_takes_every_transition(authority: Authority) -> None:
    with watched_transitions() as seen:
        for each in STORIES:
            story(each)(authority)
    assert set(seen.taken) == set(TRANSITIONS)
    assert {each.state for each in seen.connections} == {ConnectionState.CLOSED}


@story
async def test_a_connection_that_is_cancelled_when_its_transport_begins_ends_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As it may be when it is closed for another one at that moment."""
    begin = ServedConnection.begin

    def cancelled(connection: ServedConnection, returned: Returned | None) -> None:
        begin(connection, returned)
        [task] = server.accepted._tasks
        task.cancel()

    monkeypatch.setattr(ServedConnection, "begin", cancelled)
    async with await serve("127.0.0.1", 0, fenced, APIS) as server, raw_client(server) as (reader, writer):
        writer.write(ASK)
        assert await rest(reader) == b""
        await until(lambda: not len(server.connections.admission))
        assert server.metrics.connections_opened == server.metrics.connections_closed == 1


# Hostile clients.

SENT = [b"", ASK, ASK[:9], ASK * 3, GARBAGE, ASK + GARBAGE, b"\x16\x03\x01\x02\0\1", b"\xff\xff\xff\xff", framed(b"")]


async def hostile_client(server: Server, random: Random, security: Security | None) -> None:
    """Sends something, of which a part may be a request, and leaves in one of several ways."""
    if security is not None and random.random() < 0.5:
        with suppress(KcoreError):
            async with await connect("127.0.0.1", server.port, security=security) as client:
                calls = [client.send(HEARTBEAT) for _ in range(random.randrange(4))]
                if random.random() < 0.5:
                    client.abort()
                await asyncio.gather(*calls, return_exceptions=True)
        return
    with suppress(OSError):
        async with raw_client(server) as (reader, writer):
            for _ in range(random.randrange(3)):
                writer.write(random.choice(SENT))
                await asyncio.sleep(random.choice((0, 0, 0.001)))
            if random.random() < 0.3:
                await asyncio.wait_for(rest(reader), 0.02)


@asynccontextmanager
async def attacked(kind: str, authority: Authority, limits: Limits) -> AsyncIterator[tuple[Server, Security | None]]:
    async with AsyncExitStack() as stack:
        if kind == "adopted":
            server, holder = await stack.enter_async_context(holding(limits))
            handing = asyncio.create_task(hand_back_often(holder, Random(kind)))
            yield server, Security()
            handing.cancel()
            return
        tls, trusting = (tls_of(authority), client_tls(authority.trusted)) if "tls" in kind else (None, None)
        sasl, used = (listener(failure_delay_s=0), ALICE["PLAIN"]) if "sasl" in kind else (None, None)
        handler = muting if kind == "throttled" else fenced
        opened = await serve("127.0.0.1", 0, handler, SASL_APIS, limits=limits, tls=tls, sasl=sasl)
        yield await stack.enter_async_context(opened), Security(trusting, used)


async def hand_back_often(holder: Holder, random: Random) -> None:
    while True:
        await asyncio.sleep(0.001)
        for held in random.sample([*holder.held], random.randrange(len(holder.held) + 1)):
            if random.random() < 0.2:
                held.abort()
            else:
                holder.hand_back(random.choice((b"", ASK[:5])), of=held, recalled=random.random() < 0.5)


@pytest.mark.parametrize("kind", ["plain", "tls", "sasl", "tls, sasl", "throttled", "adopted"])
def test_hostile_clients_cause_no_illegal_transition(kind: str, authority: Authority) -> None:
    """Also while the server closes connections for others, and while it closes itself."""
    limits = Limits(connections=20, close_s=0.1, connect_s=5)

    @story
    async def attack() -> None:
        random = Random(kind)
        async with attacked(kind, authority, limits) as (server, security):
            for _ in range(8):
                await asyncio.gather(*(hostile_client(server, random, security) for _ in range(30)))
            assert server.metrics.errors["evicted"]
            late = [asyncio.create_task(hostile_client(server, random, security)) for _ in range(30)]
            await asyncio.sleep(0.002)
        await asyncio.gather(*late, return_exceptions=True)

    with watched_transitions() as seen:
        attack()
    assert seen.illegal == []
    assert {each.state for each in seen.connections} == {ConnectionState.CLOSED}
