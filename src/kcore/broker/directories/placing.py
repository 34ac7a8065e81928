"""Decides what a broker does with a replica that the metadata log assigns to it: KIP-858's nine cases as one table.

The metadata log has a directory or a reserved id; the broker has logs of the topic id and partition in directories. The
table adds three situations that KIP-858 does not describe: a future replica without a current replica, MIGRATING, and
replicas in a directory that failed in this process. Each row cites the case that it follows. A new replica without a
directory gets the directory that an administrator has chosen, or the least used directory.

One departure from Kafka: if a replica's directory has failed and the metadata log has another directory that looks
online, the broker sends the failed one. Kafka sends nothing, and the controller may let the offline replica lead.

Source: "Broker catch-up" of KIP-858; Partition.createLogInAssignedDirectoryId, ReplicaManager.getOrCreatePartition and
maybeUpdateTopicAssignment, LogManager.recoverAbandonedFutureLogs and nextLogDirs of 4.3.1.
"""

from collections.abc import Callable, Collection, Mapping
from enum import Enum
from itertools import product
from typing import Final, NamedTuple, TypeVar

from kcore.broker.replicas.replica import Key
from kcore.metadata.table.directory_table import MIGRATING_UUID, UNASSIGNED_UUID
from kcore.types import Uuid


class Assigned(Enum):
    """The kind of directory that the metadata log has for the replica."""

    UNASSIGNED = "unassigned"
    ONLINE = "an online directory"
    UNKNOWN = "an unknown directory, or LOST"
    MIGRATING = "migrating"  # A replica from ZooKeeper mode whose directory was not reported yet.


class Current(Enum):
    """The directory of the serving replica. Logs with another topic id are strays, and are ignored."""

    NONE = "none"
    ASSIGNED = "in the assigned directory"
    ELSEWHERE = "in another online directory"
    FAILED = "in a directory that failed since the start"


class Future(Enum):
    """The directory of a future replica, which will replace the current replica."""

    NONE = "none"
    ASSIGNED = "in the assigned directory"
    ELSEWHERE = "in another online directory"


class Action(Enum):
    """An operation of a row; a row's operations are performed in order."""

    CREATE_THERE = "create it in the assigned directory"
    CREATE_SOMEWHERE = "select a log directory and create it there"
    ASSIGN = "send the controller the replica's directory"
    COPY = "copy the current replica to the future one, and send the assignment when the copy has caught up"
    COPY_AND_REPLACE = "copy, and replace the current replica as soon as the copy has caught up"  # No assignment.
    PROMOTE = "make the future replica the current one as it is"
    DELETE_FUTURE = "delete the future replica"
    WITHHOLD = "take no action, and do not serve what is here: the records may be in an offline directory"


class Case(NamedTuple):
    """The situation of one partition."""

    assigned: Assigned
    current: Current
    future: Future
    has_offline: bool  # A directory of this broker is offline: it failed at the start or later.


class Row(NamedTuple):
    """A row of the table: all combinations of these values, and their actions."""

    assigned: tuple[Assigned, ...]
    current: tuple[Current, ...]
    future: tuple[Future, ...]
    has_offline: tuple[bool, ...]
    actions: tuple[Action, ...]
    cites: str

    def cases(self) -> list[Case]:
        """All cases that the row covers."""
        return [Case(*each) for each in product(self.assigned, self.current, self.future, self.has_offline)]


_UNASSIGNED, _ONLINE, _UNKNOWN = (Assigned.UNASSIGNED,), (Assigned.ONLINE,), (Assigned.UNKNOWN,)
_MIGRATING: Final = (Assigned.MIGRATING,)
_SEEMS_ONLINE: Final = (Assigned.UNASSIGNED, Assigned.ONLINE, Assigned.MIGRATING)
_NONE, _THERE, _ELSEWHERE = (Current.NONE,), (Current.ASSIGNED,), (Current.ELSEWHERE,)
_NO_FUTURE, _FUTURE_THERE, _FUTURE = (Future.NONE,), (Future.ASSIGNED,), (Future.ELSEWHERE,)
_EITHER, _ALL_UP, _SOME_OFFLINE = (False, True), (False,), (True,)
_CREATE_AND_ASSIGN: Final = (Action.CREATE_SOMEWHERE, Action.ASSIGN)
_PROMOTE_AND_ASSIGN: Final = (Action.PROMOTE, Action.ASSIGN)
_ASSIGN_AND_COPY: Final = (Action.ASSIGN, Action.COPY)
_WITHHOLD: Final = (Action.WITHHOLD,)

UNASSIGNED_EXISTS: Final = "KIP-858 catch-up unassigned, exists"
UNASSIGNED_NEW: Final = "KIP-858 catch-up unassigned, new"
ONLINE_NEW: Final = "KIP-858 catch-up online, new"
ONLINE_THERE: Final = "KIP-858 catch-up online, there"
ONLINE_COPYING: Final = "KIP-858 catch-up online, there, with a future replica"
ONLINE_FUTURE: Final = "KIP-858 catch-up online, the future replica there"
ONLINE_ELSEWHERE: Final = "KIP-858 catch-up online, elsewhere"
UNKNOWN_OFFLINE: Final = "KIP-858 catch-up unknown, some offline"
UNKNOWN_ALL_UP: Final = "KIP-858 catch-up unknown, none offline"
MIGRATION: Final = "KIP-858 migration 7"
UNREPORTED: Final = "KIP-858 failure, the controller is in sync"

ROWS: Final = (
    Row(_UNASSIGNED, _ELSEWHERE, _NO_FUTURE, _EITHER, (Action.ASSIGN,), UNASSIGNED_EXISTS),
    Row(_UNASSIGNED, _ELSEWHERE, _FUTURE, _EITHER, _ASSIGN_AND_COPY, UNASSIGNED_EXISTS),
    Row(_UNASSIGNED, _NONE, _NO_FUTURE, _EITHER, _CREATE_AND_ASSIGN, UNASSIGNED_NEW),
    # As the new replica's directory, the broker selects the directory of the future replica, which has records.
    Row(_UNASSIGNED, _NONE, _FUTURE, _EITHER, _PROMOTE_AND_ASSIGN, UNASSIGNED_NEW),
    Row(_ONLINE, _NONE, _NO_FUTURE, _EITHER, (Action.CREATE_THERE,), ONLINE_NEW),
    Row(_ONLINE, _NONE, _FUTURE, _EITHER, (Action.DELETE_FUTURE, Action.CREATE_THERE), ONLINE_NEW),
    # The source's disk failed while the future replica caught up for the second time; no other log may be created in
    # the assigned directory (KAFKA-16082). The future log may lack the last records. Kafka promotes the future log even
    # if the source is online (LogManager.recoverAbandonedFutureLogs); the row with COPY_AND_REPLACE first copies.
    Row(_ONLINE, _NONE, _FUTURE_THERE, _EITHER, (Action.PROMOTE,), ONLINE_FUTURE),
    Row(_ONLINE, _THERE, _NO_FUTURE, _EITHER, (), ONLINE_THERE),
    Row(_ONLINE, _THERE, _FUTURE, _EITHER, (Action.COPY,), ONLINE_COPYING),
    Row(_ONLINE, _ELSEWHERE, _FUTURE_THERE, _EITHER, (Action.COPY_AND_REPLACE,), ONLINE_FUTURE),
    Row(_ONLINE, _ELSEWHERE, _NO_FUTURE, _EITHER, (Action.ASSIGN,), ONLINE_ELSEWHERE),
    Row(_ONLINE, _ELSEWHERE, _FUTURE, _EITHER, _ASSIGN_AND_COPY, ONLINE_ELSEWHERE),
    # The offline directory may have a log with more records.
    Row(_UNKNOWN, _NONE + _ELSEWHERE, _NO_FUTURE + _FUTURE, _SOME_OFFLINE, _WITHHOLD, UNKNOWN_OFFLINE),
    Row(_UNKNOWN, _NONE, _NO_FUTURE, _ALL_UP, _CREATE_AND_ASSIGN, UNKNOWN_ALL_UP),
    Row(_UNKNOWN, _NONE, _FUTURE, _ALL_UP, _PROMOTE_AND_ASSIGN, UNKNOWN_ALL_UP),
    Row(_UNKNOWN, _ELSEWHERE, _NO_FUTURE, _ALL_UP, (Action.ASSIGN,), UNKNOWN_ALL_UP),
    Row(_UNKNOWN, _ELSEWHERE, _FUTURE, _ALL_UP, _ASSIGN_AND_COPY, UNKNOWN_ALL_UP),
    # MIGRATING does not say which directory. A replica in an online directory is valid; without one, it may be offline.
    Row(_MIGRATING, _ELSEWHERE, _NO_FUTURE, _EITHER, (Action.ASSIGN,), MIGRATION),
    Row(_MIGRATING, _ELSEWHERE, _FUTURE, _EITHER, _ASSIGN_AND_COPY, MIGRATION),
    Row(_MIGRATING, _NONE, _NO_FUTURE + _FUTURE, _SOME_OFFLINE, _WITHHOLD, MIGRATION),
    Row(_MIGRATING, _NONE, _NO_FUTURE, _ALL_UP, _CREATE_AND_ASSIGN, MIGRATION),
    Row(_MIGRATING, _NONE, _FUTURE, _ALL_UP, _PROMOTE_AND_ASSIGN, MIGRATION),
    # Replicas of a directory that failed in this process are not created in another directory (KAFKA-16234). If the
    # metadata log has a directory that looks online, the controller must learn the failed one, or this broker may lead.
    Row(_SEEMS_ONLINE, (Current.FAILED,), (*Future,), _SOME_OFFLINE, (Action.ASSIGN,), UNREPORTED),
    Row(_UNKNOWN, (Current.FAILED,), (*Future,), _SOME_OFFLINE, _WITHHOLD, UNKNOWN_OFFLINE),
)

TABLE: Final[dict[Case, Row]] = {case: row for row in ROWS for case in row.cases()}


def decide(case: Case) -> Row:
    """The row for the case; AssertionError for an impossible case, such as two logs of a partition in one directory."""
    row = TABLE.get(case)
    assert row is not None, f"no such case: {case}"
    return row


def case_of(
    assigned: Uuid,
    online: Collection[Uuid],
    current: Uuid | None,
    future: Uuid | None,
    *,
    has_offline: bool,
    is_failed: bool = False,
) -> Case:
    """The case of a partition. `current` and `future`: the online directories of its logs, None without a log.

    `is_failed`: the directory of the current replica failed in this process.
    """
    if assigned == UNASSIGNED_UUID:
        kind = Assigned.UNASSIGNED
    elif assigned == MIGRATING_UUID:
        kind = Assigned.MIGRATING
    else:
        kind = Assigned.ONLINE if assigned in online else Assigned.UNKNOWN
    is_there = kind is Assigned.ONLINE and current == assigned
    serves = Current.NONE if current is None else Current.ASSIGNED if is_there else Current.ELSEWHERE
    is_there = kind is Assigned.ONLINE and future == assigned
    copy = Future.NONE if future is None else Future.ASSIGNED if is_there else Future.ELSEWHERE
    return Case(kind, Current.FAILED if is_failed else serves, copy, has_offline)


MOST_PREFERRED: Final = 10_000  # The most partitions with a preferred directory; beyond that, the oldest are dropped.
D = TypeVar("D")


def least_used(online: Collection[D], cordoned: Collection[D], logs: Callable[[D], int]) -> D:
    """The directory with the fewest logs; a cordoned directory only if all are cordoned (KIP-1066)."""
    open_ = [each for each in online if each not in cordoned]
    return min(open_ or online, key=logs)


class DirectoryChoice:
    """The directories that an administrator has chosen for replicas that this broker does not have yet."""

    def __init__(self) -> None:
        self._preferred: dict[Key, Uuid] = {}

    def prefer(self, key: Key, directory: Uuid) -> None:
        """Stores the directory that AlterReplicaLogDirs names for a partition that may be reassigned to this broker."""
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
        """The directory of a new replica: the preferred directory if online, else `assigned`, else the least used one.

        Forgets the preference.
        """
        preferred = self._preferred.pop(key, None)
        if preferred is not None and preferred in online:
            return preferred
        return least_used(online, cordoned, lambda each: logs.get(each, 0)) if assigned is None else assigned
