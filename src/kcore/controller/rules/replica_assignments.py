"""From one assignment of replicas to another (kafka.controller.ReplicaAssignment of 3.9.1, KIP-455)."""

from collections.abc import Iterable, Sequence

from kcore.metadata.partition_table import PartitionTable
from kcore.metadata.replica_assignment import ReplicaAssignment


def origin_replicas(assignment: ReplicaAssignment) -> tuple[int, ...]:
    """The replicas before the reassignment."""
    return without(assignment.replicas, assignment.adding_replicas)


def target_replicas(assignment: ReplicaAssignment) -> tuple[int, ...]:
    """The replicas after the reassignment."""
    return without(assignment.replicas, assignment.removing_replicas)


def is_being_reassigned(assignment: ReplicaAssignment) -> bool:
    """Whether replicas come or go."""
    return bool(assignment.adding_replicas or assignment.removing_replicas)


def reassign_to(assignment: ReplicaAssignment, target: Sequence[int]) -> ReplicaAssignment:
    """On the way from the original replicas to `target`: the target first, in its order, then those that leave."""
    origin = origin_replicas(assignment)
    replicas = tuple(dict.fromkeys((*target, *origin)))
    return ReplicaAssignment(replicas, without(replicas, origin), without(replicas, target))


def without(brokers: Iterable[int], others: Sequence[int]) -> tuple[int, ...]:
    """The brokers that are not among the others, in their order."""
    return tuple(broker for broker in brokers if broker not in others)


def assignment_of(table: PartitionTable, row: int) -> ReplicaAssignment:
    """A partition's as the table has it."""
    state = table.state(row)
    return ReplicaAssignment(state.replicas, state.adding, state.removing)
