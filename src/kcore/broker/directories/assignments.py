"""The queue of AssignReplicasToDirs, which reports the directories of this broker's replicas (KIP-858).

The queue has only the newest entry of each partition. One request is in flight, with at most 2,250 assignments. Entries
into or out of a failed directory are sent first. Each entry is compared with the image before it is sent, and dropped
if it is obsolete. An entry for the directory that the image already has is obsolete, unless the assignment that was
sent last names another directory, or a move waits for the answer.

Source: AssignmentsManager, Assignment and AssignmentsManagerDeadlineFunction of 4.3.1. Three departures. Entries of
failed directories are sent first and at once, as KIP-858 describes. If the controller accepts no entry of a request,
the next request waits for a back-off. A waiting move gets an output when its assignment is superseded.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Final, NamedTuple, Protocol

import numpy as np

from kcore.broker.directories.outputs import AssignmentSettled, AssignmentsRefused, Outcome, TopicIdPartition
from kcore.constants import UNKNOWN_BROKER_EPOCH
from kcore.metadata.image.image import ClusterImage
from kcore.metadata.table.directory_table import LOST_UUID, MIGRATING_UUID
from kcore.protocol_errors import Errors
from kcore.schema.log_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsRequestDirectoryData,
    AssignReplicasToDirsRequestPartitionData,
    AssignReplicasToDirsRequestTopicData,
    AssignReplicasToDirsResponse,
)
from kcore.types import Int32s, Uuid

MAX_ASSIGNMENTS_PER_REQUEST: Final = 2_250  # AssignReplicasToDirsRequest
BATCHING_MS: Final = 100  # How long a few entries wait for further entries; also the first back-off.
MAX_BACKOFF_MS: Final = 10_000  # The longest back-off after failed requests.
NOISY_FAILURE_MS: Final = 120_000  # A refusal is logged if its entry was queued for longer.
_MOST_DOUBLINGS: Final = 20  # Bound of the back-off's doublings.
# Errors after which an entry is dropped: the controller has all committed records, so the partition was deleted
# (KAFKA-17190).
_GONE: Final = frozenset({int(Errors.UNKNOWN_TOPIC_ID), int(Errors.UNKNOWN_TOPIC_OR_PARTITION)})


class Placements(Protocol):
    """The directories in the newest image."""

    def directories_of(self, partitions: Sequence[TopicIdPartition]) -> list[Uuid | None]:
        """The directory of this broker's replica of each partition; None for a partition without such a replica."""

    def leads_any(self, partitions: Sequence[TopicIdPartition]) -> bool:
        """Whether this broker leads any of the partitions."""


class Wanted(NamedTuple):
    """The content of an entry; entries that were enqueued together share one object."""

    directory: Uuid
    reason: str
    since_ms: int


class Entries(dict[TopicIdPartition, Wanted]):
    """A first-in, first-out queue of entries; a newer entry replaces the partition's older entry at its position."""

    def __init__(self) -> None:
        super().__init__()
        self._line: list[TopicIdPartition] = []  # A copy of the keys, in reverse order; copied again when it is empty.

    def take(self, count: int) -> list[tuple[TopicIdPartition, Wanted]]:
        """Removes at most `count` entries and returns them; an empty list only if the queue is empty."""
        taken: list[tuple[TopicIdPartition, Wanted]] = []
        while self and not taken:
            if not self._line:
                self._line = [*self]
                self._line.reverse()
            partitions = self._line[-count:]
            del self._line[-count:]
            partitions.reverse()
            taken = [(each, wanted) for each in partitions if (wanted := self.pop(each, None)) is not None]
        return taken


class AssignmentQueue:
    """The assignments that the controller has not accepted yet.

    `jitter()` returns a random factor from 0.98 to 1.02.
    """

    def __init__(self, broker_id: int, placements: Placements, jitter: Callable[[], float]) -> None:
        self.broker_id = broker_id
        self.broker_epoch = UNKNOWN_BROKER_EPOCH  # Nothing is sent until the broker is registered (Kafka PR 14954).
        self.is_supported = False  # True from metadata.version 3.7-IV2 on (KAFKA-16131).
        self._placements, self._jitter = placements, jitter
        self._urgent = Entries()
        self._ready = Entries()
        self._in_flight: dict[TopicIdPartition, Wanted] = {}
        self._sent: dict[TopicIdPartition, Uuid] = {}  # The last sent directory, until the image has it.
        self._tickets: dict[TopicIdPartition, list[int]] = {}
        self._tickets_in_flight: dict[TopicIdPartition, list[int]] = {}
        self._failed: set[Uuid] = set()
        self._failures = 0  # Consecutive requests of which the controller accepted no entry.
        self._not_before_ms = 0
        self._send_at_ms: int | None = None
        self._outputs: list[AssignmentSettled | AssignmentsRefused] = []

    @property
    def queued(self) -> int:
        """The gauge QueuedReplicaToDirAssignments."""
        return len(self._urgent) + len(self._ready) + len(self._in_flight)

    @property
    def next_deadline_ms(self) -> int | None:
        """The earliest time at which `next_request` may return a request; None while nothing can be sent."""
        if self._in_flight or not self.is_supported or self.broker_epoch == UNKNOWN_BROKER_EPOCH:
            return None
        return self._send_at_ms

    def take_outputs(self) -> list[AssignmentSettled | AssignmentsRefused]:
        """The outputs since the last call, in order."""
        outputs, self._outputs = self._outputs, []
        return outputs

    def enqueue(
        self, partition: TopicIdPartition, directory: Uuid, reason: str, now_ms: int, ticket: int | None = None
    ) -> None:
        """Queues the assignment of a replica to `directory` in place of an older entry; LOST for a failed directory.

        Older tickets for the same directory stay valid.
        """
        if self._tickets or self._tickets_in_flight:
            self._supersede(partition, directory)
        if ticket is not None:
            self._tickets.setdefault(partition, []).append(ticket)
        wanted = Wanted(directory, reason, now_ms)
        if self._failed:
            self._put(partition, wanted)
        else:
            self._ready[partition] = wanted
        self._schedule(now_ms)

    def _supersede(self, partition: TopicIdPartition, directory: Uuid) -> None:
        """Settles the tickets for other directories as SUPERSEDED, even of assignments in flight."""
        queued = self._ready.get(partition) or self._urgent.get(partition)
        if queued is not None and queued.directory != directory:
            self._settle(self._tickets.pop(partition, ()), Outcome.SUPERSEDED)
        flying = self._in_flight.get(partition)
        if flying is not None and flying.directory != directory:
            self._settle(self._tickets_in_flight.pop(partition, ()), Outcome.SUPERSEDED)

    def enqueue_all(self, partitions: Collection[TopicIdPartition], directory: Uuid, reason: str, now_ms: int) -> None:
        """Queues the assignments of many replicas to one directory, without tickets, as `enqueue` does."""
        if self._tickets or self._tickets_in_flight or self._failed:
            for partition in partitions:
                self.enqueue(partition, directory, reason, now_ms)
        elif partitions:
            self._ready.update(dict.fromkeys(partitions, Wanted(directory, reason, now_ms)))
            self._schedule(now_ms)

    def cancel(self, partition: TopicIdPartition, directory: Uuid) -> bool:
        """Removes the assignment from the queue. False if it was sent already: the caller must then correct it."""
        entries = self._ready if partition in self._ready else self._urgent
        is_sent = partition in self._sent or partition in self._in_flight
        if is_sent or entries.get(partition, _NOTHING).directory != directory:
            return False
        del entries[partition]
        self._settle(self._tickets.pop(partition, ()), Outcome.SUPERSEDED)
        return True

    def on_directory_failed(self, directory: Uuid) -> None:
        """Records a failed directory: entries into and out of it are sent first, without waiting for a batch."""
        self._failed.add(directory)
        partitions = [*self._ready]
        for partition, place in zip(partitions, self._placements.directories_of(partitions), strict=True):
            if self._ready[partition].directory in self._failed or place in self._failed:
                self._urgent[partition] = self._ready.pop(partition)
        if self._urgent:
            self._send_at_ms = self._not_before_ms

    def holds_into(self, directory: Uuid) -> bool:
        """Whether the controller has not yet accepted an assignment into the directory."""
        entries = (self._urgent, self._in_flight, self._ready)
        return any(each.directory == directory for part in entries for each in part.values())

    def on_image(self, partitions: Sequence[TopicIdPartition], places: Sequence[Uuid | None]) -> None:
        """Drops entries that the new image makes obsolete; None in `places` means that the replica was removed."""
        if not (self._sent or self._ready or self._urgent):
            return
        for partition, place in zip(partitions, places, strict=True):
            if self._sent.get(partition, place) == place or place is None:
                self._sent.pop(partition, None)
            entries = self._ready if partition in self._ready else self._urgent
            queued = entries.get(partition)
            if queued is not None and not self._is_to_be_sent(partition, queued.directory, place):
                del entries[partition]

    def next_request(self, now_ms: int) -> AssignReplicasToDirsRequest | None:
        """The request to send now; None if there is nothing to send. `on_response` must follow a request."""
        deadline = self.next_deadline_ms
        if deadline is None or now_ms < deadline:
            return None
        self._send_at_ms = None
        batch: dict[TopicIdPartition, Wanted] = {}
        for entries in (self._urgent, self._ready):
            self._take(entries, batch)
        if not batch:
            return None
        self._in_flight = batch
        if self._tickets:
            waited_for = self._tickets.keys() & batch.keys()
            self._tickets_in_flight = {each: self._tickets.pop(each) for each in waited_for}
        return _request(self.broker_id, self.broker_epoch, batch)

    def _take(self, entries: Entries, batch: dict[TopicIdPartition, Wanted]) -> None:
        """Fills the batch with the oldest entries that are still valid; drops obsolete entries."""
        sent = self._sent
        while entries and len(batch) < MAX_ASSIGNMENTS_PER_REQUEST:
            taken = entries.take(MAX_ASSIGNMENTS_PER_REQUEST - len(batch))
            places = self._placements.directories_of([partition for partition, _wanted in taken])
            for (partition, wanted), place in zip(taken, places, strict=True):
                directory = wanted.directory
                may_stay = place is not None and place != directory
                if may_stay or self._is_to_be_sent(partition, directory, place):
                    batch[partition] = wanted
                    sent[partition] = directory

    def _is_to_be_sent(self, partition: TopicIdPartition, directory: Uuid, place: Uuid | None) -> bool:
        """Whether an entry must be sent.

        False if the image has no such replica, or already has its directory and no ticket waits for the controller.
        """
        if place is None:
            self._settle(self._tickets.pop(partition, ()), Outcome.DROPPED)
            return False
        is_known = place == directory == self._sent.get(partition, place)
        return not is_known or partition in self._tickets

    def on_response(self, response: AssignReplicasToDirsResponse | None, now_ms: int) -> None:
        """Settles accepted entries and queues the other entries again; `response` is None without an answer."""
        unanswered, self._in_flight = self._in_flight, {}
        tickets, self._tickets_in_flight = self._tickets_in_flight, {}
        refused: dict[TopicIdPartition, tuple[Wanted, int]] = {}
        count = len(unanswered)
        if response is not None and response.error_code == Errors.NONE:
            refused = self._read_answers(response, unanswered, tickets)
            self._report_refused(refused, now_ms)
        unanswered.update((partition, wanted) for partition, (wanted, _code) in refused.items())
        self._failures = self._failures + 1 if len(unanswered) == count else 0
        self._not_before_ms = now_ms
        if self._failures:
            self._not_before_ms += self._backoff_ms()
            self._send_at_ms = None
        self._put_back(unanswered, tickets)
        self._schedule(now_ms)

    def _put_back(self, entries: dict[TopicIdPartition, Wanted], tickets: dict[TopicIdPartition, list[int]]) -> None:
        """Queues entries again, unless the partition has a newer entry. `tickets` has no superseded tickets."""
        for partition, wanted in entries.items():
            if partition not in self._ready and partition not in self._urgent:
                self._put(partition, wanted)
            if partition in tickets:
                self._tickets[partition] = tickets[partition] + self._tickets.get(partition, [])

    def _read_answers(
        self,
        response: AssignReplicasToDirsResponse,
        sent: dict[TopicIdPartition, Wanted],
        tickets: dict[TopicIdPartition, list[int]],
    ) -> dict[TopicIdPartition, tuple[Wanted, int]]:
        """Removes the answered assignments from `sent`; returns the refused assignments with their error codes."""
        refused: dict[TopicIdPartition, tuple[Wanted, int]] = {}
        for directory in response.directories:
            for topic in directory.topics:
                topic_id = topic.topic_id
                for each in topic.partitions:
                    partition, code = (topic_id, each.partition_index), each.error_code
                    wanted = sent.pop(partition, None)
                    if wanted is None:
                        continue  # The response names a partition that the request did not have.
                    if code in _GONE:
                        self._sent.pop(partition, None)
                        self._settle(tickets.pop(partition, ()), Outcome.DROPPED)
                    elif code:
                        refused[partition] = wanted, code
                    elif tickets:
                        self._settle(tickets.pop(partition, ()), Outcome.ACCEPTED)
        return refused

    def _report_refused(self, refused: dict[TopicIdPartition, tuple[Wanted, int]], now_ms: int) -> None:
        late = [(key, *each) for key, each in refused.items() if now_ms > each[0].since_ms + NOISY_FAILURE_MS]
        if late:
            partition, wanted, code = late[0]
            self._outputs.append(AssignmentsRefused(len(late), partition, wanted.directory, wanted.reason, code))

    def _put(self, partition: TopicIdPartition, wanted: Wanted) -> None:
        if self._failed and self._is_urgent(partition, wanted):
            self._ready.pop(partition, None)
            self._urgent[partition] = wanted
        else:
            self._urgent.pop(partition, None)
            self._ready[partition] = wanted

    def _is_urgent(self, partition: TopicIdPartition, wanted: Wanted) -> bool:
        """Whether the assignment is into or out of a failed directory; LOST counts as failed."""
        into = wanted.directory
        return into == LOST_UUID or not self._failed.isdisjoint((into, self._placements.directories_of([partition])[0]))

    def _schedule(self, now_ms: int) -> None:
        """Sets the time of the next request, never later than before.

        Urgent entries, and more entries than one request takes, are sent without waiting for a batch.
        """
        if not self._ready and not self._urgent:
            return
        is_full = len(self._ready) > MAX_ASSIGNMENTS_PER_REQUEST and not self._in_flight
        at_ms = now_ms if self._urgent or is_full else now_ms + BATCHING_MS
        if self._send_at_ms is None or at_ms < self._send_at_ms:
            self._send_at_ms = max(at_ms, self._not_before_ms)

    def _backoff_ms(self) -> int:
        """The back-off after `_failures` failed requests, as Kafka's ExponentialBackoff(100 ms, 2, 10 s, 0.02)."""
        delay = min(BATCHING_MS << min(self._failures, _MOST_DOUBLINGS), MAX_BACKOFF_MS) * self._jitter()
        return min(int(delay), MAX_BACKOFF_MS)

    def _settle(self, tickets: Iterable[int], outcome: Outcome) -> None:
        self._outputs.extend(AssignmentSettled(ticket, outcome) for ticket in tickets)


_NOTHING: Final = Wanted(Uuid(), "", 0)


def _request(broker_id: int, broker_epoch: int, batch: dict[TopicIdPartition, Wanted]) -> AssignReplicasToDirsRequest:
    """Groups the assignments by directory and topic, in order of first appearance."""
    by_directory: dict[Uuid, dict[Uuid, list[AssignReplicasToDirsRequestPartitionData]]] = {}
    part = AssignReplicasToDirsRequestPartitionData
    for (topic_id, index), (directory, _reason, _since) in batch.items():
        topics = by_directory.get(directory)
        if topics is None:
            topics = by_directory[directory] = {}
        partitions = topics.get(topic_id)
        if partitions is None:
            partitions = topics[topic_id] = []
        partitions.append(part(partition_index=index))
    return AssignReplicasToDirsRequest(
        broker_id=broker_id,
        broker_epoch=broker_epoch,
        directories=[
            AssignReplicasToDirsRequestDirectoryData(
                id=directory,
                topics=[
                    AssignReplicasToDirsRequestTopicData(topic_id=topic_id, partitions=partitions)
                    for topic_id, partitions in topics.items()
                ],
            )
            for directory, topics in by_directory.items()
        ],
    )


class ImagePlacements:
    """The `Placements` of an image that replay changes in place; looks up many directories in one call."""

    def __init__(self, image: ClusterImage, broker_id: int) -> None:
        self._image, self._broker_id = image, broker_id

    def follow(self, image: ClusterImage) -> None:
        """Uses another image, after a snapshot was loaded."""
        self._image = image

    def directories_of(self, partitions: Sequence[TopicIdPartition]) -> list[Uuid | None]:
        """The directory, or a reserved id, of this broker's replica of each partition; None without such a replica."""
        table = self._image.table
        if not partitions or self._broker_id not in table.brokers or not len(table):
            return [None] * len(partitions)
        rows = self._rows(partitions)
        mine = table.replicas__ps[rows] == table.brokers.row(self._broker_id)
        is_held = (rows >= 0) & mine.any(axis=1)
        if table.directories__ps is None:
            return [MIGRATING_UUID if held else None for held in is_held.tolist()]
        places = table.directories__ps[rows, mine.argmax(axis=1)]
        uuids = self._image.directories.uuids
        return [uuids[place] if held else None for held, place in zip(is_held.tolist(), places.tolist(), strict=True)]

    def leads_any(self, partitions: Sequence[TopicIdPartition]) -> bool:
        """Whether this broker leads any of the partitions."""
        table = self._image.table
        if not partitions or self._broker_id not in table.brokers or not len(table):
            return False
        rows = self._rows(partitions)
        return bool((table.leader__p[rows[rows >= 0]] == table.brokers.row(self._broker_id)).any())

    def _rows(self, partitions: Sequence[TopicIdPartition]) -> Int32s:
        """The rows of one or more partitions; -1 for a partition that the image does not have."""
        table = self._image.table
        topic_ids, indexes = zip(*partitions, strict=True)
        known = {each: table.topics.row_of_id(each) for each in set(topic_ids)}
        numbers = {topic_id: -1 if row is None else row for topic_id, row in known.items()}
        topics = np.array([numbers[each] for each in topic_ids], np.int32)
        table.lookup.know_topics(len(table.topics))  # The newest topics may have no partition yet.
        found: Int32s = np.where(
            topics < 0, np.int32(-1), table.rows_of(np.maximum(topics, 0), np.array(indexes, np.int32))
        )
        return found
