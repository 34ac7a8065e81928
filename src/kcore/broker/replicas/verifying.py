"""Verifies with a transaction's coordinator that a partition is in the transaction, before its first batch (KIP-890).

Without this check, a late batch after the end of its transaction would begin a transaction that never ends, and the
last stable offset would never advance. `producing.py` waits for the coordinator's answer.

Source: ReplicaManager.handleProduceAppend and AddPartitionsToTxnManager of 3.9.1.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from kcore.broker.replicas.log_validator import CheckedRecords, TransactionalProducer
from kcore.broker.replicas.partition import HeldPartitions
from kcore.broker.replicas.replica import Key
from kcore.protocol_errors import ApiException, Errors, exception_of
from kcore.schema.produce import ProduceRequest

ABORTABLE_SINCE: Final = 11  # The first version of Produce whose clients handle TRANSACTION_ABORTABLE (KIP-890).
# The coordinator's errors that producers get as NOT_ENOUGH_REPLICAS, after which they try again.
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
    """A transactional batch, described by its header."""

    key: Key
    producer: TransactionalProducer


@dataclass
class Produce:
    """A Produce request that waits for its transaction's coordinator before its batches are appended."""

    request_id: int
    deadline_ms: int
    request: ProduceRequest
    version: int
    date_minus_now_ms: int  # The time of day minus the clock of deadlines.
    guards: dict[Key, object] = field(default_factory=dict)  # The guards for Producers.check.
    refused: dict[Key, ApiException] = field(default_factory=dict)  # Errors found before the append.
    keys: frozenset[Key] = frozenset()  # Empty: changes of partitions do not wake the request.
    prechecked: Mapping[Key, CheckedRecords] = field(default_factory=dict)  # Large batches that were checked early.


def begin(manager: HeldPartitions, produce: Produce, batches: list[TransactionalBatch]) -> None:
    """Stores a guard for each batch whose transaction is not open here: the coordinator must verify these."""
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
    """Stores the coordinator's errors by partition, translated for producers of that version of Produce."""
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
