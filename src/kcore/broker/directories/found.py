"""Chooses among the logs of one replica that a broker finds in its directories at the start.

A crash during a move leaves a current and a future replica. A crash or a disk failure during a promotion can leave two
current replicas: Kafka then stops, and an operator must delete one of them (LogManager.loadLog). Here the metadata log
decides: a replica is promoted only after the metadata log has its directory, so the log in that directory is valid.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from kcore.broker.directories.outputs import DeleteFuture, DropSource, TopicIdPartition
from kcore.types import Uuid


@dataclass(frozen=True, slots=True)
class FoundLog:
    """A folder with a log of a replica, in an online directory."""

    directory: Uuid
    is_future: bool  # The folder's name ends in `-future`.


@dataclass(frozen=True, slots=True)
class FoundReplica:
    """The logs of one partition that are kept: the directories of the current and the future log, None without one."""

    current: Uuid | None
    future: Uuid | None
    outputs: tuple[DropSource | DeleteFuture, ...] = ()  # Deletions that the server performs first.
    refused: str | None = None  # The reason why the broker must not start: any of several logs may be valid.


def settle_found(partition: TopicIdPartition, logs: Sequence[FoundLog], assigned: Uuid) -> FoundReplica:
    """Chooses the current and the future log; the outputs delete all other logs.

    `logs`: the logs with this topic id; logs with another id are strays. `assigned`: the directory in the metadata log.
    """
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
        f"{places}, and the metadata log has none of these directories: delete all of the replicas but one"
    )
