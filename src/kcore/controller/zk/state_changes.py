"""Performs decisions: states are written to ZooKeeper and replayed; after a refused write they are decided again.

Source: the retry loops of PartitionStateMachine and ReplicaStateMachine of 3.9.1, in bulk.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Final

import numpy as np

from kcore.controller.zk.decision import Decision
from kcore.controller.zk.effects import Steps, log_notice, write_states
from kcore.controller.zk.log_lines import Level, PartitionsChanged, StatesBefore
from kcore.controller.zk.state_machines import check_partitions, partition_states
from kcore.controller.zk.zk_context import ControllerContext
from kcore.controller.zk.znode_reading import read_states
from kcore.metadata.table.change_sets import joined, part, same
from kcore.metadata.table.changes import UnwrittenChanges
from kcore.types import Int32s

MAX_ATTEMPTS: Final = 10  # Leaders write states too where inter.broker.protocol is below 2.7; one a partition loses.


def carry_out(
    context: ControllerContext, decide: Callable[[], Decision], why: str, level: Level = "info"
) -> Steps[Decision]:
    """Decides, writes, replays and logs; returns what took effect.

    `decide` reads the table, again after a refusal. `why` and `level` are the notice's: the event, and whether it is
    logged without --verbose.
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
    """The changes that ZooKeeper has now, and the rows whose state was another: that one is in the table now."""
    if not len(changes):
        return changes, changes.rows
    mask = yield from write_states(changes)
    if mask.all():
        return changes, changes.rows[:0]
    refused = part(changes, ~mask)
    found = yield from read_states(context, refused.rows)
    ours = same(found.changes, refused.written()) & (found.controller_epochs == context.decisions.controller_epoch)
    # A state of a later controller is left alone: this one is about to be notified of its successor.
    theirs = ~ours & (found.controller_epochs <= context.decisions.controller_epoch)
    others = part(found.changes, theirs)
    context.table.apply(others, controller_epoch=found.controller_epochs[theirs], check_epochs=False)
    mask |= np.isin(changes.rows, found.changes.rows[ours])  # An answer was lost: the write was not.
    return part(changes, mask), others.rows
