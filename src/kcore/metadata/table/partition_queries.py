"""Queries on a partition table: partitions as objects, unhealthy partitions, counts by broker, text."""

from collections.abc import Iterable, Iterator
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from kcore.constants import MAX_REPLICAS, NO_BROKER_ROW, NO_LEADER
from kcore.errors import TableError
from kcore.metadata.table.arrays import Array, as_array, as_integers
from kcore.metadata.table.column_list import NO_TOPIC
from kcore.metadata.table.directory_table import MIGRATING
from kcore.metadata.table.partition_rows import PartitionRows
from kcore.metadata.table.partition_state import PartitionRegistration, PartitionState
from kcore.types import Bools, Int32s
from kcore.wire.same import counted

_AT_ONCE: Final = 4096  # Rows that iteration turns into objects at a time.
_SHOWN: Final = 10  # Partitions that `print` shows.
_NUMBERS: Final = (
    *("partition_index__p", "leader__p", "leader_epoch__p", "partition_epoch__p"),
    *("controller_epoch__p", "leader_recovery_state__p"),
)


class PartitionQueries(PartitionRows):
    """Queries on a table; none of them changes it. Rows are int32, ascending; free rows are in no result."""

    def state(self, row: int) -> PartitionState:
        """One partition as an object; TableError if the row is free or out of range."""
        [row] = self.known_rows([row]).tolist()
        return PartitionState(
            topic=self.topics.names[self.topic_row__p[row]],
            partition=int(self.partition_index__p[row]),
            replicas=self._ids(self.replicas__ps[row]),
            isr=self._ids(self.isr__pi[row]),
            leader=(*self._ids([self.leader__p[row]]), NO_LEADER)[0],
            leader_epoch=int(self.leader_epoch__p[row]),
            partition_epoch=int(self.partition_epoch__p[row]),
            controller_epoch=int(self.controller_epoch__p[row]),
            leader_recovery_state=int(self.leader_recovery_state__p[row]),
            adding=self._ids(self.adding.get(row, ())),
            removing=self._ids(self.removing.get(row, ())),
        )

    def states(self, rows: npt.ArrayLike) -> Iterator[PartitionState]:
        """The partitions in these rows, in that order, as objects; TableError if a row is free or out of range.

        Rows may be in any order and repeated. Some microseconds a partition: columns are faster.
        """
        given = as_array("rows", rows)
        wanted = as_integers("rows", given, np.int32, (given.size,))
        if wanted.size:
            self.known_rows(np.unique(wanted))
        return self._states(wanted)

    def _states(self, rows: Int32s) -> Iterator[PartitionState]:
        ids = [*self.brokers.ids.tolist(), NO_LEADER]  # Row -1 indexes the last item: no broker.
        for first in range(0, len(rows), _AT_ONCE):
            part = rows[first : first + _AT_ONCE]
            columns: list[Any] = [getattr(self, name)[part].tolist() for name in ("topic_row__p", *_NUMBERS)]
            lists = (self.replicas__ps[part].tolist(), self.isr__pi[part].tolist())
            for row, topic, *numbers, replicas, isr in zip(part.tolist(), *columns, *lists, strict=True):
                index, leader, leader_epoch, partition_epoch, controller_epoch, recovery = numbers
                yield PartitionState(
                    self.topics.names[topic],
                    index,
                    tuple(ids[broker] for broker in replicas if broker >= 0),
                    tuple(ids[broker] for broker in isr if broker >= 0),
                    ids[leader],
                    leader_epoch,
                    partition_epoch,
                    controller_epoch,
                    recovery,
                    self._ids(self.adding.get(row, ())),
                    self._ids(self.removing.get(row, ())),
                )

    def __iter__(self) -> Iterator[PartitionState]:
        """The partitions as objects, row after row. The table must not change meanwhile."""
        return self._states(np.flatnonzero(self._is_used()).astype(np.int32))

    def registration(self, row: int) -> PartitionRegistration:
        """One partition in KRaft mode: with directories and eligible leader replicas."""
        state = self.state(row)
        directories = None if self.directories__ps is None else self.directories__ps[row].tolist()
        uuids = self.directories.uuids
        return PartitionRegistration(
            replicas=state.replicas,
            directories=tuple(
                uuids[MIGRATING if directories is None else directories[slot]] for slot in range(len(state.replicas))
            ),
            isr=state.isr,
            removing_replicas=state.removing,
            adding_replicas=state.adding,
            elr=() if self.elr__pi is None else self._ids(self.elr__pi[row]),
            last_known_elr=() if self.last_known_elr__pi is None else self._ids(self.last_known_elr__pi[row]),
            leader=state.leader,
            leader_recovery_state=state.leader_recovery_state,
            leader_epoch=state.leader_epoch,
            partition_epoch=state.partition_epoch,
        )

    def _ids(self, broker_rows: Iterable[int]) -> tuple[int, ...]:
        return tuple(int(self.brokers.ids[row]) for row in broker_rows if row != NO_BROKER_ROW)

    def offline(self) -> Int32s:
        """Partitions without a leader, or whose leader's broker is not live.

        Source: `kafka-topics.sh --unavailable-partitions`, KafkaController.offlinePartitionCount.
        """
        is_live__b = np.append(self.brokers.live, False)  # Row -1 indexes the last item: no leader.
        return self._rows(~is_live__b[self.leader__p])

    def under_replicated(self) -> Int32s:
        """Partitions with fewer ISR members than replicas, not counting replicas that a reassignment is adding.

        Source: Partition.isUnderReplicated, `kafka-topics.sh --under-replicated-partitions`.
        """
        missing = _sizes(self.replicas__ps) - _sizes(self.isr__pi)
        for row, brokers in self.adding.items():
            missing[row] -= len(brokers)
        return self._rows(missing > 0)

    def under_min_isr(self, min_isr: int | npt.ArrayLike) -> Int32s:
        """Partitions whose ISR is smaller than `min_isr` (min.insync.replicas): one number, or one a row (p).

        A `min_isr` above the number of replicas counts as that number. Source: Partition.isUnderMinIsr of 4.x.
        """
        return self._rows(_sizes(self.isr__pi) < self._min_isr(min_isr))

    def at_min_isr(self, min_isr: int | npt.ArrayLike) -> Int32s:
        """Partitions whose ISR is exactly of size `min_isr`; see `under_min_isr`. Source: KIP-351."""
        return self._rows(_sizes(self.isr__pi) == self._min_isr(min_isr))

    def _min_isr(self, min_isr: int | npt.ArrayLike) -> Array:
        given = as_array("min_isr", min_isr)
        shape = () if given.ndim == 0 else (len(self),)
        wanted = as_integers("min_isr", given, np.int32, shape)
        if wanted.size and wanted.min() < 1:
            raise TableError("min_isr must be 1 or more")
        return np.minimum(wanted, _sizes(self.replicas__ps))

    def not_led_by_preferred(self) -> Int32s:
        """Partitions whose leader is not their first replica, and partitions without a leader."""
        return self._rows(self.leader__p != self._preferred())

    def leaders_by_broker(self) -> dict[int, int]:
        """The number of partitions that each broker leads, by id, for all brokers of the table in its order."""
        return self._by_broker(self.leader__p)

    def replicas_by_broker(self) -> dict[int, int]:
        """The number of replicas that each broker has, by id, for all brokers of the table in its order."""
        return self._by_broker(self.replicas__ps)

    def preferred_imbalance(self) -> dict[int, float]:
        """By broker id, the part (0 to 1) of the partitions that prefer the broker but have no leader or another one.

        A broker that no partition prefers is left out. `leader.imbalance.per.broker.percentage` limits this part.
        Source: KafkaController.checkAndTriggerAutoLeaderRebalance.
        """
        preferred = self._preferred()
        totals = self._by_broker(preferred)
        elsewhere = self._by_broker(preferred[self.leader__p != preferred])
        return {broker: elsewhere[broker] / total for broker, total in totals.items() if total}

    def _by_broker(self, broker_rows: Array) -> dict[int, int]:
        counts = np.bincount(broker_rows.reshape(-1) + 1, minlength=len(self.brokers) + 1)[1:]
        return dict(zip(self.brokers.ids.tolist(), counts.tolist(), strict=True))

    def _preferred(self) -> Array:
        return self.replicas__ps[:, 0] if self.replicas__ps.shape[1] else self.leader__p

    def _is_used(self) -> Bools:
        is_used: Bools = self.topic_row__p != NO_TOPIC
        return is_used

    def _rows(self, chosen: Bools) -> Int32s:
        return np.flatnonzero(chosen & self._is_used()).astype(np.int32)

    def __repr__(self) -> str:
        counts = {"under-replicated": len(self.under_replicated()), "offline": len(self.offline())}
        trouble = "".join(f", {count} {what}" for what, count in counts.items() if count)
        live = int(np.count_nonzero(self.brokers.live))
        brokers = f"{counted(len(self.brokers), 'broker')}, {live} live"
        partitions = f"{counted(self.partition_count, 'partition')} of {counted(self.topics.count, 'topic')}"
        return f"<{type(self).__name__}: {partitions}, {brokers}{trouble}>"

    def __str__(self) -> str:
        """The counts, and the first partitions as a table."""
        shown = np.flatnonzero(self._is_used())[:_SHOWN].astype(np.int32)
        cells: list[tuple[str, ...]] = [("partition", "leader", "replicas", "isr", "leader epoch", "partition epoch")]
        for each in self._states(shown):
            lists = (",".join(map(str, brokers)) for brokers in (each.replicas, each.isr))
            epochs = str(each.leader_epoch), str(each.partition_epoch)
            leader = "none" if each.leader == NO_LEADER else str(each.leader)
            cells.append((f"{each.topic}-{each.partition}", leader, *lists, *epochs))
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        lines = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in cells]
        more = self.partition_count - len(shown)
        return "\n".join([repr(self), *lines, *([f"... and {more} more"] if more else [])])


def _sizes(lists: Array) -> Array:
    """The number of brokers in each row; its slots are packed."""
    sizes = np.zeros(len(lists), np.int32)
    for slot in range(min(lists.shape[1], MAX_REPLICAS)):
        sizes += lists[:, slot] != NO_BROKER_ROW
    return sizes
