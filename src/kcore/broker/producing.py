"""Produce: batches into the logs that this broker leads, and the answer once they are committed.

Source: ReplicaManager.appendRecords and DelayedProduce of 3.9.1.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from kcore.broker import verifying
from kcore.broker.broker import Key
from kcore.broker.outputs import Answer, Verify
from kcore.broker.verifying import Verified, WaitingVerification
from kcore.protocol_errors import ApiException, Errors, exception_of
from kcore.schema.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)

if TYPE_CHECKING:
    from kcore.broker.replica_manager import ReplicaManager

NEWEST: Final = 11  # Produce of 3.9.1.


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
    manager: "ReplicaManager", request_id: int, request: ProduceRequest, now_ms: int, version: int = NEWEST
) -> None:
    """Appends, and answers now or once all is committed: the answer is among the manager's outputs.

    The first batches of a transaction wait until its coordinator has verified them. With acks 0 nobody waits for the
    answer; the edge has no way to tell of an error but to close the connection.
    """
    deadline_ms = now_ms + request.timeout_ms
    try:
        batches = verifying.transactional_batches(request)
    except ApiException as error:
        keys = [(topic.name, data.index) for topic in request.topic_data for data in topic.partition_data]
        refused = Verified(refused=dict.fromkeys(keys, (error.error, str(error))))
        _append_all(manager, request_id, request, now_ms, deadline_ms, refused)
        return
    verified = verifying.begin(manager, batches)
    if not verified.guards:
        _append_all(manager, request_id, request, now_ms, deadline_ms, verified)
        return
    manager.verifying.add(WaitingVerification(request_id, deadline_ms, request, version, verified))
    transaction = str(request.transactional_id), batches[0].producer_id, batches[0].producer_epoch
    manager.output(Verify(request_id, *transaction, tuple(verified.guards)))


def on_verified(manager: "ReplicaManager", request_id: int, errors: Mapping[Key, Errors], now_ms: int) -> None:
    """The coordinator's answer: the partitions that are not in the transaction, and why; the others are appended."""
    waiter = manager.verifying.by_id.get(request_id)
    if waiter is not None and manager.verifying.remove(waiter):
        verifying.refuse(waiter.verified, errors, waiter.version)
        _append_all(manager, request_id, waiter.request, now_ms, waiter.deadline_ms, waiter.verified)


def expire_verifications(manager: "ReplicaManager", now_ms: int) -> None:
    """Answers those whose coordinator has not answered in time."""
    for waiter in manager.verifying.late(now_ms):
        if manager.verifying.remove(waiter):
            _append_all(manager, waiter.request_id, waiter.request, now_ms, waiter.deadline_ms, waiter.timed_out())


def _append_all(
    manager: "ReplicaManager",
    request_id: int,
    request: ProduceRequest,
    now_ms: int,
    deadline_ms: int,
    verified: Verified,
) -> None:
    answer = ProduceResponse(responses=[])
    required: dict[Key, Required] = {}
    moved: list[Key] = []
    for topic in request.topic_data:
        answers = TopicProduceResponse(name=topic.name, partition_responses=[])
        answer.responses.append(answers)
        for data in topic.partition_data:
            key = (topic.name, data.index)
            told, end_offset = _append(manager, key, data, request.acks, now_ms, verified)
            answers.partition_responses.append(told)
            if end_offset is not None:
                required[key] = Required(end_offset, told)
                moved.append(key)
    waiter = WaitingProduce(request_id, deadline_ms, answer, required)
    done = answer if request.acks != -1 else waiter.response(manager)
    if done is None:
        manager.producing.add(waiter)
    else:
        manager.output(Answer(request_id, done))
    for key in moved:  # Followers have something to fetch, and more may be committed.
        manager.wake(key)


def _append(
    manager: "ReplicaManager", key: Key, data: PartitionProduceData, acks: int, now_ms: int, verified: Verified
) -> tuple[PartitionProduceResponse, int | None]:
    """The answer for one partition; if the batch is in the log, the offset behind it."""
    if key in verified.refused:
        return _refused(data.index, *verified.refused[key]), None
    try:
        if acks not in (-1, 0, 1):
            raise exception_of(Errors.INVALID_REQUIRED_ACKS)(f"acks {acks}")
        partition = manager.partition(key)
        appended, _ = partition.append(data.records or b"", acks, now_ms, verified.guards.get(key))
    except exception_of(Errors.KAFKA_STORAGE_ERROR) as error:
        manager.log_failed(key, error)
        return _refused(data.index, Errors.KAFKA_STORAGE_ERROR, str(error)), None
    except ApiException as error:
        return _refused(data.index, error.error, str(error)), None
    start_offset = partition.leader_log().start_offset
    answer = PartitionProduceResponse(
        index=data.index, error_code=0, base_offset=appended.first_offset, log_start_offset=start_offset
    )
    return answer, appended.last_offset + 1


def _refused(index: int, error: Errors, why: str) -> PartitionProduceResponse:
    return PartitionProduceResponse(index=index, error_code=error, base_offset=-1, error_message=why)
