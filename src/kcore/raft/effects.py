"""Effects that a raft node returns to the edge: data, in the order in which they must be performed.

`StoreElection` is a barrier: the edge performs later effects only when the election is durable. `Flush` is no barrier:
the edge may flush concurrently, and calls `on_flushed` when the flush is done. Until then the node does not count the
unflushed records for the high watermark. So the disks of the leader and its followers work at the same time.
"""

from collections.abc import Hashable
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from kcore.raft.membership.replicas import Address, ElectionState
from kcore.replication.raft_log import OffsetAndEpoch
from kcore.schema.structure import Message


class StoreElection(NamedTuple):
    """Write the file `quorum-state` in the format of `kraft_version`; make it durable before any later effect."""

    election: ElectionState
    kraft_version: int


class Flush(NamedTuple):
    """Flush the log at least up to `end_offset`, then call `on_flushed` with this effect.

    A later Flush covers earlier ones. A Flush from before a truncation does not cover records written after the
    truncation: the node ignores its completion, and has requested another Flush.
    """

    end_offset: int
    cuts: int = 0  # How often the log had been truncated when this Flush was requested.


class Send(NamedTuple):
    """Send a request; pass its response, or None if there is none, to `on_response(correlation_id, ...)`.

    `destination` is a node id; ids below -1 stand for bootstrap servers whose node id is not known yet.
    """

    destination: int
    address: Address
    correlation_id: int
    request: Message
    timeout_ms: int


class SendResponse(NamedTuple):
    """Send the response to the request that came with `reply_to`. Each request is answered once."""

    reply_to: Hashable
    response: Message


class Committed(NamedTuple):
    """The high watermark has advanced: all records below it are permanent."""

    high_watermark: int


class LeaderChanged(NamedTuple):
    """The leader (-1: none) or the epoch has changed.

    A node that becomes the leader returns this effect once `epoch_start_offset`, where its epoch begins, is committed.
    """

    leader_id: int
    epoch: int
    epoch_start_offset: int = -1  # -1 unless this node is the leader.


class SnapshotLoaded(NamedTuple):
    """The leader's snapshot has replaced the log: the state machine must drop its state and load the snapshot."""

    snapshot: OffsetAndEpoch


class Notice(NamedTuple):
    """A line for the operator's log; the node emits each kind at most once in each of its states."""

    text: str


@dataclass(frozen=True, slots=True)
class Stopped:  # Not a NamedTuple: an empty tuple is false.
    """The graceful shutdown is complete: the process may end."""


Effect: TypeAlias = (
    StoreElection | Flush | Send | SendResponse | Committed | LeaderChanged | SnapshotLoaded | Notice | Stopped
)
