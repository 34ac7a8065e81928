"""Performs decisions: writes states to ZooKeeper and replays them; after a refused write it decides again.

Partition states are not stored but computed from the partition table; every decision that takes effect is checked
against the table of legal transitions. Source: validPreviousStates and the retry loops of
PartitionStateMachine and ReplicaStateMachine of 3.9.1; this module handles all partitions at once.
"""

from collections.abc import Callable
from dataclasses import replace
from enum import IntEnum
from typing import Final

import numpy as np

from kcore.controller.zk.decision import Decision
from kcore.controller.zk.effects import Steps, write_states
from kcore.controller.zk.log_lines import PartitionsChanged, StatesBefore
from kcore.controller.zk.requests.states import ReplicaAvailability
from kcore.controller.zk.zk_context import ControllerContext
from kcore.controller.zk.znode_reading import read_states
from kcore.metadata.table.change_sets import joined, part, same
from kcore.metadata.table.changes import UnwrittenChanges
from kcore.metadata.table.partition_table import NO_TOPIC, PartitionTable
from kcore.node.zk.notices import Level
from kcore.node.zk.znode_steps import log_notice
from kcore.types import Int8s, Int32s


class PartitionState(IntEnum):
    """The states of a partition, with Kafka's numbers."""

    NEW_PARTITION = 0
    ONLINE_PARTITION = 1
    OFFLINE_PARTITION = 2
    NON_EXISTENT_PARTITION = 3


_P = PartitionState

# For each state, the states that it may follow.
PARTITION_TRANSITIONS: Final[dict[PartitionState, frozenset[PartitionState]]] = {
    _P.NEW_PARTITION: frozenset({_P.NON_EXISTENT_PARTITION}),
    _P.ONLINE_PARTITION: frozenset({_P.NEW_PARTITION, _P.ONLINE_PARTITION, _P.OFFLINE_PARTITION}),
    _P.OFFLINE_PARTITION: frozenset({_P.NEW_PARTITION, _P.ONLINE_PARTITION, _P.OFFLINE_PARTITION}),
    _P.NON_EXISTENT_PARTITION: frozenset({_P.OFFLINE_PARTITION}),
}
# PARTITION_TRANSITIONS as an array [from, to], to check whole columns at once.
_LEGAL: Final = np.array([[before in PARTITION_TRANSITIONS[after] for after in _P] for before in _P])


class IllegalTransitionError(AssertionError):
    """A bug in kcore: a partition has made an illegal transition."""


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


MAX_ATTEMPTS: Final = 10  # Attempts to write states, because leaders write them, too, below inter.broker.protocol 2.7.


def carry_out(
    context: ControllerContext, decide: Callable[[], Decision], why: str, level: Level = "info"
) -> Steps[Decision]:
    """Decides, writes, replays and logs; returns the part of the decision that took effect.

    `decide` reads the table, and is called again after a refused write. `why` names the event in the log line.
    """
    decision = decide()
    taken, open_rows = [], decision.changes.rows
    for _ in range(MAX_ATTEMPTS):
        changes = part(decision.changes, np.isin(decision.changes.rows, open_rows))
        written, open_rows = yield from _written(context, changes)
        taken.append(written)
        if not len(open_rows):
            break
        decision = decide()
    decision = replace(decision, changes=joined(taken))
    rows, situation = decision.changes.rows, context.decisions.situation()
    before, states_before = partition_states(context.table, rows, situation), StatesBefore.of(context.table, rows)
    context.decisions.replay(decision)
    check_partitions(context.table, rows, before, partition_states(context.table, rows, situation))
    if len(rows):
        yield from log_notice(
            PartitionsChanged.of(why, context.table, states_before, decision.changes.written(), level)
        )
    return decision


def _written(context: ControllerContext, changes: UnwrittenChanges) -> Steps[tuple[UnwrittenChanges, Int32s]]:
    """The changes that were written, and the rows of refused writes, whose states in ZooKeeper are now in the table."""
    if not len(changes):
        return changes, changes.rows
    mask = yield from write_states(changes)
    if mask.all():
        return changes, changes.rows[:0]
    refused = part(changes, ~mask)
    found = yield from read_states(context, refused.rows)
    ours = same(found.changes, refused.written()) & (found.controller_epochs == context.decisions.controller_epoch)
    # A state that a later controller wrote is ignored: the watch on /controller fires soon.
    theirs = ~ours & (found.controller_epochs <= context.decisions.controller_epoch)
    others = part(found.changes, theirs)
    context.table.apply(others, controller_epoch=found.controller_epochs[theirs], check_epochs=False)
    mask |= np.isin(changes.rows, found.changes.rows[ours])  # The write was made, but its response was lost.
    return part(changes, mask), others.rows
