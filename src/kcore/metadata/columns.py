"""The columns of the partition table: the one list of what is known of a partition.

Axes in the names: `p` partition row, `s` replica slot, `i` position in an ISR or ELR, `b` broker row, `d` directory
row. Brokers are stored by row (`BrokerTable` keeps the ids once), topics by row, both -1 where there is none;
directories by row of `DirectoryTable`.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np


@dataclass(frozen=True, slots=True)
class Column:
    """One column: its name with axes, its dtype, and what it holds."""

    name: str
    dtype: np.dtype
    meaning: str
    fill: int = -1  # Of what is not used in a 2-D column.


PARTITION_COLUMNS: Final = (
    Column("topic_row__p", np.dtype(np.int32), "the topic by row, -1 in a free row: there is no partition"),
    Column("partition_index__p", np.dtype(np.int32), "the partition's number within its topic"),
    Column("replicas__ps", np.dtype(np.int16), "assigned brokers by row, in assignment order, packed, padded with -1"),
    Column("isr__pi", np.dtype(np.int16), "in-sync brokers by row, in Kafka's order (it is on the wire), packed, -1"),
    Column("leader__p", np.dtype(np.int16), "the leader by broker row, -1 for none"),
    Column(
        "leader_epoch__p", np.dtype(np.int32), "one higher at every new leader or ISR that Kafka fences, -1 at first"
    ),
    Column("partition_epoch__p", np.dtype(np.int32), "ZooKeeper: version of the state node; KRaft: partitionEpoch"),
    Column("controller_epoch__p", np.dtype(np.int32), "the controller epoch that wrote the state; KRaft: 0"),
    Column("leader_recovery_state__p", np.dtype(np.int8), "0 recovered, 1 recovering after an unclean election"),
)

ON_DEMAND_COLUMNS: Final = (
    Column(
        "directories__ps",
        np.dtype(np.int32),
        "by replica slot, its log directory (KIP-858); MIGRATING, 0, in unused slots; None: all are MIGRATING",
        0,
    ),
    Column("elr__pi", np.dtype(np.int16), "eligible leader replicas by row (KIP-966), packed, -1; None: all are empty"),
    Column("last_known_elr__pi", np.dtype(np.int16), "what the ELR was when it became empty, likewise"),
)
"""Made when the first partition needs them; None before. `directories__ps` is as wide as `replicas__ps`."""

ALL_COLUMNS: Final = {column.name: column for column in (*PARTITION_COLUMNS, *ON_DEMAND_COLUMNS)}
# Replicas being added or removed are rare: the table keeps them in a dict by partition row, as tuples of broker rows.
