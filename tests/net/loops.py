"""Stories on a loop of their own, and peers that talk bytes."""

import asyncio
import gc
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import wraps
from typing import Any, TypeVar

from kcore import schema as s
from kcore.net.connection_states import ClientConnection
from kcore.net.limits.connection_limits import Limits
from kcore.net.request_context import ClientSession, RequestContext
from kcore.net.requests import KEY_AND_VERSION, context_of
from kcore.net.server import Server
from kcore.schema.index import REQUESTS
from kcore.wire.codec import encode
from net.transitions import watched_transitions

GENEROUS_S = 600  # No test takes that long, beside whatever work; one that hangs ends.
QUICK = Limits(close_s=0.1)
HEARTBEAT = s.BrokerHeartbeatRequest(broker_id=1, broker_epoch=2)
HEARTBEAT_VERSION = 1

T = TypeVar("T")
Talk = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


def story(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Runs an async test. Fails if a task is left, an exception is unhandled, or a connection has an illegal state."""

    @wraps(test)
    def run(*arguments: Any, **options: Any) -> None:
        with watched_transitions(keeps=False):
            asyncio.run(on_each_loop(*arguments, **options))

    async def on_each_loop(*arguments: Any, **options: Any) -> None:
        unseen: list[dict[str, Any]] = []
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: unseen.append(context))
        async with asyncio.timeout(GENEROUS_S):
            await test(*arguments, **options)
            while asyncio.all_tasks() != {asyncio.current_task()}:
                await asyncio.sleep(0.001)
        gc.collect()
        await asyncio.sleep(0)
        assert unseen == []

    return run


async def until(condition: Callable[[], object]) -> None:
    while not condition():
        await asyncio.sleep(0.001)


async def settled(value: Callable[[], object]) -> None:
    """Until a value has been the same for a while."""
    seen, rounds = value(), 0
    while rounds < 20:
        await asyncio.sleep(0.01)
        seen, rounds = value(), rounds + 1 if value() == seen else 0


async def with_turns_of_others(work: Awaitable[T]) -> tuple[T, int]:
    """The result of the work, and how many turns of the loop another task had meanwhile."""
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    beside = asyncio.create_task(others())
    try:
        return await work, turns
    finally:
        beside.cancel()


@contextmanager
def sockets(server: Server, count: int) -> Iterator[list[socket.socket]]:
    """Connections that say nothing by themselves."""
    opened = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(count)]
    for each in opened:
        each.setblocking(False)
    try:
        yield opened
    finally:
        for each in opened:
            each.close()


async def fenced(context: RequestContext, message: Any) -> Any:
    """The handler of tests that ask anything; the answer tells what was asked."""
    return s.BrokerHeartbeatResponse(is_fenced=True, throttle_time_ms=message.broker_id)


@asynccontextmanager
async def raw_server(talk: Talk, tls: ssl.SSLContext | None = None) -> AsyncIterator[int]:
    """A peer that says what it likes; gives its port."""
    tasks: set[asyncio.Task[None]] = set()

    async def accepted(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        with suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            await talk(reader, writer)
        writer.transport.abort()
        tasks.discard(task)

    server = await asyncio.start_server(accepted, "127.0.0.1", 0, ssl=tls)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        while tasks:
            for task in tasks:
                task.cancel()
            await asyncio.sleep(0)


def framed(body: bytes) -> bytes:
    return len(body).to_bytes(4, "big", signed=True) + body


async def read_frame(reader: asyncio.StreamReader) -> bytes:
    return await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))


async def read_correlation_id(reader: asyncio.StreamReader) -> int:
    return int.from_bytes((await read_frame(reader))[4:8], "big")


def heartbeat_answer(correlation_id: int, more: bytes = b"", **fields: Any) -> bytes:
    """A frame; with what may stand after the message."""
    body = encode(s.BrokerHeartbeatResponse(**fields), HEARTBEAT_VERSION)
    return framed(correlation_id.to_bytes(4, "big") + b"\0" + body + more)


def context_in(frame: bytes, session: ClientSession | None = None, connection_id: int = 1) -> RequestContext:
    """The context of a request in a frame without its size."""
    api_key, version = KEY_AND_VERSION.unpack_from(frame)
    session = session or ClientSession("PLAINTEXT", "127.0.0.1")
    client = ClientConnection(connection_id, "a test", session)
    return context_of(client, REQUESTS[api_key], version, frame, 0.0)


def request_frame(
    message: Any, version: int, correlation_id: int, *, header_version_field: int | None = None, **header_fields: Any
) -> bytes:
    header = s.RequestHeader(
        request_api_key=message.api_key,
        request_api_version=version if header_version_field is None else header_version_field,
        correlation_id=correlation_id,
        client_id="raw",
        **header_fields,
    )
    return framed(encode(header, message.header_version(version)) + encode(message, version))
