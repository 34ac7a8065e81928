"""Hands idle connections of a server to an adopter in another loop of the process, and takes them back.

A server answers every request in Python. An adopter (the answer loop: `kcore.server.quorum_node.answer_loop`)
answers some requests without Python. The server offers the adopter a connection after it has written an answer, if no
byte is unread or unwritten. The connection's protocol then ends, and the socket stays open. An `AdoptedConnection`
replaces the protocol in the server's admission. When the adopter returns the connection, a new protocol continues with
the same session and id. The adopter also returns the unanswered bytes and the unsent rest of an answer.
"""

import asyncio
import os
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, Protocol, TypeAlias

from kcore.net.framed_connection import Piece
from kcore.net.limits.admission import Rank, may_be_connections
from kcore.net.request_context import ClientSession, RequestContext
from kcore.schema.structure import Message

_NOBODY: Final = asyncio.Protocol()  # The protocol of a transport whose connection was given away.


class Direct(NamedTuple):
    """A request that the server began without a task: the decoded request, and its frame without the frame's size."""

    context: RequestContext
    request: Message
    frame: bytes


class Identity(NamedTuple):
    """The properties of a connection that the server and the adopter share."""

    connection_id: int
    peer: str
    session: ClientSession
    rank: Rank


class AdoptedConnection:
    """A connection that an adopter answers; the admission counts it as one with a running request."""

    __slots__ = ("end", "identity", "is_ended", "is_recalled")

    def __init__(self, identity: Identity) -> None:
        self.identity = identity
        self.end: Callable[[], None] = _not_yet  # Makes the adopter close the connection.
        self.is_ended = False  # The server has aborted it; the adopter may still be returning the connection.
        # True if the server has recalled the connection; False if the adopter returns it because of a request that the
        # adopter cannot answer. In this case the server keeps the connection for one more request.
        self.is_recalled = False

    @property
    def address(self) -> str:
        """The address of the client's host."""
        return self.identity.session.client_address

    @property
    def rank(self) -> Rank:
        return self.identity.rank

    def abort(self) -> None:
        """Makes the adopter close the connection at once."""
        self.is_ended = True
        self.end()

    def __str__(self) -> str:
        return f"{self.identity.peer}, answered by the answer loop"


def _not_yet() -> None:
    """The value of `AdoptedConnection.end` until the adopter has the connection; does nothing."""


class Returned(NamedTuple):
    """A connection that continues with a new protocol, after the adopter or `DirectConnections` has served it."""

    identity: Identity
    received: bytes  # Bytes of requests that are not answered.
    unwritten: bytes  # The unsent rest of an answer.
    is_recalled: bool
    pieces: Sequence[Piece] = ()  # The unsent rest of a long answer; `unwritten` is then empty.


Adoption: TypeAlias = Callable[[AdoptedConnection, int], None]
"""Called with a connection and its descriptor: the adopter takes over both, and must close the descriptor."""


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
