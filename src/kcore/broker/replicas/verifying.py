"""Before the first batch of a transaction is appended, its coordinator must confirm that the partition is in it
(KIP-890). Else a late batch, after the end of its transaction, would begin one that never ends: the last stable offset
would never advance. Requests to the coordinator are made here; `producing.py` waits for the response.

Source: ReplicaManager.handleProduceAppend and AddPartitionsToTxnManager of 3.9.1.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from kcore.broker.replicas.log_validator import CheckedRecords, TransactionalProducer
from kcore.broker.replicas.protocols import HeldPartitions
from kcore.broker.replicas.replica import Key
from kcore.protocol_errors import ApiException, Errors, exception_of
from kcore.schema.produce import ProduceRequest

ABORTABLE_SINCE: Final = 11  # The first version of Produce whose clients know TRANSACTION_ABORTABLE (KIP-890).
# A client that does not know them tries again all the same after the error that stands for these.
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
    """A transactional batch, by its header."""

    key: Key
    producer: TransactionalProducer


@dataclass
class Produce:
    """A request on its way into the logs: it waits while its transaction's coordinator is asked."""

    request_id: int
    deadline_ms: int
    request: ProduceRequest
    version: int
    date_ahead_ms: int  # The difference of the time of day and the clock of deadlines.
    guards: dict[Key, object] = field(default_factory=dict)  # As Producers.check has them.
    refused: dict[Key, ApiException] = field(default_factory=dict)  # Before anything is appended.
    keys: frozenset[Key] = frozenset()  # No change of a partition wakes it.
    ahead: Mapping[Key, CheckedRecords] = field(default_factory=dict)  # Batches whose records were looked at already.


def begin(manager: HeldPartitions, produce: Produce, batches: list[TransactionalBatch]) -> None:
    """Notes the guards of those whose transaction is not open here yet; the coordinator must be asked of these."""
    for key, producer in batches:
        try:
            log = manager.partition(key).leader_log()
        except ApiException as error:
            produce.refused[key] = error
            continue
        guard = log.producers.begin_verification(producer.producer_id, producer.epoch, producer.base_sequence)
        if guard is not None:
            produce.guards[key] = guard


def refuse(produce: Produce, errors: Mapping[Key, Errors]) -> None:
    """Records the coordinator's errors by partition, as producers of that version of Produce expect them."""
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
