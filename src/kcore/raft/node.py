"""A node of a quorum: takes one event at a time and returns the effects that the edge must perform, in order."""

from collections.abc import Callable, Hashable, Sequence
from typing import Any, TypeAlias

from kcore.errors import RaftLogError
from kcore.protocol_errors import Errors
from kcore.raft import describing, fetching, following, leading, quorum_epochs, snapshots, timers, votes
from kcore.raft.connections import FIRST_BOOTSTRAP_ID
from kcore.raft.effects import Effect, Flush, SendResponse
from kcore.raft.log import cleaning, control_records
from kcore.raft.log.raft_log import Appended, RaftLog, Refused
from kcore.raft.log.snapshot_writing import SnapshotWriter
from kcore.raft.log.stored_data import check_stored_data
from kcore.raft.membership import kraft_version, voter_changes
from kcore.raft.membership.replicas import Address, ElectionState
from kcore.raft.node_context import NodeContext
from kcore.raft.quorum import Quorum
from kcore.raft.raft_config import RaftConfig
from kcore.raft.states import Follower, Leader, State
from kcore.raft.transitions import Event
from kcore.replication.raft_log import OffsetAndEpoch
from kcore.schema.api_versions import ApiVersionsRequest
from kcore.schema.describe_quorum import DescribeQuorumRequest
from kcore.schema.fetch import FetchRequest
from kcore.schema.fetch_snapshot import FetchSnapshotRequest
from kcore.schema.raft_voters import AddRaftVoterRequest, RemoveRaftVoterRequest, UpdateRaftVoterRequest
from kcore.schema.raft_votes import BeginQuorumEpochRequest, EndQuorumEpochRequest, VoteRequest
from kcore.schema.structure import Message

# (node, request, version, reply_to, now_ms): the response, or None if a later effect answers `reply_to`.
RequestHandler: TypeAlias = Callable[[NodeContext, Any, int, Hashable, int], Message | None]
# (node, destination, request, response, now_ms): False if the node should back off before its next request to it.
ResponseHandler: TypeAlias = Callable[[NodeContext, int, Any, Any, int], bool]
# (node, destination, request, now_ms): called if no response came. Requests without such a handler are sent again.
LostHandler: TypeAlias = Callable[[NodeContext, int, Any, int], None]

REQUEST_HANDLERS: dict[type[Message], RequestHandler] = {
    VoteRequest: votes.on_vote_request,
    BeginQuorumEpochRequest: quorum_epochs.on_begin_quorum_epoch_request,
    EndQuorumEpochRequest: quorum_epochs.on_end_quorum_epoch_request,
    FetchRequest: fetching.on_fetch_request,
    FetchSnapshotRequest: snapshots.on_fetch_snapshot_request,
    DescribeQuorumRequest: describing.on_describe_quorum_request,
    AddRaftVoterRequest: voter_changes.on_add_raft_voter_request,
    RemoveRaftVoterRequest: voter_changes.on_remove_raft_voter_request,
    UpdateRaftVoterRequest: voter_changes.on_update_raft_voter_request,
}
RESPONSE_HANDLERS: dict[type[Message], ResponseHandler] = {  # By the class of the request that was answered.
    VoteRequest: votes.on_vote_response,
    BeginQuorumEpochRequest: quorum_epochs.on_begin_quorum_epoch_response,
    EndQuorumEpochRequest: quorum_epochs.on_end_quorum_epoch_response,
    FetchRequest: following.on_fetch_response,
    FetchSnapshotRequest: snapshots.on_fetch_snapshot_response,
    AddRaftVoterRequest: voter_changes.on_add_raft_voter_response,
    RemoveRaftVoterRequest: voter_changes.on_remove_raft_voter_response,
    UpdateRaftVoterRequest: voter_changes.on_update_raft_voter_response,
    ApiVersionsRequest: voter_changes.on_api_versions_response,
}
LOST_HANDLERS: dict[type[Message], LostHandler] = {ApiVersionsRequest: voter_changes.on_api_versions_lost}


def _on_exit(node: NodeContext, state: State) -> None:
    """Ends a leadership, or drops a partly loaded snapshot, when the node leaves its state."""
    if type(state) is Leader:
        leading.end(node)
    elif type(state) is Follower:
        snapshots.drop(node, state)


class RaftNode(NodeContext):
    """One replica of the metadata log: voter or observer.

    Methods that take `now_ms` return the effects in the order in which the edge must perform them. `now_ms` is in
    milliseconds since 1970, for the age of snapshots, and never decreases. The only error that messages of other nodes
    raise is NewerReleaseError. The process must then end; it has stored nothing, and a newer release can continue.

    Source: KafkaRaftClient.
    """

    __slots__ = ()

    def __init__(self, config: RaftConfig, log: RaftLog) -> None:
        super().__init__(config, log)
        self.quorum = Quorum(self, lambda state: _on_exit(self, state))

    def start(self, election: ElectionState | None, now_ms: int) -> list[Effect]:
        """Starts the node, before any other call. `election` is the content of the file `quorum-state`, if it exists.

        Raises RaftLogError if `election` has a vote but the node has no id, and for a log that cannot be loaded. Raises
        NewerReleaseError for a log that a newer release wrote. Source: KafkaRaftClient.initialize.
        """
        if election is not None and election.voted is not None and self.local.id < 0:
            raise RaftLogError(f"quorum-state holds a vote, but a node without an id does not vote: {election}")
        control_records.replay_log(self.voter_history, self.log)
        if self.config.check_data is not None:
            check_stored_data(self.log, self.config.check_data)
        self.connections.bootstrap = self._bootstrap_servers()
        self.clean_deadline_ms = now_ms + cleaning.INTERVAL_MS
        self.quorum.initialize(election, now_ms)
        if self.voters.is_only_voter(self.local) and self.may_stand:
            votes.seek_election(self, Event.ONLY_VOTER, now_ms)
        return self._finish(now_ms)

    def _bootstrap_servers(self) -> list[tuple[int, Address]]:
        """The configured bootstrap servers, or the other configured voters if there are none."""
        if self.config.bootstrap_servers:
            return [(FIRST_BOOTSTRAP_ID - i, address) for i, address in enumerate(self.config.bootstrap_servers)]
        return [
            (voter.key.id, voter.endpoints[self.config.listener])
            for voter in self.config.voters
            if voter.key.id != self.local.id and self.config.listener in voter.endpoints
        ]

    def on_request(self, request: Message, version: int, reply_to: Hashable, now_ms: int) -> list[Effect]:
        """Handles a request of `version`; exactly one SendResponse follows, among these effects or later ones."""
        response = REQUEST_HANDLERS[type(request)](self, request, version, reply_to, now_ms)
        if response is not None:
            self.effects.append(SendResponse(reply_to, response))
        return self._finish(now_ms)

    def on_response(self, correlation_id: int, response: Message | None, now_ms: int) -> list[Effect]:
        """Handles the response to a Send; `response` is None if the connection was lost or refused, or timed out.

        If the other node supports no common version, the edge passes a response with the error UNSUPPORTED_VERSION.
        """
        open_request = self.connections.expected(correlation_id)
        if open_request is None:
            return []  # The request was dropped when the epoch or the election changed.
        destination, request = open_request.destination, open_request.request
        ok = False
        if response is not None:
            if getattr(response, "error_code", Errors.NONE) == Errors.INCONSISTENT_CLUSTER_ID:
                host, port = open_request.address
                text = f"the node at {host}:{port} refuses this node: it belongs to another cluster"
                self.notice("cluster", f"{text} than {self.cluster_id}, for which this node was formatted")
            ok = RESPONSE_HANDLERS[type(request)](self, destination, request, response, now_ms)
        elif lost := LOST_HANDLERS.get(type(request)):
            lost(self, destination, request, now_ms)
        self.connections.answered(correlation_id, ok, now_ms)
        return self._finish(now_ms)

    def on_refused(self, correlation_id: int, now_ms: int) -> list[Effect]:
        """Handles a refused connection: no process listens at the address. The edge also calls `on_response`."""
        if open_request := self.connections.expected(correlation_id):
            following.on_refused(self, open_request.address, now_ms)
        return self._finish(now_ms)

    def on_timer(self, now_ms: int) -> list[Effect]:
        """Performs work that is due; may be called at any time."""
        return self._finish(now_ms)

    def on_flushed(self, flush: Flush, now_ms: int) -> list[Effect]:
        """Handles a completed Flush: the log below its end is durable. Ignores a Flush from before a truncation."""
        if flush.cuts == self.cuts and flush.end_offset > self.flushed_end_offset:
            self.flushed_end_offset = flush.end_offset
            if self.leads:
                leading.on_flushed(self, now_ms)
            else:
                following.on_flushed(self, now_ms)
        return self._finish(now_ms)

    @property
    def next_offset(self) -> int:
        """The offset of the next append; -1 unless the node leads."""
        return self.leading.accumulator.next_offset if self.leads else -1

    def append(
        self, records: Sequence[bytes], epoch: int, expected_offset: int, now_ms: int
    ) -> tuple[Appended | Refused, list[Effect]]:
        """Appends records (value bytes) as the leader of `epoch`, in one batch, the first at `expected_offset`.

        Returns Refused, and writes nothing, if this node does not lead `epoch` or its next offset differs. Records are
        permanent once a Committed effect covers them; before that, a change of leader may lose them. Raises
        RaftLogError for records that do not fit into a batch. Source: KafkaRaftClient.prepareAppend,
        schedulePreparedAppend.
        """
        refused = self._refused(epoch, expected_offset)
        if refused is not None:
            return refused, []
        appended = leading.append(self, records, now_ms)
        return appended, self._finish(now_ms)

    def append_batches(
        self, batches: bytes, epoch: int, expected_offset: int, now_ms: int
    ) -> tuple[Appended | Refused, list[Effect]]:
        """Appends whole batches of data, encoded from offset 0 on, as `append` does; RaftLogError for other bytes."""
        refused = self._refused(epoch, expected_offset)
        if refused is not None:
            return refused, []
        appended = leading.append_batches(self, batches, now_ms)
        return appended, self._finish(now_ms)

    def _refused(self, epoch: int, expected_offset: int) -> Refused | None:
        if not self.leads:
            return Refused(-1, -1)
        led_epoch, next_offset = self.quorum.state.epoch, self.next_offset
        return None if (epoch, expected_offset) == (led_epoch, next_offset) else Refused(led_epoch, next_offset)

    def upgrade_kraft_version(
        self, version: int, epoch: int, now_ms: int, *, validate_only: bool = False
    ) -> tuple[kraft_version.Problem | None, list[Effect]]:
        """Upgrades kraft.version, so that the log holds the voters from now on; returns the problem, or None.

        The upgrade is complete once `is_kraft_version_committed` is true; it may be lost if the node resigns first.
        Raises RaftLogError if this node does not lead `epoch`.
        """
        self._check_leads(epoch)
        problem = kraft_version.upgrade(self, version, now_ms, validate_only=validate_only)
        return problem, self._finish(now_ms)

    @property
    def is_kraft_version_committed(self) -> bool:
        """Whether the latest kraft.version and voters are committed; true at version 0, where the log has no voters."""
        offset = self.voter_history.last_voters_offset
        return offset is None or offset < (self.quorum.high_watermark or 0)

    def begin_snapshot(
        self, snapshot: OffsetAndEpoch, last_contained_log_timestamp: int, now_ms: int
    ) -> SnapshotWriter | None:
        """A writer for a snapshot of the state at `snapshot`; None if the log cannot have that snapshot.

        `last_contained_log_timestamp`: the time (ms since 1970) of the snapshot's last record. Source:
        KafkaRaftClient.createSnapshot.
        """
        return SnapshotWriter.begin(self, snapshot, last_contained_log_timestamp, now_ms)

    def _check_leads(self, epoch: int) -> None:
        state = self.quorum.state
        if type(state) is not Leader or state.epoch != epoch:
            raise RaftLogError(f"only the leader of epoch {epoch} can append to it, but this node is {state}")

    def resign(self, epoch: int, now_ms: int) -> list[Effect]:
        """Resigns from `epoch` for the state machine; no effect if the epoch is over or the node has resigned.

        Raises RaftLogError for an epoch that this node has never led. Source: KafkaRaftClient.resign.
        """
        state = self.quorum.state
        if epoch < 0 or epoch > state.epoch or (epoch == state.epoch and state.leader_id != self.local.id):
            raise RaftLogError(f"only the leader of epoch {epoch} can resign from it, but this node is {state}")
        if type(state) is Leader and epoch == state.epoch:
            state.resign_requested = True
        return self._finish(now_ms)

    def shutdown(self, now_ms: int, timeout_ms: int = 5000) -> list[Effect]:
        """Shuts down gracefully; the Stopped effect follows when another node leads, or at the time-out."""
        self.shutdown_deadline_ms = now_ms + timeout_ms
        return self._finish(now_ms)

    def _finish(self, now_ms: int) -> list[Effect]:
        """Performs work that is due, then returns all effects of the event."""
        timers.poll(self, now_ms)
        effects, self.effects = self.effects, []
        return effects
