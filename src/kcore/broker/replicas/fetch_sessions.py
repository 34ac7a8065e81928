"""The broker's side of incremental fetch sessions: requests and responses carry only changes (KIP-227).

A full fetch (epoch 0) opens a session with its partitions. Later fetches of the session list only new, changed and
forgotten partitions. Their responses leave out unchanged partitions. The epoch rises by one with each fetch, so that a
repeated request is detected.

Source: FetchManager, FetchContext, FetchSession and FetchSessionCacheShard of 4.3.1. There is one cache; Kafka has
eight shards for its threads. Unlike Kafka, the number of partitions of all sessions is limited. A client whose session
would exceed the limit gets no session, and lists all of its partitions in each request.
"""

from bisect import bisect_left, insort
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from kcore.broker.replicas.waiting import PARTITIONS_A_STEP
from kcore.constants import CONSUMER_REPLICA_ID, UNKNOWN_BROKER_EPOCH
from kcore.metadata.topic_names import MAX_LENGTH
from kcore.protocol_errors import Errors
from kcore.schema.fetch import (
    REPLICA_STATE_SINCE,
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from kcore.steps import Steps, finished
from kcore.types import Uuid

BY_ID_SINCE: Final = 13  # Fetch has topic ids instead of names from this version on.
NO_SESSION: Final = 0  # FetchMetadata.INVALID_SESSION_ID
INITIAL_EPOCH: Final = 0  # Close the request's session, and open a new one.
FINAL_EPOCH: Final = -1  # Close the request's session, and open no new one.
LAST_EPOCH: Final = 2**31 - 1
EVICTION_MS: Final = 120_000  # MIN_INCREMENTAL_FETCH_SESSION_EVICTION_MS
MOST_PARTITIONS: Final = 500_000  # The limit for all sessions together.
MOST_OF_A_CONSUMER: Final = 10_000  # The limit for a consumer's session: each small request reads all partitions.

PartitionId = tuple[Uuid | str, int]  # The topic's id from version 13 on, its name before; and the index.


def next_epoch(epoch: int) -> int:
    """The epoch of the next fetch (FetchMetadata.nextEpoch)."""
    if epoch < INITIAL_EPOCH:
        return FINAL_EPOCH
    return 1 if epoch == LAST_EPOCH else epoch + 1


@dataclass(slots=True)
class CachedPartition:
    """One partition of a fetch request, with the offsets of its last response in the session."""

    topic: str  # Empty from version 13 on.
    topic_id: Uuid
    index: int
    fetch_offset: int
    current_leader_epoch: int
    last_fetched_epoch: int
    fetcher_log_start_offset: int
    max_bytes: int
    high_watermark: int = -1
    log_start_offset: int = -1

    @classmethod
    def of(cls, topic: str, topic_id: Uuid, partition: FetchPartition) -> "CachedPartition":
        return cls(
            *(topic, topic_id, partition.partition, partition.fetch_offset, partition.current_leader_epoch),
            *(partition.last_fetched_epoch, partition.log_start_offset, partition.partition_max_bytes),
        )

    def ask(self, other: "CachedPartition") -> None:
        """Updates the parameters of the fetch from a newer request."""
        self.fetch_offset, self.max_bytes = other.fetch_offset, other.max_bytes
        self.current_leader_epoch, self.last_fetched_epoch = other.current_leader_epoch, other.last_fetched_epoch
        self.fetcher_log_start_offset = other.fetcher_log_start_offset

    def differs(self, data: PartitionData) -> bool:
        """Whether the response differs from the last response."""
        return (
            bool(data.records)
            or data.error_code != Errors.NONE
            or data.diverging_epoch.epoch >= 0
            or data.preferred_read_replica >= 0
            or (data.high_watermark, data.log_start_offset) != (self.high_watermark, self.log_start_offset)
        )

    def answered(self, data: PartitionData) -> bool:
        """Whether the response differs from the last response; stores the offsets of this response."""
        is_change = self.differs(data)
        # After an error the next response always has the partition, so that the client sees that the error is over.
        self.high_watermark = -1 if data.error_code != Errors.NONE else data.high_watermark
        self.log_start_offset = data.log_start_offset
        return is_change


Row = tuple[CachedPartition, PartitionData]  # A requested partition and its response.
Partitions = dict[PartitionId, CachedPartition]


class EvictableKey(NamedTuple):
    """A session's key in the order of eviction: sessions with lower keys are evicted first."""

    is_privileged: bool
    size: int
    session_id: int


@dataclass(slots=True, eq=False)
class FetchSession:
    """The partitions of one client's session. Partitions whose last response had records are at the end."""

    session_id: int
    is_privileged: bool  # The client is a follower.
    by_id: bool  # Requests have topic ids.
    partitions: Partitions
    created_ms: int
    last_used_ms: int
    epoch: int = INITIAL_EPOCH + 1  # The epoch of the next fetch.
    cached_size: int = 0  # The number of partitions at the last use.

    @property
    def key(self) -> EvictableKey:
        return EvictableKey(self.is_privileged, self.cached_size, self.session_id)

    def update(self, wanted: Partitions, forgotten: Iterable[PartitionId]) -> None:
        for key, partition in wanted.items():
            known = self.partitions.setdefault(key, partition)
            if known is not partition:
                known.ask(partition)
        for key in forgotten:
            self.partitions.pop(key, None)


class FetchSessionCache:
    """The sessions of a broker. The time of `set_time` never decreases."""

    def __init__(self, slots: int = 0, random_below: Callable[[int], int] | None = None) -> None:
        """The cache has at most `slots` sessions; with 0, every request lists all of its partitions.

        `random_below(n)` returns a random number below n. Session ids are random, so that ids from before a restart of
        the broker do not match new sessions.
        """
        assert not slots or random_below is not None
        self.slots, self._random_below = slots, random_below
        self.now_ms = 0  # The time of the last `set_time`.
        self.num_partitions = 0
        self.evictions = 0
        self.sessions: dict[int, FetchSession] = {}  # The most recently used session is at the end.
        self._evictable_by_all: list[EvictableKey] = []  # Sorted.
        self._evictable_by_privileged: list[EvictableKey] = []

    def set_time(self, now_ms: int) -> None:
        self.now_ms = max(self.now_ms, now_ms)

    def new_context(
        self, request: FetchRequest, version: int, wanted: "Partitions | None" = None
    ) -> "FetchContext | Errors":
        """The partitions to read and the way to respond, or the response's error (FetchManager.newContext).

        Changes the session of an incremental request, and removes a session that ends or has no partition left.
        `wanted`: the requested partitions, if the caller has them.
        """
        wanted = finished(wanted_of(request, version)) if wanted is None else wanted
        session = self.sessions.get(request.session_id)
        if request.session_epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            if session is not None:
                self.remove(session)
            if request.session_epoch == FINAL_EPOCH:
                return SessionlessFetchContext(wanted)
            is_follower = replica_of(request, version)[0] != CONSUMER_REPLICA_ID
            return FullFetchContext(wanted, self, version >= BY_ID_SINCE, is_follower)
        if session is None:
            return Errors.FETCH_SESSION_ID_NOT_FOUND
        if session.epoch != request.session_epoch:
            return Errors.INVALID_FETCH_SESSION_EPOCH
        if session.by_id != (version >= BY_ID_SINCE):
            return Errors.FETCH_SESSION_TOPIC_ID_ERROR
        session.update(wanted, _forgotten(request, version))
        if not session.partitions:
            self.remove(session)
            return SessionlessFetchContext(wanted)
        has_room = session.is_privileged or len(session.partitions) <= MOST_OF_A_CONSUMER
        more = len(session.partitions) - session.cached_size
        if not has_room or not _are_kept(wanted.values()) or not self._make_room(more, session.is_privileged, session):
            self.remove(session)
            return Errors.FETCH_SESSION_ID_NOT_FOUND
        self._touch(session)
        session.epoch = next_epoch(session.epoch)
        return IncrementalFetchContext(session, session.epoch)

    def maybe_create(self, partitions: Partitions, *, by_id: bool, is_privileged: bool) -> int:
        """The id of a new session with these partitions; NO_SESSION if the cache has no room."""
        key = EvictableKey(is_privileged, len(partitions), NO_SESSION)
        if not _are_kept(partitions.values()) or (len(partitions) > MOST_OF_A_CONSUMER and not is_privileged):
            return NO_SESSION
        if not self._make_room(len(partitions), is_privileged):
            return NO_SESSION
        if len(self.sessions) >= self.slots and not self._try_evict(key):
            return NO_SESSION
        session = FetchSession(self._new_id(), is_privileged, by_id, partitions, self.now_ms, self.now_ms)
        self.sessions[session.session_id] = session
        self.num_partitions += len(partitions)
        session.cached_size = len(partitions)
        self._place(session)
        return session.session_id

    def remove(self, session: FetchSession) -> None:
        """Drops a session. The client's next fetch gets FETCH_SESSION_ID_NOT_FOUND."""
        if self.sessions.pop(session.session_id, None) is not None:
            self._displace(session)
            self.num_partitions -= session.cached_size

    def _make_room(self, more: int, is_privileged: bool, keeps: FetchSession | None = None) -> bool:
        """Evicts sessions until the cache has room for `more` partitions; False if it has no room.

        Evicts stale sessions and, if `is_privileged`, consumers' sessions, but never `keeps`.
        """
        while self.num_partitions + more > MOST_PARTITIONS:
            victim = next((each for each in self.sessions.values() if self._may_go(each, is_privileged, keeps)), None)
            if victim is None:
                return False
            self.remove(victim)
            self.evictions += 1
        return True

    def _may_go(self, session: FetchSession, for_privileged: bool, keeps: FetchSession | None) -> bool:
        is_stale = self.now_ms - session.last_used_ms > EVICTION_MS
        return session is not keeps and (is_stale or (for_privileged and not session.is_privileged))

    def _new_id(self) -> int:
        assert self._random_below is not None
        while (session_id := 1 + self._random_below(2**31 - 1)) in self.sessions:
            pass
        return session_id

    def _try_evict(self, key: EvictableKey) -> bool:
        """Evicts a stale session, or a session whose key is lower than the new session's `key`; False if none is."""
        oldest = next(iter(self.sessions.values()), None)
        if oldest is None:
            return False
        if self.now_ms - oldest.last_used_ms <= EVICTION_MS:
            evictable = self._evictable_by_privileged if key.is_privileged else self._evictable_by_all
            if not evictable or key < evictable[0]:
                return False
            oldest = self.sessions[evictable[0].session_id]
        self.remove(oldest)
        self.evictions += 1
        return True

    def _touch(self, session: FetchSession) -> None:
        self._displace(session)
        self.sessions[session.session_id] = self.sessions.pop(session.session_id)
        session.last_used_ms = self.now_ms
        self.num_partitions += len(session.partitions) - session.cached_size
        session.cached_size = len(session.partitions)
        self._place(session)

    def _place(self, session: FetchSession) -> None:
        """Adds the session to the eviction orders. A new session can be evicted only for a privileged session."""
        is_settled = session.last_used_ms - session.created_ms > EVICTION_MS
        if is_settled or not session.is_privileged:
            insort(self._evictable_by_privileged, session.key)
        if is_settled:
            insort(self._evictable_by_all, session.key)

    def _displace(self, session: FetchSession) -> None:
        for keys in (self._evictable_by_all, self._evictable_by_privileged):
            at = bisect_left(keys, session.key)
            if at < len(keys) and keys[at] == session.key:
                del keys[at]


class SessionlessFetchContext:
    """Responds with all requested partitions, without a session."""

    session_id = NO_SESSION

    def __init__(self, wanted: Partitions) -> None:
        self._wanted = wanted

    @property
    def partitions(self) -> Collection[CachedPartition]:
        return self._wanted.values()

    def response(self, rows: Sequence[Row]) -> Steps[FetchResponse]:
        """The response with the read partitions; must be made once, when the response is sent."""
        return self.preview(rows)

    def preview(self, rows: Sequence[Row]) -> Steps[FetchResponse]:
        """A response of the same size as `response`; changes no session."""
        return _response(NO_SESSION, rows)

    def throttled_response(self, throttle_time_ms: int) -> FetchResponse:
        """The response to a throttled client: no partitions, and no new session."""
        return FetchResponse(throttle_time_ms=throttle_time_ms, session_id=NO_SESSION, responses=[])


class FullFetchContext(SessionlessFetchContext):
    """Responds with all requested partitions, and opens a session with them.

    A client that gets only errors gets no session: each of its small requests would cost thousands of refusals.
    """

    def __init__(self, wanted: Partitions, cache: FetchSessionCache, by_id: bool, is_privileged: bool) -> None:
        super().__init__(wanted)
        self._cache, self._by_id, self._is_privileged = cache, by_id, is_privileged

    def response(self, rows: Sequence[Row]) -> Steps[FetchResponse]:
        has_only_errors = bool(rows)
        for begin in range(0, len(rows), PARTITIONS_A_STEP):
            if begin:
                yield
            for partition, data in rows[begin : begin + PARTITIONS_A_STEP]:
                partition.answered(data)
                has_only_errors = has_only_errors and data.error_code != Errors.NONE
        if has_only_errors:
            return (yield from _response(NO_SESSION, rows))
        session_id = self._cache.maybe_create(self._wanted, by_id=self._by_id, is_privileged=self._is_privileged)
        return (yield from _response(session_id, rows))


class IncrementalFetchContext:
    """Reads all partitions of the session, and responds with the changed ones."""

    def __init__(self, session: FetchSession, epoch: int) -> None:
        """`epoch`: the session's epoch, which changes when another fetch arrives."""
        self._session, self._epoch = session, epoch

    @property
    def partitions(self) -> Collection[CachedPartition]:
        return self._session.partitions.values()

    def response(self, rows: Sequence[Row]) -> Steps[FetchResponse]:
        """The response with the changed partitions; must be made once, when the response is sent.

        The session changes in the first step.
        """
        session = self._session
        if self._is_superseded:
            return self.throttled_response(0)
        changes = [(partition, data) for partition, data in rows if partition.answered(data)]
        for partition, data in changes:
            if data.records:  # Moved to the end, so that the other partitions are first in the next response.
                key = (partition.topic_id if session.by_id else partition.topic, partition.index)
                session.partitions[key] = session.partitions.pop(key)
        return (yield from _response(session.session_id, changes))

    def preview(self, rows: Sequence[Row]) -> Steps[FetchResponse]:
        """A response of the same size as `response`; changes no session."""
        if self._is_superseded:
            return self.throttled_response(0)
        changes = [(partition, data) for partition, data in rows if partition.differs(data)]
        return (yield from _response(self._session.session_id, changes))

    def throttled_response(self, throttle_time_ms: int) -> FetchResponse:
        """The response to a throttled client: no partitions. The next request of the session reads them again."""
        error = Errors.INVALID_FETCH_SESSION_EPOCH if self._is_superseded else Errors.NONE
        session_id = self._session.session_id
        return FetchResponse(throttle_time_ms=throttle_time_ms, error_code=error, session_id=session_id, responses=[])

    @property
    def _is_superseded(self) -> bool:
        """Whether another request of the session has arrived, perhaps a repetition of this one."""
        return self._session.epoch != self._epoch


FetchContext = SessionlessFetchContext | IncrementalFetchContext


def _are_kept(partitions: Collection[CachedPartition]) -> bool:
    """Whether the cache may keep these partitions; false if a name is too long for a topic, which wastes memory."""
    return all(len(each.topic) <= MAX_LENGTH for each in partitions)


def replica_of(request: FetchRequest, version: int) -> tuple[int, int]:
    """The follower's id and broker epoch; -1 for a consumer's id, and for an epoch that the request lacks."""
    if version < REPLICA_STATE_SINCE:
        return request.replica_id, UNKNOWN_BROKER_EPOCH
    return request.replica_state.replica_id, request.replica_state.replica_epoch


def wanted_of(request: FetchRequest, version: int) -> Steps[Partitions]:
    """The requested partitions in the request's order; for a repeated partition, its last entry."""
    by_id, wanted = version >= BY_ID_SINCE, Partitions()
    entries = ((topic, each) for topic in request.topics for each in topic.partitions)
    for count, (topic, each) in enumerate(entries, 1):
        key = topic.topic_id if by_id else topic.topic, each.partition
        wanted[key] = CachedPartition.of("" if by_id else topic.topic, topic.topic_id, each)
        if count % PARTITIONS_A_STEP == 0:
            yield
    return wanted


def _forgotten(request: FetchRequest, version: int) -> Iterable[PartitionId]:
    for topic in request.forgotten_topics_data:
        for index in topic.partitions:
            yield topic.topic_id if version >= BY_ID_SINCE else topic.topic, index


def _response(session_id: int, rows: Sequence[Row]) -> Steps[FetchResponse]:
    topics: list[FetchableTopicResponse] = []
    for number, (partition, data) in enumerate(rows, 1):
        if number % PARTITIONS_A_STEP == 0:
            yield
        if not topics or (topics[-1].topic, topics[-1].topic_id) != (partition.topic, partition.topic_id):
            topics.append(FetchableTopicResponse(topic=partition.topic, topic_id=partition.topic_id, partitions=[]))
        topics[-1].partitions.append(data)
    return FetchResponse(session_id=session_id, responses=topics)
