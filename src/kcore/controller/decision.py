"""What a controller makes of an event: outputs as data, in the order in which they may take effect.

1. `changes` are the conditional writes of partition states; ZooKeeper must have taken them first.
2. `ZkController.replay(decision)` makes the decision true in the controller's table.
3. `ZkController.requests(decision)` is what may leave then.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from kcore.controller.events import BrokerStarted
from kcore.metadata.changes import PartitionChanges
from kcore.metadata.partition_table import PartitionTable
from kcore.schema import ControlledShutdownResponse
from kcore.types import Int32s


def no_rows() -> Int32s:
    return np.empty(0, np.int32)


@dataclass(frozen=True, slots=True)
class Decision:
    """The outcome of one event. Nothing has changed yet."""

    changes: PartitionChanges
    failed: tuple[int, ...] = ()  # broker ids
    started: tuple[BrokerStarted, ...] = ()
    shutting_down: tuple[int, ...] = ()  # broker ids
    stopped: Int32s = field(default_factory=no_rows)  # Partition rows whose replica on `shutting_down` must stop,
    stopped_epochs: Int32s = field(default_factory=no_rows)  # and their leader epochs before the changes.
    response: ControlledShutdownResponse | None = None

    @property
    def is_nothing(self) -> bool:
        """No state is written and no broker came, went or is going."""
        return not (len(self.changes) or self.failed or self.started or self.shutting_down)


@dataclass(frozen=True, slots=True)
class StateWrite:
    """One conditional write: the znode, the version it must have, and what it then holds."""

    path: str
    expected_version: int
    data: bytes


def state_writes(table: PartitionTable, changes: PartitionChanges, controller_epoch: int) -> Iterator[StateWrite]:
    """The writes of `/brokers/topics/<topic>/partitions/<n>/state`.

    The fields stand as Scala's map has them (TopicPartitionStateZNode of 3.9.1); RECOVERED is left out.
    """
    names = table.topics.names
    isr_offsets, isr = changes.isr_offsets.tolist(), changes.isr.tolist()
    for k, row in enumerate(changes.rows.tolist()):
        topic, partition = names[table.topic_row__p[row]], table.partition_index__p[row]
        members = ",".join(map(str, isr[isr_offsets[k] : isr_offsets[k + 1]]))
        recovery = f'"leader_recovery_state":{changes.recovery[k]},' if changes.recovery[k] else ""
        data = (
            f'{{"controller_epoch":{controller_epoch},"leader":{changes.leaders[k]},"version":1,'
            f'{recovery}"leader_epoch":{changes.leader_epochs[k]},"isr":[{members}]}}'
        )
        path = f"/brokers/topics/{topic}/partitions/{partition}/state"
        yield StateWrite(path, int(changes.partition_epochs[k]), data.encode())
