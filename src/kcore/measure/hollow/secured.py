"""TLS and SASL of the loop's connections: the loop does TLS, and Python computes the tokens of SASL."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Final

from kcore._ext import hollow as kernel
from kcore.errors import DecodeError, DisconnectedError, FrameError, NetworkError, TargetError
from kcore.measure.hollow.frames import request_frame
from kcore.measure.hollow.refusals import explained
from kcore.net.calls import correlation_id_of
from kcore.net.connect import authenticate
from kcore.net.security.client_security import Sasl
from kcore.net.security.listener_security import ListenerSecurity
from kcore.net.security.tls import TlsError
from kcore.net.versions import response_of
from kcore.schema.structure import Message
from kcore.wire.codec import decode_from

Place = tuple[int, int]  # A connection of the loop: a broker's row, and HEARTBEATS or FETCHES.
_HOSTS: Final = ("localhost", "127.0.0.1", "::1")


def loop_of(security: ListenerSecurity, *, frame_bytes: int, timeout_ns: int) -> kernel.Loop:
    """A loop whose connections have these settings. TargetError for certificates or keys that the loop cannot use."""
    tls, authenticates = tls_of(security), security.own_mechanism is not None
    return kernel.Loop(frame_bytes=frame_bytes, timeout_ns=timeout_ns, tls=tls, authenticates=authenticates)


def tls_of(security: ListenerSecurity) -> kernel.ClientTls | None:
    """The TLS settings of a loop; None for plaintext. TargetError as for `loop_of`."""
    if security.tls is None:
        return None
    try:
        text = security.tls.as_text()
        return kernel.ClientTls(
            trusted=(text.certificates or "").encode(),
            chain=(text.certificate_chain or "").encode(),
            key=(text.key or "").encode(),
            key_password=None if text.key_password is None else text.key_password.encode(),
            versions=list(text.versions),
            verifies_name=text.verifies_name,
        )
    except (TlsError, ValueError) as error:
        raise TargetError(f"TLS of the hollow brokers: {error}") from None


def certificates(*names: str) -> tuple[str, list[tuple[str, str]]]:
    """A new authority's certificate, and the certificate and key of each name, valid for this machine; all as PEM."""
    return kernel.make_certificates("kcore storm", list(names), list(_HOSTS))


class Authenticator:
    """Authenticates connections of a loop, and again before their sessions end (KIP-368)."""

    def __init__(self, loop: kernel.Loop, sasl: Sasl, spawn: Callable[[Coroutine[Any, Any, None]], None]) -> None:
        """`spawn` starts a task."""
        self._loop, self._sasl, self._spawn = loop, sasl, spawn
        self._talks: dict[Place, _Talk] = {}

    def begin(self, place: Place, client_id: str, peer: str) -> None:
        """Authenticates a new connection; afterwards the loop sends its requests."""
        self.end(place)
        talk = self._talks[place] = _Talk(self._loop, place, client_id, peer)
        self._spawn(self._authenticate(talk))

    def on_heard(self, place: Place, frame: bytes) -> None:
        """Takes the response to the last request of this connection's authentication."""
        if place in self._talks:
            self._talks[place].on_heard(frame)

    def end(self, place: Place) -> None:
        """Forgets a connection that has ended."""
        if (talk := self._talks.pop(place, None)) is not None:
            talk.end()

    async def _authenticate(self, talk: "_Talk") -> None:
        try:
            await authenticate(talk, self._sasl)
        except NetworkError as error:
            if not talk.ended:
                self._loop.refuse(*talk.place, explained(error))
            return
        if talk.ended:
            return
        self._loop.end_talk(*talk.place)
        if talk.lasts_s is not None:
            run = asyncio.get_running_loop()
            talk.timer = run.call_later(talk.lasts_s, lambda: self._spawn(self._authenticate(talk)))


class _Talk:
    """The part of a connection of the loop that authenticates (`kcore.net.connect.Sender`)."""

    def __init__(self, loop: kernel.Loop, place: Place, client_id: str, peer: str) -> None:
        self.place, self.peer, self.ended = place, peer, False
        self.lasts_s: float | None = None  # The time until the next authentication.
        self.timer: asyncio.TimerHandle | None = None
        self._loop, self._client_id, self._correlation_id = loop, client_id, 0
        self._answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

    async def send(self, message: Message, version: int, /) -> Any:
        """Sends a request and returns the response; DisconnectedError, FrameError."""
        if self.ended:
            raise DisconnectedError(f"{self.peer}: the connection has ended")
        self._correlation_id += 1
        self._answer = asyncio.get_running_loop().create_future()
        self._loop.say(*self.place, request_frame(self._client_id, version, self._correlation_id, message))
        frame = await self._answer
        response = response_of(type(message))
        try:
            found, at = correlation_id_of(frame, response.header_version(version))
            if found != self._correlation_id:
                raise FrameError(f"{self.peer}: the answer has correlation id {found}, not {self._correlation_id}")
            return decode_from(response, version, frame, at)[0]
        except DecodeError as error:
            raise FrameError(f"{self.peer}: {type(message).__name__}: {error}") from error

    def begin_session(self, lasts_s: float | None) -> None:
        """Sets the time until the next authentication; None: the session does not end."""
        self.lasts_s = lasts_s

    def on_heard(self, frame: bytes) -> None:
        if not self._answer.done():
            self._answer.set_result(frame)

    def end(self) -> None:
        self.ended = True
        if self.timer is not None:
            self.timer.cancel()
        if not self._answer.done():
            self._answer.set_exception(DisconnectedError(f"{self.peer}: the connection has ended"))
            self._answer.exception()  # If no task awaits the answer, asyncio must not log the error.
