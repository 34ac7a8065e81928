"""Lets the answer loop answer observers' fetches for a leader: passes the leader's log and high watermark to the loop.

`fetch_templates.py` says how the loop recognizes requests and makes answers. `kcore.raft.fetching` decides whether an
offset may be answered this way; the loop follows the same rules.
"""

from collections.abc import Callable, Hashable
from struct import Struct
from typing import Final

from kcore.net.adoption import AdoptedConnection, Direct
from kcore.protocol_errors import Errors
from kcore.raft import fetching
from kcore.raft.log.batches import end_offset_of
from kcore.raft.membership.replicas import ReplicaKey
from kcore.raft.node import RaftNode
from kcore.raft.states import UNKNOWN, Leader
from kcore.schema.fetch import FetchPartition, FetchRequest, FetchResponse
from kcore.schema.structure import Message
from kcore.server.clock import Clock
from kcore.server.quorum_node.answer_loop import AnswerLoop, Progress, Take
from kcore.server.quorum_node.fetch_templates import FetchTemplates, fetch_pattern
from kcore.server.quorum_node.leader_log import LeaderLog
from kcore.storage.raft.file_raft_log import DiskRaftLog

NO_HIGH_WATERMARK: Final = FetchPartition().high_watermark  # The default in requests without a high watermark.
_FETCHED: Final = Struct("=5q")  # The loop's key of a connection, and the connection's Progress.


class ObserverFeed:
    """The feed of the answer loop for Fetch requests; implements `Feed`."""

    def __init__(
        self, answer_loop: AnswerLoop, node: RaftNode, clock: Clock, may_fetch: Callable[[Direct], bool]
    ) -> None:
        """`may_fetch`: whether the sender of a request has the right to fetch now."""
        self._answer_loop, self._node, self._clock, self._may_fetch = answer_loop, node, clock, may_fetch
        loop, log = answer_loop.loop, node.log
        self._log = LeaderLog(loop, log) if isinstance(log, DiskRaftLog) else None  # None: the log is not in files.
        self._templates = FetchTemplates(loop, node)
        self._leading: Leader | None = None  # The leader that the loop answers for.
        self._said: Hashable = None  # The quorum state and log start that the templates have.
        self._voters: object = None  # The leader's voters. The loop has none of their connections.
        self._replicas: dict[int, ReplicaKey] = {}  # The observers by the loop's key of their connection.

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
        self._log.follow(node.quorum.high_watermark)
        log_start = self._log.log.start_offset
        said = node.quorum.state, log_start
        if said != self._said:
            self._said = said
            self._answer_loop.loop.set_log_start(log_start)
            self._templates.renew()
        if leading.voters is not self._voters:
            self._voters = leading.voters
            for key in [key for key, replica in self._replicas.items() if leading.is_voter(replica)]:
                self._answer_loop.recall(key)

    def _change_leader(self, leading: Leader | None) -> None:
        loop, templates = self._answer_loop.loop, self._templates
        if self._leading is not None:
            templates.resign()
            loop.resign()
            templates.is_resigning = True
            self._answer_loop.drain()
            templates.is_resigning = False
        self._leading, self._said = leading, None
        templates.clear()
        if self._log is not None:
            self._log.change_leader(leading)
        if leading is not None:
            loop.lead(leading.epoch, leading.epoch_start_offset)

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
        found = fetch_pattern(direct, partition)
        if found is None:
            return None
        if version not in self._templates:
            self._templates.make(version)
        wait_ms = min(request.max_wait_ms, self._node.config.fetch_timeout_ms)
        pattern, places = found

        def take(key: int, descriptor: int) -> None:
            self._replicas[key] = replica
            wait_ns, progress = wait_ms * 1_000_000, self._progress_of(replica)
            adopt = self._answer_loop.loop.adopt_fetches
            adopt(key, descriptor, pattern, places, version, request.max_bytes, wait_ns, progress)

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
        """See `Feed.left`."""
        replica = self._replicas.pop(key, None)
        if replica is not None:
            self._observed(replica, progress)
            self._templates.left(connection.client.connection_id, received)

    def owed_to(self, connection_id: int, request: Message) -> FetchResponse | None:
        """See `FetchTemplates.owed_to`."""
        return self._templates.owed_to(connection_id, request)

    # The observers' progress.

    def fold_progress(self) -> None:
        """Updates the node's observers with the loop's progress."""
        if self.leads:
            found = sorted(_FETCHED.iter_unpack(self._answer_loop.loop.progress()), key=lambda fetched: fetched[2])
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
