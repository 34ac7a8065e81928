"""What a broker does with a replica that the metadata log gives it: KIP-858's nine cases, as one table.

The log says a directory, or one of the reserved ids; the broker knows where its logs of that topic id and partition
are. Beside the document's cases the table has what they leave open: what a future replica is worth without the current
one, MIGRATING, and replicas that this process has lost with a directory. A row cites the sentence that it follows.

Source: "Broker catch-up" of KIP-858; Partition.createLogInAssignedDirectoryId, ReplicaManager.getOrCreatePartition and
maybeUpdateTopicAssignment, LogManager.recoverAbandonedFutureLogs of 4.3.1.
"""

from collections.abc import Collection
from enum import Enum
from itertools import product
from typing import Final, NamedTuple

from kcore.metadata.table.directory_table import MIGRATING_UUID, UNASSIGNED_UUID
from kcore.types import Uuid


class Assigned(Enum):
    """The directory that the metadata log has."""

    UNASSIGNED = "unassigned"
    ONLINE = "an online directory"
    UNKNOWN = "an unknown directory, or LOST"
    MIGRATING = "migrating"  # Not reported yet: an old replica's.


class Current(Enum):
    """The replica that serves. Of another topic id of that name there may be others: they are strays."""

    NONE = "none"
    ASSIGNED = "in the assigned directory"
    ELSEWHERE = "in another online directory"
    FAILED = "in a directory that failed since the start"


class Future(Enum):
    """A copy that is to take the current replica's place."""

    NONE = "none"
    ASSIGNED = "in the assigned directory"
    ELSEWHERE = "in another online directory"


class Action(Enum):
    """To be done in the order in which a row has them."""

    CREATE_THERE = "create it in the assigned directory"
    CREATE_SOMEWHERE = "select a log directory and create it there"
    ASSIGN = "tell the controller the directory that it is in"
    COPY = "copy the current replica to the future one, and ask the controller when that has caught up"
    COPY_AND_REPLACE = "copy; the controller knows already: replace the current replica when it has caught up"
    PROMOTE = "the future replica becomes the current one as it is"
    DELETE_FUTURE = "delete the future replica"
    WITHHOLD = "take no action, and do not serve what is here: the records may be in an offline directory"


class Case(NamedTuple):
    """What is known of one partition."""

    assigned: Assigned
    current: Current
    future: Future
    has_offline: bool  # A directory of this broker is offline: since the start, or one that did not come up.


class Row(NamedTuple):
    """The cases that have all these values, and what is done."""

    assigned: tuple[Assigned, ...]
    current: tuple[Current, ...]
    future: tuple[Future, ...]
    has_offline: tuple[bool, ...]
    actions: tuple[Action, ...]
    cites: str

    def cases(self) -> list[Case]:
        """All that it is for."""
        return [Case(*each) for each in product(self.assigned, self.current, self.future, self.has_offline)]


_UNASSIGNED, _ONLINE, _UNKNOWN = (Assigned.UNASSIGNED,), (Assigned.ONLINE,), (Assigned.UNKNOWN,)
_MIGRATING: Final = (Assigned.MIGRATING,)
_NONE, _THERE, _ELSEWHERE = (Current.NONE,), (Current.ASSIGNED,), (Current.ELSEWHERE,)
_NO_FUTURE, _FUTURE_THERE, _FUTURE = (Future.NONE,), (Future.ASSIGNED,), (Future.ELSEWHERE,)
_EITHER, _ALL_UP, _SOME_OFFLINE = (False, True), (False,), (True,)
_CREATE_AND_TELL: Final = (Action.CREATE_SOMEWHERE, Action.ASSIGN)
_PROMOTE_AND_TELL: Final = (Action.PROMOTE, Action.ASSIGN)
_TELL_AND_COPY: Final = (Action.ASSIGN, Action.COPY)
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

ROWS: Final = (
    Row(_UNASSIGNED, _ELSEWHERE, _NO_FUTURE, _EITHER, (Action.ASSIGN,), UNASSIGNED_EXISTS),
    Row(_UNASSIGNED, _ELSEWHERE, _FUTURE, _EITHER, _TELL_AND_COPY, UNASSIGNED_EXISTS),
    Row(_UNASSIGNED, _NONE, _NO_FUTURE, _EITHER, _CREATE_AND_TELL, UNASSIGNED_NEW),
    # The directory that is selected is the one where the records are that are left.
    Row(_UNASSIGNED, _NONE, _FUTURE, _EITHER, _PROMOTE_AND_TELL, UNASSIGNED_NEW),
    Row(_ONLINE, _NONE, _NO_FUTURE, _EITHER, (Action.CREATE_THERE,), ONLINE_NEW),
    Row(_ONLINE, _NONE, _FUTURE, _EITHER, (Action.DELETE_FUTURE, Action.CREATE_THERE), ONLINE_NEW),
    # The source's disk went in the second catch-up: nothing else may be made in that directory (KAFKA-16082).
    # The future log may lack the last records, as in Kafka (LogManager.recoverAbandonedFutureLogs), which promotes it
    # even where the source is online; the row for that case copies the rest first.
    Row(_ONLINE, _NONE, _FUTURE_THERE, _EITHER, (Action.PROMOTE,), ONLINE_FUTURE),
    Row(_ONLINE, _THERE, _NO_FUTURE, _EITHER, (), ONLINE_THERE),
    Row(_ONLINE, _THERE, _FUTURE, _EITHER, (Action.COPY,), ONLINE_COPYING),
    Row(_ONLINE, _ELSEWHERE, _FUTURE_THERE, _EITHER, (Action.COPY_AND_REPLACE,), ONLINE_FUTURE),
    Row(_ONLINE, _ELSEWHERE, _NO_FUTURE, _EITHER, (Action.ASSIGN,), ONLINE_ELSEWHERE),
    Row(_ONLINE, _ELSEWHERE, _FUTURE, _EITHER, _TELL_AND_COPY, ONLINE_ELSEWHERE),
    # What is in the offline directory may have more records than what is here.
    Row(_UNKNOWN, _NONE + _ELSEWHERE, _NO_FUTURE + _FUTURE, _SOME_OFFLINE, _WITHHOLD, UNKNOWN_OFFLINE),
    Row(_UNKNOWN, _NONE, _NO_FUTURE, _ALL_UP, _CREATE_AND_TELL, UNKNOWN_ALL_UP),
    Row(_UNKNOWN, _NONE, _FUTURE, _ALL_UP, _PROMOTE_AND_TELL, UNKNOWN_ALL_UP),
    Row(_UNKNOWN, _ELSEWHERE, _NO_FUTURE, _ALL_UP, (Action.ASSIGN,), UNKNOWN_ALL_UP),
    Row(_UNKNOWN, _ELSEWHERE, _FUTURE, _ALL_UP, _TELL_AND_COPY, UNKNOWN_ALL_UP),
    # MIGRATING points to no directory: a replica that is here is the one; one that is not may be in an offline one.
    Row(_MIGRATING, _ELSEWHERE, _NO_FUTURE, _EITHER, (Action.ASSIGN,), MIGRATION),
    Row(_MIGRATING, _ELSEWHERE, _FUTURE, _EITHER, _TELL_AND_COPY, MIGRATION),
    Row(_MIGRATING, _NONE, _NO_FUTURE + _FUTURE, _SOME_OFFLINE, _WITHHOLD, MIGRATION),
    Row(_MIGRATING, _NONE, _NO_FUTURE, _ALL_UP, _CREATE_AND_TELL, MIGRATION),
    Row(_MIGRATING, _NONE, _FUTURE, _ALL_UP, _PROMOTE_AND_TELL, MIGRATION),
    # Nothing of a directory that died in this process is made anew elsewhere (KAFKA-16234).
    Row((*Assigned,), (Current.FAILED,), (*Future,), _SOME_OFFLINE, _WITHHOLD, UNKNOWN_OFFLINE),
)

TABLE: Final[dict[Case, Row]] = {case: row for row in ROWS for case in row.cases()}


def decide(case: Case) -> Row:
    """The row for it; AssertionError for a case that cannot be, such as two logs of a partition in one directory."""
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
    """By directories: `current` and `future` are where the logs are, None for none; both in online directories.

    `is_failed`: this process has lost the current replica with its directory.
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
