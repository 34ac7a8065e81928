"""The order in which Kafka 4.x looks at brokers that are not heard of any more: that of a hash table.

Its tracker has an entry for every incarnation that was ever heard of, registered or not, until the entry expires. For
Kafka's way alone ("fences-one-by-one"). Source: BrokerHeartbeatTracker, BrokerIdAndEpoch, ConcurrentHashMap.
"""

from typing import Final

_UINT32: Final = 0xFFFFFFFF
_FIRST_BUCKETS: Final = 16

Incarnation = tuple[int, int]  # Broker id and epoch.


class ContactTable:
    """Last contacts, in ms, by incarnation. The table of buckets grows with its entries, and never shrinks."""

    def __init__(self, release: str) -> None:
        self._contacts: dict[Incarnation, int] = {}  # Of one bucket, the one that was put first comes first.
        self._buckets = _FIRST_BUCKETS
        self._seed = 1 if release == "4.1.2" else 0  # Objects.hash begins with 1; later an incarnation is a record.

    def put(self, broker_id: int, epoch: int, now_ms: int) -> None:
        """It was heard of."""
        self._contacts[broker_id, epoch] = now_ms
        while len(self._contacts) * 4 >= self._buckets * 3:
            self._buckets *= 2

    def remove_first(self, before_ms: int) -> Incarnation | None:
        """Of those that were last heard of before that time, the one that Kafka comes to first; it is forgotten."""
        over = [each for each, contact_ms in self._contacts.items() if contact_ms < before_ms]
        if not over:
            return None
        first = min(over, key=self._bucket)
        del self._contacts[first]
        return first

    def _bucket(self, incarnation: Incarnation) -> int:
        """The hash code of BrokerIdAndEpoch, spread."""
        broker_id, epoch = incarnation
        hashed = ((31 * self._seed + broker_id) * 31 + (epoch & _UINT32 ^ epoch >> 32)) & _UINT32
        return (hashed ^ hashed >> 16) & self._buckets - 1
