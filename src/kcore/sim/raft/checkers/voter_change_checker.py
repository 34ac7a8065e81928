"""Checks voters in the log and their changes (KIP-853, section 4 of Raft's dissertation)."""

from collections.abc import Iterable
from itertools import chain
from typing import Any

from kcore.raft.log.batches import StoredBatch
from kcore.raft.membership.replicas import NO_DIRECTORY, ReplicaKey
from kcore.raft.membership.voters import VoterSet
from kcore.raft.states import Leader
from kcore.replication.raft_log import OffsetAndEpoch
from kcore.schema.raft_voters import (
    AddRaftVoterRequest,
    AddRaftVoterResponse,
    RemoveRaftVoterRequest,
    RemoveRaftVoterResponse,
    UpdateRaftVoterRequest,
    UpdateRaftVoterResponse,
)
from kcore.schema.structure import Message
from kcore.sim.kernel.violation import Violation
from kcore.sim.raft.checkers.base import Checker, only_for
from kcore.sim.raft.simulated_machine import Call, Machine
from kcore.sim.raft.voters_of_log import LoggedVoters, VotersOfLog
from kcore.sim.raft.world_state import WorldState

Requested = tuple[type[Message], ReplicaKey]


class VoterChanges(Checker):
    """VotersAsInLog, VotersAreKnown, OneVoterAtATime, ChangesAreCommitted, VoterIsCaughtUp, VotersAsRequested: the
    invariants of this checker."""

    def __init__(self, world: WorldState) -> None:
        super().__init__(world)
        self._logged: dict[int, VotersOfLog] = {}  # By machine: the voters in its log.
        self._same: dict[int, tuple[int, VoterSet, LoggedVoters]] = {}  # Equal in the last check.
        self._requested: set[Requested] = set()  # All requested changes of voters.

    def on_boot(self, machine: Machine) -> None:
        controls = chain.from_iterable(parsed.controls for parsed in machine.log.found)
        self._logged[machine.index] = self._voters_of(machine, controls)

    # Control records in the log.

    def on_appended(self, machine: Machine, batch: StoredBatch, epoch_before: int) -> None:
        if not batch.is_control:
            return
        logged = self._logged[machine.index]
        before = logged.last
        logged.read(batch)
        if type(machine.node.state) is Leader and logged.last.voters is not before.voters:
            self._check_change(machine, before, logged.last.voters)

    def on_cut(self, machine: Machine, batches: tuple[StoredBatch, ...], durable_end: int) -> None:
        self._logged[machine.index].cut(machine.log.end_offset)

    def on_replaced(self, machine: Machine, snapshot: OffsetAndEpoch) -> None:
        if machine.is_up:
            self._logged[machine.index] = self._voters_of(machine, machine.log.batches)

    def _voters_of(self, machine: Machine, batches: Iterable[StoredBatch]) -> VotersOfLog:
        static = machine.node.voter_history.static_voters
        return VotersOfLog(static, machine.log, batches, self.facts.snapshots)

    def after_write(self, machine: Machine) -> None:
        """A node's voters are those of its log, also after a truncation, with their directory ids."""
        known, logged = machine.node.voter_history, self._logged[machine.index].last
        now = known.kraft_versions.last, known.voters.last, logged
        if now == self._same.get(machine.index):
            return
        version, voters, _ = now
        if (version, voters) != (logged.kraft_version, logged.voters):
            raise Violation("VotersAsInLog", f"node {machine.index} has {version}, {voters}, but its log has {logged}")
        self._same[machine.index] = now

    # Voters that a leader writes.

    def _check_change(self, leader: Machine, logged: LoggedVoters, voters: VoterSet) -> None:
        before = logged.voters
        if any(key.directory_id == NO_DIRECTORY for key in voters.keys) or not voters.supports(1):
            raise Violation("VotersAreKnown", f"node {leader.index} writes {voters} without directory ids")
        came = [key for key in voters.keys if not before.is_voter(key)]
        went = [key for key in before.keys if not _is_in(voters, key)]
        if not came and not went:
            return
        message = f"node {leader.index} changes voters {before.keys} to {voters.keys}"
        if len(came) + len(went) > 1:
            raise Violation("OneVoterAtATime", message)
        needed = {(AddRaftVoterRequest, key) for key in came} | {(RemoveRaftVoterRequest, key) for key in went}
        if not needed <= self._requested:
            raise Violation("VotersAsRequested", f"{message} without a request")
        self._check_committed(leader, logged.offset, message)
        for key in came:
            self._check_caught_up(leader, key)

    def _check_committed(self, leader: Machine, before_offset: int | None, message: str) -> None:
        """A record of the leader's epoch and the previous change are committed before a change: majorities overlap."""
        node = leader.node
        start_offset, known = self.facts.epoch_starts.get(node.epoch), node.high_watermark
        if start_offset is None or known is None or known <= start_offset:
            raise Violation("ChangesAreCommitted", f"{message} before its epoch's first record is committed: {known}")
        if before_offset is None or known <= before_offset:
            raise Violation("ChangesAreCommitted", f"{message} at {known}, before {before_offset} is committed")

    def _check_caught_up(self, leader: Machine, key: ReplicaKey) -> None:
        """An added replica has durable records of this epoch; a replica that does not exist has no records."""
        replica = next((machine for machine in self.world.machines if machine.key == key), None)
        start_offset = self.facts.epoch_starts[leader.node.epoch]
        end = replica.log.durable_end if replica is not None else -1
        if end <= start_offset:
            message = f"node {leader.index} adds {key}, durable up to {end}; the epoch began at {start_offset}"
            raise Violation("VoterIsCaughtUp", message)

    # Requests for voter changes and their answers.

    def on_admin_request(self, call: Call) -> None:
        self._remember(call.request)

    @only_for(AddRaftVoterRequest, RemoveRaftVoterRequest, UpdateRaftVoterRequest)
    def on_send(self, machine: Machine, call: Call) -> None:
        self._remember(call.request)

    def _remember(self, request: Any) -> None:
        kind = type(request)
        if kind is AddRaftVoterRequest or kind is RemoveRaftVoterRequest or kind is UpdateRaftVoterRequest:
            self._requested.add((kind, ReplicaKey(request.voter_id, request.voter_directory_id)))

    @only_for(AddRaftVoterResponse, RemoveRaftVoterResponse, UpdateRaftVoterResponse)
    def on_answer(self, machine: Machine, call: Call, response: Any) -> None:
        """A successful answer agrees with the log; if the request waits for the commit, the change is committed."""
        request = call.request
        assert isinstance(request, AddRaftVoterRequest | RemoveRaftVoterRequest | UpdateRaftVoterRequest)
        if response.error_code == 0:
            self._check_done(machine, request)

    def _check_done(
        self, machine: Machine, request: AddRaftVoterRequest | RemoveRaftVoterRequest | UpdateRaftVoterRequest
    ) -> None:
        logged, high_watermark = self._logged[machine.index].last, machine.node.high_watermark or 0
        if logged.kraft_version == 0:
            return  # The log does not name the voters.
        key = ReplicaKey(request.voter_id, request.voter_directory_id)
        is_voter = _is_in(logged.voters, key)
        waits = isinstance(request, RemoveRaftVoterRequest)
        if isinstance(request, AddRaftVoterRequest):
            waits = request.ack_when_committed
        offset = logged.offset
        is_committed = not waits or offset is None or offset < high_watermark
        if is_voter == isinstance(request, RemoveRaftVoterRequest) or not is_committed:
            message = f"node {machine.index} answers {request} with success at high watermark {high_watermark}"
            raise Violation("VotersAsRequested", f"{message}, but its log has {logged.voters.keys} at {offset}")


def _is_in(voters: VoterSet, key: ReplicaKey) -> bool:
    """Whether the replica is a voter; a key without a directory id is compared by its id only."""
    voter = voters.voters.get(key.id)
    return voter is not None and (key.directory_id in (NO_DIRECTORY, voter.key.directory_id))
