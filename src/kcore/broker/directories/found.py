"""The logs of one replica that a broker finds in its directories at the start, and which of them count.

A crash between two steps of a move leaves a current replica and a future one, or, between the two renamings of a
promotion, two current ones; so does a disk that failed during a promotion, and comes back. Kafka stops at the latter
and asks the operator to delete one by hand (LogManager.loadLog). Here the metadata log decides: a replica is promoted
only after the controller has put its directory there, so the log in that directory is the promoted one.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from kcore.broker.directories.outputs import DeleteFuture, DropSource, TopicIdPartition
from kcore.types import Uuid


@dataclass(frozen=True, slots=True)
class FoundLog:
    """A folder of a replica in an online directory."""

    directory: Uuid
    is_future: bool  # Its name ends in `-future`.


@dataclass(frozen=True, slots=True)
class FoundReplica:
    """What is left of one partition's logs. `current` and `future`: their directories, None for none."""

    current: Uuid | None
    future: Uuid | None
    outputs: tuple[DropSource | DeleteFuture, ...] = ()  # To be done before anything else.
    refused: str | None = None  # Why the broker must not start: nothing says which log counts.


def settle_found(partition: TopicIdPartition, logs: Sequence[FoundLog], assigned: Uuid) -> FoundReplica:
    """`logs`: those of this topic id; what has another id, or none, is a stray. `assigned`: by the metadata log."""
    currents = sorted(each.directory for each in logs if not each.is_future)
    futures = sorted(each.directory for each in logs if each.is_future)
    if len(currents) > 1 and assigned not in currents:
        return FoundReplica(None, None, refused=_refusal(partition, "current", currents))
    current = assigned if assigned in currents else next(iter(currents), None)
    stale = [DropSource(partition, each) for each in currents if each != current]
    useful = [each for each in futures if each != current]
    if current is None and len(useful) > 1 and assigned not in useful:
        return FoundReplica(None, None, refused=_refusal(partition, "future", useful))
    future = assigned if assigned in useful else useful[0] if len(useful) == 1 else None
    needless = [DeleteFuture(partition, each) for each in futures if each != future]
    return FoundReplica(current, future, (*stale, *needless))


def _refusal(partition: TopicIdPartition, kind: str, directories: Sequence[Uuid]) -> str:
    places = ", ".join(map(str, directories))
    return (
        f"{len(directories)} {kind} replicas of partition {partition[1]} of topic {partition[0]}, in the directories "
        f"{places}, none of which the metadata log has: delete all but one"
    )
