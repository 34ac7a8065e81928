"""Answers ListOffsets and OffsetForLeaderEpoch: finds offsets by time and by leader epoch in a replica's log.

Source: Partition.fetchOffsetForTimestamp, lastOffsetForLeaderEpoch and KafkaApis of 3.9.1.
"""

from collections.abc import Container
from typing import Final

from kcore.broker.replicas.log import TimestampAndOffset
from kcore.broker.replicas.partition import Partition, StoredPartitions
from kcore.broker.replicas.replica import Key
from kcore.broker.replicas.waiting import PARTITIONS_A_STEP
from kcore.constants import CONSUMER_REPLICA_ID
from kcore.protocol_errors import ApiException, Errors, exception_of
from kcore.schema.fetch import IsolationLevel
from kcore.schema.list_offsets import (
    EpochEndOffset,
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)
from kcore.steps import Steps
from kcore.wire.record_batch import NO_TIMESTAMP

LATEST: Final = -1
EARLIEST: Final = -2
LARGEST_TIMESTAMP: Final = -3  # KIP-734
EARLIEST_LOCAL: Final = -4  # KIP-405; the same as EARLIEST, as kcore has no remote storage.
LEADER_EPOCH_SINCE: Final = 4  # The first version of ListOffsets with a leader epoch in the response.
DEBUGGER: Final = -2  # The replica id of a debugging client, which may read from a replica that does not lead.


def repeated_in(request: ListOffsetsRequest) -> Steps[set[Key]]:
    """The partitions that the request names twice."""
    named: set[Key] = set()
    repeated: set[Key] = set()
    keys = ((topic.name, each.partition_index) for topic in request.topics for each in topic.partitions)
    for count, key in enumerate(keys, 1):
        if key in named:
            repeated.add(key)
        named.add(key)
        if count % PARTITIONS_A_STEP == 0:
            yield
    return repeated


def on_list_offsets(
    manager: StoredPartitions, request: ListOffsetsRequest, version: int, repeated: Container[Key] = ()
) -> ListOffsetsResponse:
    """Answers with offsets by time; for consumers only below the high watermark or the last stable offset.

    `repeated`: the partitions that the client names twice. They are refused (ReplicaManager.fetchOffset), since finding
    a time may read a whole segment.
    """
    topics = []
    for topic in request.topics:
        partitions = []
        for requested in topic.partitions:
            answer = ListOffsetsPartitionResponse(partition_index=requested.partition_index, error_code=Errors.NONE)
            key = (topic.name, requested.partition_index)
            try:
                if key in repeated:
                    Errors.INVALID_REQUEST.raise_for(f"{key[0]}-{key[1]} is named more than once")
                _find(manager.partition(key), request, requested, answer)
            except exception_of(Errors.KAFKA_STORAGE_ERROR) as error:
                manager.log_failed(key, error)
                answer.error_code = Errors.KAFKA_STORAGE_ERROR
            except ApiException as error:
                answer.error_code = error.error
            if version < LEADER_EPOCH_SINCE:
                answer.leader_epoch = -1
            partitions.append(answer)
        topics.append(ListOffsetsTopicResponse(name=topic.name, partitions=partitions))
    return ListOffsetsResponse(topics=topics)


def _find(
    partition: Partition,
    request: ListOffsetsRequest,
    requested: ListOffsetsPartition,
    answer: ListOffsetsPartitionResponse,
) -> None:
    log = partition.local_log(requested.current_leader_epoch, must_lead=request.replica_id != DEBUGGER)
    is_consumer = request.replica_id == CONSUMER_REPLICA_ID
    limit = log.high_watermark if is_consumer else log.end_offset
    if is_consumer and request.isolation_level == IsolationLevel.READ_COMMITTED:
        limit = log.producers.last_stable_offset(log.high_watermark, log.start_offset)
    # A leader does not know the committed end before its high watermark has reached its own epoch (KIP-207).
    start = partition.leader_epoch_start_offset
    lags = is_consumer and start is not None and start > log.high_watermark
    if requested.timestamp == LATEST:
        if lags:
            raise exception_of(Errors.OFFSET_NOT_AVAILABLE)(str(partition))
        found: TimestampAndOffset | None = TimestampAndOffset(NO_TIMESTAMP, limit, partition.leader_epoch)
    elif requested.timestamp in (EARLIEST, EARLIEST_LOCAL):
        epoch = log.epochs.epoch_for_offset(log.start_offset)
        found = TimestampAndOffset(NO_TIMESTAMP, log.start_offset, -1 if epoch is None else epoch)
    else:
        is_largest = requested.timestamp == LARGEST_TIMESTAMP
        found = log.find_latest_timestamp() if is_largest else log.find_timestamp(requested.timestamp)
        if found is not None and found.offset >= limit:
            found = None
        if found is None and lags:
            raise exception_of(Errors.OFFSET_NOT_AVAILABLE)(str(partition))
    if found is not None:
        answer.timestamp, answer.offset, answer.leader_epoch = found


def on_offset_for_leader_epoch(
    manager: StoredPartitions, request: OffsetForLeaderEpochRequest
) -> OffsetForLeaderEpochResponse:
    """Answers with the end offsets of leader epochs (KIP-101), to which a follower truncates its log."""
    topics = []
    for topic in request.topics:
        partitions = []
        for requested in topic.partitions:
            answer = EpochEndOffset(partition=requested.partition, error_code=Errors.NONE)
            try:
                partition = manager.partition((topic.topic, requested.partition))
                log = partition.local_log(requested.current_leader_epoch, must_lead=True)
                answer.leader_epoch, answer.end_offset = partition.end_offset_for(requested.leader_epoch, log)
            except ApiException as error:
                answer.error_code = error.error
            partitions.append(answer)
        topics.append(OffsetForLeaderTopicResult(topic=topic.topic, partitions=partitions))
    return OffsetForLeaderEpochResponse(topics=topics)
