"""Lists the columns of the partition table, once for all modules.

Axes in the names: `p` partition row, `s` replica slot, `i` position in an ISR or ELR, `b` broker row, `d` directory
row. Brokers are stored by row (`BrokerTable` keeps the ids once), topics by row, both -1 for none; directories by row
of `DirectoryTable`.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

NO_TOPIC: Final = -1  # topic_row__p of a free row.


@dataclass(frozen=True, slots=True)
class Column:
    """One column: its name with axes, its dtype, its meaning, and its value in a free row."""

    name: str
    dtype: np.dtype
    meaning: str
    nothing: int = 0  # Value in a free row; in a 2-D column, also in the unused part of any row.


def _column(name: str, dtype: type[np.generic], meaning: str, nothing: int = 0) -> Column:
    return Column(name, np.dtype(dtype), meaning, nothing)


PARTITION_COLUMNS: Final = (
    _column("topic_row__p", np.int32, "the topic by row, -1 in a free row: there is no partition", -1),
    _column("partition_index__p", np.int32, "the partition's number within its topic"),
    _column("replicas__ps", np.int16, "assigned brokers by row, in assignment order, packed, padded with -1", -1),
    _column("isr__pi", np.int16, "in-sync brokers by row, in Kafka's order (it is on the wire), packed, -1", -1),
    _column("leader__p", np.int16, "the leader by broker row, -1 for none", -1),
    _column("leader_epoch__p", np.int32, "raised by new leaders, and by ISR changes that Kafka fences; -1 at first"),
    _column("partition_epoch__p", np.int32, "ZooKeeper: version of the state node; KRaft: partitionEpoch"),
    _column("controller_epoch__p", np.int32, "the controller epoch that wrote the state; KRaft: 0"),
    _column("leader_recovery_state__p", np.int8, "0 recovered, 1 recovering after an unclean election"),
)

ON_DEMAND_COLUMNS: Final = (
    _column("directories__ps", np.int32, "by replica slot, its log directory (KIP-858); MIGRATING, 0, in unused slots"),
    _column("elr__pi", np.int16, "eligible leader replicas by row (KIP-966), packed, -1", -1),
    _column("last_known_elr__pi", np.int16, "the ELR before it became empty, by row (KIP-966), packed", -1),
)
"""Made when the first partition needs them. None before: all directories are MIGRATING, all ELRs empty.

`directories__ps` is as wide as `replicas__ps`.
"""

ALL_COLUMNS: Final = {column.name: column for column in (*PARTITION_COLUMNS, *ON_DEMAND_COLUMNS)}
# Replicas being added or removed are rare: the table keeps them in a dict by partition row, as tuples of broker rows.
