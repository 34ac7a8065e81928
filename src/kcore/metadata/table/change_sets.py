"""Selects, orders and joins changes as columns."""

from collections.abc import Sequence
from typing import TypeVar

import numpy as np

from kcore.metadata.table.changes import PartitionChanges, UnwrittenChanges
from kcore.types import Bools, Int32s

Changes = TypeVar("Changes", PartitionChanges, UnwrittenChanges)


def no_changes() -> UnwrittenChanges:
    """Changes of no partition."""
    nothing = np.empty(0, np.int32)
    return UnwrittenChanges(nothing, nothing, np.zeros(1, np.int32), nothing, nothing, nothing, np.empty(0, np.int8))


def _kind_of(changes: Changes) -> type[Changes]:
    """The base type of `changes`, which lacks the columns of elections."""
    # mypy does not narrow `type[Changes]`.
    return PartitionChanges if isinstance(changes, PartitionChanges) else UnwrittenChanges  # type: ignore[return-value]


def part(changes: Changes, chosen: Bools) -> Changes:
    """The flagged changes, in their order; `chosen` has c flags."""
    if chosen.all():
        return changes
    lengths = np.diff(changes.isr_offsets)
    offsets = np.zeros(np.count_nonzero(chosen) + 1, np.int32)
    np.cumsum(lengths[chosen], out=offsets[1:])
    return _kind_of(changes)(
        rows=changes.rows[chosen],
        leaders=changes.leaders[chosen],
        isr_offsets=offsets,
        isr=changes.isr[np.repeat(chosen, lengths)],
        leader_epochs=changes.leader_epochs[chosen],
        partition_epochs=changes.partition_epochs[chosen],
        recovery=changes.recovery[chosen],
    )


def in_order(changes: Changes, order: Int32s) -> Changes:
    """The changes with the indexes `order[0]`, `order[1]` ..., in this order."""
    begins, lengths = changes.isr_offsets[:-1][order], np.diff(changes.isr_offsets)[order]
    offsets = np.zeros(len(order) + 1, np.int32)
    np.cumsum(lengths, out=offsets[1:])
    places = np.arange(offsets[-1]) + np.repeat(begins - offsets[:-1], lengths)
    return _kind_of(changes)(
        rows=changes.rows[order],
        leaders=changes.leaders[order],
        isr_offsets=offsets,
        isr=changes.isr[places],
        leader_epochs=changes.leader_epochs[order],
        partition_epochs=changes.partition_epochs[order],
        recovery=changes.recovery[order],
    )


def joined(several: Sequence[UnwrittenChanges]) -> UnwrittenChanges:
    """All changes of `several`, ascending by row; a row may be in only one of them."""
    some = [each for each in several if len(each)]
    if len(some) < 2:
        return some[0] if some else no_changes()
    ends = np.cumsum([0, *(len(each.isr) for each in some[:-1])], dtype=np.int32)
    together = UnwrittenChanges(
        rows=np.concatenate([each.rows for each in some]),
        leaders=np.concatenate([each.leaders for each in some]),
        isr_offsets=np.concatenate(
            [np.zeros(1, np.int32), *(each.isr_offsets[1:] + end for each, end in zip(some, ends, strict=True))]
        ),
        isr=np.concatenate([each.isr for each in some]),
        leader_epochs=np.concatenate([each.leader_epochs for each in some]),
        partition_epochs=np.concatenate([each.partition_epochs for each in some]),
        recovery=np.concatenate([each.recovery for each in some]),
    )
    return in_order(together, np.argsort(together.rows, kind="stable").astype(np.int32))


def same(these: PartitionChanges, those: PartitionChanges) -> Bools:
    """True for each state in `these` that equals the state of the same row in `those`, which has all these rows."""
    if not len(these):
        return np.empty(0, np.bool_)
    other = in_order(those, np.searchsorted(those.rows, these.rows).astype(np.int32))
    alike: Bools = np.diff(these.isr_offsets) == np.diff(other.isr_offsets)
    for name in ("leaders", "leader_epochs", "partition_epochs", "recovery"):
        alike &= getattr(these, name) == getattr(other, name)
    for k in np.flatnonzero(alike).tolist():  # Few: only refused writes are compared.
        begin, end = these.isr_offsets[k : k + 2]
        alike[k] = np.array_equal(these.isr[begin:end], other.isr[other.isr_offsets[k] : other.isr_offsets[k + 1]])
    return alike
