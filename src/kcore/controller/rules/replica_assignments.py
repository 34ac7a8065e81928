"""The replicas before, during and after a reassignment (ReplicaAssignment of 3.9.1, KIP-455)."""

from collections.abc import Iterable, Sequence

import numpy as np

from kcore.metadata.table.partition_state import ReplicaAssignment
from kcore.metadata.table.partition_table import PartitionTable


def origin_replicas(assignment: ReplicaAssignment) -> tuple[int, ...]:
    """The replicas before the reassignment."""
    return without(assignment.replicas, assignment.adding_replicas)


def target_replicas(assignment: ReplicaAssignment) -> tuple[int, ...]:
    """The replicas after the reassignment."""
    return without(assignment.replicas, assignment.removing_replicas)


def is_being_reassigned(assignment: ReplicaAssignment) -> bool:
    """True if the reassignment adds or removes replicas."""
    return bool(assignment.adding_replicas or assignment.removing_replicas)


def reassign_to(assignment: ReplicaAssignment, target: Sequence[int]) -> ReplicaAssignment:
    """The assignment while replicas move to `target`: first the target in its order, then the replicas that leave."""
    origin = origin_replicas(assignment)
    replicas = tuple(dict.fromkeys((*target, *origin)))
    return ReplicaAssignment(replicas, without(replicas, origin), without(replicas, target))


def without(brokers: Iterable[int], others: Sequence[int]) -> tuple[int, ...]:
    """The `brokers` that are not in `others`, in the order of `brokers`."""
    gone = frozenset(others)  # A client may list any number of brokers.
    return tuple(broker for broker in brokers if broker not in gone)


def assignments_of(table: PartitionTable, rows: Iterable[int]) -> dict[int, ReplicaAssignment]:
    """The assignments of the partitions in these rows, by row, in the order of `rows`."""
    wanted = np.fromiter(rows, np.int32)
    ids, adding, removing = table.brokers.ids.tolist(), table.adding, table.removing
    lists = zip(wanted.tolist(), table.replicas__ps[wanted].tolist(), strict=True)
    return {
        row: ReplicaAssignment(
            tuple([ids[each] for each in replicas if each >= 0]),
            tuple([ids[each] for each in adding.get(row, ())]),
            tuple([ids[each] for each in removing.get(row, ())]),
        )
        for row, replicas in lists
    }


def isrs_of(table: PartitionTable, rows: Iterable[int]) -> dict[int, tuple[int, ...]]:
    """The ISRs of the partitions in these rows, by row, as broker ids."""
    wanted, ids = np.fromiter(rows, np.int32), table.brokers.ids.tolist()
    pairs = zip(wanted.tolist(), table.isr__pi[wanted].tolist(), strict=True)
    return {row: tuple([ids[each] for each in isr if each >= 0]) for row, isr in pairs}
