"""One client's connection to a server with a transport and a task.

Requests of the direct handler are answered without the task, which waits meanwhile.
"""

import asyncio

from kcore.errors import FrameError, KcoreError
from kcore.net.activity import Activity
from kcore.net.adoption import Direct, Returned, descriptor_of
from kcore.net.connection_states import ClientConnection, Event
from kcore.net.framed_connection import FrameTransport
from kcore.net.requests import KEY_AND_VERSION, context_of
from kcore.net.security.principal import principal_of_certificate
from kcore.net.served_requests import ServedRequests, Serving
from kcore.schema.structure import Message


class ServedConnection:
    """Serves one client from its first bytes on, or from the return by another holder."""

    def __init__(
        self, serving: Serving, client: ClientConnection, frames: FrameTransport, returned: Returned | None
    ) -> None:
        """`returned`: the state of a connection that another holder has returned; None for a new connection."""
        self.client, self.frames = client, frames
        self._apis, self._connections = serving.apis, serving.connections
        self._activity = Activity(
            serving.connections, client, frames, is_tls=serving.is_tls, has_sasl=serving.sasl is not None
        )
        self._requests = ServedRequests(serving, client, frames, self._activity)
        # If the adopter could not answer the last request, the server keeps the connection for one more request.
        # Otherwise alternating kinds of requests would move the connection back and forth.
        self._stays_once = returned is not None and not returned.is_recalled
        self._direct: Direct | None = None  # The running request of the direct handler.
        client.holder = self
        if returned is None:
            client.session.principal = principal_of_certificate(frames.extra("peercert"))
            client.enter(Event.BEGIN_REQUESTS if serving.sasl is None else Event.BEGIN_SASL)

    # Called by the server's connections.

    @property
    def may_end(self) -> bool:
        """False while a request is running, which would still use its memory after the connection has ended."""
        return self._requests.may_end

    @property
    def idle_s(self) -> float:
        """The time in s since the last whole request, or since its answer was sent; 0 while a request is running."""
        return self._activity.idle_s

    async def run(self) -> None:
        """Answers requests until the connection ends."""
        await self._requests.run()

    def abort(self) -> None:
        """Closes the connection at once."""
        self.frames.abort()

    def finish(self) -> None:
        """Begins no further request. A running request of the direct handler is still answered, unless disconnected."""
        if self._direct is None or self.frames.closed:
            self._requests.go_on(None)
        self._requests.throttled.end()

    async def wait_gone(self) -> None:
        """Waits until the socket is closed."""
        await self.frames.wait_gone()

    def begin(self, returned: Returned | None) -> None:
        """Begins the requests, or continues with what another holder has returned."""
        if self._connections.closing:
            self.frames.abort()
            return
        self._connections.begun(self)
        self._activity.weigh()
        self._activity.check_idle()
        if returned is not None:  # Nothing is read before the returned bytes are processed.
            self.frames.pause_reading()
            if returned.unwritten:
                self.frames.write(returned.unwritten)
            asyncio.get_running_loop().call_soon(self._receive_again, returned)  # When the task waits.

    def _receive_again(self, returned: Returned) -> None:
        if self.frames.closed:
            return
        self.frames.resume_reading()
        self.frames.receive(returned.received)
        if returned.pieces:
            self._requests.go_on([*returned.pieces])  # The task writes the pieces, then handles the received bytes.
        elif self.frames.splitter.pending_bytes:
            self.frames_may_be_here()

    # FrameReceiver.

    def frames_may_be_here(self) -> None:
        """Begins the next request if it is complete, and no other is running."""
        if not self._requests.is_waiting or self._direct is not None:
            self.frames.pause_reading()  # The client sends further requests before its answer.
            self._activity.weigh()
            return
        try:
            frame = self.frames.splitter.next_frame()
            if frame is None:
                self._activity.weigh()
            elif not self._begin_directly(frame):
                self._requests.go_on(frame)
        except FrameError as error:
            self._requests.fail(error)

    def writing_resumed(self) -> None:
        """See `FrameReceiver.writing_resumed`."""
        self._activity.touch()
        self._requests.writing_resumed()

    def lost(self, why: str) -> None:
        """See `FrameReceiver.lost`."""
        self._connections.lost(self, why)
        self._requests.forget_routes()
        self._activity.close()
        self.finish()
        self.writing_resumed()

    # Requests of the direct handler.

    def _begin_directly(self, frame: bytes) -> bool:
        """Begins the request with the direct handler; False if the task must handle the frame."""
        handler = self._apis.parts.direct
        if handler is None or len(frame) < KEY_AND_VERSION.size or not self.frames.may_write:
            return False
        now_s = asyncio.get_running_loop().time()
        if not self._requests.lets_in(now_s):
            return False
        api_key, version = KEY_AND_VERSION.unpack_from(frame)
        if not handler.takes(api_key):
            return False
        try:
            kind = self._apis.kind_of(api_key, version)
            context = context_of(self.client, kind, version, frame, now_s, self.frames.gone)
            message = self._apis.read(context)
        except KcoreError:
            return False
        if message is None:
            return False
        self._activity.begin(frame)
        self._direct = Direct(context, message, frame)
        if not self._apis.begin(self._direct, self._answer_directly):
            self._end_directly()
        return True

    def _answer_directly(self, response: Message | None) -> None:
        """Writes the direct handler's response and waits for the next request; the task writes what does not fit."""
        if self._direct is None or not self._requests.is_waiting:
            return  # The connection has ended.
        direct, self._direct = self._direct, None
        frame = None
        if response is not None and not self.frames.closed:
            frame = self._apis.direct_frame(direct, response)
        if response is None or frame is None:
            self._end_directly()
            return
        self._activity.end()
        for place, piece in enumerate(frame):
            if not self.frames.may_write or self._connections.closing:
                self._requests.go_on(frame[place:])
                return
            self.frames.write(piece)
        self._connections.metrics.responses += 1
        if self.client.session.mute_ms:
            self._requests.go_on([])  # The task throttles the client.
            return
        try:
            following = self.frames.splitter.next_frame()
        except FrameError as error:
            self._requests.fail(error)
            return
        if following is not None or not self.frames.may_write:
            self._requests.go_on([] if following is None else following)
        elif not self._is_given_away(direct, response):
            self._requests.rest()

    def _end_directly(self) -> None:
        """Ends the connection."""
        self._direct = None
        self._requests.go_on(None)

    def _is_given_away(self, direct: Direct, response: Message) -> bool:
        """Offers the connection to the adopter; returns whether the adopter has taken it, which ends this object."""
        adopter, transport = self._apis.parts.adopter, self.frames.transport
        if adopter is None or self.frames.splitter.pending_bytes or self.frames.unwritten_bytes:
            return False
        adoption = adopter.plan(direct, response)
        stays, self._stays_once = self._stays_once, False
        if adoption is None or stays or transport is None or (descriptor := descriptor_of(transport)) < 0:
            return False
        self.frames.detach()
        self._activity.close()
        self._connections.served.discard(self)
        self._connections.give_away(self.client, adoption, descriptor)
        self._requests.go_on(None)
        return True
