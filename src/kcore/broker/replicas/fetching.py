"""The leader's side of Fetch: answers consumers and followers. Followers' fetch offsets advance the high watermark.

`fetcher.py` has the follower's side; `raft/fetching.py` answers fetches of the metadata log.

Source: ReplicaManager.fetchMessages, KafkaApis.handleFetchRequest and DelayedFetch of 3.9.1. `fetch_sessions.py`
chooses the partitions that are read and those in the response.
"""

from collections.abc import Callable, Collection
from copy import copy
from dataclasses import dataclass, replace
from typing import Final, Protocol, TypeAlias

from kcore.broker.replicas.broker_config import BrokerConfig
from kcore.broker.replicas.cluster_view import ClusterView
from kcore.broker.replicas.fetch_sessions import (
    BY_ID_SINCE,
    CachedPartition,
    FetchContext,
    FetchSessionCache,
    Row,
    replica_of,
    wanted_of,
)
from kcore.broker.replicas.outputs import SendInSteps, SendResponse
from kcore.broker.replicas.partition import IsrChange, Partition, Read, end_of
from kcore.broker.replicas.replica import Key
from kcore.broker.replicas.replication_quota import ReplicationQuota, ReplicationQuotas
from kcore.broker.replicas.waiting import PARTITIONS_A_STEP, AnsweringReplicas, Waiting
from kcore.constants import CONSUMER_REPLICA_ID, UNDEFINED_EPOCH
from kcore.protocol_errors import ApiException, Errors, exception_of
from kcore.schema.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    IsolationLevel,
    PartitionData,
)
from kcore.steps import Steps, finished
from kcore.wire.codec import encode

MayRead: TypeAlias = Callable[[str], bool] | None  # Whether the client may fetch a topic; None: all topics.
FROM_FOLLOWERS_SINCE = 11  # Consumers may read from any replica (KIP-392).
COMPACT_SINCE: Final = 12  # The first version that has the sizes of records as varints.
SIZE_BYTES: Final = 4


class FetchQuota(Protocol):
    """The quotas of the consumer that has sent a fetch."""

    most_bytes: float  # The limit of the response: with more bytes the consumer would always be throttled.

    def throttle_time_ms(self, size: Callable[[], Steps[int]]) -> Steps[int]:
        """Counts the response against the quotas, unless they are exceeded; 0: the response is sent.

        `size`: the bytes of the response; called only if the consumer has a quota on bytes.
        """


class FetchedReplicas(AnsweringReplicas, Protocol):
    """The parts of the broker's replicas that Fetch uses."""

    config: BrokerConfig
    cluster: ClusterView
    sessions: FetchSessionCache
    quotas: ReplicationQuotas

    @property
    def fetching(self) -> "Waiting[WaitingFetch]":
        """The fetches that wait for records."""

    def propose(self, change: IsrChange) -> None:
        """Proposes an ISR change to the controller."""


@dataclass(slots=True)
class _Found:
    """The records of one partition that a waiting fetch has found so far."""

    requested: CachedPartition
    bytes: int
    next_offset: int  # The offset after these records.


@dataclass
class WaitingFetch:
    """A fetch that waits for its minimum number of bytes.

    It reads and counts each new record once, since thousands of fetches may wait for thousands of partitions each.
    """

    request_id: int
    deadline_ms: int
    request: FetchRequest
    context: FetchContext
    version: int
    found: dict[Key, _Found]
    may_read: MayRead = None
    quota: FetchQuota | None = None

    def __post_init__(self) -> None:
        self._bytes = sum(each.bytes for each in self.found.values())

    @property
    def keys(self) -> Collection[Key]:
        return self.found.keys()

    def answer_if_enough(self, manager: FetchedReplicas, key: Key) -> bool:
        """Answers the fetch after a change of partition `key`, if it waits and has enough bytes; returns if it did."""
        return self._is_enough(manager, key) and self.answer(manager)

    def _is_enough(self, manager: FetchedReplicas, key: Key) -> bool:
        """Adds the partition's new records; True if the fetch is complete (DelayedFetch.tryComplete)."""
        found = self.found[key]
        left = max(found.requested.max_bytes - found.bytes, 0)
        requested = replace(found.requested, fetch_offset=found.next_offset, last_fetched_epoch=UNDEFINED_EPOCH)
        data = _read_one(manager, self.request, self.version, key[0], requested, left, not self._bytes, None, [])
        if data.error_code != Errors.NONE:
            return True
        if data.records:
            size = len(data.records)
            found.bytes, found.next_offset = found.bytes + size, end_of(data.records)
            self._bytes += size
        return self._bytes >= least_bytes(manager, self.request, self.quota)

    def answer(self, manager: FetchedReplicas) -> bool:
        """Answers the fetch with the available records, if it waits; returns if it did."""
        is_waiting = manager.fetching.remove(self)
        if is_waiting:
            steps, is_small = self._response(manager), len(self.found) < PARTITIONS_A_STEP
            output = SendResponse(self.request_id, finished(steps)) if is_small else SendInSteps(self.request_id, steps)
            manager.output(output)
        return is_waiting

    def _response(self, manager: FetchedReplicas) -> Steps[FetchResponse]:
        what = self.request, self.context, self.version
        rows, _ = yield from read_all(manager, *what, [], None, self.may_read, self.quota)
        return (yield from _response(manager, *what, rows, self.quota))


def on_fetch(
    manager: FetchedReplicas,
    request_id: int,
    request: FetchRequest,
    version: int,
    now_ms: int,
    may_read: MayRead = None,
    quota: FetchQuota | None = None,
) -> Steps[None]:
    """Handles a Fetch. The manager outputs the response now, when there are enough bytes, or at the time-out.

    Each partition is read in its newest state: states may change between the steps.
    `quota`: the quotas of a consumer; None without quotas, and for followers.
    """
    wanted = yield from wanted_of(request, version)
    manager.sessions.set_time(now_ms)
    manager.quotas.set_time(now_ms)
    context = manager.sessions.new_context(request, version, wanted)
    if isinstance(context, Errors):
        manager.output(SendResponse(request_id, FetchResponse(error_code=context, session_id=0, responses=[])))
        return
    what = request, context, version
    moved: list[Key] = []
    found: dict[Key, _Found] = {}
    try:
        with manager.fetching.changed_meanwhile() as changed:
            rows, is_enough = yield from read_all(manager, *what, moved, now_ms, may_read, quota)
            waits = not is_enough and request.max_wait_ms > 0
            if waits:
                found = yield from _found_in(manager, rows, version)
    finally:  # Also if the client has disconnected between two steps.
        for key in moved:
            manager.wake(key)
    if not waits:
        manager.output(SendResponse(request_id, (yield from _response(manager, *what, rows, quota))))
        return
    waiting = WaitingFetch(request_id, now_ms + request.max_wait_ms, *what, found, may_read, quota)
    manager.fetching.add(waiting)
    any(waiting.answer_if_enough(manager, key) for key in changed & found.keys())


def _found_in(manager: FetchedReplicas, rows: list[Row], version: int) -> Steps[dict[Key, _Found]]:
    """The records that a fetch has found before it waits, by partition."""
    found = {}
    for number, (requested, data) in enumerate(rows, 1):
        if (name := _name(manager, requested, version)) is not None:
            end = end_of(data.records) if data.records else requested.fetch_offset
            found[name, requested.index] = _Found(requested, len(data.records or b""), end)
        if number % PARTITIONS_A_STEP == 0:
            yield
    return found


def _response(
    manager: FetchedReplicas,
    request: FetchRequest,
    context: FetchContext,
    version: int,
    rows: list[Row],
    quota: FetchQuota | None,
) -> Steps[FetchResponse]:
    """The response; empty if a quota throttles the consumer. Counts a response to a follower against the throttle."""

    def size() -> Steps[int]:
        return (yield from size_of((yield from context.preview(rows)), version))

    if quota is not None and (throttled_ms := (yield from quota.throttle_time_ms(size))):
        return context.throttled_response(throttled_ms)
    response = yield from context.response(rows)
    if replica_of(request, version)[0] != CONSUMER_REPLICA_ID:
        yield from _record_throttled(manager, response, version)
    return response


def _record_throttled(manager: FetchedReplicas, response: FetchResponse, version: int) -> Steps[None]:
    """Counts the throttled partitions in a response to a follower (KafkaApis.sizeOfThrottledPartitions)."""
    leader, throttled, count = manager.quotas.leader, FetchResponse(responses=[]), 0
    for topic in response.responses:
        name = _name(manager, topic, version)
        of_topic = FetchableTopicResponse(topic=topic.topic, topic_id=topic.topic_id, partitions=[])
        for data in topic.partitions:
            if name and leader.is_throttled((name, data.partition_index)):
                of_topic.partitions.append(data)
            count += 1
            if count % PARTITIONS_A_STEP == 0:
                yield
        if of_topic.partitions:
            throttled.responses.append(of_topic)
    if throttled.responses:
        leader.record((yield from size_of(throttled, version)))


def size_of(response: FetchResponse, version: int) -> Steps[int]:
    """The bytes of a response without its header, and of the field of its size (FetchResponse.sizeOf)."""
    bare, records, count = FetchResponse(responses=[]), 0, 0
    for topic in response.responses:
        bare_topic = FetchableTopicResponse(topic=topic.topic, topic_id=topic.topic_id, partitions=[])
        bare.responses.append(bare_topic)
        for data in topic.partitions:
            length = len(data.records or b"")
            records += length
            if version >= COMPACT_SINCE:
                records += ((length + 1).bit_length() - 1) // 7  # The varint of no records has one byte.
            bare_data = copy(data)
            bare_data.records = b""
            bare_topic.partitions.append(bare_data)
            count += 1
            if count % PARTITIONS_A_STEP == 0:
                yield
    return SIZE_BYTES + len(encode(bare, version)) + records


def read_all(
    manager: FetchedReplicas,
    request: FetchRequest,
    context: FetchContext,
    version: int,
    moved: list[Key],
    fetched_ms: int | None,
    may_read: MayRead,
    quota: FetchQuota | None,
) -> Steps[tuple[list[Row], bool]]:
    """Reads all partitions of the context; returns also whether the response must be sent now.

    `fetched_ms`: the time of the first read of a fetch, with which followers' offsets are recorded; None later. The
    partitions whose high watermark the fetch advances are added to `moved`.
    """
    rows: list[Row] = []
    left = most_bytes(manager, request, quota)
    found_bytes, is_urgent = 0, False
    # A copy: a disk failure may answer waiting fetches meanwhile, and other fetches run between the steps.
    for number, requested in enumerate([*context.partitions], 1):
        name = _name(manager, requested, version)
        if name is not None and may_read is not None and not may_read(name):
            data = _refused(requested.index, Errors.TOPIC_AUTHORIZATION_FAILED)
        else:
            data = _read_one(manager, request, version, name, requested, left, not found_bytes, fetched_ms, moved)
        size = len(data.records or b"")
        found_bytes, left = found_bytes + size, max(left - size, 0)
        is_urgent |= data.error_code != Errors.NONE or data.diverging_epoch.epoch >= 0
        rows.append((requested, data))
        if number % PARTITIONS_A_STEP == 0:
            yield
    return rows, is_urgent or not rows or found_bytes >= least_bytes(manager, request, quota)


def most_bytes(manager: FetchedReplicas, request: FetchRequest, quota: FetchQuota | None) -> int:
    """The most bytes of records in a response (KafkaApis.handleFetchRequest)."""
    most = min(request.max_bytes, manager.config.fetch_max_bytes)
    return most if quota is None else int(min(most, quota.most_bytes))


def least_bytes(manager: FetchedReplicas, request: FetchRequest, quota: FetchQuota | None) -> int:
    """The least bytes of a response, limited by its most bytes."""
    return min(request.min_bytes, most_bytes(manager, request, quota))


def _name(manager: FetchedReplicas, topic: CachedPartition | FetchableTopicResponse, version: int) -> str | None:
    return manager.cluster.name_of(topic.topic_id) if version >= BY_ID_SINCE else topic.topic


def _read_one(
    manager: FetchedReplicas,
    request: FetchRequest,
    version: int,
    name: str | None,
    requested: CachedPartition,
    left: int,
    at_least_one: bool,
    fetched_ms: int | None,
    moved: list[Key],
) -> PartitionData:
    """Reads one partition. If the fetch advances its high watermark, the partition is added to `moved`."""
    index, (replica_id, broker_epoch) = requested.index, replica_of(request, version)
    try:
        if name is None:
            raise exception_of(Errors.UNKNOWN_TOPIC_ID)("no topic has that id")
        partition = manager.partition((name, index))
        read = _read(manager, partition, request, version, requested, left, at_least_one)
        if fetched_ms is not None and replica_id != CONSUMER_REPLICA_ID and read.diverging is None:
            _follower_fetched(manager, partition, replica_id, broker_epoch, requested, read, fetched_ms, moved)
    except exception_of(Errors.KAFKA_STORAGE_ERROR) as error:
        assert name is not None
        manager.log_failed((name, index), error)
        return _refused(index, Errors.KAFKA_STORAGE_ERROR)
    except ApiException as error:
        return _refused(index, error.error)
    data = PartitionData(
        partition_index=index,
        error_code=Errors.NONE,
        high_watermark=read.high_watermark,
        last_stable_offset=read.last_stable_offset,
        log_start_offset=read.start_offset,
        aborted_transactions=_aborted(read) if request.isolation_level == IsolationLevel.READ_COMMITTED else None,
        records=read.records,
    )
    if read.diverging is not None:
        data.diverging_epoch = EpochEndOffset(epoch=read.diverging.epoch, end_offset=read.diverging.end_offset)
    return data


def _aborted(read: Read) -> list[AbortedTransaction]:
    return [AbortedTransaction(producer_id=each.producer_id, first_offset=each.first_offset) for each in read.aborted]


def _read(
    manager: FetchedReplicas,
    partition: Partition,
    request: FetchRequest,
    version: int,
    requested: CachedPartition,
    left: int,
    at_least_one: bool,
) -> Read:
    replica_id, _ = replica_of(request, version)
    is_follower = replica_id != CONSUMER_REPLICA_ID
    must_lead = is_follower or version < FROM_FOLLOWERS_SINCE
    log = partition.local_log(requested.current_leader_epoch, must_lead=must_lead)
    if is_follower and replica_id not in partition.followers:
        known = requested.current_leader_epoch >= 0
        error = Errors.UNKNOWN_LEADER_EPOCH if known else Errors.NOT_LEADER_OR_FOLLOWER
        raise exception_of(error)(f"broker {replica_id} has no replica here")
    limit = log.end_offset if is_follower else log.high_watermark
    most = min(requested.max_bytes, left)
    if is_follower and _must_wait(manager.quotas.leader, partition, replica_id):
        most, at_least_one = 0, False
    return partition.read(
        log,
        requested.fetch_offset,
        most,
        requested.last_fetched_epoch,
        limit,
        at_least_one=at_least_one,
        committed=not is_follower and request.isolation_level == IsolationLevel.READ_COMMITTED,
    )


def _must_wait(leader: ReplicationQuota, partition: Partition, replica_id: int) -> bool:
    """Whether a throttled follower gets no records now; members of the ISR always get them (shouldLeaderThrottle)."""
    return replica_id not in partition.isr and leader.is_throttled(partition.key) and leader.is_exceeded


def _follower_fetched(
    manager: FetchedReplicas,
    partition: Partition,
    replica_id: int,
    broker_epoch: int,
    requested: CachedPartition,
    read: Read,
    now_ms: int,
    moved: list[Key],
) -> None:
    """Records that the follower has all records below its fetch offset; proposes it for the ISR if it may join."""
    before = partition.followers[replica_id].start_offset
    more = partition.follower_fetched(
        replica_id,
        broker_epoch,
        requested.fetch_offset,
        requested.fetcher_log_start_offset,
        read.end_offset,
        now_ms,
    )
    if (change := partition.expanded(replica_id)) is not None:
        manager.propose(change)
    if more or requested.fetcher_log_start_offset != before:
        moved.append(partition.key)


def _refused(index: int, error: Errors) -> PartitionData:
    return PartitionData(
        partition_index=index, error_code=error, high_watermark=-1, aborted_transactions=None, records=b""
    )
