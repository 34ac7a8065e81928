"""Election: from the table to the changed rows, for the events that a controller sees most."""

from collections.abc import Callable

import numpy as np

from kcore.constants import MAX_REPLICAS
from kcore.measure.workloads.cell import Cell
from kcore.measure.workloads.changes import arrays_of, led_by_second, moved_bytes
from kcore.measure.workloads.clusters import cluster_of, mixed_states_of
from kcore.measure.workloads.measure import Operation
from kcore.metadata.table.changes import ChangeColumns
from kcore.metadata.table.partition_table import PartitionTable
from kcore.replication.elect import kraft_elect, zookeeper_elect


def setup(cell: Cell, cluster: PartitionTable | None) -> list[Operation]:
    """The loss of a live broker, also with mixed states and in KRaft; preferred leaders return; a full scan."""
    table = cluster_of(cell, cluster)
    row = middle_broker(table)
    broker_id, held = int(table.brokers.ids[row]), len(table.index.rows(row))
    mixed, moved = mixed_states_of(table, cell), table.copy()
    moved.apply(led_by_second(moved))
    return [
        _operation("one broker: fails", table, held, lambda: zookeeper_elect(table, "offline", leaving=(broker_id,))),
        _operation(
            "one broker: fails, mixed states",
            mixed,
            held,
            lambda: zookeeper_elect(mixed, "offline", leaving=(broker_id,)),
        ),
        _operation(
            "one broker: controlled shutdown",
            table,
            held,
            lambda: zookeeper_elect(table, "controlled-shutdown", leaving=(broker_id,)),
        ),
        _operation(
            "one broker: fenced, KRaft", table, held, lambda: kraft_elect(table, "online", leaving=(broker_id,))
        ),
        _operation(
            "one broker: fenced, KRaft, into the ELR",
            table,
            held,
            lambda: kraft_elect(table, "online", leaving=(broker_id,), elr=True, min_isr=MAX_REPLICAS),
        ),
        _operation(
            "every partition: preferred leaders return", moved, len(moved), lambda: zookeeper_elect(moved, "preferred")
        ),
        _operation(
            "every partition: leaderless ones sought", mixed, len(mixed), lambda: zookeeper_elect(mixed, "offline")
        ),
    ]


def middle_broker(table: PartitionTable) -> int:
    """The row of a live broker that is neither the first nor the last."""
    live = np.flatnonzero(table.brokers.live)
    return int(live[len(live) // 2])


def _operation(name: str, table: PartitionTable, handled: int, run: Callable[[], ChangeColumns]) -> Operation:
    return Operation(name, run, arrays_of, handled, moved_bytes(table, handled, run()))
