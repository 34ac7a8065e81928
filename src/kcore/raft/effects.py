"""Effects that a raft node returns to the edge: data, in the order in which they must be performed.

`StoreElection` is a barrier: effects after it in the list are performed only when it is durable. `Flush` is no barrier:
the edge may flush concurrently, and calls `on_flushed` when it is done; until then the node does not count unflushed
records, so that the leader's disk and its followers' disks work at the same time.
"""

from collections.abc import Hashable
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from kcore.raft.membership.replicas import Address, ElectionState
from kcore.replication.raft_log import OffsetAndEpoch
from kcore.schema.structure import Message


class StoreElection(NamedTuple):
    """The file `quorum-state`, durable before anything behind it; as of that kraft.version."""

    election: ElectionState
    kraft_version: int


class Flush(NamedTuple):
    """Flush the log, at least up to that offset, then call `on_flushed` with this effect.

    A later one covers earlier ones. A flush from before a truncation does not cover what was written after it: the node
    ignores it and has requested another.
    """

    end_offset: int
    cuts: int = 0  # How often the log had been cut when this was asked for.


class Send(NamedTuple):
    """Send a request; its response goes to `on_response(correlation_id, ...)`, None for a lost connection or none.

    `destination` is the node's id, or below -1 a bootstrap server whose id is not known yet.
    """

    destination: int
    address: Address
    correlation_id: int
    request: Message
    timeout_ms: int


class SendResponse(NamedTuple):
    """The response to a request that came in under `reply_to`. Each request is answered once."""

    reply_to: Hashable
    response: Message


class Committed(NamedTuple):
    """The high watermark is there now: all records below it are in the log for ever."""

    high_watermark: int


class LeaderChanged(NamedTuple):
    """Another leader, none (-1), or another epoch; for the leader itself once `epoch_start_offset` is committed."""

    leader_id: int
    epoch: int
    epoch_start_offset: int = -1  # Of the leader itself: where its epoch begins.


class SnapshotLoaded(NamedTuple):
    """The log was replaced by a snapshot of the leader's: forget the state, load that."""

    snapshot: OffsetAndEpoch


class Notice(NamedTuple):
    """A line for the operator's log; of each kind at most one in each state of the node, whatever peers send."""

    text: str


@dataclass(frozen=True, slots=True)
class Stopped:  # No tuple: an empty one is false.
    """A graceful shutdown is through: the process may end."""


Effect: TypeAlias = (
    StoreElection | Flush | Send | SendResponse | Committed | LeaderChanged | SnapshotLoaded | Notice | Stopped
)
