"""The partition table as Apache Arrow, brokers as ids."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kcore.constants import NO_BROKER_ROW
from kcore.metadata.partition_table import PartitionTable

SCHEMA = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("leader", pa.int32()),  # -1: none
        ("replicas", pa.list_(pa.int32())),
        ("isr", pa.list_(pa.int32())),
        ("leaderEpoch", pa.int32()),
        ("partitionEpoch", pa.int32()),
        ("controllerEpoch", pa.int32()),
        ("leaderRecoveryState", pa.int8()),
    ]
)


def partitions_as_arrow(table: PartitionTable, start: int = 0, end: int | None = None) -> pa.Table:
    """Partition rows [start, end), a row each, as SCHEMA has it; free rows are left out."""
    rows = np.flatnonzero(table.topic_row__p[start:end] >= 0) + start
    ids = np.append(table.brokers.ids, NO_BROKER_ROW)  # Row -1 is the last: no broker.

    def lists(brokers: npt.NDArray[np.int16]) -> Any:
        used = brokers != NO_BROKER_ROW
        offsets = np.concatenate([[0], np.cumsum(used.sum(axis=1))]).astype(np.int32)
        return pa.ListArray.from_arrays(pa.array(offsets), pa.array(ids[brokers[used]], pa.int32()))

    columns = [
        pa.array(table.topics.names, pa.string()).take(pa.array(table.topic_row__p[rows])),
        pa.array(table.partition_index__p[rows]),
        pa.array(ids[table.leader__p[rows]], pa.int32()),
        lists(table.replicas__ps[rows]),
        lists(table.isr__pi[rows]),
        pa.array(table.leader_epoch__p[rows]),
        pa.array(table.partition_epoch__p[rows]),
        pa.array(table.controller_epoch__p[rows]),
        pa.array(table.leader_recovery_state__p[rows]),
    ]
    return pa.Table.from_arrays(columns, schema=SCHEMA)
