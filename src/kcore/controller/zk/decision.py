"""A controller's decision about an event, as data. It takes effect in three steps:

1. ZooKeeper must accept `changes`, the conditional writes of partition states.
2. `ZkController.replay(decision)` applies the decision to the controller's table.
3. `ZkController.requests(decision)` builds the control requests, which may be sent only then.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from kcore.controller.zk.events import BrokerStarted
from kcore.metadata.table.changes import UnwrittenChanges
from kcore.metadata.table.partition_table import PartitionTable
from kcore.metadata.zookeeper.znode_states import encode_states, partition_paths
from kcore.schema import ControlledShutdownResponse
from kcore.types import Int32s


def no_rows() -> Int32s:
    return np.empty(0, np.int32)


@dataclass(frozen=True, slots=True)
class Decision:
    """The outcome of one event; the table has not changed yet."""

    changes: UnwrittenChanges
    failed: tuple[int, ...] = ()  # broker ids
    started: tuple[BrokerStarted, ...] = ()
    shutting_down: tuple[int, ...] = ()  # broker ids
    stopped: Int32s = field(default_factory=no_rows)  # Partition rows whose replica on `shutting_down` must stop.
    stopped_epochs: Int32s = field(default_factory=no_rows)  # Leader epochs of `stopped` before the changes.
    response: ControlledShutdownResponse | None = None

    @property
    def is_nothing(self) -> bool:
        """True if no state is written, and no broker started, failed or shuts down."""
        return not (len(self.changes) or self.failed or self.started or self.shutting_down)


@dataclass(frozen=True, slots=True)
class StateWrite:
    """A conditional write of a znode, which must have the expected version."""

    path: str
    expected_version: int
    data: bytes


def state_writes(table: PartitionTable, changes: UnwrittenChanges, controller_epoch: int) -> Iterator[StateWrite]:
    """The writes of the changed `/brokers/topics/<topic>/partitions/<n>/state` znodes."""
    rows = changes.rows
    paths = partition_paths(table.topics.names, table.topic_row__p[rows], table.partition_index__p[rows])
    states = encode_states(changes, controller_epoch)
    for change, version in enumerate(changes.partition_epochs.tolist()):
        yield StateWrite(paths.at(change).decode(), version, states.at(change))
