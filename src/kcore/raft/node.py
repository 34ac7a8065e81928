"""A node of a quorum: one event at a time goes in, what the edge must do for it comes out, in order.

What is asked of the other parts, and when:

- `voters.VoterSet`: `key in voters` (a voter without a directory takes any), `voters.keys()` (ReplicaKeys),
  `voters.endpoints(id)` ({} if unknown), `voters.address(id, listener)` (None if unknown), `voters.is_only_voter(key)`;
  `voters.VoterHistory(config)`: `.last`, `.kraft_version`, `.load(log)` (snapshot and log, by `RaftNode.start`).
- `leading.begin(node, now_ms)` once the state is Leader (makes `node.leading`, appends), `leading.end(node)` when it
  is that no more, `leading.poll(node, now_ms) -> deadline_ms` behind every event (linger, pending voter changes),
  `leading.on_flushed(node, now_ms)`; `node.leading`: `.check_quorum_deadline_ms` (NEVER_MS for an only voter),
  `.last_fetch_ms(voter_key)` (-NEVER_MS for never), `.successors()` (the other voters, longest logs first),
  `.epoch_start_offset`, `.append(node, records, now_ms) -> Appended`.
- `fetching.poll(node, now_ms) -> deadline_ms` behind every event: fetches whose wait is over.
- `following.begin(node, now_ms)` once the state is Follower; `following.fetch_request(node)`: the Fetch (or
  FetchSnapshot) that goes out next, or None while what came last is not flushed; `following.on_flushed(node, now_ms)`.
- `voter_changes.own_request(node, now_ms)`: the Add-, Remove- or UpdateRaftVoter that a follower should send its
  leader now instead of a Fetch, or None.
- Of `node.quorum`: `become_follower(epoch, leader_id, endpoints, now_ms)`, `become_unattached(epoch, now_ms)`,
  `request_resign()`. Of `responses`: `handle_common(...)`.
"""

from collections.abc import Callable, Hashable, Sequence
from typing import Any, TypeAlias

from kcore.raft.config import RaftConfig
from kcore.raft.connections import Connections
from kcore.raft.effects import Answer, Effect
from kcore.raft.log import Appended, RaftLog
from kcore.raft.quorum import Quorum
from kcore.raft.replicas import ElectionState, ReplicaKey
from kcore.raft.states import State
from kcore.schema.structure import Message

# (node, request, version, reply_to, now_ms): the response, or None if it is answered later, to `reply_to`.
RequestHandler: TypeAlias = "Callable[[RaftNode, Any, int, Hashable, int], Message | None]"
# (node, destination, request, response, now_ms): False if the destination should be left alone for the retry back-off.
ResponseHandler: TypeAlias = "Callable[[RaftNode, int, Any, Any, int], bool]"
# (node, destination, request, now_ms): no answer came; only where it is more than a reason to try again.
LostHandler: TypeAlias = "Callable[[RaftNode, int, Any, int], None]"

REQUEST_HANDLERS: dict[type[Message], RequestHandler] = {}
RESPONSE_HANDLERS: dict[type[Message], ResponseHandler] = {}  # By the class of the request.
LOST_HANDLERS: dict[type[Message], LostHandler] = {}


class RaftNode:
    """One replica of the metadata log: voter or observer.

    Every method that is given `now_ms` (monotone) returns the effects in the order in which the edge must perform
    them, and none of them raises for what another node sent. Source: KafkaRaftClient.
    """

    __slots__ = (
        "config",
        "connections",
        "effects",
        "fetches",
        "flushed_end_offset",
        "leading",
        "local",
        "log",
        "next_deadline_ms",
        "quorum",
        "shutdown_deadline_ms",
        "voter_history",
    )

    def __init__(self, config: RaftConfig, log: RaftLog) -> None:
        self.config = config
        self.log = log
        self.local = ReplicaKey(config.node_id, config.directory_id)
        self.quorum = Quorum()
        self.connections = Connections(config.retry_backoff_ms, config.request_timeout_ms, config.jitter_ms)
        self.voter_history: Any = None  # voters.VoterHistory: `.last` is the latest VoterSet, `.kraft_version`.
        self.leading: Any = None  # leading.LeaderState while it leads.
        self.fetches: Any = None  # Fetches that wait for records.
        self.effects: list[Effect] = []  # What the event at hand has led to so far.
        self.flushed_end_offset = log.end_offset  # What a crash of the machine would leave.
        self.next_deadline_ms: int | None = None  # When `on_timer` is wanted at the latest.
        self.shutdown_deadline_ms: int | None = None  # Set by `shutdown`.

    def start(self, election: ElectionState | None, now_ms: int) -> list[Effect]:
        """What the file `quorum-state` said, None if there is none; first of all calls.

        Source: KafkaRaftClient.initialize, QuorumState.initialize.
        """
        raise NotImplementedError

    def on_request(self, request: Message, version: int, reply_to: Hashable, now_ms: int) -> list[Effect]:
        """A request of `version`; its Answer comes in these effects or later ones, once."""
        raise NotImplementedError

    def on_response(self, correlation_id: int, response: Message | None, now_ms: int) -> list[Effect]:
        """What a Send led to; None if the connection was lost or refused, or the time is over.

        Where the other side knows no version of the request, a response with the error UNSUPPORTED_VERSION.
        """
        raise NotImplementedError

    def on_timer(self, now_ms: int) -> list[Effect]:
        """Does what is due; at any time."""
        raise NotImplementedError

    def on_flushed(self, end_offset: int, now_ms: int) -> list[Effect]:
        """A Flush is done: what lies below is durable."""
        raise NotImplementedError

    def append(self, records: Sequence[bytes], epoch: int, now_ms: int) -> tuple[Appended, list[Effect]]:
        """Takes records (value bytes) as the leader of `epoch`, all in one batch; the offsets that they will have.

        RaftLogError if it does not lead that epoch. They are in the log for ever once Committed says so; a leader
        that loses its place before may lose them.
        """
        raise NotImplementedError

    def resign(self, epoch: int, now_ms: int) -> list[Effect]:
        """The state machine gives up `epoch`; nothing happens if another one has begun. RaftLogError if it is ahead."""
        raise NotImplementedError

    def shutdown(self, now_ms: int, timeout_ms: int = 5000) -> list[Effect]:
        """Leaves gracefully; Stopped when another node leads, or at the time-out."""
        raise NotImplementedError

    @property
    def state(self) -> State:
        """One of `states.py`."""
        return self.quorum.state

    @property
    def epoch(self) -> int:
        return self.quorum.state.epoch

    @property
    def leader_id(self) -> int:
        """-1 if unknown."""
        return self.quorum.state.leader_id

    @property
    def high_watermark(self) -> int | None:
        """None where it is not known yet in this state."""
        return self.quorum.high_watermark

    @property
    def voters(self) -> Any:
        """The latest VoterSet, committed or not."""
        return self.voter_history.last

    @property
    def is_voter(self) -> bool:
        """It is in the latest voter set, with this directory."""
        return self.local in self.voter_history.last

    # For the handlers.

    def answer(self, reply_to: Hashable, response: Message) -> None:
        """A response now to a request that was left waiting."""
        self.effects.append(Answer(reply_to, response))
