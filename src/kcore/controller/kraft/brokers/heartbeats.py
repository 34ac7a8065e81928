"""The sessions of brokers, and the contents of their last heartbeats, which no record of the log has.

A session begins with a heartbeat of an incarnation and ends when the controller has received no heartbeat for the
session timeout. The image says whether a broker is fenced or in controlled shutdown. A broker with a session has one
entry in a heap of deadlines. A heartbeat only sets the time of contact; the entry is moved when its deadline has
passed. So the cost of a heartbeat does not depend on the number of brokers, and the cost of a check for stale brokers
grows only with the passed deadlines.

Source: BrokerHeartbeatManager and BrokerHeartbeatTracker of 4.3.1. BrokerHeartbeatManager of 3.9.1 has sessions only
for unfenced brokers, and renews a session when the registration changes.
"""

from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Final, NamedTuple

from kcore.java_hash import timeline_order
from kcore.metadata.image.image import ClusterImage
from kcore.releases.known import DEFAULT_RELEASE, RELEASES
from kcore.schema.metadata_records_brokers import (
    BrokerRegistrationChangeRecord,
    FenceBrokerRecord,
    RegisterBrokerRecord,
    UnfenceBrokerRecord,
    UnregisterBrokerRecord,
)
from kcore.schema.structure import MetadataRecord

_UINT32: Final = 0xFFFFFFFF
_FIRST_BUCKETS: Final = 16

Incarnation = tuple[int, int]  # Broker id and epoch.


class ContactTable:
    """The time of each incarnation's last heartbeat, in ms, in the order of the hash table that Kafka 4.x searches.

    An incarnation keeps its entry until the entry expires, even if it is unregistered. The number of buckets grows and
    never shrinks. Used only in Kafka's way ("fences-one-by-one"). Source: BrokerHeartbeatTracker, ConcurrentHashMap.
    """

    def __init__(self, release: str) -> None:
        self._contacts: dict[Incarnation, int] = {}  # In a bucket, the oldest entry comes first.
        self._buckets = _FIRST_BUCKETS
        self._seed = int(RELEASES[release].rules.incarnation_hash_begins_with_1)

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
        """The bucket of an incarnation, by the spread hash code of BrokerIdAndEpoch."""
        broker_id, epoch = incarnation
        hashed = ((31 * self._seed + broker_id) * 31 + (epoch & _UINT32 ^ epoch >> 32)) & _UINT32
        return (hashed ^ hashed >> 16) & self._buckets - 1


NEVER: Final = -1  # No contact, or no offset.
_CHANGES: Final = (BrokerRegistrationChangeRecord, FenceBrokerRecord, UnfenceBrokerRecord)
OF_BROKERS: Final = {RegisterBrokerRecord, UnregisterBrokerRecord, *_CHANGES}
"""The types of records that `BrokerHeartbeats.on_record` handles."""


@dataclass(slots=True)
class BrokerHeartbeat:
    """The session and last heartbeat of one registered broker (BrokerHeartbeatState)."""

    epoch: int  # The broker epoch of the incarnation.
    registration_offset: int  # ClusterImage.registered_at: the broker must apply this offset before it is unfenced.
    last_contact_ms: int = NEVER  # NEVER: there is no session.
    metadata_offset: int = NEVER  # The offset that the last heartbeat reported; NEVER after a registration change.
    controlled_shutdown_offset: int = NEVER  # All active brokers must apply this offset before this broker may stop.
    may_stop: bool = False  # The last answer allowed the broker to stop.
    waits_for: int = NEVER  # A broker that had not applied controlled_shutdown_offset at the last check.
    place: int = 0  # The number of the session; sessions are numbered in the order in which they begin.
    entry: int = 0  # The number of the broker's entry in the heap; 0: no entry.

    @property
    def is_shutting_down(self) -> bool:
        """True if this active controller has begun a controlled shutdown; the image also has those of earlier ones."""
        return self.controlled_shutdown_offset != NEVER


class Contact(NamedTuple):
    """A heartbeat that was answered without the controller, because it changes nothing (`changes_nothing`)."""

    broker_id: int
    broker_epoch: int
    metadata_offset: int
    at_ms: int  # The time of arrival, by the controller's clock.


class Expired(NamedTuple):
    """A broker whose session has ended."""

    broker_id: int
    had_session: bool  # False: the session was reported as ended before, but the fencing was not written.
    is_registered: bool = True  # False only in Kafka's way: an unregistered incarnation.


class BrokerHeartbeats:
    """The heartbeats of all registered brokers, by id."""

    def __init__(self, session_timeout_ms: int, release: str = DEFAULT_RELEASE, *, one_by_one: bool = False) -> None:
        """`release`: the release of Kafka whose rules for sessions apply.

        `one_by_one`: the caller uses `expire_first` and never `expire`.
        """
        self.session_timeout_ms = session_timeout_ms
        self.brokers: dict[int, BrokerHeartbeat] = {}
        self.changed: set[int] = set()  # Brokers whose registration has changed; the reader clears the set.
        rules = RELEASES[release].rules
        self.only_unfenced = rules.only_unfenced_brokers_have_sessions
        self._checks_are_irregular = rules.runs_tasks_when_needed
        self._release = release
        self._deadlines: list[tuple[int, int, int]] = []  # A heap: deadline, number of the entry, broker id.
        self._entries = self._places = 0
        self._one_by_one = one_by_one
        self._contacts = self._new_contacts()
        self._checked_ms = NEVER  # The time of the last check for stale brokers.

    def _new_contacts(self) -> ContactTable | None:
        return ContactTable(self._release) if self._one_by_one and not self.only_unfenced else None

    def activate(self, image: ClusterImage, now_ms: int) -> None:
        """Discard all heartbeats, and begin a session of every unfenced broker, because the node leads from now on.

        Sessions begin in the order of Kafka's hash table of brokers. Source: ClusterControlManager.activate.
        """
        self.brokers, self._deadlines, self._checked_ms = {}, [], now_ms
        self._contacts = self._new_contacts()
        table = image.brokers
        for broker_id in timeline_order(table):
            row = table.row(broker_id)
            self.brokers[broker_id] = BrokerHeartbeat(int(table.epochs[row]), _registered_at(broker_id, image))
            if not table.fenced__b[row]:
                self.touch(broker_id, now_ms, fenced=False)

    def of(self, broker_id: int, epoch: int, image: ClusterImage) -> BrokerHeartbeat:
        """The state of a registered incarnation; a new state if `on_record` was not called for the registration."""
        state = self.brokers.get(broker_id)
        if state is None or state.epoch != epoch:
            entry = 0 if state is None else state.entry
            state = BrokerHeartbeat(epoch, _registered_at(broker_id, image), entry=entry)
            self.brokers[broker_id] = state
        return state

    def touch(self, broker_id: int, now_ms: int, *, fenced: bool) -> None:
        """Begin or extend a session.

        `fenced`: True if the broker is fenced after this heartbeat; 3.9.1 then ends the session.
        """
        state = self.brokers[broker_id]
        if self.only_unfenced and fenced:
            state.last_contact_ms = NEVER
            return
        if state.last_contact_ms == NEVER or self.only_unfenced:
            self._places += 1
            state.place = self._places
        state.last_contact_ms = now_ms
        if self._contacts is not None:
            self._contacts.put(broker_id, state.epoch, now_ms)
        if not state.entry:
            self._await(broker_id, state, now_ms + self.session_timeout_ms)

    def on_contact(self, contact: Contact, image: ClusterImage) -> None:
        """Extend the session by a heartbeat that the edge answered, if its incarnation is registered."""
        broker_id = contact.broker_id
        row = image.brokers.registered_row(broker_id, contact.broker_epoch)
        if row is None:
            return
        state = self.of(broker_id, contact.broker_epoch, image)
        if contact.at_ms >= state.last_contact_ms:
            self.touch(broker_id, contact.at_ms, fenced=bool(image.brokers.fenced__b[row]))
            state.metadata_offset = contact.metadata_offset

    def _await(self, broker_id: int, state: BrokerHeartbeat, deadline_ms: int) -> None:
        self._entries += 1
        state.entry = self._entries
        heappush(self._deadlines, (deadline_ms, state.entry, broker_id))

    def touch_unregistered(self, broker_id: int, epoch: int, now_ms: int) -> None:
        """Record a heartbeat of an unregistered incarnation; only Kafka's tracker has an entry for it."""
        if self._contacts is not None:
            self._contacts.put(broker_id, epoch, now_ms)

    def has_session(self, broker_id: int, image: ClusterImage, now_ms: int) -> bool:
        """True if the registered incarnation has sent a heartbeat within the session timeout (hasValidSession)."""
        state, row = self.brokers.get(broker_id), image.brokers.registered_row(broker_id)
        if state is None or row is None or state.epoch != image.brokers.epochs[row]:
            return False
        return state.last_contact_ms != NEVER and not self._is_over(state, now_ms)

    def _is_over(self, state: BrokerHeartbeat, now_ms: int) -> bool:
        return state.last_contact_ms + self.session_timeout_ms < now_ms

    def was_checked_lately(self, now_ms: int) -> bool:
        """True if the last check of sessions was at most 3/4 of a session timeout ago; called once per check.

        Sessions are checked eight times in a session timeout. After a longer interval the controller itself was busy or
        stopped, and unread heartbeats may wait. 3.9.1 checks only when a session ends, so the result is always True.
        """
        before, self._checked_ms = self._checked_ms, now_ms
        return self._checks_are_irregular or (now_ms - before) * 4 <= self.session_timeout_ms * 3

    def next_deadline_ms(self) -> int | None:
        """The time at which the first session ends if no heartbeat arrives; None if there is no session."""
        first = self._first()
        return None if first is None else first[0] + 1

    def _first(self) -> tuple[int, int, int] | None:
        """The first entry of the heap, after entries are moved to the deadlines of their brokers' last contacts."""
        while self._deadlines:
            deadline_ms, entry, broker_id = first = self._deadlines[0]
            state = self.brokers.get(broker_id)
            if state is not None and state.entry == entry:
                true_deadline_ms = state.last_contact_ms + self.session_timeout_ms
                if state.last_contact_ms == NEVER or true_deadline_ms <= deadline_ms:
                    return first
                self._await(broker_id, state, true_deadline_ms)
            heappop(self._deadlines)  # The entry was moved, or its broker is unregistered.
        return None

    def expire(self, image: ClusterImage, now_ms: int) -> list[Expired]:
        """The sessions that are over, the broker with the earliest deadline first.

        A session is returned once. It is returned again only if its broker is still unfenced at the next call, because
        the fencing was not written.
        """
        found: list[Expired] = []
        while (first := self._first()) is not None and first[0] < now_ms:
            broker_id = heappop(self._deadlines)[2]
            state = self.brokers[broker_id]
            state.entry = 0
            if (had_session := state.last_contact_ms != NEVER) or _is_unfenced(broker_id, image):
                found.append(Expired(broker_id, had_session))
        for broker_id, _, _ in found:
            self._end_session(broker_id, now_ms)
        return found

    def _end_session(self, broker_id: int, now_ms: int) -> None:
        state = self.brokers[broker_id]
        state.last_contact_ms = NEVER
        self._await(broker_id, state, now_ms - 1)  # The next call checks the broker once more.

    def expire_first(self, image: ClusterImage, now_ms: int) -> Expired | None:
        """The session that Kafka expires first; None if no session is over. Reads all brokers."""
        if self._contacts is not None:
            first_over = self._contacts.remove_first(now_ms - self.session_timeout_ms)
            if first_over is not None:
                return self._expired(*first_over, now_ms)
        over = [
            (state.last_contact_ms, state.place, broker_id)
            for broker_id, state in self.brokers.items()
            if (_is_unfenced(broker_id, image) if state.last_contact_ms == NEVER else self._is_over(state, now_ms))
        ]
        if not over:
            while (first := self._first()) is not None and first[0] < now_ms:
                self.brokers[heappop(self._deadlines)[2]].entry = 0  # The broker was fenced after its session ended.
            return None
        *_, broker_id = min(over)
        return self._expired(broker_id, self.brokers[broker_id].epoch, now_ms)

    def _expired(self, broker_id: int, epoch: int, now_ms: int) -> Expired:
        state = self.brokers.get(broker_id)
        if state is None or state.epoch != epoch:
            return Expired(broker_id, had_session=True, is_registered=False)
        expired = Expired(broker_id, state.last_contact_ms != NEVER)
        self._end_session(broker_id, now_ms)
        return expired

    def is_awaited(self, offset: int, own: BrokerHeartbeat, image: ClusterImage) -> bool:
        """True if an unfenced broker that is not shutting down has not applied `offset` yet (lowestActiveOffset).

        The broker that the last call found is checked first: usually it is still behind, and no other check is needed.
        """
        table = image.brokers
        if own.waits_for in self.brokers and self._is_behind(own.waits_for, offset, image):
            return True
        for broker_id in table.ids[table.live].tolist():
            if self._is_behind(broker_id, offset, image):
                own.waits_for = broker_id
                return True
        return False

    def _is_behind(self, broker_id: int, offset: int, image: ClusterImage) -> bool:
        state, table = self.brokers.get(broker_id), image.brokers
        if not table.live[table.row(broker_id)]:
            return False
        return state is None or (not state.is_shutting_down and state.metadata_offset < offset)

    def on_record(self, record: MetadataRecord, image: ClusterImage, now_ms: int) -> None:
        """Update the state of the record's broker, after the image has applied the record; ignores other records.

        As in Kafka, the applied offset of a broker is unknown after each change of its registration, until its next
        heartbeat. Source: ClusterControlManager.replay.
        """
        if isinstance(record, RegisterBrokerRecord):
            self.changed.add(record.broker_id)
            self._on_registered(record, _registered_at(record.broker_id, image), now_ms)
        elif isinstance(record, UnregisterBrokerRecord):
            self.changed.add(record.broker_id)
            self.brokers.pop(record.broker_id, None)
        elif isinstance(record, _CHANGES):
            broker_id = record.broker_id if isinstance(record, BrokerRegistrationChangeRecord) else record.id
            self.changed.add(broker_id)
            self._on_changed(broker_id, image, now_ms)

    def _on_registered(self, record: RegisterBrokerRecord, offset: int, now_ms: int) -> None:
        broker_id, epoch = record.broker_id, record.broker_epoch
        before = self.brokers.get(broker_id)
        after = BrokerHeartbeat(epoch, offset)
        self.brokers[broker_id] = after
        if before is not None:
            after.entry = before.entry
            if before.epoch == epoch:
                after.last_contact_ms, after.place = before.last_contact_ms, before.place
        if self.only_unfenced:
            self.touch(broker_id, now_ms, fenced=record.fenced)

    def _on_changed(self, broker_id: int, image: ClusterImage, now_ms: int) -> None:
        state = self.brokers.get(broker_id)
        if state is None:
            return
        state.metadata_offset = NEVER
        fenced = bool(image.brokers.fenced__b[image.brokers.row(broker_id)])
        if fenced:
            state.controlled_shutdown_offset = NEVER
        if self.only_unfenced:
            self.touch(broker_id, now_ms, fenced=fenced)


def _registered_at(broker_id: int, image: ClusterImage) -> int:
    """The offset of the registration record, or the image's last offset if the image does not have the former."""
    return image.registered_at.get(broker_id, image.end_offset - 1)


def _is_unfenced(broker_id: int, image: ClusterImage) -> bool:
    brokers = image.brokers
    return broker_id in brokers and bool(brokers.live[brokers.row(broker_id)])
