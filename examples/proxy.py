"""A proxy between Kafka's clients and a broker or controller that prints every request and every response.

    python examples/proxy.py LISTEN_PORT HOST:PORT

It passes all frames on as they are, also those that it cannot decode. A client goes to the addresses in a Metadata
response, which are not the proxy's unless `advertised.listeners` names the proxy. Ctrl-C ends it.
"""

import asyncio
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from functools import partial
from struct import Struct as Layout
from typing import Final, NamedTuple

from kcore import Errors, KcoreError, messages
from kcore.schema import ApiVersionsResponse, RequestHeader, ResponseHeader
from kcore.wire import Message, Struct, decode_from

MOST_FRAME_BYTES: Final = 100 << 20  # As socket.request.max.bytes.
MOST_VALUES: Final = 100_000  # A message with more is not decoded: the other connections would have to wait.
MOST_UNANSWERED: Final = 1_000  # Requests of one connection. A Produce request with acks=0 gets no response.
REQUESTS: Final = {each.api_key: each for name, each in messages.items() if name.endswith("Request")}
HEAD: Final = Layout(">hhi")  # Every request begins with API key, version and correlation id.
REFUSES_VERSION: Final = Errors.UNSUPPORTED_VERSION.to_bytes(2)
say = partial(print, flush=True)


class Asked(NamedTuple):
    """A request that waits for its response."""

    text: str  # API, version and client.
    response: type[Message] | None  # None for an unknown API.
    version: int
    at_s: float


def error_names(value: object) -> Iterator[str]:
    """The errors in a message, at any depth."""
    if isinstance(value, Struct):
        for name in value.__match_args__:
            field = getattr(value, name)
            if name.endswith("error_code") and field:
                yield Errors.of(field).name
            yield from error_names(field)
    elif isinstance(value, list):
        for each in value:
            yield from error_names(each)


class Exchange:
    """The requests of one connection and their responses, as lines of text."""

    def __init__(self) -> None:
        self._unanswered: dict[int, Asked] = {}  # By correlation id, the oldest first.

    def request(self, frame: bytes) -> str:
        """The line of a request, whose response is expected from now on."""
        if len(frame) < HEAD.size:
            return f"> {len(frame)} bytes without a header"
        api_key, version, correlation_id = HEAD.unpack_from(frame)
        kind, text, problem, response = REQUESTS.get(api_key), f"unknown API {api_key} v{version}", "", None
        if kind is not None:
            api = kind.__name__.removesuffix("Request")
            text, response = f"{api} v{version}", messages[f"{api}Response"]
            try:
                header, begin = decode_from(RequestHeader, kind.header_version(version), frame)
                text += f" of client {header.client_id!a:.60}"
                decode_from(kind, version, frame, begin, most_values=MOST_VALUES)
            except KcoreError as error:
                problem = f", not decoded: {error}"
        if len(self._unanswered) == MOST_UNANSWERED:
            del self._unanswered[next(iter(self._unanswered))]
        self._unanswered[correlation_id] = Asked(text, response, version, time.monotonic())
        return f"> {text}, {len(frame)} bytes{problem}"

    def response(self, frame: bytes) -> str:
        """The line of a response, with the time since its request, and with its errors."""
        asked = self._unanswered.pop(int.from_bytes(frame[:4], signed=True), None)
        if asked is None:
            return f"< {len(frame)} bytes that answer no request"
        latency_ms = 1000 * (time.monotonic() - asked.at_s)
        return f"< {asked.text}, {len(frame)} bytes, {latency_ms:.1f} ms{result_of(asked, frame)}"


def result_of(asked: Asked, frame: bytes) -> str:
    """The errors in a response, or why it cannot be decoded."""
    if asked.response is None:
        return ""
    refuses = asked.response is ApiVersionsResponse and frame[4:6] == REFUSES_VERSION
    version = 0 if refuses else asked.version  # A broker refuses a version of ApiVersions in version 0 (KIP-511).
    try:
        _, begin = decode_from(ResponseHeader, asked.response.header_version(version), frame)
        message, _ = decode_from(asked.response, version, frame, begin, most_values=MOST_VALUES)
    except KcoreError as error:
        return f", not decoded: {error}"
    return "".join(f", {name}" for name in dict.fromkeys(error_names(message)))


async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, line_of: Callable[[bytes], str]) -> None:
    """Passes frames on, each with its line, until one side closes or sends what is no frame."""
    with closing(writer), suppress(OSError, EOFError):
        while True:
            size = int.from_bytes(await reader.readexactly(4), signed=True)
            if not 0 <= size <= MOST_FRAME_BYTES:
                say(f"! closed: a frame cannot have {size} bytes; TLS, or another protocol?")
                break
            frame = await reader.readexactly(size)
            say(line_of(frame))
            writer.write(size.to_bytes(4) + frame)
            await writer.drain()


async def serve(host: str, port: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Serves one client, over a connection of its own to the server."""
    try:
        server_reader, server_writer = await asyncio.open_connection(host, port)
    except OSError as error:
        say(f"! closed: {error}")
        writer.close()
        return
    exchange = Exchange()
    pumps = pump(reader, server_writer, exchange.request), pump(server_reader, writer, exchange.response)
    with suppress(asyncio.CancelledError):  # The program ends; Python 3.11 would print a traceback.
        await asyncio.gather(*pumps)


async def main() -> None:
    host, _, port = sys.argv[2].rpartition(":")
    server = await asyncio.start_server(partial(serve, host, int(port)), "127.0.0.1", int(sys.argv[1]))
    say(f"listens at 127.0.0.1:{server.sockets[0].getsockname()[1]}")
    await asyncio.Event().wait()  # For ever: `serve_forever` would wait for open connections after Ctrl-C.


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        asyncio.run(main())

# Prints:
# listens at 127.0.0.1:...
# > ApiVersions v4 of client 'a client', ... bytes
# < ApiVersions v4 of client 'a client', ... bytes, ... ms
# > CreateTopics v7 of client 'a client', ... bytes
# < CreateTopics v7 of client 'a client', ... bytes, ... ms, INVALID_REPLICA_ASSIGNMENT
# > ApiVersions v99 of client 'a new client', ... bytes, not decoded: ApiVersionsRequest has versions ..., not 99
# < ApiVersions v99 of client 'a new client', ... bytes, ... ms, UNSUPPORTED_VERSION
# > unknown API 999 v3, ... bytes
# ! closed: a frame cannot have 1195725856 bytes; TLS, or another protocol?
