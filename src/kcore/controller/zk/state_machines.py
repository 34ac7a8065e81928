"""The partition and replica state machines as tables of legal transitions (003.10).

Partition states are not stored but computed from the partition table; every decision that takes effect is checked
against the transitions. Source: PartitionState and ReplicaState of 3.9.1 (validPreviousStates).
"""

from collections.abc import Mapping
from enum import IntEnum
from typing import Final, TypeVar

import numpy as np

from kcore.controller.zk.requests.states import ReplicaAvailability
from kcore.metadata.table.partition_table import NO_TOPIC, PartitionTable
from kcore.types import Int8s, Int32s


class PartitionState(IntEnum):
    """The states of a partition, with Kafka's numbers."""

    NEW_PARTITION = 0
    ONLINE_PARTITION = 1
    OFFLINE_PARTITION = 2
    NON_EXISTENT_PARTITION = 3


class ReplicaState(IntEnum):
    """The states of a replica, with Kafka's numbers."""

    NEW_REPLICA = 1
    ONLINE_REPLICA = 2
    OFFLINE_REPLICA = 3
    REPLICA_DELETION_STARTED = 4
    REPLICA_DELETION_SUCCESSFUL = 5
    REPLICA_DELETION_INELIGIBLE = 6
    NON_EXISTENT_REPLICA = 7


_P, _R = PartitionState, ReplicaState

# For each state, the states that it may follow.
PARTITION_TRANSITIONS: Final[dict[PartitionState, frozenset[PartitionState]]] = {
    _P.NEW_PARTITION: frozenset({_P.NON_EXISTENT_PARTITION}),
    _P.ONLINE_PARTITION: frozenset({_P.NEW_PARTITION, _P.ONLINE_PARTITION, _P.OFFLINE_PARTITION}),
    _P.OFFLINE_PARTITION: frozenset({_P.NEW_PARTITION, _P.ONLINE_PARTITION, _P.OFFLINE_PARTITION}),
    _P.NON_EXISTENT_PARTITION: frozenset({_P.OFFLINE_PARTITION}),
}
_HELD = frozenset({_R.NEW_REPLICA, _R.ONLINE_REPLICA, _R.OFFLINE_REPLICA, _R.REPLICA_DELETION_INELIGIBLE})
REPLICA_TRANSITIONS: Final[dict[ReplicaState, frozenset[ReplicaState]]] = {
    _R.NEW_REPLICA: frozenset({_R.NON_EXISTENT_REPLICA}),
    _R.ONLINE_REPLICA: _HELD,
    _R.OFFLINE_REPLICA: _HELD,
    _R.REPLICA_DELETION_STARTED: frozenset({_R.OFFLINE_REPLICA}),
    _R.REPLICA_DELETION_SUCCESSFUL: frozenset({_R.REPLICA_DELETION_STARTED}),
    _R.REPLICA_DELETION_INELIGIBLE: frozenset({_R.OFFLINE_REPLICA, _R.REPLICA_DELETION_STARTED}),
    _R.NON_EXISTENT_REPLICA: frozenset({_R.REPLICA_DELETION_SUCCESSFUL}),
}

# [from, to] for whole columns at once.
_LEGAL: Final = np.array([[before in PARTITION_TRANSITIONS[after] for after in _P] for before in _P])


class IllegalTransitionError(AssertionError):
    """A bug in kcore: a partition or a replica has made an illegal transition."""


def check_replica(replica: str, before: ReplicaState, after: ReplicaState) -> None:
    """Raises IllegalTransitionError, which names the replica, unless `after` may follow `before`."""
    if before not in REPLICA_TRANSITIONS[after]:
        raise IllegalTransitionError(f"replica {replica}: {before.name} to {after.name}")


def partition_states(table: PartitionTable, rows: Int32s, situation: ReplicaAvailability) -> Int8s:
    """The state of each partition: new without a state znode, offline without an online leader."""
    leaders = table.leader__p[rows]
    led = ((table.replicas__ps[rows] == leaders[:, None]) & ~situation.offline(rows)).any(axis=1) & (leaders >= 0)
    states = np.where(led, _P.ONLINE_PARTITION, _P.OFFLINE_PARTITION)
    states = np.where(table.leader_epoch__p[rows] < 0, _P.NEW_PARTITION, states)
    return np.where(table.topic_row__p[rows] == NO_TOPIC, _P.NON_EXISTENT_PARTITION, states).astype(np.int8)


def check_partitions(table: PartitionTable, rows: Int32s, before: Int8s, after: Int8s) -> None:
    """Raises IllegalTransitionError, which names the first wrong partition, unless all transitions are legal."""
    wrong = ~_LEGAL[before, after]
    if wrong.any():
        first = int(np.flatnonzero(wrong)[0])
        change = f"{_P(before[first]).name} to {_P(after[first]).name}"
        count = np.count_nonzero(wrong)
        raise IllegalTransitionError(f"{table.state(int(rows[first]))}: {change}; {count} illegal transitions in all")


_State = TypeVar("_State", bound=IntEnum)


def diagram(transitions: Mapping[_State, frozenset[_State]]) -> str:
    """A table of transitions as a Mermaid state diagram, for the documentation."""
    lines = [f"    {_camel(before)} --> {_camel(after)}" for after, all_of in transitions.items() for before in all_of]
    return "\n".join(["stateDiagram-v2", *sorted(lines)]) + "\n"


def _camel(state: IntEnum) -> str:
    return state.name.title().replace("_", "")
