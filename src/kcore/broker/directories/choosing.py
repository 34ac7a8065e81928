"""Chooses the directory of a new replica (LogManager.nextLogDirs, maybeUpdatePreferredLogDir of 4.3.1)."""

from collections.abc import Callable, Collection, Mapping
from typing import Final, TypeVar

from kcore.broker.replicas.replica import Key
from kcore.types import Uuid

MOST_PREFERRED: Final = 10_000  # The most partitions with a preferred directory; the oldest preferences are dropped.
D = TypeVar("D")


def least_used(online: Collection[D], cordoned: Collection[D], logs: Callable[[D], int]) -> D:
    """The directory with the fewest logs, a cordoned one only if all are cordoned (KIP-1066)."""
    open_ = [each for each in online if each not in cordoned]
    return min(open_ or online, key=logs)


class DirectoryChoice:
    """The directories that an administrator has chosen for replicas that this broker does not have yet."""

    def __init__(self) -> None:
        self._preferred: dict[Key, Uuid] = {}

    def prefer(self, key: Key, directory: Uuid) -> None:
        """Stores the directory that AlterReplicaLogDirs names for a partition, ahead of its reassignment to here."""
        self._preferred.pop(key, None)
        self._preferred[key] = directory
        if len(self._preferred) > MOST_PREFERRED:
            del self._preferred[next(iter(self._preferred))]

    def take(
        self,
        key: Key,
        assigned: Uuid | None,
        online: Collection[Uuid],
        cordoned: Collection[Uuid],
        logs: Mapping[Uuid, int],
    ) -> Uuid:
        """The preferred directory if it is online, else the assigned one (None: any), else the least used one."""
        preferred = self._preferred.pop(key, None)
        if preferred is not None and preferred in online:
            return preferred
        return least_used(online, cordoned, lambda each: logs.get(each, 0)) if assigned is None else assigned
