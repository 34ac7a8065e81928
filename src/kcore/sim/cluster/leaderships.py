"""The partitions that a broker leads, as the broker sees them, and the ISR changes that it proposes (KIP-497).

There are no records yet: whether a follower has caught up is a random choice of the world. The queue of changes and the
requests are those of production. The model does what `kcore.broker.replicas.partition` does with answers.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from kcore.broker.replicas.isr_changes import IsrChanges
from kcore.broker.replicas.partition import IsrChange, IsrResponse
from kcore.metadata.image.image import ClusterImage
from kcore.protocol_errors import Errors
from kcore.schema.alter_partition import AlterPartitionRequest, AlterPartitionResponse
from kcore.sim.cluster.committed_cluster import PartitionId

_KRAFT_EPOCH: Final = 0  # The controller epoch of a change: KRaft has none.


@dataclass(frozen=True, slots=True)
class Led:
    """A partition that the broker leads, as it knows it."""

    name: str
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader_epoch: int
    partition_epoch: int


class Leaderships:
    """The led partitions of one process."""

    def __init__(self, broker_id: int) -> None:
        self._broker_id = broker_id
        self._changes = IsrChanges(broker_id)
        self.led: dict[PartitionId, Led] = {}
        self.follows: dict[PartitionId, tuple[int, int]] = {}  # Leader and leader epoch of followed partitions.

    def follow(self, image: ClusterImage, rows: Iterable[int], serves: Iterable[bool]) -> None:
        """Takes this broker's rows of an image; `serves`: whether each replica is online here."""
        table, led, self.follows = image.table, self.led, {}
        self.led = {}
        for row, is_online in zip(rows, serves, strict=True):
            state = table.state(row)
            key = image.topics.ids[table.topic_row__p[row]], state.partition
            if state.leader != self._broker_id:
                if is_online:
                    self.follows[key] = state.leader, state.leader_epoch
                continue
            known = led.get(key)
            is_newer = known is not None and known.partition_epoch > state.partition_epoch
            if known is not None and is_newer and known.leader_epoch == state.leader_epoch:
                self.led[key] = known  # The answer to an ISR change came before its record.
            else:
                self.led[key] = Led(state.topic, state.replicas, state.isr, state.leader_epoch, state.partition_epoch)

    def propose(self, key: PartitionId, isr: tuple[int, ...], joins: int | None = None, joins_epoch: int = -1) -> bool:
        """Queues an ISR change; False if the partition has one already."""
        own = self.led[key]
        change = IsrChange(
            (own.name, key[1]),
            key[0],
            own.leader_epoch,
            own.partition_epoch,
            isr,
            _KRAFT_EPOCH,
            joins=joins,
            joins_epoch=joins_epoch,
        )
        return self._changes.submit(change)

    def next_request(self, broker_epoch: int, now_ms: int) -> AlterPartitionRequest | None:
        """The request to send now; `answered` must follow."""
        return self._changes.next_request(broker_epoch) if self._changes.wait_ms(now_ms) == 0 else None

    def answered(self, response: AlterPartitionResponse | None, now_ms: int) -> None:
        """Takes the answer; None without one: the changes are sent again."""
        if response is None:
            self._changes.failed(now_ms)
            return
        for change, answer in self._changes.answered(response, now_ms):
            key = change.topic_id, change.key[1]
            own = self.led.get(key)
            if own is None or isinstance(answer, Errors):
                continue  # After an error the leader waits for the next image.
            self._take(key, own, answer)

    def _take(self, key: PartitionId, own: Led, answer: IsrResponse) -> None:
        if answer.leader_epoch == own.leader_epoch and answer.partition_epoch > own.partition_epoch:
            self.led[key] = Led(own.name, own.replicas, answer.isr, own.leader_epoch, answer.partition_epoch)
