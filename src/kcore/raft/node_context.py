"""The state of a quorum's node, and the operations that all subjects share.

The subjects (votes, epochs, fetching, following and so on) are modules of functions over a NodeContext; `node.py` maps
events to them.
"""

from collections.abc import Hashable

from kcore.raft.connections import Connections
from kcore.raft.effects import Effect, Flush, Notice, SendResponse
from kcore.raft.epoch_limits import LAST_EPOCH
from kcore.raft.log.raft_log import RaftLog
from kcore.raft.membership.replicas import ReplicaKey, Voter
from kcore.raft.membership.voters import MAX_KRAFT_VERSION, VoterHistory, VoterSet
from kcore.raft.quorum import Quorum
from kcore.raft.raft_config import RaftConfig
from kcore.raft.states import NO_LEADER, Follower, Leader, State
from kcore.replication.raft_log import OffsetAndEpoch
from kcore.schema.fetch import FetchRequest, FetchResponse
from kcore.schema.structure import Message


class NodeContext:
    """The state of one replica of the metadata log, which the functions of all subjects share."""

    __slots__ = (
        "announced",
        "announced_state",
        "clean_deadline_ms",
        "cluster_id",
        "config",
        "connections",
        "cuts",
        "effects",
        "flushed_end_offset",
        "is_stopped",
        "last_fetch",
        "last_fetched",
        "local",
        "log",
        "next_deadline_ms",
        "noticed",
        "quorum",
        "shutdown_deadline_ms",
        "voter_history",
        "writing",
    )

    quorum: Quorum

    def __init__(self, config: RaftConfig, log: RaftLog) -> None:
        self.config = config
        self.cluster_id = config.cluster_id  # None if the node was formatted without an id, until the log has one.
        self.log = log
        self.local = ReplicaKey(config.node_id, config.directory_id)
        self.voter_history = VoterHistory(VoterSet.of(config.voters))
        self.connections = Connections(config.retry_backoff_ms, config.request_timeout_ms, config.jitter_ms)
        self.effects: list[Effect] = []  # The effects of the current event so far.
        self.flushed_end_offset = log.end_offset  # Records below this offset survive a power cut.
        self.cuts = 0  # Number of truncations of the log: a Flush from before a truncation is ignored.
        self.next_deadline_ms: int | None = None  # The edge must call `on_timer` by then.
        self.clean_deadline_ms = 0  # When old snapshots are deleted next.
        self.shutdown_deadline_ms: int | None = None  # Set by `shutdown`.
        self.is_stopped = False
        self.noticed: set[str] = set()  # Kinds of notices that were logged in this state.
        self.writing: set[OffsetAndEpoch] = set()  # Snapshots that a SnapshotWriter has begun.
        # The last Fetch request and the last Fetch response, each with the values that it was built from.
        self.last_fetch: tuple[object, FetchRequest] | None = None
        self.last_fetched: tuple[object, FetchResponse] | None = None
        self.announced = (NO_LEADER, 0)  # The leader and the epoch of the last LeaderChanged effect,
        self.announced_state: State | None = None  # and this node's state at that time.

    @property
    def state(self) -> State:
        """The node's state, an instance of one of the classes in `states.py`."""
        return self.quorum.state

    @property
    def leads(self) -> bool:
        return type(self.quorum.state) is Leader

    @property
    def leading(self) -> Leader:
        """The node's state as a leader; only code that has checked that the node leads may read it."""
        state = self.quorum.state
        assert type(state) is Leader, f"this node does not lead: {state}"
        return state

    @property
    def epoch(self) -> int:
        return self.quorum.state.epoch

    @property
    def leader_id(self) -> int:
        """The leader of the current epoch; -1 if unknown."""
        return self.quorum.state.leader_id

    @property
    def high_watermark(self) -> int | None:
        """The high watermark; None while it is unknown, as for a new leader."""
        return self.quorum.high_watermark

    @property
    def leaders_high_watermark(self) -> int | None:
        """The high watermark that the leader sent last, which may be above this log's end; None before it sent one."""
        state = self.quorum.state
        if not isinstance(state, Follower):
            return self.quorum.high_watermark
        return None if state.leader_high_watermark < 0 else state.leader_high_watermark

    @property
    def voters(self) -> VoterSet:
        """The latest voter set, committed or not."""
        return self.voter_history.last_voters

    @property
    def durable_end(self) -> OffsetAndEpoch:
        """The least end of the log after a power cut: the flushed end, or the end of a later snapshot.

        A snapshot may end above the flushed end, as a leader's high watermark may be above its own flushed end.
        """
        return self._end_at(self.flushed_end_offset)

    @property
    def committed_end(self) -> OffsetAndEpoch:
        """The end of the records that this node knows to be committed."""
        return self._end_at(self.log.high_watermark)

    def _end_at(self, offset: int) -> OffsetAndEpoch:
        """`offset` with the epoch of the record before it, or the latest snapshot's end if that is not below."""
        snapshot = self.log.latest_snapshot
        if snapshot is not None and snapshot.offset >= offset:
            return snapshot
        return OffsetAndEpoch(offset, self.log.epoch_at(offset - 1) if offset else 0)

    @property
    def is_voter(self) -> bool:
        """Whether the latest voter set has this node with this directory."""
        return self.voter_history.voters.last.is_voter(self.local)

    @property
    def local_voter(self) -> Voter:
        """This node as a voter: id, directory, endpoints and versions."""
        return Voter(self.local, self.config.endpoints, 0, MAX_KRAFT_VERSION)

    @property
    def may_stand(self) -> bool:
        """Whether this node may start an election: it is a voter, and not in the last epoch."""
        return self.is_voter and self.quorum.state.epoch < LAST_EPOCH

    # For the handlers.

    def flush(self) -> None:
        """Requests a flush of the whole log."""
        self.effects.append(Flush(self.log.end_offset, self.cuts))

    def was_cut(self, offset: int) -> None:
        """Records that the log was truncated to `offset`, or restarted at it: earlier flushes no longer count."""
        self.cuts += 1
        self.flushed_end_offset = min(self.flushed_end_offset, offset)
        if self.flushed_end_offset < self.log.end_offset:
            self.flush()

    def notice(self, kind: str, text: str) -> None:
        """Logs a line for the operator, each kind once per state: a peer that repeats a message cannot fill the log."""
        if kind not in self.noticed:
            self.noticed.add(kind)
            self.effects.append(Notice(text))

    def answer(self, reply_to: Hashable, response: Message) -> None:
        """Sends the response to a request that has waited at this node."""
        self.effects.append(SendResponse(reply_to, response))
