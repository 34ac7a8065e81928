"""Tables for the election tests, and bulk results as the plain dicts of tests/reference."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from kcore.metadata.table.broker_table import BrokerTable
from kcore.metadata.table.changes import ChangeColumns
from kcore.metadata.table.partition_table import PartitionTable
from kcore.types import Int32s

Partition = dict[str, Any]


def padded(lists: Sequence[Sequence[int]], width: int = 1) -> Int32s:
    """Lists of broker ids as a 2-D array, -1 behind the last."""
    columns = max([width, *map(len, lists)])
    return np.array([[*ids, *[-1] * (columns - len(ids))] for ids in lists], np.int32).reshape(len(lists), columns)


def table_of(
    partitions: Sequence[Partition],
    ids: Sequence[int],
    live: set[int],
    shutting_down: set[int],
    widths: tuple[int, int] = (1, 1),
) -> PartitionTable:
    """A table of these partitions; `widths` are the least numbers of replica slots and ISR positions."""
    return PartitionTable.from_arrays(
        padded([p["replicas"] for p in partitions], widths[0]),
        isr=padded([p["isr"] for p in partitions], widths[1]),
        leaders=[p["leader"] for p in partitions],
        leader_epochs=[p["leader_epoch"] for p in partitions],
        partition_epochs=[p["partition_epoch"] for p in partitions],
        leader_recovery_states=[p["recovery"] for p in partitions],
        brokers=BrokerTable.from_arrays(
            ids, live=[broker in live for broker in ids], shutting_down=[broker in shutting_down for broker in ids]
        ),
        adding={row: p["adding"] for row, p in enumerate(partitions) if p.get("adding")},
        removing={row: p["removing"] for row, p in enumerate(partitions) if p.get("removing")},
    )


def as_dicts(changes: ChangeColumns) -> dict[int, Partition]:
    """By partition row, the new state."""
    starts = changes.isr_offsets.tolist()
    isr = changes.isr.tolist()
    assert len(starts) == len(changes) + 1 and starts[-1] == len(isr)
    columns = (changes.leaders, changes.leader_epochs, changes.partition_epochs, changes.recovery)
    names = ("leader", "leader_epoch", "partition_epoch", "recovery")
    return {
        row: {"isr": isr[starts[at] : starts[at + 1]]}
        | {name: int(column[at]) for name, column in zip(names, columns, strict=True)}
        for at, row in enumerate(changes.rows.tolist())
    }


def state_of(partition: Partition) -> Partition:
    """The part of a partition that elections change."""
    return {name: partition[name] for name in ("isr", "leader", "leader_epoch", "partition_epoch", "recovery")}
