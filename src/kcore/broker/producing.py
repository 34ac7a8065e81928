"""Produce: batches into the logs that this broker leads, and the answer once they are committed.

Source: ReplicaManager.appendRecords and DelayedProduce of 3.9.1.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from kcore.broker.broker import Key
from kcore.broker.log_validator import RecordValidationException, first_look, is_transactional
from kcore.broker.outputs import Answer
from kcore.protocol_errors import ApiException, Errors, exception_of
from kcore.schema.produce import (
    BatchIndexAndErrorMessage,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)

if TYPE_CHECKING:
    from kcore.broker.replica_manager import ReplicaManager


class Required(NamedTuple):
    """What must be committed before the answer may say that it is."""

    offset: int
    answer: PartitionProduceResponse


@dataclass
class WaitingProduce:
    """A request with acks=all whose batches are in this log, and not yet in all that are in sync."""

    request_id: int
    deadline_ms: int
    answer: ProduceResponse
    required: dict[Key, Required]

    @property
    def keys(self) -> set[Key]:
        return {*self.required}

    def response(self, manager: "ReplicaManager") -> ProduceResponse | None:
        """None while a partition is not decided yet."""
        found = {key: self._committed(manager, key) for key in self.required}
        if None in found.values():
            return None
        return self._with(found)

    def timed_out(self, manager: "ReplicaManager") -> ProduceResponse:
        """What is not committed now may be later, or never."""
        return self._with({key: self._committed(manager, key) or Errors.REQUEST_TIMED_OUT for key in self.required})

    def _committed(self, manager: "ReplicaManager", key: Key) -> Errors | None:
        try:
            return manager.partition(key).committed(self.required[key].offset)
        except ApiException as error:
            return error.error

    def _with(self, found: "dict[Key, Errors | None]") -> ProduceResponse:
        for key, error in found.items():
            if error:
                answer = self.required[key].answer
                answer.error_code, answer.base_offset, answer.log_start_offset = error, -1, -1
        return self.answer


def on_produce(
    manager: "ReplicaManager", request_id: int, request: ProduceRequest, version: int, now_ms: int, date_ms: int
) -> None:
    """Appends, and answers now or once all is committed: the answer is among the manager's outputs.

    `now_ms` is what deadlines are counted in, `date_ms` the time of day (ms since 1970) that records' timestamps are
    compared with.

    With acks 0 nobody waits for the answer; the edge has no way to tell of an error but to close the connection.
    """
    answer = ProduceResponse(responses=[])
    required: dict[Key, Required] = {}
    refusals = _refusals(manager, request, version)
    for topic in request.topic_data:
        answers = TopicProduceResponse(name=topic.name, partition_responses=[])
        answer.responses.append(answers)
        for data in topic.partition_data:
            key = (topic.name, data.index)
            told, end_offset = _append(manager, key, data, refusals.get(id(data)), request.acks, (now_ms, date_ms))
            answers.partition_responses.append(told)
            if end_offset is not None:
                required[key] = Required(end_offset, told)
    waiter = WaitingProduce(request_id, now_ms + request.timeout_ms, answer, required)
    done = answer if request.acks != -1 else waiter.response(manager)
    if done is None:
        manager.producing.add(waiter)
    else:
        manager.output(Answer(request_id, done))
    for key in required:  # Followers have something to fetch, and more may be committed.
        manager.wake(key)


def _refusals(manager: "ReplicaManager", request: ProduceRequest, version: int) -> dict[int, ApiException]:
    """What is wrong with a partition's records before any is looked up, by the id of the partition's data.

    Records of partitions that nobody knows are not looked at (KafkaApis.handleProduceRequest).
    """
    asked = [(topic.name, data) for topic in request.topic_data for data in topic.partition_data]
    known = [
        data for name, data in asked if (name, data.index) in manager.partitions or manager.knows((name, data.index))
    ]
    try:
        found = first_look([data.records or b"" for data in known], version)
    except ApiException as refusal:  # Of the whole request.
        return {id(data): refusal for _, data in asked}
    return {id(data): refusal for data, refusal in zip(known, found, strict=True) if refusal is not None}


def _append(
    manager: "ReplicaManager",
    key: Key,
    data: PartitionProduceData,
    refusal: ApiException | None,
    acks: int,
    times_ms: tuple[int, int],
) -> tuple[PartitionProduceResponse, int | None]:
    """The answer for one partition; if the batch is in the log, the offset behind it.

    `times_ms`: now and the date, as `on_produce` has them.
    """
    try:
        if refusal is not None:
            raise refusal
        if acks not in (-1, 0, 1):
            raise exception_of(Errors.INVALID_REQUIRED_ACKS)(f"acks {acks}")
        partition = manager.partition(key)
        records = data.records or b""
        if is_transactional(records):
            raise exception_of(Errors.INVALID_TXN_STATE)("this broker takes part in no transactions")
        appended, _ = partition.append(records, acks, *times_ms)
    except exception_of(Errors.KAFKA_STORAGE_ERROR) as error:
        manager.log_failed(key, error)
        return _refused(data.index, error), None
    except ApiException as error:
        return _refused(data.index, error), None
    answer = PartitionProduceResponse(
        index=data.index,
        error_code=0,
        base_offset=appended.first_offset,
        log_append_time_ms=appended.log_append_time_ms,
        log_start_offset=partition.leader_log().start_offset,
    )
    return answer, appended.last_offset + 1


def _refused(index: int, error: ApiException) -> PartitionProduceResponse:
    told = error.record_errors if isinstance(error, RecordValidationException) else ()
    return PartitionProduceResponse(
        index=index,
        error_code=error.error,
        base_offset=-1,
        record_errors=[
            BatchIndexAndErrorMessage(batch_index=each.batch_index, batch_index_error_message=each.message)
            for each in told
        ],
        error_message=str(error),
    )
