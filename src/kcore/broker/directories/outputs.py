"""What the machines of a broker's directories ask of their edge, as data, to be done in this order."""

from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

from kcore.types import Uuid

TopicIdPartition: TypeAlias = tuple[Uuid, int]  # A topic's id and the partition's index.


class Outcome(Enum):
    """What became of an assignment that somebody waits for."""

    ACCEPTED = "accepted"  # The controller has it in the metadata log.
    SUPERSEDED = "superseded"  # Another directory was enqueued for the partition. It may have been written before.
    DROPPED = "dropped"  # The partition is not this broker's any more.


@dataclass(frozen=True, slots=True)
class AssignmentSettled:
    """What became of the assignment that was enqueued with this ticket; comes once for each ticket."""

    ticket: int
    outcome: Outcome


@dataclass(frozen=True, slots=True)
class AssignmentsRefused:
    """For the log: the controller refuses these for over two minutes. They are sent again."""

    count: int
    partition: TopicIdPartition  # The first of them.
    directory: Uuid
    reason: str  # Why it was enqueued.
    error_code: int


@dataclass(frozen=True, slots=True)
class CreateReplica:
    """Make the partition's log in the directory; None: in the one that `choose` picks (LogManager.nextLogDirs).

    The edge answers with `on_created` or `on_not_created`. A directory that was named for it comes first (choosing.py).
    """

    partition: TopicIdPartition
    directory: Uuid | None


@dataclass(frozen=True, slots=True)
class CreateFuture:
    """Make an empty future replica (a folder that ends in `-future`) in the directory."""

    partition: TopicIdPartition
    directory: Uuid


@dataclass(frozen=True, slots=True)
class StartCopy:
    """Copy from the current replica to the future one, which is truncated first (ReplicaAlterLogDirsThread).

    The edge calls `on_caught_up` each time that the two end at one offset.
    """

    partition: TopicIdPartition
    source: Uuid
    target: Uuid


@dataclass(frozen=True, slots=True)
class StopCopy:
    """Copy no more; the future replica stays as it is."""

    partition: TopicIdPartition


@dataclass(frozen=True, slots=True)
class Promote:
    """Rename the future replica to the current one's name, while nothing is appended to either; it serves from now on.

    The edge answers with `on_promoted`, with `on_behind` if the two do not end at one offset, or with the failure of
    the directory. The source's log is not touched yet; None: there is none.
    """

    partition: TopicIdPartition
    source: Uuid | None
    target: Uuid


@dataclass(frozen=True, slots=True)
class DropSource:
    """The replica serves from another directory: delete its log in this one (by renaming it first)."""

    partition: TopicIdPartition
    directory: Uuid


@dataclass(frozen=True, slots=True)
class DeleteFuture:
    """Delete the future replica."""

    partition: TopicIdPartition
    directory: Uuid


@dataclass(frozen=True, slots=True)
class HeartbeatNow:
    """A directory failed: the next heartbeat goes at once, or right after the one in flight (KAFKA-15950)."""


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
