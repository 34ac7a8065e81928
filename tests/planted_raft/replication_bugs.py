"""Bugs between a leader and its followers: fetches, the high watermark, snapshots."""

from copy import deepcopy
from typing import Any

from kcore.raft import fetching, following, snapshots, states
from kcore.raft.log.batches import split_batches
from kcore.raft.node import RESPONSE_HANDLERS
from kcore.raft.node_context import NodeContext
from kcore.raft.states import NEVER_MS, Leader
from kcore.replication.raft_log import OffsetAndEpoch, ValidOffsetAndEpoch
from kcore.schema.fetch import FetchRequest
from kcore.storage.raft.file_raft_log import DiskRaftLog
from planted_raft.patches import Patches, planted_bug

NO_BOUND = 1 << 60


@planted_bug("OwnEpochCommitted")
def high_watermark_without_own_epoch(patches: Patches) -> None:
    """A leader commits records of earlier epochs before a record of its own epoch (KAFKA-12619)."""

    def broken(advance: Any, node: Any, now_ms: int) -> None:
        leader = node.leading
        start, leader.epoch_start_offset = leader.epoch_start_offset, -1
        advance(node, now_ms)
        leader.epoch_start_offset = start

    patches.around(fetching, "advance_high_watermark", broken)


@planted_bug("MajorityReachedHighWatermark")
def observers_are_counted(patches: Patches) -> None:
    """A leader counts observers for the high watermark."""

    def ends(self: Any) -> int:
        every = [*self.voters.values(), *self.observers.values()]
        return int(sorted((progress.end_offset for progress in every), reverse=True)[len(self.voters) // 2])

    patches.put(Leader, "replicated_to_majority", lambda _: property(ends))


@planted_bug("MajorityReachedHighWatermark")
def id_of_a_voter_is_enough(patches: Patches) -> None:
    """A replica that fetches with a voter's id counts as that voter, even with another directory id."""
    patches.put(states, "_find", lambda _: lambda voters, key: voters.get(key.id))


@planted_bug("CommitReported")
def committed_is_kept_back(patches: Patches) -> None:
    """A follower does not report a new high watermark to its state machine."""

    def broken(update: Any, node: Any, state: Any) -> None:
        kept = list(node.effects)
        update(node, state)
        node.effects[:] = kept

    patches.around(following, "update_high_watermark", broken)


@planted_bug("ReadsBelowHighWatermark")
def fetch_tells_the_end_of_the_log(patches: Patches) -> None:
    """The leader sends its log's end as high watermark in Fetch responses."""

    def broken(fetch_response: Any, node: Any, *given: Any) -> Any:
        response = fetch_response(node, *given)
        response.responses[0].partitions[0].high_watermark = node.log.end_offset
        return response

    patches.around(fetching, "fetch_response", broken)


@planted_bug("SameCommittedData")
def follower_takes_all_for_committed(patches: Patches) -> None:
    """A follower takes the end of its log for the high watermark."""

    def broken(update: Any, node: Any, state: Any) -> None:
        state.leader_high_watermark = node.log.end_offset
        update(node, state)

    patches.around(following, "update_high_watermark", broken)


@planted_bug("AnsweredOnce")
def waiting_fetch_is_answered_twice(patches: Patches) -> None:
    """A leader answers a waiting request twice."""

    def broken(answer: Any, self: Any, reply_to: Any, response: Any) -> None:
        answer(self, reply_to, response)
        answer(self, reply_to, response)

    patches.around(NodeContext, "answer", broken)


@planted_bug("LogMatching")
def divergence_is_ignored(patches: Patches) -> None:
    """A leader does not compare epochs: it accepts every fetch offset within its log."""

    def broken(validate: Any, log: Any, offset: int, epoch: int) -> Any:
        found = validate(log, offset, epoch)
        if found.kind == "DIVERGING" and log.start_offset <= offset <= log.end_offset:
            return ValidOffsetAndEpoch("VALID", found.offset_and_epoch)
        return found

    patches.around(fetching, "validate", broken)


@planted_bug("NoFalseAlarm")
def stale_fetch_answer_is_taken(patches: Patches) -> None:
    """A follower handles the answer to an old fetch as if it answered a fetch at the present end of its log."""

    def make(on_fetch_response: Any) -> Any:
        def broken(node: Any, destination: int, request: Any, response: Any, now_ms: int) -> Any:
            current = deepcopy(request)
            partition = current.topics[0].partitions[0]
            partition.fetch_offset, partition.last_fetched_epoch = node.log.end_offset, node.log.last_epoch
            return on_fetch_response(node, destination, current, response, now_ms)

        return broken

    patches.put_in(RESPONSE_HANDLERS, FetchRequest, make)


@planted_bug("BacksOff")
def damaged_answer_is_asked_for_at_once(patches: Patches) -> None:
    """A follower that gets damaged records fetches again without a back-off."""

    def broken(append: Any, node: Any, records: bytes) -> bool:
        append(node, records)
        return True

    patches.around(following, "append", broken)


@planted_bug("AnsweredInTime")
def fetch_is_never_answered(patches: Patches) -> None:
    """A leader never answers a waiting fetch if no new records arrive."""
    patches.put(fetching, "poll", lambda _: lambda node, now_ms: NEVER_MS)


@planted_bug("Bounded")
def observers_without_bound(patches: Patches) -> None:
    """A leader keeps state of any number of observers, even of those that do not exist."""

    def broken(progress_of: Any, self: Any, key: Any) -> Any:
        self.most_observers = NO_BOUND
        return progress_of(self, key)

    patches.around(Leader, "progress_of", broken)


@planted_bug("Bounded")
def waiting_fetches_without_bound(patches: Patches) -> None:
    """A leader keeps any number of waiting fetches."""
    patches.put(fetching, "_make_room", lambda _: lambda node: None)


@planted_bug("CommitReported")
def snapshot_off_by_one(patches: Patches) -> None:
    """A state machine gets a loaded snapshot's end one record too late (as in KAFKA-14618)."""

    def make(loaded: Any) -> Any:
        return lambda snapshot: loaded(OffsetAndEpoch(snapshot.offset + 1, snapshot.epoch))

    patches.put(snapshots, "SnapshotLoaded", make)


@planted_bug("SnapshotAtLogStart")
def log_starts_behind_its_snapshot(patches: Patches) -> None:
    """A node deletes one batch more than the snapshot contains (KAFKA-14238)."""

    def broken(delete_before: Any, self: Any, snapshot: Any) -> Any:
        if not delete_before(self, snapshot):
            return False
        first = self.read(snapshot.offset, 1, self.end_offset)
        if first:
            self.start_offset = split_batches(first)[0][0].last_offset + 1
        return True

    patches.around(DiskRaftLog, "delete_before", broken)


@planted_bug("RefusalIsTaken")
def lost_snapshot_is_asked_for_for_ever(patches: Patches) -> None:
    """A follower repeats requests for a snapshot that the leader has deleted."""
    patches.put(snapshots, "_start_over", lambda _: lambda node: False)
