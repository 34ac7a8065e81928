"""Before the first batch of a transaction goes into a log: does its coordinator have the partition in it? (KIP-890)

Without that a batch that comes late, after its transaction has ended, would begin one that nobody ends: the last stable
offset would stay where it is for ever. What is needed is found here; `producing.py` waits for the answer.

Source: ReplicaManager.handleProduceAppend and AddPartitionsToTxnManager of 3.9.1.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from struct import Struct
from typing import TYPE_CHECKING, Final, NamedTuple

from kcore.broker.broker import Key
from kcore.broker.producers import NO_PRODUCER_ID
from kcore.protocol_errors import ApiException, Errors
from kcore.schema.produce import ProduceRequest
from kcore.wire.record_batch import HEADER_END
from kcore.wire.record_building import TRANSACTIONAL

if TYPE_CHECKING:
    from kcore.broker.replica_manager import ReplicaManager

_MAGIC_AT: Final = 16
_ATTRIBUTES: Final = Struct(">h"), 21
_PRODUCER: Final = Struct(">qhi"), 43  # Id, epoch and base sequence.
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
    """What the header of a producer's batch says, unchecked."""

    key: Key
    producer_id: int
    producer_epoch: int
    base_sequence: int


@dataclass
class Verified:
    """What is known of the partitions of one Produce before anything is appended."""

    guards: dict[Key, object] = field(default_factory=dict)  # As Producers.check has them.
    refused: dict[Key, tuple[Errors, str]] = field(default_factory=dict)


@dataclass
class WaitingVerification:
    """A Produce whose transaction's coordinator has been asked."""

    request_id: int
    deadline_ms: int
    request: ProduceRequest
    version: int
    verified: Verified
    keys: frozenset[Key] = frozenset()  # No partition's news wakes it.

    def timed_out(self) -> Verified:
        """The coordinator has not answered in time: the producer tries again."""
        refuse(self.verified, dict.fromkeys(self.verified.guards, Errors.NETWORK_EXCEPTION), self.version)
        return self.verified


def transactional_batches(request: ProduceRequest) -> list[TransactionalBatch]:
    """The batches of the request that belong to a transaction.

    TransactionalIdAuthorizationException for such batches in a request without a transactional id, InvalidPidMapping-
    Exception for two producers in one request.
    """
    found = [*_transactional(request)]
    if found and request.transactional_id is None:
        Errors.TRANSACTIONAL_ID_AUTHORIZATION_FAILED.raise_for("transactional batches without a transactional id")
    if len({each[1:3] for each in found}) > 1:
        Errors.INVALID_PRODUCER_ID_MAPPING.raise_for("transactional batches of more than one producer")
    return found


def _transactional(request: ProduceRequest) -> Iterator[TransactionalBatch]:
    for topic in request.topic_data:
        for data in topic.partition_data:
            records = data.records or b""
            if len(records) < HEADER_END or records[_MAGIC_AT] != 2:
                continue  # No batch: the append refuses it.
            (attributes,) = _ATTRIBUTES[0].unpack_from(records, _ATTRIBUTES[1])
            producer = _PRODUCER[0].unpack_from(records, _PRODUCER[1])
            if attributes & TRANSACTIONAL and producer[0] != NO_PRODUCER_ID:
                yield TransactionalBatch((topic.name, data.index), *producer)


def begin(manager: "ReplicaManager", batches: list[TransactionalBatch]) -> Verified:
    """The guards of those whose transaction is not open here yet; the coordinator must be asked of these."""
    verified = Verified()
    for each in batches:
        try:
            log = manager.partition(each.key).leader_log()
        except ApiException as error:
            verified.refused[each.key] = error.error, str(error)
            continue
        guard = log.producers.begin_verification(each.producer_id, each.producer_epoch, each.base_sequence)
        if guard is not None:
            verified.guards[each.key] = guard
    return verified


def refuse(verified: Verified, errors: Mapping[Key, Errors], version: int) -> None:
    """Notes what the coordinator said of partitions, as producers of that version of Produce expect it."""
    for key, error in errors.items():
        is_unknown = error is Errors.TRANSACTION_ABORTABLE and version < ABORTABLE_SINCE
        if is_unknown or error in (Errors.INVALID_TXN_STATE, Errors.CLUSTER_AUTHORIZATION_FAILED):
            told = Errors.INVALID_TXN_STATE, "Partition was not added to the transaction"
        elif error is Errors.PRODUCER_FENCED:
            told = Errors.INVALID_PRODUCER_EPOCH, error.name
        elif error in RETRIED:
            why = f"Unable to verify the partition has been added to the transaction. Underlying error: {error.name}"
            told = Errors.NOT_ENOUGH_REPLICAS, why
        else:
            told = error, error.name
        verified.refused[key] = told
