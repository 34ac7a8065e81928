"""Opens a connection that is ready for requests: TCP, TLS, ApiVersions and SASL, in Kafka's order."""

import asyncio
from collections.abc import Awaitable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol

from kcore.errors import AuthenticationError, DecodeError, FrameError, NetworkError
from kcore.net.address import address_text, check_address, network_errors
from kcore.net.connection import Connection
from kcore.net.connection_metrics import Metrics
from kcore.net.limits.connection_limits import Limits
from kcore.net.security.client_security import Sasl, Security
from kcore.net.security.sasl_client import Exchange, is_slow
from kcore.net.versions import API_VERSIONS, PeerVersions, api_versions_request, next_version, read_answer
from kcore.protocol_errors import Errors
from kcore.schema.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kcore.schema.sasl import SaslAuthenticateRequest, SaslHandshakeRequest
from kcore.schema.structure import Message
from kcore.wire.codec import encode

HANDSHAKE_VERSION = 1  # The version of SaslHandshake. After version 0, tokens have no request header (KIP-152).
AUTHENTICATE_VERSION = 1  # The version of SaslAuthenticate, which every broker from 2.2 on supports.
# The part of its session's lifetime after which a connection reauthenticates. Kafka's clients choose a random part
# from 0.85 to 0.95 (SaslClientAuthenticator).
AGAIN_AFTER = 0.85
_SLOW = ThreadPoolExecutor(1, "slow SCRAM")  # For high iteration counts, so that other connections need not wait.


class Sender(Protocol):
    """The part of a connection that `authenticate` uses."""

    peer: str

    def send(self, message: Message, version: int, /) -> Awaitable[Any]:
        """Sends a request; the result is the response."""

    def begin_session(self, lasts_s: float | None) -> None:
        """Records that the client has authenticated, and should reauthenticate after `lasts_s`; None: never."""


async def connect(
    host: str,
    port: int,
    *,
    client_id: str | None = "kcore",
    security: Security | None = None,
    limits: Limits | None = None,
    metrics: Metrics | None = None,
    ask_versions: bool = True,
) -> Connection:
    """Opens a connection that is ready for requests, within `limits.connect_s`.

    Without `ask_versions` the client sends no ApiVersions, and every call must give its version. Host and port may come
    from a peer. Raises DisconnectedError, also for an invalid host or port, RequestTimeoutError, AuthenticationError,
    FrameError, UnsupportedVersionError.
    """
    limits, security = limits or Limits(), security or Security()
    check_address(host, port)
    connection = Connection(address_text(host, port), client_id, limits, metrics or Metrics())
    try:
        with network_errors(connection.peer, limits.connect_s):
            async with asyncio.timeout(limits.connect_s):
                await _open(connection, host, port, security)
                if ask_versions:
                    connection.negotiated(await _ask_versions(connection))
                if security.sasl is not None:
                    await authenticate(connection, security.sasl)
    except BaseException:
        connection.abort()
        raise
    return connection


async def _open(connection: Connection, host: str, port: int, security: Security) -> None:
    tls: dict[str, Any] = {}
    if security.tls is not None:
        tls = {"ssl": security.tls, "server_hostname": security.server_name or host}
    await asyncio.get_running_loop().create_connection(lambda: connection.frames, host, port, **tls)


async def _ask_versions(connection: Connection) -> PeerVersions:
    version, answer = await _ask_version(connection, API_VERSIONS.highest)
    while answer.error_code == Errors.UNSUPPORTED_VERSION and version > 0:
        version, answer = await _ask_version(connection, next_version(version, answer))
    if answer.error_code != Errors.NONE:
        raise NetworkError(f"ApiVersions {version} to {connection.peer}: {error_name(answer.error_code)}")
    return PeerVersions.of(answer)


async def _ask_version(connection: Connection, version: int) -> tuple[int, ApiVersionsResponse]:
    body = encode(api_versions_request(), version)
    answer = await connection.send_bytes(ApiVersionsRequest.api_key, version, body)
    try:
        return version, read_answer(version, answer)
    except DecodeError as error:
        raise FrameError(f"ApiVersions {version} to {connection.peer}: {error}") from error


async def authenticate(connection: Sender, sasl: Sasl) -> None:
    """Sends SaslHandshake, then tokens until the mechanism is complete; AuthenticationError, or another NetworkError.

    Also reauthenticates a connection whose `ends_soon` is true (KIP-368). Callers must not send other requests
    meanwhile.
    """
    handshake = await connection.send(SaslHandshakeRequest(mechanism=sasl.mechanism), HANDSHAKE_VERSION)
    if handshake.error_code != Errors.NONE:
        has = ", ".join(handshake.mechanisms) or "none"
        raise AuthenticationError(
            f"SASL {sasl.mechanism} to {connection.peer}: {error_name(handshake.error_code)}; its mechanisms: {has}"
        )
    exchange, lifetime_ms = Exchange(sasl), 0
    token = exchange.next_token()
    while token is not None:
        answer = await connection.send(SaslAuthenticateRequest(auth_bytes=token), AUTHENTICATE_VERSION)
        if answer.error_code != Errors.NONE:
            why = f"{error_name(answer.error_code)} {answer.error_message or ''}".rstrip()
            raise AuthenticationError(f"SASL {sasl.mechanism} to {connection.peer}: {why}")
        # Runs in a thread, as the server chooses the number of SCRAM iterations: the loop must serve other connections.
        executor = _SLOW if is_slow(answer.auth_bytes) else None
        token = await asyncio.get_running_loop().run_in_executor(executor, exchange.next_token, answer.auth_bytes)
        lifetime_ms = answer.session_lifetime_ms
    connection.begin_session(AGAIN_AFTER * lifetime_ms / 1000 if lifetime_ms > 0 else None)


def error_name(code: int) -> str:
    """The name of an error code; its number if it is unknown."""
    try:
        return Errors(code).name
    except ValueError:
        return f"error {code}"
