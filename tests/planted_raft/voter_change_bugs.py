"""Bugs in changes of the voters (KIP-853)."""

from typing import Any

from kcore.protocol_errors import Errors
from kcore.raft import leading
from kcore.raft.log.control_records import kraft_version_record
from kcore.raft.membership import kraft_version, pending_change, voter_changes
from kcore.raft.membership.voters import VoterHistory, VoterSet
from planted_raft.patches import Patches, planted_bug


@planted_bug("VotersAreKnown")
def upgrade_without_hearing_the_voters(patches: Patches) -> None:
    """A leader upgrades kraft.version while it does not know the directory ids of all voters."""

    def broken(upgrade: Any, node: Any, version: int, now_ms: int, *, validate_only: bool) -> Any:
        if node.voter_history.kraft_version == 0:
            messages = [kraft_version_record(version), node.leading.known_voters.to_record()]
            leading.append_control(node, messages, now_ms)
        return upgrade(node, version, now_ms, validate_only=validate_only)

    patches.around(kraft_version, "upgrade", broken)


@planted_bug("VotersAsInLog")
def cut_voters_still_count(patches: Patches) -> None:
    """A node keeps a change of the voters whose record was cut from its log."""
    patches.put(VoterHistory, "truncate_new_entries", lambda _: lambda self, end_offset: None)


@planted_bug("SameSnapshots")
def snapshot_has_the_voters_behind_its_end(patches: Patches) -> None:
    """A snapshot contains a change of the voters from the first record after its end."""

    def make(voters_at: Any) -> Any:
        return lambda self, offset: voters_at(self, offset + 1)

    patches.put(VoterHistory, "voters_at", make)


@planted_bug("ChangesAreCommitted")
def change_before_the_own_epoch_is_committed(patches: Patches) -> None:
    """A new leader changes the voters before a record of its own epoch is committed."""

    def broken(may_change_now: Any, node: Any, *arguments: Any) -> Any:
        known = node.quorum.high_watermark
        node.quorum.high_watermark = node.log.high_watermark if known is None else known
        try:
            return may_change_now(node, *arguments)
        finally:
            node.quorum.high_watermark = known

    patches.around(voter_changes, "_may_change_now", broken)


@planted_bug("ChangesAreCommitted")
def change_before_the_last_is_committed(patches: Patches) -> None:
    """A leader changes the voters while another change is uncommitted: their majorities may not overlap."""
    patches.put(voter_changes, "_are_committed", lambda _: lambda node, high_watermark: True)


@planted_bug("VoterIsCaughtUp")
def newcomer_is_not_caught_up(patches: Patches) -> None:
    """A leader adds a voter that has not caught up with its log."""
    patches.put(voter_changes, "_is_caught_up", lambda _: lambda node, key, now_ms: True)


@planted_bug("VoterIsCaughtUp")
def add_ignores_the_directory(patches: Patches) -> None:
    """A leader adds a replica because another replica with the same id has caught up."""

    def broken(is_caught_up: Any, node: Any, key: Any, now_ms: int) -> bool:
        observers = node.leading.observers
        return any(is_caught_up(node, other, now_ms) for other in observers if other.id == key.id)

    patches.around(voter_changes, "_is_caught_up", broken)


@planted_bug("VotersAsRequested")
def remove_ignores_the_directory(patches: Patches) -> None:
    """A leader removes the voter with the requested id, although its directory id differs."""

    def broken(without_voter: Any, self: Any, key: Any) -> Any:
        voter = self.voters.get(key.id)
        return without_voter(self, key if voter is None else voter.key)

    patches.around(VoterSet, "without_voter", broken)


@planted_bug("OneVoterAtATime")
def update_ignores_the_directory(patches: Patches) -> None:
    """UpdateRaftVoter lets a replica with another directory id replace the voter of its id."""

    def make(with_updated: Any) -> Any:
        return lambda self, voter, *, any_directory=False: with_updated(self, voter, any_directory=True)

    patches.put(VoterSet, "with_updated", make)


@planted_bug("VotersAsRequested")
def done_before_it_is_committed(patches: Patches) -> None:
    """A leader answers RemoveRaftVoter when the record is written, before it is committed."""

    def broken(write_voters: Any, node: Any, change: Any, voters: Any, now_ms: int) -> None:
        write_voters(node, change, voters, now_ms)
        pending_change.answer(node, change, Errors.NONE, None)

    patches.around(voter_changes, "write_voters", broken)
