"""The other nodes of a quorum, as a raft node asks them: two connections to each, made when they are needed."""

import asyncio
import logging
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from kcore.errors import NetworkError, UnsupportedVersionError
from kcore.net.connect import connect
from kcore.net.connection import Connection
from kcore.net.limits import Limits
from kcore.net.versions import response_of
from kcore.protocol_errors import Errors
from kcore.raft.effects import Send
from kcore.raft.replicas import Address
from kcore.schema.describe_quorum import DescribeQuorumRequest
from kcore.schema.fetch import FetchRequest
from kcore.schema.fetch_snapshot import FetchSnapshotRequest
from kcore.schema.raft_voters import AddRaftVoterRequest, RemoveRaftVoterRequest, UpdateRaftVoterRequest
from kcore.schema.raft_votes import BeginQuorumEpochRequest, EndQuorumEpochRequest, VoteRequest
from kcore.schema.structure import Message

logger = logging.getLogger(__name__)
LIMITS: Final = Limits(connect_s=2.0, request_s=2.0, close_s=0.2)
RECONNECT_S: Final = 0.05  # reconnect.backoff.ms: a peer that is down is not dialled in a loop.
MOST_LANES: Final = (
    128  # Connections; whoever claims to lead is connected to, and anybody may, under any number of ids.
)
LONG: Final = (FetchRequest, FetchSnapshotRequest)  # A leader may hold these back; a vote must not wait behind one.

# The newest version that a release's nodes speak among themselves.
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
    """A fetch that only tells how far the disk is does not (`following.pipelines`)."""
    return isinstance(request, LONG) and not (isinstance(request, FetchRequest) and request.max_wait_ms == 0)


OnResponse = Callable[[int, Message | None], None]


class _Lane:
    """One connection, and what waits until it is made."""

    __slots__ = ("address", "connecting", "connection", "waiting")

    def __init__(self, address: Address) -> None:
        self.address = address
        self.connection: Connection | None = None
        self.connecting: asyncio.Task[None] | None = None
        self.waiting: list[Send] = []


class QuorumPeers:
    """Sends what a raft node wants sent; `on_response` is called once for each, never from within `send`."""

    def __init__(self, level: str, client_id: str, on_response: OnResponse) -> None:
        self._newest, self._client_id, self._on_response = NEWEST[level], client_id, on_response
        self._lanes: dict[tuple[int, bool], _Lane] = {}
        self._loop = asyncio.get_running_loop()

    def send(self, effect: Send) -> None:
        """Over the connection to that destination; a new one if there is none, or it is to another address."""
        key = effect.destination, may_wait(effect.request)
        lane = self._lanes.pop(key, None)
        if lane is None or lane.address != effect.address:
            if lane is not None:
                self._drop(lane)
            elif len(self._lanes) >= MOST_LANES:
                self._drop(self._lanes.pop(next(iter(self._lanes))))
            lane = _Lane(effect.address)
        self._lanes[key] = lane  # As the one that was used last.
        if lane.connection is not None and not lane.connection.closed:
            self._ask(lane.connection, effect)
            return
        lane.waiting.append(effect)
        if lane.connecting is None:
            lane.connecting = self._loop.create_task(self._connect(lane))

    def close(self) -> None:
        """Nobody is asked any more; who was gets no answer."""
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
        try:
            lane.connection = await connect(*lane.address, client_id=self._client_id, limits=LIMITS)
        except (NetworkError, UnsupportedVersionError) as error:
            await asyncio.sleep(RECONNECT_S)
            for effect in lane.waiting:
                self._lost(effect, error)
        else:
            for effect in lane.waiting:
                self._ask(lane.connection, effect)
        lane.waiting = []
        lane.connecting = None

    def _lost(self, effect: Send, error: Exception) -> None:
        logger.debug("node %s: %s", effect.destination, error)
        self._loop.call_soon(self._on_response, effect.correlation_id, None)

    def _drop(self, lane: _Lane) -> None:
        if lane.connecting is not None:
            lane.connecting.cancel()
        for effect in lane.waiting:
            self._lost(effect, ConnectionAbortedError("its address has changed"))
        lane.waiting = []
        if lane.connection is not None:
            lane.connection.abort()
