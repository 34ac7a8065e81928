"""Lets the answer loop answer observers' fetches for a leader: passes the leader's log and high watermark to the loop.

Consecutive Fetch requests of an observer in one epoch differ only in four fields: correlation id, fetch offset, last
fetched epoch and high watermark. Their answers differ only in the records and the high watermark. `kcore.raft.fetching`
decides whether an offset may be answered this way; the loop follows the same rules.
The node's own state changes first: the feed passes a batch to the loop once the batch is in the log's file.
"""

import asyncio
from collections.abc import Callable, Hashable
from copy import copy
from struct import Struct
from typing import Final

from kcore.net.adoption import AdoptedConnection, Direct
from kcore.protocol_errors import Errors
from kcore.raft import fetching
from kcore.raft.log.batches import end_offset_of
from kcore.raft.membership.replicas import ReplicaKey
from kcore.raft.node import RaftNode
from kcore.raft.states import UNKNOWN, Leader
from kcore.replication.raft_log import OffsetAndEpoch, ValidOffsetAndEpoch
from kcore.schema.fetch import FetchPartition, FetchRequest, FetchResponse
from kcore.schema.headers import ResponseHeader
from kcore.schema.structure import Message
from kcore.server.clock import Clock
from kcore.server.quorum_node.answer_loop import AnswerLoop, Progress, Take
from kcore.storage.log.segmented_log import Place
from kcore.storage.raft.file_raft_log import DiskRaftLog
from kcore.wire.frame_places import frame, is_made_of, with_places

FIELDS: Final = {"correlation_id": 4, "fetch_offset": 8, "last_fetched_epoch": 4, "high_watermark": 8}
ANSWERED: Final = ("correlation_id", "high_watermark")
PLACE_OF_VERSION: Final = 6  # The API version follows the frame's size and the API key.

Places = tuple[int, int, int, int | None]
Template = tuple[bytes, int, int, bytes]
"""A response up to the length of its records; the positions of correlation id and high watermark in it; the rest."""


def fetch_pattern(direct: Direct, request: FetchRequest, partition: FetchPartition) -> tuple[bytes, Places] | None:
    """The request's frame with its size, and the positions of FIELDS; None if kcore would encode the request otherwise.

    The request's fields are changed and set back.
    """
    header, version = direct.context.header, direct.context.version
    values = {name: getattr(header if name == "correlation_id" else partition, name) for name in FIELDS}

    def build(**fields: int) -> bytes:
        for name, value in fields.items():
            setattr(header if name == "correlation_id" else partition, name, value)
        return frame(header, request, version)

    zeros, places = with_places(build, [*FIELDS])
    build(**values)
    pattern = len(direct.frame).to_bytes(4, "big") + direct.frame
    fields = [(at, values[name], width) for (name, width), at in zip(FIELDS.items(), places, strict=True)]
    if not is_made_of(pattern, zeros, fields):
        return None
    correlation_id, fetch_offset, last_fetched_epoch, high_watermark = places
    assert correlation_id is not None and fetch_offset is not None and last_fetched_epoch is not None
    return pattern, (correlation_id, fetch_offset, last_fetched_epoch, high_watermark)


def fetch_template(empty: FetchResponse, version: int) -> Template:
    """The template of answers that differ only in records and high watermark from `empty`, which has no records."""
    response, header = _own_copy(empty), ResponseHeader(correlation_id=0)
    [data] = response.responses[0].partitions

    def build(correlation_id: int, high_watermark: int) -> bytes:
        header.correlation_id, data.high_watermark = correlation_id, high_watermark
        return frame(header, response, version)

    nothing, (correlation_place, high_watermark_place) = with_places(build, ANSWERED)
    data.records = b"\0"
    one_byte = build(0, 0)
    length = next(at for at in range(4, len(nothing)) if nothing[at] != one_byte[at])
    assert correlation_place is not None and high_watermark_place is not None
    return nothing[:length], correlation_place, high_watermark_place, nothing[length + 1 :]


def _own_copy(response: FetchResponse) -> FetchResponse:
    """A copy of the response whose partition may be changed."""
    found = copy(response)
    topic = copy(response.responses[0])
    topic.partitions = [copy(topic.partitions[0])]
    found.responses = [topic]
    return found


NO_HIGH_WATERMARK: Final = FetchPartition().high_watermark  # The default in requests without a high watermark.
VALID: Final = ValidOffsetAndEpoch("VALID", OffsetAndEpoch(0, 0))
_FETCHED: Final = Struct("=5q")  # The loop's key of a connection, and the connection's Progress.


class ObserverFeed:
    """The feed of the answer loop for Fetch requests; implements `Feed`."""

    def __init__(
        self, answer_loop: AnswerLoop, node: RaftNode, clock: Clock, may_fetch: Callable[[Direct], bool]
    ) -> None:
        """`may_fetch`: whether the sender of a request has the right to fetch now."""
        self._answer_loop, self._loop, self._node, self._clock, self._may_fetch = (
            answer_loop,
            answer_loop.loop,
            node,
            clock,
            may_fetch,
        )
        self._log = node.log if isinstance(node.log, DiskRaftLog) else None  # None: the log is not in files.
        self._leading: Leader | None = None  # The leader that the loop answers for.
        self._end = self._high_watermark = -1
        self._written = Place(-1, 0)  # The end of the last batch that the feed has passed to the loop.
        self._said: Hashable = None  # The quorum state and log start that the templates have.
        self._voters: object = None  # The leader's voters. The loop has none of their connections.
        self._refusals: dict[int, FetchResponse] = {}  # By version of Fetch.
        self._owed: dict[int, FetchResponse] = {}  # The refusals to send, by connection.
        self._replicas: dict[int, ReplicaKey] = {}  # The observers by the loop's key of their connection.
        self._is_resigning = False
        self._is_scheduled = False  # A call that passes the appends to the loop is scheduled.

    @property
    def leads(self) -> bool:
        """True if the node leads, and the loop answers for it in this epoch."""
        return self._leading is not None and self._leading is self._node.state

    # Updates that the feed passes to the loop.

    def follow(self) -> None:
        """Passes to the loop each change of the node's state."""
        node = self._node
        leading = node.leading if node.leads and node.shutdown_deadline_ms is None else None
        if leading is not self._leading:
            self._change_leader(leading)
        if leading is None or self._log is None:
            return
        if (known := node.quorum.high_watermark) is not None and known != self._high_watermark:
            self._pass_appends()
            self._high_watermark = known
            self._loop.committed(known)
        elif self._log.end_offset != self._end and not self._is_scheduled:
            self._is_scheduled = True
            asyncio.get_running_loop().call_soon(self._pass_appends_later)
        said = node.quorum.state, self._log.start_offset
        if said != self._said:
            self._said = said
            self._loop.set_log_start(self._log.start_offset)
            for version in self._refusals:
                self._make_template(version)
        if leading.voters is not self._voters:
            self._voters = leading.voters
            for key in [key for key, replica in self._replicas.items() if leading.is_voter(replica)]:
                self._answer_loop.recall(key)

    def _change_leader(self, leading: Leader | None) -> None:
        if self._leading is not None:
            self._owed.clear()
            self._loop.resign()
            self._is_resigning = True
            self._answer_loop.drain()
            self._is_resigning = False
        self._leading, self._said, self._written = leading, None, Place(-1, 0)
        self._end = self._high_watermark = -1
        self._refusals.clear()
        if leading is not None:
            self._loop.lead(leading.epoch, leading.epoch_start_offset)

    def _pass_appends_later(self) -> None:
        """Passes the appends of several events to the loop together; the loop needs them only at the next commit."""
        self._is_scheduled = False
        self._pass_appends()

    def _pass_appends(self) -> None:
        log, leading = self._log, self._leading
        if log is None or leading is None or log.end_offset == self._end:
            return
        segment, _ = since = self._written
        if segment < 0:
            since = log.place_of(leading.epoch_start_offset)
        for begin, count in log.written_since(since):
            if begin.base_offset != segment:
                segment = begin.base_offset
                self._loop.begin_segment(log.open_segment(segment))
            self._loop.appended(begin.position, count)
            self._written = Place(segment, begin.position + count)
        self._end = log.end_offset

    def _make_template(self, version: int) -> None:
        """Sets the loop's template of responses in this version; also makes the error response of a resigning node."""
        node = self._node
        self._refusals[version] = fetching.error_response(node, version, Errors.NOT_LEADER_OR_FOLLOWER)
        empty = fetching.fetch_response(node, version, Errors.NONE, b"", VALID)
        self._loop.set_template(version, *fetch_template(empty, version))

    # Connections.

    def plan(self, direct: Direct, response: Message) -> Take | None:
        """See `Feed.plan`."""
        request = direct.request
        if not isinstance(request, FetchRequest) or not isinstance(response, FetchResponse):
            return None
        partition = fetching.metadata_partition(request)
        if self._log is None or not self.leads or partition is None or not _is_good(response):
            return None
        replica, version = fetching.replica_key(request, partition), direct.context.version
        if not self._is_known(request, partition, version, replica) or not self._may_fetch(direct):
            return None
        if not self._is_next_known(partition, response):
            return None
        found = fetch_pattern(direct, request, partition)
        if found is None:
            return None
        if version not in self._refusals:
            self._make_template(version)
        wait_ms = min(request.max_wait_ms, self._node.config.fetch_timeout_ms)
        pattern, places = found

        def take(key: int, descriptor: int) -> None:
            self._replicas[key] = replica
            wait_ns, progress = wait_ms * 1_000_000, self._progress_of(replica)
            self._loop.adopt_fetches(key, descriptor, pattern, places, version, request.max_bytes, wait_ns, progress)

        return take

    def _is_known(self, request: FetchRequest, partition: FetchPartition, version: int, replica: ReplicaKey) -> bool:
        """True if the loop answers this kind of request as `fetching.on_fetch_request` does."""
        node, leading = self._node, self._leading
        assert leading is not None
        if node.cluster_id is None or node.config.early_high_watermark or leading.is_voter(replica):
            return False
        if leading.epoch != partition.current_leader_epoch or partition.log_start_offset >= 0:
            return False
        sends_high_watermark = partition.high_watermark != NO_HIGH_WATERMARK
        if sends_high_watermark != (version >= fetching.HIGH_WATERMARK_VERSION):
            return False
        return request.max_wait_ms > 0 and request.max_bytes >= 0

    def _is_next_known(self, partition: FetchPartition, response: FetchResponse) -> bool:
        """True if the loop knows the next fetch offset, and the epoch before this offset."""
        leading = self._leading
        assert leading is not None
        if partition.last_fetched_epoch == leading.epoch and partition.fetch_offset > leading.epoch_start_offset:
            return True
        [data] = response.responses[0].partitions
        return bool(data.records) and end_offset_of(bytes(data.records or b"")) == leading.first_batch_end

    def before_left(self) -> None:
        """See `Feed.before_left`."""

    def left(self, key: int, connection: AdoptedConnection, received: bytes, progress: Progress) -> None:
        """See `Feed.left`. If the node is resigning, keeps the error response to a fetch that still waits.

        `owed_to` returns this response later, with the error NOT_LEADER_OR_FOLLOWER.
        """
        replica = self._replicas.pop(key, None)
        if replica is None:
            return
        self._observed(replica, progress)
        if self._is_resigning and len(received) > PLACE_OF_VERSION + 1:
            version = int.from_bytes(received[PLACE_OF_VERSION : PLACE_OF_VERSION + 2], "big")
            if (refusal := self._refusals.get(version)) is not None:
                self._owed[connection.client.connection_id] = refusal

    def owed_to(self, connection_id: int, request: Message) -> FetchResponse | None:
        """The error response to a fetch that waited in the loop when the node resigned; None for other requests."""
        if not self._owed:
            return None
        owed = self._owed.pop(connection_id, None)
        partition = fetching.metadata_partition(request) if isinstance(request, FetchRequest) else None
        if owed is None or partition is None:
            return None
        led_epoch = owed.responses[0].partitions[0].current_leader.leader_epoch
        return owed if partition.current_leader_epoch == led_epoch else None

    # The observers' progress.

    def fold_progress(self) -> None:
        """Updates the node's observers with the loop's progress."""
        if self.leads:
            found = sorted(_FETCHED.iter_unpack(self._loop.progress()), key=lambda fetched: fetched[2])
            for key, *progress in found:
                if (replica := self._replicas.get(key)) is not None:
                    self._observed(replica, (progress[0], progress[1], progress[2], progress[3]))

    def _observed(self, replica: ReplicaKey, progress: Progress) -> None:
        end_offset, fetch_ns, leader_end, caught_up_ns = progress
        if fetch_ns >= 0 and self.leads:
            clock = self._clock
            caught_up_ms = UNKNOWN if caught_up_ns < 0 else clock.ms_of(caught_up_ns)
            self._node.leading.observed(replica, end_offset, clock.ms_of(fetch_ns), leader_end, caught_up_ms)

    def _progress_of(self, replica: ReplicaKey) -> Progress:
        known = self._node.leading.known(replica)
        if known is None or known.last_fetch_ms == UNKNOWN:
            return UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN
        caught_up_ms = known.last_caught_up_ms
        caught_up_ns = UNKNOWN if caught_up_ms == UNKNOWN else self._clock.ns_of(caught_up_ms)
        return known.end_offset, self._clock.ns_of(known.last_fetch_ms), known.last_fetch_leader_end, caught_up_ns


def _is_good(response: FetchResponse) -> bool:
    """Whether the response has no error, no diverging epoch and no snapshot to fetch."""
    if response.error_code or len(response.responses) != 1:
        return False
    [data] = response.responses[0].partitions
    return (data.error_code, data.diverging_epoch, data.snapshot_id) == (
        Errors.NONE,
        fetching.NOT_DIVERGING,
        fetching.NO_SNAPSHOT,
    )
