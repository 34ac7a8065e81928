"""The outputs of `BrokerDirectories`: operations as data, which the server performs in order."""

from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

from kcore.types import Uuid

TopicIdPartition: TypeAlias = tuple[Uuid, int]  # A topic's id and the partition's index.


class Outcome(Enum):
    """The result of an assignment that has a ticket."""

    ACCEPTED = "accepted"  # The metadata log has the assignment.
    SUPERSEDED = "superseded"  # Another assignment was queued; the controller may have written this one before.
    DROPPED = "dropped"  # The broker no longer has a replica of the partition.


@dataclass(frozen=True, slots=True)
class AssignmentSettled:
    """The result of the assignment with this ticket; exactly one follows for each ticket."""

    ticket: int
    outcome: Outcome


@dataclass(frozen=True, slots=True)
class AssignmentsRefused:
    """A log line: the controller has refused assignments for over two minutes. The broker sends them again."""

    count: int
    partition: TopicIdPartition  # The partition of the first refused assignment.
    directory: Uuid
    reason: str  # Why the assignment was queued.
    error_code: int


@dataclass(frozen=True, slots=True)
class CreateReplica:
    """Create the partition's log in the directory; None: in the choice of `DirectoryChoice` (LogManager.nextLogDirs).

    The server then calls `on_created` or `on_not_created`.
    """

    partition: TopicIdPartition
    directory: Uuid | None


@dataclass(frozen=True, slots=True)
class CreateFuture:
    """Create an empty future replica (a folder whose name ends in `-future`) in the directory."""

    partition: TopicIdPartition
    directory: Uuid


@dataclass(frozen=True, slots=True)
class StartCopy:
    """Truncate the future replica, then copy from the current replica (ReplicaAlterLogDirsThread).

    The server calls `on_caught_up` each time that both logs end at the same offset.
    """

    partition: TopicIdPartition
    source: Uuid
    target: Uuid


@dataclass(frozen=True, slots=True)
class StopCopy:
    """Stop copying to the future replica, but keep the future replica."""

    partition: TopicIdPartition


@dataclass(frozen=True, slots=True)
class Promote:
    """Rename the future replica to the current replica's name, and serve from it; append nothing meanwhile.

    The server then calls `on_promoted`, `on_behind` if both logs end at different offsets, or `on_directory_failed`. It
    does not change the source's log; `source` is None if there is no current replica.
    """

    partition: TopicIdPartition
    source: Uuid | None
    target: Uuid


@dataclass(frozen=True, slots=True)
class DropSource:
    """Delete the replica's old log in this directory: rename it, then remove its files."""

    partition: TopicIdPartition
    directory: Uuid


@dataclass(frozen=True, slots=True)
class DeleteFuture:
    """Delete the future replica in the directory."""

    partition: TopicIdPartition
    directory: Uuid


@dataclass(frozen=True, slots=True)
class HeartbeatNow:
    """Send a heartbeat now, or right after the heartbeat in flight, because a directory failed (KAFKA-15950)."""


@dataclass(frozen=True, slots=True)
class ShutDown:
    """The broker must stop."""

    reason: str


Output: TypeAlias = (
    AssignmentSettled
    | AssignmentsRefused
    | CreateReplica
    | CreateFuture
    | StartCopy
    | StopCopy
    | Promote
    | DropSource
    | DeleteFuture
    | HeartbeatNow
    | ShutDown
)
