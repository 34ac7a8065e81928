"""The order in which Kafka 4.x checks silent brokers, which is that of a hash table.

Kafka's tracker has an entry for every incarnation that has sent a heartbeat, registered or not, until the entry
expires. Used only in Kafka's way ("fences-one-by-one"). Source: BrokerHeartbeatTracker, BrokerIdAndEpoch,
ConcurrentHashMap.
"""

from typing import Final

_UINT32: Final = 0xFFFFFFFF
_FIRST_BUCKETS: Final = 16

Incarnation = tuple[int, int]  # Broker id and epoch.


class ContactTable:
    """The time of the last heartbeat by incarnation, in ms. The number of buckets grows and never shrinks."""

    def __init__(self, release: str) -> None:
        self._contacts: dict[Incarnation, int] = {}  # In a bucket, the oldest entry comes first.
        self._buckets = _FIRST_BUCKETS
        self._seed = 1 if release == "4.1.2" else 0  # Objects.hash begins with 1; since 4.3 an incarnation is a record.

    def put(self, broker_id: int, epoch: int, now_ms: int) -> None:
        """Record a heartbeat of the incarnation."""
        self._contacts[broker_id, epoch] = now_ms
        while len(self._contacts) * 4 >= self._buckets * 3:
            self._buckets *= 2

    def remove_first(self, before_ms: int) -> Incarnation | None:
        """Remove and return the first incarnation, in Kafka's order, whose last heartbeat is older than `before_ms`."""
        over = [each for each, contact_ms in self._contacts.items() if contact_ms < before_ms]
        if not over:
            return None
        first = min(over, key=self._bucket)
        del self._contacts[first]
        return first

    def _bucket(self, incarnation: Incarnation) -> int:
        """The bucket: the spread hash code of BrokerIdAndEpoch."""
        broker_id, epoch = incarnation
        hashed = ((31 * self._seed + broker_id) * 31 + (epoch & _UINT32 ^ epoch >> 32)) & _UINT32
        return (hashed ^ hashed >> 16) & self._buckets - 1
