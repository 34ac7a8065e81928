"""The server's side of SASL on one connection: takes and returns frames until the client is authenticated.

    INITIAL_REQUEST -> HANDSHAKE_OR_VERSIONS_REQUEST -> HANDSHAKE_REQUEST -> AUTHENTICATE -> COMPLETE

A client may send ApiVersions before it names a mechanism (SaslHandshake), and no other request before it is
authenticated. Until then its requests are limited in size, and the server parses no other kind of request. Before its
session ends (connections.max.reauth.ms, or a delegation token), a client may send SaslHandshake again (KIP-368). It
then continues from REAUTH_PROCESS_HANDSHAKE on, and must use the same mechanism and get the same principal.

Source: SaslServerAuthenticator, KafkaChannel.maybeBeginServerReauthentication of 4.3.1. This module uses no socket and
no clock.
"""

import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final, NamedTuple

from kcore.errors import DecodeError
from kcore.java_hash import hash_map_order
from kcore.metadata.principal import KafkaPrincipal
from kcore.net.framed_connection import Piece, frame_of
from kcore.net.limits.connection_limits import HEADER_VALUES
from kcore.net.requests import KEY_AND_VERSION, framed_response
from kcore.net.security.sasl_mechanisms import (
    PLAIN,
    Authenticated,
    Credentials,
    Mechanism,
    NoCredentials,
    Plain,
    PlainUsers,
    SaslFailure,
    Scram,
    TokenCredentials,
    UnknownUsers,
    random_nonce,
)
from kcore.net.versions import API_VERSIONS, for_version, is_valid, name_of_key, refusal, response_of
from kcore.protocol_errors import Errors
from kcore.schema.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kcore.schema.headers import RequestHeader
from kcore.schema.sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from kcore.schema.structure import Message
from kcore.schema.versions import Versions
from kcore.scram import DIGESTS
from kcore.wire.codec import decode_from

LARGEST_RECEIVE: Final = 512 * 1024  # sasl.server.max.receive.size
FAILURE_DELAY_S: Final = 0.1  # connection.failed.authentication.delay.ms
# The least time between two re-authentications (KafkaChannel.MIN_REAUTH_INTERVAL_ONE_SECOND_NANOS).
LEAST_BETWEEN_S: Final = 1.0


class State(Enum):
    """The state of a connection's authentication, named as in SaslServerAuthenticator.SaslState."""

    INITIAL_REQUEST = "initial request"
    HANDSHAKE_OR_VERSIONS_REQUEST = "handshake or versions"
    HANDSHAKE_REQUEST = "handshake"
    AUTHENTICATE = "authenticate"
    COMPLETE = "complete"
    FAILED = "failed"
    REAUTH_PROCESS_HANDSHAKE = "handshake of re-authentication"
    REAUTH_BAD_MECHANISM = "re-authentication by another mechanism"


TRANSITIONS: Final[Mapping[State, frozenset[State]]] = {
    State.INITIAL_REQUEST: frozenset({State.HANDSHAKE_OR_VERSIONS_REQUEST, State.FAILED}),
    State.HANDSHAKE_OR_VERSIONS_REQUEST: frozenset({State.HANDSHAKE_REQUEST, State.AUTHENTICATE, State.FAILED}),
    State.HANDSHAKE_REQUEST: frozenset({State.AUTHENTICATE, State.FAILED}),
    State.AUTHENTICATE: frozenset({State.COMPLETE, State.FAILED}),
    State.COMPLETE: frozenset({State.REAUTH_PROCESS_HANDSHAKE, State.FAILED}),
    State.REAUTH_PROCESS_HANDSHAKE: frozenset({State.AUTHENTICATE, State.REAUTH_BAD_MECHANISM, State.FAILED}),
    State.REAUTH_BAD_MECHANISM: frozenset({State.FAILED}),
    State.FAILED: frozenset(),
}


@dataclass(frozen=True, slots=True)
class SaslListener:
    """The SASL settings of a listener, the same for all of its clients."""

    mechanisms: tuple[str, ...]  # A subset of kcore.net.security.client_security.MECHANISMS.
    wall_ms: Callable[[], int]  # Returns the time in ms since 1970, by which delegation tokens expire.
    users: PlainUsers = field(default_factory=lambda: PlainUsers({}))  # Users of PLAIN.
    credentials: Credentials = field(default_factory=NoCredentials)  # Users and tokens of SCRAM.
    max_reauth_ms: Mapping[str, int] = field(default_factory=dict)  # connections.max.reauth.ms by mechanism; 0: no end.
    max_receive_bytes: int = LARGEST_RECEIVE
    failure_delay_s: float = FAILURE_DELAY_S
    new_nonce: Callable[[], str] = random_nonce
    tokens: TokenCredentials = field(default_factory=lambda: TokenCredentials(secrets.token_bytes))
    unknown: UnknownUsers = field(default_factory=UnknownUsers)

    @property
    def listed(self) -> list[str]:
        """The mechanisms in the order of Kafka's answer, which is the order of a Java HashSet."""
        return hash_map_order(dict.fromkeys(self.mechanisms))

    def begin(self, mechanism: str) -> Mechanism:
        """Begins an exchange of `mechanism` with a client."""
        if mechanism == PLAIN:
            return Plain(self.users)
        assert mechanism in DIGESTS
        return Scram(mechanism, self.credentials, self.tokens, self.new_nonce, self.unknown)


class Step(NamedTuple):
    """The result of a frame: an answer, if any. After a `failure` the connection is closed when the answer is written.

    If `is_delayed`, the server waits `failure_delay_s` before both.
    """

    answer: list[Piece] | None
    failure: str = ""
    is_delayed: bool = False


class SaslServer:
    """One connection's authentication. Times in seconds come from a monotonic clock."""

    def __init__(
        self,
        listener: SaslListener,
        versions_answer: Callable[[], ApiVersionsResponse],
        api_versions: Versions = API_VERSIONS,
    ) -> None:
        """`versions_answer` returns the server's answer to ApiVersions in one of the versions `api_versions`."""
        self._listener, self._versions_answer, self._api_versions = listener, versions_answer, api_versions
        self.state = State.INITIAL_REQUEST
        self.authenticated: Authenticated | None = None  # The last result; kept during a re-authentication.
        self._mechanism, self._exchange = "", _NO_EXCHANGE
        self._previous: tuple[str, KafkaPrincipal] | None = None  # Mechanism and principal before a re-authentication.
        self._has_headers = False  # After SaslHandshake 0 the client sends bare tokens, later SaslAuthenticate.
        self._expires_s: float | None = None
        self._began_again_s: float | None = None

    @property
    def is_complete(self) -> bool:
        """Whether the client is authenticated, and no exchange is running."""
        return self.state is State.COMPLETE

    def lets_in(self, now_s: float) -> bool:
        """Whether the client is authenticated and its session has not expired, so that its requests are answered."""
        return self.is_complete and (self._expires_s is None or now_s <= self._expires_s)

    def takes(self, frame: bytes, now_s: float) -> bool:
        """Whether `take` must handle the frame instead of a request handler.

        A SaslHandshake may begin a re-authentication.
        """
        if not self.is_complete:
            return True
        if frame[:2] == _HANDSHAKE_KEY and self._expires_s is not None:
            began_s = self._began_again_s
            if began_s is None or now_s - began_s >= LEAST_BETWEEN_S:
                self._began_again_s = now_s
                assert self.authenticated is not None
                self._previous = self._mechanism, self.authenticated.principal
                self._go(State.REAUTH_PROCESS_HANDSHAKE)
                return True
        return not self.lets_in(now_s)

    def take(self, frame: bytes, now_s: float, wall_ms: int) -> Step:
        """Handles the client's next frame, if `takes` is true for it. `wall_ms` is the time in ms since 1970."""
        try:
            if self.state is State.COMPLETE:
                return self._fail("its session has expired, and it has not authenticated again")
            if self.state is State.REAUTH_BAD_MECHANISM:
                return self._bad_mechanism()
            if self.state is not State.AUTHENTICATE:
                return self._take_request(frame)
            if self._has_headers:
                return self._take_authenticate(frame, now_s, wall_ms)
            return self._take_bare(frame, now_s, wall_ms)
        except DecodeError as error:
            return self._fail(f"{error.message} {self._where}")

    # Before the mechanism is known.

    def _take_request(self, frame: bytes) -> Step:
        api_key, version = _key_and_version(frame)
        if api_key == ApiVersionsRequest.api_key and self.state is not State.REAUTH_PROCESS_HANDSHAKE:
            return self._take_api_versions(frame, version)
        if api_key != SaslHandshakeRequest.api_key or version not in SaslHandshakeRequest.versions:
            return self._fail(f"{name_of_key(api_key)} {version} {self._where}")
        header, request = _read(SaslHandshakeRequest, frame, version)
        if self.state is State.INITIAL_REQUEST:
            self._go(State.HANDSHAKE_OR_VERSIONS_REQUEST)
        self._has_headers = self._has_headers or version >= 1
        response = SaslHandshakeResponse(mechanisms=self._listener.listed)
        if request.mechanism not in self._listener.mechanisms:
            response.error_code = Errors.UNSUPPORTED_SASL_MECHANISM.value
            why = f"a SASL mechanism that is not enabled {self._where}"
            return self._fail(why, framed_response(response, version, header), is_delayed=True)
        if self._previous is not None and request.mechanism != self._previous[0]:
            self._go(State.REAUTH_BAD_MECHANISM)
            self._mechanism = request.mechanism
        else:
            self._mechanism, self._exchange = request.mechanism, self._listener.begin(request.mechanism)
            self._go(State.AUTHENTICATE)
        return Step(framed_response(response, version, header))

    def _take_api_versions(self, frame: bytes, version: int) -> Step:
        if self.state is State.HANDSHAKE_REQUEST:
            return self._fail(f"a second ApiVersions {self._where}")
        if self.state is State.INITIAL_REQUEST:
            self._go(State.HANDSHAKE_OR_VERSIONS_REQUEST)
        if version not in self._api_versions:
            of_header = ApiVersionsRequest.header_version(version)
            header, _ = decode_from(RequestHeader, of_header, frame, most_values=HEADER_VALUES)
            return Step(framed_response(refusal(self._api_versions), 0, header))
        header, request = _read(ApiVersionsRequest, frame, version)
        if not is_valid(request, version):
            return Step(framed_response(ApiVersionsResponse(error_code=Errors.INVALID_REQUEST.value), version, header))
        self._go(State.HANDSHAKE_REQUEST)
        return Step(framed_response(for_version(self._versions_answer(), version), version, header))

    # The tokens of the mechanism.

    def _take_authenticate(self, frame: bytes, now_s: float, wall_ms: int) -> Step:
        api_key, version = _key_and_version(frame)
        if api_key != SaslAuthenticateRequest.api_key:
            return self._fail(f"{name_of_key(api_key)} {version} {self._where}", self._illegal(frame), is_delayed=True)
        if version not in SaslAuthenticateRequest.versions:
            return self._fail(f"{name_of_key(api_key)} {version} {self._where}")
        header, request = _read(SaslAuthenticateRequest, frame, version)
        try:
            token = self._evaluate(request.auth_bytes, wall_ms)
        except SaslFailure as failure:
            of_kafka = (
                f"Authentication failed {self._where} due to invalid credentials with SASL mechanism {self._mechanism}"
            )
            response = SaslAuthenticateResponse(
                error_code=Errors.SASL_AUTHENTICATION_FAILED.value, error_message=failure.client_message or of_kafka
            )
            why = f"{failure} {self._where}"
            return self._fail(why, framed_response(response, version, header), is_delayed=True)
        lifetime_ms = self._finish(now_s, wall_ms)
        response = SaslAuthenticateResponse(auth_bytes=token, session_lifetime_ms=lifetime_ms)
        return Step(framed_response(response, version, header))

    def _illegal(self, frame: bytes) -> list[Piece] | None:
        """The answer ILLEGAL_SASL_STATE to SaslHandshake or ApiVersions; None for requests that are not parsed."""
        api_key, version = _key_and_version(frame)
        kind = {each.api_key: each for each in (SaslHandshakeRequest, ApiVersionsRequest)}.get(api_key)
        if kind is None or version not in (self._api_versions if kind is ApiVersionsRequest else kind.versions):
            return None
        header, _ = _read(kind, frame, version)
        response = response_of(kind)
        return framed_response(response(error_code=Errors.ILLEGAL_SASL_STATE.value), version, header)

    def _take_bare(self, frame: bytes, now_s: float, wall_ms: int) -> Step:
        try:
            token = self._evaluate(frame, wall_ms)
        except SaslFailure as failure:
            return self._fail(f"{failure} {self._where}", is_delayed=True)
        self._finish(now_s, wall_ms)
        return Step(frame_of(None, 0, token))

    def _evaluate(self, token: bytes, wall_ms: int) -> bytes:
        answer = self._exchange.evaluate(token, wall_ms)
        found = self._exchange.authenticated
        if found is not None and self._previous is not None and found.principal != self._previous[1]:
            before, now = (f"{each.principal_type}.{each.name}" for each in (self._previous[1], found.principal))
            client_message = f"Cannot change principals during re-authentication from {before}: {now}"
            raise SaslFailure("another principal", client_message=client_message)
        return answer

    def _finish(self, now_s: float, wall_ms: int) -> int:
        """Ends the exchange after its last token; returns the session's lifetime in ms, 0: unlimited (ReauthInfo)."""
        found = self._exchange.authenticated
        if found is None:
            return 0
        self.authenticated, self._exchange = found, _NO_EXCHANGE
        self._go(State.COMPLETE)
        lifetimes_ms = [] if found.expires_ms is None else [found.expires_ms - wall_ms]
        if longest_ms := self._listener.max_reauth_ms.get(self._mechanism, 0):
            lifetimes_ms.append(longest_ms)
        if not lifetimes_ms:
            self._expires_s = None
            return 0
        lifetime_ms = max(0, min(lifetimes_ms))
        self._expires_s = now_s + lifetime_ms / 1000
        return lifetime_ms

    def _bad_mechanism(self) -> Step:
        assert self._previous is not None
        why = (
            f"SASL mechanism '{self._mechanism}' requested by client is not supported for re-authentication of "
            f"mechanism '{self._previous[0]}'"
        )
        return self._fail(why, is_delayed=True)

    # States.

    @property
    def _where(self) -> str:
        return "during authentication" if self._previous is None else "during re-authentication"

    def _go(self, state: State) -> None:
        assert state in TRANSITIONS[self.state], f"{self.state} to {state}"
        self.state = state

    def _fail(self, why: str, answer: list[Piece] | None = None, *, is_delayed: bool = False) -> Step:
        self._go(State.FAILED)
        self._exchange = _NO_EXCHANGE
        return Step(answer, why, is_delayed)


class _NoExchange:
    """Stands for the exchange while no exchange is running."""

    authenticated: Authenticated | None = None

    def evaluate(self, token: bytes, wall_ms: int) -> bytes:
        raise AssertionError("no exchange runs")


_NO_EXCHANGE: Final[Mechanism] = _NoExchange()
_HANDSHAKE_KEY: Final = SaslHandshakeRequest.api_key.to_bytes(2, "big")


def _key_and_version(frame: bytes) -> tuple[int, int]:
    if len(frame) < KEY_AND_VERSION.size:
        raise DecodeError(f"a request of {len(frame)} bytes", 0)
    key, version = KEY_AND_VERSION.unpack_from(frame)
    return key, version


def _read(kind: type[Message], frame: bytes, version: int) -> tuple[RequestHeader, Any]:
    header, at = decode_from(RequestHeader, kind.header_version(version), frame, most_values=HEADER_VALUES)
    return header, decode_from(kind, version, frame, at, most_values=HEADER_VALUES)[0]
