"""The states of a client's connection to a server, and the events that lead from one to another.

An accepted socket, `DirectConnections`, `ServedConnection` and an adopter hold a connection in turn. They hand on one
`ClientConnection`, whose `enter` allows only the transitions of the table.
"""

from enum import Enum
from typing import Final, NamedTuple, Protocol

from kcore.net.limits.admission import Rank
from kcore.net.request_context import ClientSession

KEPT: Final = 8  # Transitions that a connection keeps for its story.


class ConnectionState(Enum):
    """The way in which the server handles the bytes that the client sends."""

    ACCEPTED = "Accepted"  # The client has sent nothing yet.
    HANDSHAKING = "Handshaking"  # The TLS handshake waits or runs.
    AUTHENTICATING = "Authenticating"  # SASL gets the client's requests.
    SERVING = "Serving"  # The server answers requests.
    ADOPTED = "Adopted"  # An adopter, the compiled answer loop, answers requests.
    THROTTLED = "Throttled"  # The server reads no request for a time.
    DRAINING = "Draining"  # The server reads no request any more, and sends the rest of the answers.
    CLOSED = "Closed"  # The socket is closed.


class Event(Enum):
    """The reason why a connection changes its state."""

    BEGIN_TLS = "its first bytes arrive at a listener with TLS"
    BEGIN_SASL = "its first request may follow at a listener with SASL"
    BEGIN_REQUESTS = "its first request may follow at a listener without SASL"
    AUTHENTICATE = "its client is authenticated"
    REAUTHENTICATE = "its client authenticates again (KIP-368)"
    ADOPT = "the adopter takes it after an answer"
    HAND_BACK = "the adopter hands it back"
    THROTTLE = "its client has exceeded a quota"
    UNTHROTTLE = "the throttle time is over, or the server closes"
    FINISH = "the server ends it after written answers"
    END = "either side closes it"


class Transition(NamedTuple):
    """An event leads from the source state to the target state."""

    source: ConnectionState
    event: Event
    target: ConnectionState

    def __str__(self) -> str:
        return f"{self.source.value} -> {self.target.value}: {self.event.value}"


TRANSITIONS: Final = (
    Transition(ConnectionState.ACCEPTED, Event.BEGIN_TLS, ConnectionState.HANDSHAKING),
    Transition(ConnectionState.ACCEPTED, Event.BEGIN_SASL, ConnectionState.AUTHENTICATING),
    Transition(ConnectionState.ACCEPTED, Event.BEGIN_REQUESTS, ConnectionState.SERVING),
    Transition(ConnectionState.HANDSHAKING, Event.BEGIN_SASL, ConnectionState.AUTHENTICATING),
    Transition(ConnectionState.HANDSHAKING, Event.BEGIN_REQUESTS, ConnectionState.SERVING),
    Transition(ConnectionState.AUTHENTICATING, Event.AUTHENTICATE, ConnectionState.SERVING),
    Transition(ConnectionState.SERVING, Event.REAUTHENTICATE, ConnectionState.AUTHENTICATING),
    Transition(ConnectionState.SERVING, Event.ADOPT, ConnectionState.ADOPTED),
    Transition(ConnectionState.ADOPTED, Event.HAND_BACK, ConnectionState.SERVING),
    Transition(ConnectionState.SERVING, Event.THROTTLE, ConnectionState.THROTTLED),
    Transition(ConnectionState.THROTTLED, Event.UNTHROTTLE, ConnectionState.SERVING),
    Transition(ConnectionState.AUTHENTICATING, Event.FINISH, ConnectionState.DRAINING),
    Transition(ConnectionState.SERVING, Event.FINISH, ConnectionState.DRAINING),
    *(
        Transition(source, Event.END, ConnectionState.CLOSED)
        for source in ConnectionState
        if source is not ConnectionState.CLOSED
    ),
)
_BY_EVENT: Final = {(way.source, way.event): way for way in TRANSITIONS}


class Holder(Protocol):
    """The object that reads what the client sends, and writes the answers."""

    @property
    def may_end(self) -> bool:
        """False while a request is running, which would still use its memory after the connection has ended."""

    @property
    def idle_s(self) -> float:
        """How long the holder has waited for the client, in seconds; 0 if it does not measure this."""

    def abort(self) -> None:
        """Closes the connection at once."""


class ClientConnection:
    """One connection of a client, from accept() to its end, whichever object holds it."""

    __slots__ = ("_recent", "connection_id", "holder", "peer", "rank", "session", "state")

    def __init__(self, connection_id: int, peer: str, session: ClientSession) -> None:
        self.connection_id = connection_id  # Unique within the server.
        self.peer = peer  # The client's address and port, for the log.
        self.session = session
        self.rank = Rank.SILENT
        self.state = ConnectionState.ACCEPTED
        self.holder: Holder = NO_HOLDER
        self._recent: tuple[Transition, ...] = ()

    def __str__(self) -> str:
        idle_s = self.holder.idle_s
        return f"{self.peer}, {self.state.value.lower()}" + (f", idle for {idle_s:.1f} s" if idle_s else "")

    @property
    def address(self) -> str:
        """The address of the client's host."""
        return self.session.client_address

    @property
    def may_end(self) -> bool:
        """False while a request is running, which would still use its memory after the connection has ended."""
        return self.holder.may_end

    @property
    def story(self) -> str:
        """The last transitions, the oldest first."""
        return "; ".join(map(str, self._recent)) or "none"

    def enter(self, event: Event) -> None:
        """Changes the state. AssertionError, with the last transitions, if the table has no such transition."""
        way = _BY_EVENT.get((self.state, event))
        if way is None:
            raise AssertionError(
                f"{self.peer}: no transition from {self.state.value} when {event.value}; transitions: {self.story}"
            )
        self._recent = (*self._recent[1 - KEPT :], way)
        self.state = way.target


class _NoHolder:
    """The holder of a connection before its first one, and after its last one."""

    may_end, idle_s = True, 0.0

    def abort(self) -> None:
        """Does nothing: there is no socket to close."""


NO_HOLDER: Final = _NoHolder()


def diagram() -> str:
    """The table as a Mermaid state diagram; `docs/guides/listeners.md` has it."""
    ends = [f"    {way.source.value} --> {way.target.value}: {way.event.value}" for way in TRANSITIONS]
    return "\n".join(["stateDiagram-v2", f"    [*] --> {ConnectionState.ACCEPTED.value}", *ends]) + "\n"
