"""DeleteRecords: raises the start offsets of leaders' logs, and waits for their live followers (KIP-107).

Source: ReplicaManager.deleteRecords, Partition.deleteRecordsOnLeader and DelayedDeleteRecords of 3.9.1.
"""

from dataclasses import dataclass
from typing import Final, NamedTuple

from kcore.broker.replicas.outputs import SendResponse
from kcore.broker.replicas.partition import HeldPartitions
from kcore.broker.replicas.replica import Key
from kcore.broker.replicas.waiting import WaitingReplicas
from kcore.constants import INTERNAL_TOPICS
from kcore.protocol_errors import ApiException, Errors, exception_of
from kcore.schema.topics import (
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)

NO_LOW_WATERMARK: Final = -1


class Wanted(NamedTuple):
    """The requested start offset of a partition, and the partition's part of the response."""

    key: Key
    offset: int
    result: DeleteRecordsPartitionResult


@dataclass
class WaitingDeletion:
    """A request that is answered when all live replicas have the new start offset, or at the time-out."""

    request_id: int
    deadline_ms: int
    answer: DeleteRecordsResponse
    wanted: list[Wanted]

    @property
    def keys(self) -> set[Key]:
        return {each.key for each in self.wanted}

    def response(self, manager: HeldPartitions) -> DeleteRecordsResponse | None:
        """The response; None while a live replica has a lower start offset than requested."""
        done = [_is_decided(manager, *each) for each in self.wanted]
        return self.answer if all(done) else None

    def timed_out(self, manager: HeldPartitions) -> DeleteRecordsResponse:
        """The response at the time-out. Replicas that return later still get the new start offset."""
        for each in self.wanted:
            if not _is_decided(manager, *each):
                each.result.error_code = Errors.REQUEST_TIMED_OUT
        return self.answer


def _is_decided(manager: HeldPartitions, key: Key, offset: int, result: DeleteRecordsPartitionResult) -> bool:
    """Writes the partition's low watermark or error into `result`; True if the result is final."""
    try:
        result.low_watermark = manager.partition(key).low_watermark
    except ApiException as error:
        result.error_code, result.low_watermark = error.error, NO_LOW_WATERMARK
        return True
    return result.low_watermark >= offset


def on_delete_records(manager: WaitingReplicas, request_id: int, request: DeleteRecordsRequest, now_ms: int) -> None:
    """Raises start offsets. The response is an output of the manager, once all live replicas have the offsets."""
    answer = DeleteRecordsResponse(topics=[])
    wanted: list[Wanted] = []
    for topic in request.topics:
        results = DeleteRecordsTopicResult(name=topic.name, partitions=[])
        answer.topics.append(results)
        for requested in topic.partitions:
            result = DeleteRecordsPartitionResult(
                partition_index=requested.partition_index, low_watermark=NO_LOW_WATERMARK, error_code=Errors.NONE
            )
            results.partitions.append(result)
            key = (topic.name, requested.partition_index)
            try:
                wanted.append(Wanted(key, _delete(manager, key, requested.offset), result))
            except exception_of(Errors.KAFKA_STORAGE_ERROR) as error:
                manager.log_failed(key, error)
                result.error_code = Errors.KAFKA_STORAGE_ERROR
            except ApiException as error:
                result.error_code = error.error
    waiter = WaitingDeletion(request_id, now_ms + request.timeout_ms, answer, wanted)
    if (done := waiter.response(manager)) is not None:
        manager.output(SendResponse(request_id, done))
    else:
        manager.producing.add(waiter)


def _delete(manager: WaitingReplicas, key: Key, offset: int) -> int:
    """Raises the log start offset to at least `offset`. Returns the requested offset."""
    if key[0] in INTERNAL_TOPICS:
        Errors.INVALID_TOPIC_EXCEPTION.raise_for(f"Cannot delete records of internal topic {key[0]}")
    return manager.partition(key).delete_records(offset)
