"""Metrics of a node of a quorum and of a KRaft controller. Callers pass the time, in seconds."""

from collections import defaultdict, deque
from dataclasses import dataclass, field
from typing import Final

from kcore.net.durations import Duration, Recent
from kcore.raft.node import RaftNode
from kcore.raft.states import Candidate, Prospective

MOST_APPENDS: Final = 10_000  # The newest appends of a leader whose time until the commit is measured.


@dataclass(slots=True)
class Records:
    """The number of records that the node has appended to its log, either as the leader or as a follower."""

    count: int = 0
    recent: Recent = field(default_factory=Recent)

    def add(self, count: int, at_s: float) -> None:
        """Adds to the count."""
        self.count += count
        self.recent.add(count, at_s)


@dataclass(slots=True)
class SnapshotMetrics:
    """Snapshots that this node wrote (SnapshotEmitter)."""

    written: Duration = field(default_factory=Duration)  # From the first slice until the snapshot is durable.
    latest_bytes: int = 0
    latest_s: float | None = None  # When the latest snapshot became durable.

    def add(self, nbytes: int, begin_s: float, end_s: float) -> None:
        """Counts a snapshot of `nbytes` bytes that was begun at `begin_s` and is durable at `end_s`."""
        self.written.add(end_s - begin_s, end_s)
        self.latest_bytes, self.latest_s = nbytes, end_s


@dataclass(slots=True)
class EventMetrics:
    """How long events blocked the event loop: each from its call to the last effect performed.

    `by_kind`: a request's kind is its API, a response's is its name such as "FetchResponse". Periodic tasks have
    Kafka's names. A long decision that continues has a kind such as "CreateTopics continued".
    """

    by_kind: defaultdict[str, Duration] = field(default_factory=lambda: defaultdict(Duration))
    # The state machine's share of these times: it applies committed records, and the server performs the outputs.
    state_machine: Duration = field(default_factory=Duration)
    queue_time: Duration = field(default_factory=Duration)  # From the start of the loop's turn to the event's call.
    processing_time: Duration = field(default_factory=Duration)  # All events together.

    def add(self, kind: str, begin_s: float, machine_s: float, end_s: float, turn_begin_s: float | None) -> None:
        """Counts an ended event; `machine_s`: when the state machine began, `turn_begin_s`: when the turn did."""
        self.by_kind[kind].add(end_s - begin_s, end_s)
        self.processing_time.add(end_s - begin_s, end_s)
        self.state_machine.add(end_s - machine_s, end_s)
        if turn_begin_s is not None:
            self.queue_time.add(begin_s - turn_begin_s, begin_s)


@dataclass(slots=True)
class LogMetrics:
    """Appends to the log of this node, with their flushes and commits."""

    flushes: Duration = field(default_factory=Duration)  # Flushes of the log, on a thread of their own.
    commits: Duration = field(default_factory=Duration)  # A leader's appends, until they were committed.
    appended: Records = field(default_factory=Records)  # As the leader.
    fetched: Records = field(default_factory=Records)  # As a follower.
    _end: int | None = None  # None before the first event.
    _uncommitted: deque[tuple[int, float]] = field(default_factory=lambda: deque(maxlen=MOST_APPENDS))

    def follow(self, node: RaftNode, at_s: float) -> None:
        """Counts new records and commits; called after each event."""
        end = node.log.end_offset
        if end != self._end:
            self._log_moved(end, node.leads, at_s)
        if self._uncommitted:
            self._time_commits(node, at_s)

    def _log_moved(self, end: int, leads: bool, at_s: float) -> None:
        before, self._end = self._end, end
        if before is None or end <= before:  # The first event, or a truncated log.
            return
        count = end - before
        if leads:
            self.appended.add(count, at_s)
            self._uncommitted.append((end, at_s))
        else:
            self.fetched.add(count, at_s)

    def _time_commits(self, node: RaftNode, at_s: float) -> None:
        if not node.leads:
            self._uncommitted.clear()
            return
        committed = node.quorum.high_watermark or 0
        while self._uncommitted and self._uncommitted[0][0] <= committed:
            _, appended_s = self._uncommitted.popleft()
            self.commits.add(at_s - appended_s, at_s)


@dataclass(slots=True)
class ElectionMetrics:
    """Elections of this node, and new leaders."""

    latency: Duration = field(default_factory=Duration)  # From this node's candidacy until a leader was known.
    new_leaders: int = 0  # How often a leader became known.
    _since_s: float | None = None  # When the candidacy began; None: this node is no candidate.

    def follow(self, node: RaftNode, at_s: float) -> None:
        """Counts an election that has ended; called after each event."""
        is_electing = isinstance(node.quorum.state, (Candidate, Prospective))
        if is_electing is (self._since_s is None):
            if not is_electing and self._since_s is not None:
                self.latency.add(at_s - self._since_s, at_s)
            self._since_s = at_s if is_electing else None


@dataclass(slots=True)
class QuorumMetrics:
    """Metrics of one process since its start."""

    events: EventMetrics = field(default_factory=EventMetrics)
    log: LogMetrics = field(default_factory=LogMetrics)
    elections: ElectionMetrics = field(default_factory=ElectionMetrics)
    snapshots: SnapshotMetrics = field(default_factory=SnapshotMetrics)
    faults: int = 0  # Events that failed because of a bug, and wrote nothing.

    def follow(self, node: RaftNode, at_s: float) -> None:
        """Updates the metrics of the log and of the elections; called after each event."""
        self.log.follow(node, at_s)
        self.elections.follow(node, at_s)
