"""Hands idle connections of a server to an adopter in another loop of the process, and takes them back.

A server answers every request in Python. An adopter (the answer loop: `kcore.server.quorum_node.answer_loop`)
answers some requests without Python. The server offers the adopter a connection after it has written an answer, if no
byte is unread or unwritten. The connection's protocol then ends, and the socket stays open. An `AdoptedConnection`
replaces the protocol in the server's admission. When the adopter returns the connection, a new protocol continues with
the same `ClientConnection`. The adopter also returns the unanswered bytes and the unsent rest of an answer.
"""

import asyncio
import os
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, Protocol, TypeAlias

from kcore.net.connection_states import ClientConnection
from kcore.net.framed_connection import Piece
from kcore.net.limits.admission import may_be_connections
from kcore.net.request_context import RequestContext
from kcore.schema.structure import Message

_NOBODY: Final = asyncio.Protocol()  # The protocol of a transport whose connection was given away.


class Direct(NamedTuple):
    """A request that the server began without a task: the decoded request, and its frame without the frame's size."""

    context: RequestContext
    request: Message
    frame: bytes


class Lender(Protocol):
    """The server's connections, which take a connection back from the adopter."""

    def hand_back(self, adopted: "AdoptedConnection", descriptor: int, received: bytes, unwritten: bytes) -> None:
        """Continues a connection; the server owns the descriptor from now on."""

    def adopted_ended(self, adopted: "AdoptedConnection", why: str) -> None:
        """Called when the adopter has closed a connection."""


class AdoptedConnection:
    """A connection that an adopter answers; the admission counts it as one with a running request."""

    __slots__ = ("_end", "_lender", "client", "is_ended", "is_recalled")

    may_end = False

    def __init__(self, client: ClientConnection, lender: Lender, adoption: "Adoption", descriptor: int) -> None:
        """Hands the connection's descriptor to the adopter."""
        self.client, self._lender = client, lender
        self.is_ended = False  # The server has aborted it; the adopter may still be returning the connection.
        # True if the server has recalled the connection; False if the adopter returns it because of a request that the
        # adopter cannot answer. In this case the server keeps the connection for one more request.
        self.is_recalled = False
        self._end = adoption(self, descriptor)

    def recall(self) -> None:
        """Records that the server wants the connection back."""
        self.is_recalled = True

    def hand_back(self, descriptor: int, received: bytes, unwritten: bytes) -> None:
        """Returns the connection to its server, with unanswered bytes and the unsent rest of an answer."""
        self._lender.hand_back(self, descriptor, received, unwritten)

    def ended(self, why: str) -> None:
        """Reports that the adopter has closed the connection; the metrics count it if `why` is "idle"."""
        self._lender.adopted_ended(self, why)

    def abort(self) -> None:
        """Makes the adopter close the connection at once."""
        self.is_ended = True
        self._end()

    def __str__(self) -> str:
        return "answered by the answer loop"


class Returned(NamedTuple):
    """The state of a connection that continues with a transport, after another object has held it."""

    received: bytes  # Bytes of requests that are not answered.
    unwritten: bytes  # The unsent rest of an answer that is counted already.
    is_recalled: bool
    pieces: Sequence[Piece] = ()  # An answer that is not counted, or its unsent rest; `unwritten` is then empty.


Adoption: TypeAlias = Callable[[AdoptedConnection, int], Callable[[], None]]
"""Called with a connection and its descriptor: the adopter takes over both, and must close the descriptor. Returns a
function that makes the adopter close the connection at once."""


class Adopter(Protocol):
    """Answers some connections in place of their server."""

    def plan(self, direct: Direct, response: Message) -> Adoption | None:
        """A function that hands the connection to the adopter after this response; None if the adopter refuses it."""


def descriptor_of(transport: asyncio.Transport) -> int:
    """A new descriptor of the connection's socket, which the caller owns; ends the transport, but not the connection.

    Returns -1 and changes nothing if the process has no free descriptor for connections.
    """
    try:
        descriptor = os.dup(transport.get_extra_info("socket").fileno())
    except OSError:
        return -1
    if not may_be_connections(descriptor):
        os.close(descriptor)
        return -1
    transport.set_protocol(_NOBODY)
    transport.abort()  # Closes only the transport's descriptor of the socket.
    return descriptor
