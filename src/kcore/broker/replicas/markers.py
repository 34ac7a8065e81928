"""WriteTxnMarkers: a transaction's coordinator sends end markers to the leaders of its partitions (KIP-98).

A coordinator of 3.9.1 expects certain errors; any other error ends its sender thread. It repeats the request after
UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER, NOT_ENOUGH_REPLICAS, NOT_ENOUGH_REPLICAS_AFTER_APPEND,
REQUEST_TIMED_OUT and KAFKA_STORAGE_ERROR. It stops after INVALID_PRODUCER_EPOCH and TRANSACTION_COORDINATOR_FENCED. A
marker without a producer, which no coordinator sends, is refused with UNKNOWN_SERVER_ERROR.

Source: KafkaApis.handleWriteTxnMarkersRequest and TransactionMarkerRequestCompletionHandler of 3.9.1; of 4.3.1,
MemoryRecordsBuilder.appendEndTxnMarker.
"""

from dataclasses import dataclass
from typing import Final, NamedTuple

from kcore.broker.replicas.outputs import SendResponse
from kcore.broker.replicas.partition import HeldPartitions
from kcore.broker.replicas.producers import NO_PRODUCER_ID
from kcore.broker.replicas.replica import Key
from kcore.broker.replicas.transactions import EndMarker
from kcore.broker.replicas.waiting import WaitingReplicas, committed
from kcore.protocol_errors import ApiException, Errors, exception_of
from kcore.schema.transactions import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

TIMEOUT_MS: Final = 30_000  # How long a request waits for the commit of its markers: request.timeout.ms.
EXPECTED: Final = frozenset(  # The errors of an append that a coordinator expects.
    {
        Errors.UNKNOWN_TOPIC_OR_PARTITION,
        Errors.NOT_LEADER_OR_FOLLOWER,
        Errors.NOT_ENOUGH_REPLICAS,
        Errors.KAFKA_STORAGE_ERROR,
        Errors.INVALID_PRODUCER_EPOCH,
        Errors.TRANSACTION_COORDINATOR_FENCED,
    }
)


class Written(NamedTuple):
    """A marker in this leader's log that is not committed yet."""

    key: Key
    end_offset: int
    result: WritableTxnMarkerPartitionResult


@dataclass
class WaitingMarkers:
    """A request that is answered when all of its markers are committed, or at the time-out."""

    request_id: int
    deadline_ms: int
    answer: WriteTxnMarkersResponse
    written: list[Written]

    @property
    def keys(self) -> frozenset[Key]:
        return frozenset(each.key for each in self.written)

    def response(self, manager: HeldPartitions) -> WriteTxnMarkersResponse | None:
        """The response; None while a marker is not committed."""
        found = [committed(manager, each.key, each.end_offset) for each in self.written]
        if None in found:
            return None
        return self._with(found)

    def timed_out(self, manager: HeldPartitions) -> WriteTxnMarkersResponse:
        """The response at the time-out; uncommitted markers may still be committed later."""
        undecided = Errors.REQUEST_TIMED_OUT
        found = (committed(manager, each.key, each.end_offset) for each in self.written)
        return self._with([undecided if error is None else error for error in found])

    def _with(self, found: "list[Errors | None]") -> WriteTxnMarkersResponse:
        for each, error in zip(self.written, found, strict=True):
            each.result.error_code = error or Errors.NONE
        return self.answer


def on_write_txn_markers(
    manager: WaitingReplicas, request_id: int, request: WriteTxnMarkersRequest, now_ms: int, timestamp_ms: int
) -> None:
    """Appends the markers. The manager outputs the response when all markers are committed, or at the time-out.

    `timestamp_ms`: the markers' time in ms since 1970. `now_ms`: the time by the clock of deadlines.
    """
    # For such a marker Kafka's MemoryRecordsBuilder throws IllegalArgumentException, which fails the whole request.
    names_no_producer = any(each.producer_id == NO_PRODUCER_ID or each.producer_epoch < 0 for each in request.markers)
    answer = WriteTxnMarkersResponse(markers=[])
    written: list[Written] = []
    for marker in request.markers:
        marker_result = WritableTxnMarkerResult(producer_id=marker.producer_id, topics=[])
        answer.markers.append(marker_result)
        for topic in marker.topics:
            results = [
                WritableTxnMarkerPartitionResult(partition_index=index, error_code=Errors.UNKNOWN_SERVER_ERROR)
                if names_no_producer
                else _write(manager, (topic.name, index), marker, now_ms, timestamp_ms, written)
                for index in topic.partition_indexes
            ]
            marker_result.topics.append(WritableTxnMarkerTopicResult(name=topic.name, partitions=results))
    waiter = WaitingMarkers(request_id, now_ms + TIMEOUT_MS, answer, written)
    if (done := waiter.response(manager)) is not None:
        manager.output(SendResponse(request_id, done))
    else:
        manager.producing.add(waiter)
    for key in waiter.keys:  # Fetches and producers may wait for these records or their commit.
        manager.wake(key)


def _write(
    manager: WaitingReplicas,
    key: Key,
    marker: WritableTxnMarker,
    now_ms: int,
    timestamp_ms: int,
    written: list[Written],
) -> WritableTxnMarkerPartitionResult:
    """Appends a marker to one partition's log, and adds it to `written`."""
    result = WritableTxnMarkerPartitionResult(partition_index=key[1], error_code=Errors.NONE)
    decision = EndMarker(marker.transaction_result, marker.coordinator_epoch)
    producer = marker.producer_id, marker.producer_epoch
    try:
        appended = manager.partition(key).append_end_marker(decision, *producer, timestamp_ms, now_ms)
        written.append(Written(key, appended.last_offset + 1, result))
    except exception_of(Errors.KAFKA_STORAGE_ERROR) as error:
        manager.log_failed(key, error)
        result.error_code = Errors.KAFKA_STORAGE_ERROR
    except ApiException as error:
        assert error.error in EXPECTED, f"{error.error.name} ends the coordinator's sender thread"
        result.error_code = error.error
    return result
