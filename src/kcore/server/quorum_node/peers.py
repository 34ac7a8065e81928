"""Sends a raft node's requests to the other nodes of its quorum: two connections to each, opened on demand."""

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from random import Random
from typing import Final

from kcore.errors import DisconnectedError, NetworkError, RefusedError, UnsupportedVersionError
from kcore.net.connect import authenticate, connect
from kcore.net.connection import Connection
from kcore.net.limits.bounded_log import BoundedLog
from kcore.net.limits.connection_limits import Limits
from kcore.net.retry import Backoff
from kcore.net.security.client_security import Security
from kcore.net.versions import response_of
from kcore.protocol_errors import Errors
from kcore.raft.effects import Send
from kcore.raft.membership.replicas import Address
from kcore.schema.describe_quorum import DescribeQuorumRequest
from kcore.schema.fetch import FetchRequest
from kcore.schema.fetch_snapshot import FetchSnapshotRequest
from kcore.schema.raft_voters import AddRaftVoterRequest, RemoveRaftVoterRequest, UpdateRaftVoterRequest
from kcore.schema.raft_votes import BeginQuorumEpochRequest, EndQuorumEpochRequest, VoteRequest
from kcore.schema.structure import Message

logger = logging.getLogger(__name__)
LIMITS: Final = Limits(connect_s=2.0, request_s=2.0, close_s=0.2)
# The back-off of Kafka's RaftManager: reconnect.backoff.ms and its maximum.
RECONNECT: Final = Backoff(first_s=0.05, highest_s=0.5)
MOST_WAITING: Final = 1_000  # Requests that wait for one connection to open.
MOST_LANES: Final = 128  # Connections; bounded, as the node connects to any endpoint that claims to be the leader.
# Requests whose answers a leader may delay. A vote must not wait behind a delayed answer.
LONG: Final = (FetchRequest, FetchSnapshotRequest)

# The newest version of each request that the nodes of a release send each other.
NEWEST: Final[Mapping[str, Mapping[type[Message], int]]] = {
    "3.9": {
        FetchRequest: 17,
        FetchSnapshotRequest: 1,
        VoteRequest: 1,
        BeginQuorumEpochRequest: 1,
        EndQuorumEpochRequest: 1,
        DescribeQuorumRequest: 2,
        AddRaftVoterRequest: 0,
        RemoveRaftVoterRequest: 0,
        UpdateRaftVoterRequest: 0,
    },
    "4.3": {
        FetchRequest: 18,
        FetchSnapshotRequest: 1,
        VoteRequest: 2,
        BeginQuorumEpochRequest: 1,
        EndQuorumEpochRequest: 1,
        DescribeQuorumRequest: 2,
        AddRaftVoterRequest: 1,
        RemoveRaftVoterRequest: 0,
        UpdateRaftVoterRequest: 0,
    },
}


def may_wait(request: Message) -> bool:
    """Whether the leader may delay the answer. A Fetch that only reports the flushed offset is answered at once."""
    return isinstance(request, LONG) and not (isinstance(request, FetchRequest) and request.max_wait_ms == 0)


OnResponse = Callable[[int, Message | None], None]
OnRefused = Callable[[int], None]


class _Lane:
    """One connection, and the requests that wait until it is open."""

    __slots__ = ("address", "connecting", "connection", "delays_s", "problem", "waiting")

    def __init__(self, address: Address) -> None:
        self.address = address
        self.connection: Connection | None = None
        self.connecting: asyncio.Task[None] | None = None
        self.delays_s: Iterator[float] | None = None  # Delays between attempts to connect; None while connected.
        self.problem = ""  # The last logged reason why there is no connection.
        self.waiting: list[Send] = []


class QuorumPeers:
    """Sends the requests of a raft node. Calls `on_response` once for each request, never from within `send`.

    If the destination refuses the connection, `on_refused` is called at once for each waiting request, and
    `on_response` after the back-off.
    """

    def __init__(
        self,
        level: str,
        client_id: str,
        on_response: OnResponse,
        on_refused: OnRefused,
        security: Callable[[], Security] | None = None,
    ) -> None:
        """`security`: TLS and SASL settings for new connections; None if the nodes' listener is plaintext."""
        self._newest, self._client_id, self._security = NEWEST[level], client_id, security
        self._on_response, self._on_refused = on_response, on_refused
        self._lanes: dict[tuple[int, bool], _Lane] = {}
        self._random = Random()
        self._log = BoundedLog(logger)  # Bounded, because any client may claim to be the leader, under any id.
        self._loop = asyncio.get_running_loop()

    def send(self, effect: Send) -> None:
        """Sends the request on the connection to its destination; opens one if there is none to that address."""
        key = effect.destination, may_wait(effect.request)
        lane = self._lanes.pop(key, None)
        if lane is None or lane.address != effect.address:
            if lane is not None:
                self._drop(lane)
            elif len(self._lanes) >= MOST_LANES:
                self._drop(self._lanes.pop(next(iter(self._lanes))))
            lane = _Lane(effect.address)
        self._lanes[key] = lane  # The dict is in the order of use: its first lane is dropped first.
        connection = lane.connection if lane.connecting is None else None
        if connection is not None and not connection.closed and not connection.ends_soon:
            self._ask(connection, effect)
            return
        if len(lane.waiting) >= MOST_WAITING:
            self._lost(effect, NetworkError(f"{len(lane.waiting)} requests wait for the connection already"))
            return
        lane.waiting.append(effect)
        if lane.connecting is None:
            lane.connecting = self._loop.create_task(self._connect(lane))

    def close(self) -> None:
        """Closes all connections; `on_response` gets None for requests in flight."""
        for lane in self._lanes.values():
            self._drop(lane)
        self._lanes.clear()

    def _ask(self, connection: Connection, effect: Send) -> None:
        request = type(effect.request)
        versions = connection.versions
        assert versions is not None
        try:
            version = versions.choose(request)
            version = min(version, self._newest.get(request, version))
            answer = connection.send(effect.request, version, timeout_s=effect.timeout_ms / 1000)
        except UnsupportedVersionError as error:
            logger.debug("%s: %s", connection.peer, error)
            refused = response_of(request)(error_code=Errors.UNSUPPORTED_VERSION.value)
            self._loop.call_soon(self._on_response, effect.correlation_id, refused)
        except NetworkError as error:
            self._lost(effect, error)
        else:
            answer.add_done_callback(partial(self._answered, effect))

    def _answered(self, effect: Send, answer: "asyncio.Future[Message]") -> None:
        if answer.cancelled() or answer.exception() is not None:
            logger.debug("node %s: %s", effect.destination, None if answer.cancelled() else answer.exception())
            self._on_response(effect.correlation_id, None)
        else:
            self._on_response(effect.correlation_id, answer.result())

    async def _connect(self, lane: _Lane) -> None:
        """Opens the connection, or authenticates it again; then sends the waiting requests.

        If that fails, the waiting requests fail after the back-off, and the node sends new ones.
        """
        problem: Exception = DisconnectedError("it was not connected")
        try:
            security = None if self._security is None else self._security()
            lane.connection = await self._authenticated(lane, security)
            self._connected(lane, lane.connection)
        except (NetworkError, UnsupportedVersionError) as error:
            problem = error
            if str(error) != lane.problem:  # Each reason is logged once.
                lane.problem = str(error)
                self._log.info("%s; retrying", lane.problem)
            if isinstance(error, RefusedError):
                for effect in lane.waiting:
                    self._on_refused(effect.correlation_id)
            lane.delays_s = lane.delays_s or RECONNECT.delays_s(self._random)
            await asyncio.sleep(next(lane.delays_s))
        finally:
            lane.connecting = None
            lost, lane.waiting = lane.waiting, []
            for effect in lost:
                self._lost(effect, problem)

    async def _authenticated(self, lane: _Lane, security: Security | None) -> Connection:
        """The lane's open connection, authenticated again; or a new connection."""
        connection = lane.connection
        if connection is None or connection.closed or security is None or security.sasl is None:
            return await connect(*lane.address, client_id=self._client_id, security=security, limits=LIMITS)
        try:
            await authenticate(connection, security.sasl)
        except NetworkError:
            connection.abort()
            raise
        return connection

    def _connected(self, lane: _Lane, connection: Connection) -> None:
        if lane.problem:
            self._log.info("%s: connected", connection.peer)
        lane.problem, lane.delays_s = "", None
        waiting, lane.waiting = lane.waiting, []
        for effect in waiting:
            self._ask(connection, effect)

    def _lost(self, effect: Send, error: Exception) -> None:
        logger.debug("node %s: %s", effect.destination, error)
        self._loop.call_soon(self._on_response, effect.correlation_id, None)

    def _drop(self, lane: _Lane) -> None:
        if lane.connecting is not None:
            lane.connecting.cancel()
        for effect in lane.waiting:
            self._lost(effect, ConnectionAbortedError("its address has changed, or others need the connection"))
        lane.waiting = []
        if lane.connection is not None:
            lane.connection.abort()
