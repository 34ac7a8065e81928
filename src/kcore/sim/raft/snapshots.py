"""The snapshot that a dynamic quorum begins with (KIP-853)."""

from collections.abc import Sequence
from typing import Final

from kcore.raft.control_records import snapshot_batches
from kcore.raft.log import RaftLog
from kcore.raft.replicas import Voter
from kcore.raft.voters import VoterSet
from kcore.replication.raft_log import OffsetAndEpoch

FIRST: Final = OffsetAndEpoch(0, 0)


def first_snapshot(log: RaftLog, voters: Sequence[Voter]) -> None:
    """Its version and its voters, as formatting leaves them on each of their disks."""
    log.begin_snapshot(FIRST)
    for batch in snapshot_batches(FIRST.epoch, [], 0, 1, VoterSet.of(voters), 0):
        log.append_snapshot(FIRST, batch)
    log.freeze_snapshot(FIRST)
