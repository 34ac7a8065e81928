"""Produce: appends batches to the logs that this broker leads, and responds when they are committed.

Source: ReplicaManager.appendRecords and DelayedProduce of 3.9.1.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, NamedTuple, Protocol

from kcore.broker.replicas.cluster_view import ClusterView
from kcore.broker.replicas.log_validator import (
    CheckedRecords,
    RecordValidationException,
    TransactionalProducer,
    check_headers,
    has_transactional_records,
    transactional_producer,
)
from kcore.broker.replicas.outputs import SendResponse, Verify
from kcore.broker.replicas.partition import HeldPartitions, Partition
from kcore.broker.replicas.replica import Key
from kcore.broker.replicas.waiting import PARTITIONS_A_STEP, Waiting, WaitingReplicas, committed
from kcore.protocol_errors import ApiException, Errors, exception_of
from kcore.schema.produce import (
    BatchIndexAndErrorMessage,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from kcore.steps import Steps

ABORTABLE_SINCE: Final = 11  # The first version of Produce whose clients handle TRANSACTION_ABORTABLE (KIP-890).
# Errors of the coordinator for which producers get NOT_ENOUGH_REPLICAS, so that they repeat the request.
RETRIED: Final = frozenset(
    {
        Errors.CONCURRENT_TRANSACTIONS,
        Errors.NETWORK_EXCEPTION,
        Errors.COORDINATOR_LOAD_IN_PROGRESS,
        Errors.COORDINATOR_NOT_AVAILABLE,
        Errors.NOT_COORDINATOR,
    }
)


class TransactionalBatch(NamedTuple):
    """The partition of a transactional batch, and the producer in the batch's header."""

    key: Key
    producer: TransactionalProducer


@dataclass
class Produce:
    """A Produce request whose batches are not appended yet; it may wait for its transaction's coordinator."""

    request_id: int
    deadline_ms: int
    request: ProduceRequest
    version: int
    date_minus_now_ms: int  # The time in ms since 1970 minus the clock of deadlines.
    guards: dict[Key, object] = field(default_factory=dict)  # The guards for Producers.check.
    refused: dict[Key, ApiException] = field(default_factory=dict)  # Errors found before the append.
    keys: frozenset[Key] = frozenset()  # Empty, as changes of partitions do not wake the request.
    prechecked: Mapping[Key, CheckedRecords] = field(default_factory=dict)  # Earlier checks of large batches.


def begin_verification(manager: HeldPartitions, produce: Produce, batches: list[TransactionalBatch]) -> None:
    """Stores a guard for each batch that the coordinator must verify, as its log has no open transaction (KIP-890).

    Without this check, a batch that arrives after the end of its transaction would begin a transaction that never ends,
    and the last stable offset would never advance. Source: ReplicaManager.handleProduceAppend,
    AddPartitionsToTxnManager.
    """
    for key, producer in batches:
        try:
            log = manager.partition(key).leader_log()
        except ApiException as error:
            produce.refused[key] = error
            continue
        guard = log.producers.begin_verification(producer.producer_id, producer.epoch, producer.base_sequence)
        if guard is not None:
            produce.guards[key] = guard


def refuse_verification(produce: Produce, errors: Mapping[Key, Errors]) -> None:
    """Stores the coordinator's errors by partition, translated for producers with the request's version of Produce."""
    for key, error in errors.items():
        is_unknown = error is Errors.TRANSACTION_ABORTABLE and produce.version < ABORTABLE_SINCE
        if is_unknown or error in (Errors.INVALID_TXN_STATE, Errors.CLUSTER_AUTHORIZATION_FAILED):
            refusal = Errors.INVALID_TXN_STATE, "Partition was not added to the transaction"
        elif error is Errors.PRODUCER_FENCED:
            refusal = Errors.INVALID_PRODUCER_EPOCH, error.name
        elif error in RETRIED:
            why = f"Unable to verify the partition has been added to the transaction. Underlying error: {error.name}"
            refusal = Errors.NOT_ENOUGH_REPLICAS, why
        else:
            refusal = error, error.name
        produce.refused[key] = exception_of(refusal[0])(refusal[1])


NEWEST: Final = 11  # The newest version of Produce in 3.9.1.


class ProducingReplicas(WaitingReplicas, Protocol):
    """The parts of the broker's replicas that Produce uses."""

    cluster: ClusterView
    partitions: dict[Key, Partition]
    verifying: Waiting[Produce]  # Requests that wait for a transaction coordinator.


class Required(NamedTuple):
    """The offset up to which records must be committed, and the partition's part of the response."""

    offset: int
    answer: PartitionProduceResponse


@dataclass
class WaitingProduce:
    """A request with acks=all whose batches are appended, but not committed yet."""

    request_id: int
    deadline_ms: int
    answer: ProduceResponse
    required: dict[Key, Required]

    @property
    def keys(self) -> set[Key]:
        return {*self.required}

    def response(self, manager: HeldPartitions) -> ProduceResponse | None:
        """The response; None while a batch is not committed."""
        found = {key: committed(manager, key, each.offset) for key, each in self.required.items()}
        if None in found.values():
            return None
        return self._with(found)

    def timed_out(self, manager: HeldPartitions) -> ProduceResponse:
        """The response at the time-out; the records may still be committed later."""
        found = {key: committed(manager, key, each.offset) for key, each in self.required.items()}
        return self._with({key: error or Errors.REQUEST_TIMED_OUT for key, error in found.items()})

    def _with(self, found: "dict[Key, Errors | None]") -> ProduceResponse:
        for key, error in found.items():
            if error:
                answer = self.required[key].answer
                answer.error_code, answer.base_offset, answer.log_start_offset = error, -1, -1
        return self.answer


def drop_repeated(request: ProduceRequest) -> Steps[None]:
    """Keeps the last entry of each repeated partition, as the map of KafkaApis.handleProduceRequest does."""
    last: dict[Key, PartitionProduceData] = {}
    entries = ((topic, data) for topic in request.topic_data for data in topic.partition_data)
    count = 0
    for count, (topic, data) in enumerate(entries, 1):
        last[topic.name, data.index] = data
        if count % PARTITIONS_A_STEP == 0:
            yield
    if len(last) == count:
        return
    for number, topic in enumerate(request.topic_data, 1):
        topic.partition_data = [data for data in topic.partition_data if last[topic.name, data.index] is data]
        if number % PARTITIONS_A_STEP == 0:
            yield
    request.topic_data = [topic for topic in request.topic_data if topic.partition_data]


def on_produce(
    manager: ProducingReplicas,
    request_id: int,
    request: ProduceRequest,
    now_ms: int,
    date_ms: int,
    version: int = NEWEST,
    prechecked: Mapping[Key, CheckedRecords] = MappingProxyType({}),
) -> None:
    """Appends the batches. The manager outputs the response now, or with acks=all when all batches are committed.

    `now_ms`: the time by the clock of deadlines. `date_ms`: the time in ms since 1970, for checks of timestamps.
    `prechecked`: the results of earlier checks of large batches.

    The first batches of a transaction wait until its coordinator has verified them. With acks=0 there is no response;
    the server reports an error by closing the connection.
    """
    deadline_ms, date_minus_now_ms = now_ms + request.timeout_ms, date_ms - now_ms
    produce = Produce(request_id, deadline_ms, request, version, date_minus_now_ms, prechecked=prechecked)
    batches = _check_headers(manager, produce)
    begin_verification(manager, produce, batches)
    if not produce.guards:
        _append_all(manager, produce, now_ms)
        return
    manager.verifying.add(produce)
    producer = batches[0].producer
    transaction = str(request.transactional_id), producer.producer_id, producer.epoch
    manager.output(Verify(request_id, *transaction, tuple(produce.guards)))


def on_verified(manager: ProducingReplicas, request_id: int, errors: Mapping[Key, Errors], now_ms: int) -> None:
    """Appends the verified batches; `errors` has the partitions that the coordinator refused."""
    produce = manager.verifying.by_id.get(request_id)
    if produce is not None and manager.verifying.remove(produce):
        refuse_verification(produce, errors)
        _append_all(manager, produce, now_ms)


def expire_verifications(manager: ProducingReplicas, now_ms: int) -> None:
    """Answers requests whose coordinator did not answer in time, with errors after which producers try again."""
    for produce in manager.verifying.late(now_ms):
        if manager.verifying.remove(produce):
            refuse_verification(produce, dict.fromkeys(produce.guards, Errors.NETWORK_EXCEPTION))
            _append_all(manager, produce, now_ms)


def _check_headers(manager: ProducingReplicas, produce: Produce) -> list[TransactionalBatch]:
    """Checks the batches' headers and stores the errors. Returns the transactional batches.

    For unknown partitions, checks only whether batches are transactional (KafkaApis.handleProduceRequest).
    """
    request = produce.request
    requested = [
        ((topic.name, data.index), data.records or b"") for topic in request.topic_data for data in topic.partition_data
    ]
    known = [(key, records) for key, records in requested if key in manager.partitions or manager.cluster.knows(key)]
    try:
        if has_transactional_records([records for _, records in requested]) and request.transactional_id is None:
            Errors.TRANSACTIONAL_ID_AUTHORIZATION_FAILED.raise_for("transactional batches without a transactional id")
        found = check_headers([records for _, records in known], produce.version)
    except ApiException as refusal:  # The whole request is refused.
        produce.refused = {key: refusal for key, _ in requested}
        return []
    pairs = zip(known, found, strict=True)
    produce.refused = {key: refusal for (key, _), refusal in pairs if refusal is not None}
    taken = ((key, transactional_producer(records)) for key, records in known if key not in produce.refused)
    return [TransactionalBatch(key, producer) for key, producer in taken if producer is not None]


def _append_all(manager: ProducingReplicas, produce: Produce, now_ms: int) -> None:
    request, answer = produce.request, ProduceResponse(responses=[])
    required: dict[Key, Required] = {}
    for topic in request.topic_data:
        answers = TopicProduceResponse(name=topic.name, partition_responses=[])
        answer.responses.append(answers)
        for data in topic.partition_data:
            key = (topic.name, data.index)
            partition_response, end_offset = _append(manager, key, data, produce, now_ms)
            answers.partition_responses.append(partition_response)
            if end_offset is not None:
                required[key] = Required(end_offset, partition_response)
    waiter = WaitingProduce(produce.request_id, produce.deadline_ms, answer, required)
    done = answer if request.acks != -1 else waiter.response(manager)
    if done is None:
        manager.producing.add(waiter)
    else:
        manager.output(SendResponse(produce.request_id, done))
    for key in required:  # Fetches and producers may wait for these records or their commit.
        manager.wake(key)


def _append(
    manager: ProducingReplicas, key: Key, data: PartitionProduceData, produce: Produce, now_ms: int
) -> tuple[PartitionProduceResponse, int | None]:
    """Appends one partition's batch. Returns its response, and the offset after the batch if it was appended."""
    acks, date_ms = produce.request.acks, now_ms + produce.date_minus_now_ms
    try:
        if key in produce.refused:
            raise produce.refused[key]
        if acks not in (-1, 0, 1):
            raise exception_of(Errors.INVALID_REQUIRED_ACKS)(f"acks {acks}")
        partition = manager.partition(key)
        known = produce.guards.get(key), produce.prechecked.get(key)
        appended, _ = partition.append(data.records or b"", acks, now_ms, date_ms, *known)
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
    record_errors = error.record_errors if isinstance(error, RecordValidationException) else ()
    return PartitionProduceResponse(
        index=index,
        error_code=error.error,
        base_offset=-1,
        record_errors=[
            BatchIndexAndErrorMessage(batch_index=each.batch_index, batch_index_error_message=each.message)
            for each in record_errors
        ],
        error_message=str(error),
    )
