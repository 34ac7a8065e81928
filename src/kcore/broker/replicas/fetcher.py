"""Fetches from one leader: builds requests, appends the records of answers, truncates logs that diverge.

Source: AbstractFetcherThread and ReplicaFetcherThread of 3.9.1 (KIP-101, KIP-279, KIP-595).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import Any, Final, NamedTuple

from kcore.broker.replicas.appending import append_as_follower
from kcore.broker.replicas.broker_config import BrokerConfig
from kcore.broker.replicas.fetch_sessions import INITIAL_EPOCH, NO_SESSION, next_epoch
from kcore.broker.replicas.log import ReplicaLog
from kcore.broker.replicas.offsets import EARLIEST, LATEST
from kcore.broker.replicas.replica import Key
from kcore.broker.replicas.replication_quota import ReplicationQuota
from kcore.protocol_errors import ApiException, Errors, exception_of
from kcore.replication.divergence import OffsetTruncationState, offset_truncation_state
from kcore.replication.epochs import EpochEndOffset
from kcore.schema.fetch import (
    REPLICA_STATE_SINCE,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
    ReplicaState,
)
from kcore.schema.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from kcore.schema.structure import Message
from kcore.types import ZERO_UUID, Uuid

Asked = tuple[Uuid, FetchPartition]


class FetchSessionHandler:
    """The fetcher's side of its incremental fetch session (KIP-227). One request is in flight at a time.

    Source: FetchSessionHandler of 4.3.1.
    """

    def __init__(self) -> None:
        self.session_id, self.epoch = NO_SESSION, INITIAL_EPOCH
        self._partitions: dict[Key, Asked] = {}

    @property
    def is_full(self) -> bool:
        """Whether the request lists all fetched partitions."""
        return self.epoch == INITIAL_EPOCH

    def fill(self, request: FetchRequest, wanted: Mapping[Key, Asked]) -> None:
        """Fills the request so that the session fetches `wanted`, in that order; after a full request, only changes."""
        request.session_id, request.session_epoch = self.session_id, self.epoch
        before = {} if self.is_full else self._partitions
        self._partitions = dict(wanted)
        topics: dict[tuple[str, Uuid], FetchTopic] = {}
        for key, requested in wanted.items():
            if before.get(key) != requested:
                topic = topics.setdefault(
                    (key[0], requested[0]), FetchTopic(topic=key[0], topic_id=requested[0], partitions=[])
                )
                topic.partitions.append(requested[1])
        forgotten: dict[tuple[str, Uuid], ForgottenTopic] = {}
        for (name, index), (topic_id, _) in before.items():
            if (name, index) not in wanted or wanted[name, index][0] != topic_id:  # The topic was created again.
                forgotten.setdefault(
                    (name, topic_id), ForgottenTopic(topic=name, topic_id=topic_id, partitions=[])
                ).partitions.append(index)
        request.topics, request.forgotten_topics_data = [*topics.values()], [*forgotten.values()]

    def answered(self, response: FetchResponse) -> bool:
        """Updates the session; False if the answer must be ignored: it is an error, or has unknown partitions."""
        if response.error_code != Errors.NONE:
            self.failed()
            if response.error_code == Errors.FETCH_SESSION_ID_NOT_FOUND:
                self.session_id = NO_SESSION
            return False
        by_id = {topic_id: name for (name, _), (topic_id, _) in self._partitions.items()}
        answered = {
            (topic.topic or by_id.get(topic.topic_id, ""), each.partition_index)
            for topic in response.responses
            for each in topic.partitions
        }
        known = self._partitions.keys()
        if not (answered == known if self.is_full else answered <= known):
            self.failed()
            return False
        self.session_id = response.session_id
        self.epoch = INITIAL_EPOCH if response.session_id == NO_SESSION else next_epoch(self.epoch)
        return True

    def failed(self) -> None:
        """Called if no valid answer arrived: the next request closes the session and opens a new session."""
        self.epoch = INITIAL_EPOCH


NAMES_UP_TO: Final = 12  # The last Fetch version with topic names.
LIST_OFFSETS_VERSION: Final = 9
OFFSET_FOR_LEADER_EPOCH_VERSION: Final = 4
SESSION_ERRORS: Final = frozenset(
    {
        Errors.FETCH_SESSION_ID_NOT_FOUND,
        Errors.INVALID_FETCH_SESSION_EPOCH,
        Errors.FETCH_SESSION_TOPIC_ID_ERROR,
    }
)


class Stage(Enum):
    """The kind of the next request for a partition."""

    TRUNCATING = "truncating"
    FETCHING = "fetching"
    FINDING_END = "finding the leader's end"  # The stage after OFFSET_OUT_OF_RANGE.
    FINDING_START = "finding the leader's start"


@dataclass(slots=True)
class FetchState:
    """The state of one followed partition."""

    topic_id: Uuid
    leader_epoch: int
    log: ReplicaLog
    offset: int
    stage: Stage
    delayed_until_ms: int = 0
    lag: int | None = None  # Offsets up to the leader's high watermark at the last fetch of records; None: unknown.
    failed: bool = False  # True: no request has the partition until the next order to follow a leader.


class LeaderRequest(NamedTuple):
    """A request to the leader, and the highest version in which it may be sent."""

    request: Message
    version: int

    def fitted(self, version: int) -> Message:
        """The request with the fields of `version`: KIP-903 moved the replica id to another field."""
        if isinstance(self.request, FetchRequest):
            if version >= REPLICA_STATE_SINCE:
                self.request.replica_id = -1
            else:
                self.request.replica_state = ReplicaState()
        return self.request


class FetcherHooks(NamedTuple):
    """Callbacks of a fetcher to the owner of its partitions."""

    broker_epoch: Callable[[], int]  # The epoch of this incarnation, for fetches (KIP-903).
    log_failed: Callable[[Key, Exception], None]
    wake: Callable[[Key], None]  # Called when the partition's end offset or high watermark changed.
    quota: ReplicationQuota  # The limit on the records that followers fetch.


class ReplicaFetcher:
    """The partitions for which this broker follows one leader. One request is in flight at a time."""

    def __init__(self, leader_id: int, config: BrokerConfig, hooks: FetcherHooks) -> None:
        self.leader_id = leader_id
        self.states: dict[Key, FetchState] = {}
        self._config, self._hooks = config, hooks
        self._session = FetchSessionHandler()
        self._requested: dict[Key, tuple[int, int]] = {}  # Offset and leader epoch in the request in flight.

    def __len__(self) -> int:
        return len(self.states)

    def add(self, key: Key, topic_id: Uuid, leader_epoch: int, log: ReplicaLog) -> None:
        """Follows a partition in `leader_epoch`.

        If the log has an epoch, the leader's answers show where the log diverges. Otherwise the log is truncated to the
        high watermark.
        """
        has_epoch = log.epochs.latest_epoch is not None
        if self._config.truncates_on_fetch and has_epoch:
            state = FetchState(topic_id, leader_epoch, log, log.end_offset, Stage.FETCHING)
        else:
            state = FetchState(topic_id, leader_epoch, log, log.high_watermark, Stage.TRUNCATING)
        self.states.pop(key, None)
        self.states[key] = state

    def remove(self, key: Key) -> bool:
        """Stops following a partition; returns whether it was followed."""
        return self.states.pop(key, None) is not None

    def set_topic_id(self, key: Key, topic_id: Uuid) -> None:
        """Fetches the partition by topic id from now on."""
        if key in self.states:
            self.states[key].topic_id = topic_id

    def set_log(self, key: Key, log: ReplicaLog) -> None:
        """Appends to another log from now on; the log must have the same end offset as the previous log."""
        if key in self.states:
            self.states[key].log = log

    # Requests.

    def next_request(self, now_ms: int) -> LeaderRequest | None:
        """The next request; None while all partitions are delayed, throttled or failed."""
        self._hooks.quota.set_time(now_ms)
        self._truncate_without_epochs(now_ms)
        for stage, ask in (
            (Stage.TRUNCATING, self._ask_epochs),
            (Stage.FINDING_END, partial(self._ask_offsets, LATEST)),
            (Stage.FINDING_START, partial(self._ask_offsets, EARLIEST)),
            (Stage.FETCHING, self._ask_records),
        ):
            ready = self._ready(stage, now_ms)
            if stage is Stage.FETCHING:
                ready = self._within_quota(ready, now_ms)
            if ready:
                self._requested = {key: (state.offset, state.leader_epoch) for key, state in ready.items()}
                return ask(ready)
        return None

    def wait_ms(self, now_ms: int) -> int | None:
        """The time until the first partition may be in a request; None if no partition is fetched."""
        delayed = [state.delayed_until_ms for state in self.states.values() if not state.failed]
        return max(min(delayed) - now_ms, 0) if delayed else None

    def _ready(self, stage: Stage, now_ms: int) -> dict[Key, FetchState]:
        return {
            key: state
            for key, state in self.states.items()
            if state.stage is stage and not state.failed and state.delayed_until_ms <= now_ms
        }

    def _within_quota(self, ready: dict[Key, FetchState], now_ms: int) -> dict[Key, FetchState]:
        """The partitions of `ready` to fetch: without throttled ones while their limit is exceeded.

        Partitions in sync are always fetched, so that throttling does not shrink ISRs. If all partitions are throttled,
        they are delayed. Source: RemoteLeaderEndPoint.shouldFollowerThrottle, AbstractFetcherThread.maybeFetch.
        """
        quota = self._hooks.quota
        if not quota.is_exceeded:
            return ready
        fetched = {key: state for key, state in ready.items() if state.lag == 0 or not quota.is_throttled(key)}
        if not fetched:
            for state in ready.values():
                self._delay(state, now_ms)
        return fetched

    def _truncate_without_epochs(self, now_ms: int) -> None:
        """Truncates logs without epochs to the high watermark, below which all records are committed."""
        for key, state in self._ready(Stage.TRUNCATING, now_ms).items():
            if state.log.epochs.latest_epoch is None:
                self._guarded(key, partial(self._cut, state, state.offset, Stage.FETCHING), now_ms)

    def _ask_records(self, ready: dict[Key, FetchState]) -> LeaderRequest:
        config = self._config
        wanted: dict[Key, tuple[Uuid, FetchPartition]] = {}
        for key, state in ready.items():
            latest = state.log.epochs.latest_epoch
            fetch_partition = FetchPartition(
                partition=key[1],
                current_leader_epoch=state.leader_epoch,
                fetch_offset=state.offset,
                last_fetched_epoch=-1 if latest is None or not config.truncates_on_fetch else latest,
                log_start_offset=state.log.start_offset,
                partition_max_bytes=config.replica_fetch_max_bytes,
            )
            wanted[key] = state.topic_id, fetch_partition
        by_name = any(state.topic_id == ZERO_UUID for state in ready.values())
        version = min(config.fetch_version, NAMES_UP_TO) if by_name else config.fetch_version
        request = FetchRequest(
            replica_id=config.broker_id,
            replica_state=ReplicaState(replica_id=config.broker_id, replica_epoch=self._hooks.broker_epoch()),
            max_wait_ms=config.replica_fetch_wait_max_ms,
            min_bytes=config.replica_fetch_min_bytes,
            max_bytes=config.replica_fetch_response_max_bytes,
        )
        self._session.fill(request, wanted)
        return LeaderRequest(request, version)

    def _ask_epochs(self, ready: dict[Key, FetchState]) -> LeaderRequest:
        topics: dict[str, OffsetForLeaderTopic] = {}
        for key, state in ready.items():
            latest = state.log.epochs.latest_epoch
            assert latest is not None, "logs without epochs are truncated to the high watermark"
            topic = topics.setdefault(key[0], OffsetForLeaderTopic(topic=key[0], partitions=[]))
            topic.partitions.append(
                OffsetForLeaderPartition(partition=key[1], current_leader_epoch=state.leader_epoch, leader_epoch=latest)
            )
        request = OffsetForLeaderEpochRequest(replica_id=self._config.broker_id, topics=[*topics.values()])
        return LeaderRequest(request, OFFSET_FOR_LEADER_EPOCH_VERSION)

    def _ask_offsets(self, timestamp: int, ready: dict[Key, FetchState]) -> LeaderRequest:
        topics: dict[str, ListOffsetsTopic] = {}
        for key, state in ready.items():
            topic = topics.setdefault(key[0], ListOffsetsTopic(name=key[0], partitions=[]))
            topic.partitions.append(
                ListOffsetsPartition(
                    partition_index=key[1], current_leader_epoch=state.leader_epoch, timestamp=timestamp
                )
            )
        request = ListOffsetsRequest(replica_id=self._config.broker_id, topics=[*topics.values()])
        return LeaderRequest(request, LIST_OFFSETS_VERSION)

    # Responses.

    def failed(self, now_ms: int) -> None:
        """Called if the request got no answer: its partitions are delayed."""
        self._session.failed()
        for key in self._requested:
            if key in self.states:
                self._delay(self.states[key], now_ms)

    def answered(self, response: Any, now_ms: int) -> None:
        """Applies the leader's answer to the last request, except for partitions that have changed since then."""
        self._hooks.quota.set_time(now_ms)
        if isinstance(response, FetchResponse):
            was_full = self._session.is_full
            if not self._session.answered(response):
                if was_full or response.error_code not in SESSION_ERRORS:  # After a session error: no delay.
                    self.failed(now_ms)
                return
            names = {state.topic_id: key[0] for key, state in self.states.items() if state.topic_id != ZERO_UUID}
            for topic in response.responses:
                name = topic.topic or names.get(topic.topic_id, "")
                for data in topic.partitions:
                    self._settle((name, data.partition_index), data, self._fetched, now_ms)
            return
        for topic in response.topics:
            is_epochs = hasattr(topic, "topic")
            for data in topic.partitions:
                key = (topic.topic, data.partition) if is_epochs else (topic.name, data.partition_index)
                self._settle(key, data, self._on_epoch_end_offset if is_epochs else self._on_list_offsets, now_ms)

    def _settle(self, key: Key, data: Any, take: Callable[[Key, FetchState, Any], None], now_ms: int) -> None:
        state = self.states.get(key)
        if state is None or self._requested.get(key) != (state.offset, state.leader_epoch):
            return
        error = Errors.of(data.error_code)
        if error is Errors.OFFSET_OUT_OF_RANGE:
            state.stage = Stage.FINDING_END
        elif error is Errors.FENCED_LEADER_EPOCH:
            state.failed = True  # The controller is about to send a newer leader epoch.
        elif error is not Errors.NONE:
            self._delay(state, now_ms)
        else:
            self._guarded(key, partial(take, key, state, data), now_ms)

    def _guarded(self, key: Key, do: Callable[[], None], now_ms: int) -> None:
        try:
            do()
        except exception_of(Errors.KAFKA_STORAGE_ERROR) as error:
            self._hooks.log_failed(key, error)
        except ApiException:  # Malformed batches or wrong offsets: try again later.
            self._delay(self.states[key], now_ms)

    def _delay(self, state: FetchState, now_ms: int) -> None:
        state.delayed_until_ms = now_ms + self._config.replica_fetch_backoff_ms

    def _fetched(self, key: Key, state: FetchState, data: PartitionData) -> None:
        if data.diverging_epoch.epoch >= 0 and data.diverging_epoch.end_offset >= 0:
            diverging = EpochEndOffset(data.diverging_epoch.epoch, data.diverging_epoch.end_offset)
            self._cut(state, self._truncation(state, diverging).offset, Stage.FETCHING)
            return
        log = state.log
        before, records = (log.high_watermark, log.end_offset), data.records or b""
        append_as_follower(log, records)
        state.offset = log.end_offset
        if records or state.lag is None:
            state.lag = max(0, data.high_watermark - log.end_offset)
        if self._hooks.quota.is_throttled(key):
            self._hooks.quota.record(len(records))
        log.high_watermark = max(min(data.high_watermark, log.end_offset), log.start_offset)
        log.raise_start_offset(data.log_start_offset)
        self.states[key] = self.states.pop(key)  # Moved to the end: the other partitions are first in the next answer.
        if (log.high_watermark, log.end_offset) != before:
            self._hooks.wake(key)

    def _on_epoch_end_offset(self, key: Key, state: FetchState, data: Any) -> None:
        leader_end = EpochEndOffset(data.leader_epoch, data.end_offset)
        truncation = self._truncation(state, leader_end)
        self._cut(state, truncation.offset, Stage.FETCHING if truncation.truncation_completed else Stage.TRUNCATING)

    def _truncation(self, state: FetchState, leader_end: EpochEndOffset) -> OffsetTruncationState:
        log = state.log
        return offset_truncation_state(leader_end, log.epochs, log.end_offset, state.offset)

    def _on_list_offsets(self, key: Key, state: FetchState, data: Any) -> None:
        """Continues at the leader's end or start after OFFSET_OUT_OF_RANGE (fetchOffsetAndTruncate)."""
        log = state.log
        if state.stage is Stage.FINDING_END:
            if data.offset < log.end_offset:  # An unclean election: the leader's log is shorter.
                self._cut(state, data.offset, Stage.FETCHING)
                state.lag = 0
            else:
                state.stage = Stage.FINDING_START
            return
        if data.offset > log.end_offset:  # The leader has deleted the next records.
            log.truncate_fully_and_start_at(data.offset)
        state.offset, state.stage = log.end_offset, Stage.FETCHING

    def _cut(self, state: FetchState, offset: int, stage: Stage) -> None:
        """Truncates the log. A batch across the offset is removed whole, so fetching continues at the log's end."""
        if offset < 0:
            raise exception_of(Errors.OFFSET_OUT_OF_RANGE)(f"the leader's answer has the negative offset {offset}")
        state.log.truncate_to(offset)
        state.offset, state.stage = state.log.end_offset, stage
