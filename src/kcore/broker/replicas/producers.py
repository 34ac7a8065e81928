"""The producers of a partition: checks sequences, detects duplicates, tracks transactions (KIP-98).

Source: ProducerStateManager, ProducerAppendInfo, ProducerStateEntry and VerificationStateEntry of 3.9.1.
"""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from kcore.broker.replicas.transactions import AbortedTransaction, EndMarker, Transactions
from kcore.protocol_errors import Errors
from kcore.wire.record_batch import CONTROL, NO_TIMESTAMP, TRANSACTIONAL, RecordBatches

BATCHES_TO_RETAIN: Final = 5  # ProducerStateEntry.NUM_BATCHES_TO_RETAIN: a producer's requests in flight.
NO_PRODUCER_ID: Final = -1
NO_PRODUCER_EPOCH: Final = -1
NO_SEQUENCE: Final = -1
SEQUENCES: Final = 2**31  # The number of sequences: 0 follows 2^31 - 1.
MOST_PRODUCERS: Final = 10_000  # Producers of a partition; beyond that, the least recently active ones are dropped.
MOST_VERIFICATIONS: Final = 10_000  # Unfinished verifications of a partition; beyond that, the oldest are dropped.


class AppendedBatch(NamedTuple):
    """A producer's batch in the log."""

    first_sequence: int
    last_sequence: int
    first_offset: int
    last_offset: int
    timestamp: int  # In ms since 1970.


@dataclass(slots=True)
class Producer:
    """The newest epoch of a producer, its last batches in that epoch, and its transaction."""

    epoch: int
    batches: deque[AppendedBatch] = field(default_factory=lambda: deque(maxlen=BATCHES_TO_RETAIN))
    last_timestamp: int = NO_TIMESTAMP  # The timestamp of its last batch or end marker, in ms since 1970.
    coordinator_epoch: int = -1  # The epoch of the coordinator that ended its last transaction.
    transaction_offset: int | None = None  # The first offset of its open transaction.

    def begin_epoch(self, epoch: int) -> None:
        """Changes to `epoch`, and drops the batches of an earlier epoch."""
        if epoch != self.epoch:
            self.epoch = epoch
            self.batches.clear()


@dataclass(slots=True)
class Verification:
    """A pending request that asks a coordinator whether its transaction has the partition (KIP-890).

    `guard` identifies the request. An end marker or an appended batch of the producer makes the guard invalid.
    """

    epoch: int
    lowest_sequence: int  # The lowest first sequence of the waiting batches; this batch must be appended first.
    guard: object = field(default_factory=object)


class Producers:
    """The producers of one partition, by id."""

    def __init__(self) -> None:
        self.by_id: dict[int, Producer] = {}  # The most recently active producer is at the end.
        self.transactions = Transactions()
        self._verifications: dict[int, Verification] = {}

    def last_stable_offset(self, high_watermark: int, start_offset: int) -> int:
        """The last stable offset, at which reads of read_committed consumers end."""
        unstable = self.transactions.first_unstable_offset(high_watermark)
        return high_watermark if unstable is None else min(max(unstable, start_offset), high_watermark)

    # Checks before an append.

    def duplicate_of(self, batches: RecordBatches) -> AppendedBatch | None:
        """The earlier batch in the log if this batch is a duplicate of it; None for a new batch."""
        producer = self.by_id.get(int(batches.producer_id[0]))
        if producer is None or producer.epoch != int(batches.producer_epoch[0]):
            return None
        first, last = sequences_of(batches, 0)
        same = (each for each in producer.batches if (each.first_sequence, each.last_sequence) == (first, last))
        return next(same, None)

    def begin_verification(self, producer_id: int, epoch: int, sequence: int) -> object | None:
        """The guard for `check` after the coordinator's answer; None if the transaction is open in this log.

        Source: UnifiedLog.maybeStartTransactionVerification.
        """
        producer = self.by_id.get(producer_id)
        if producer is not None and producer.transaction_offset is not None:
            return None
        known = self._verifications.get(producer_id)
        if known is None:
            while len(self._verifications) >= MOST_VERIFICATIONS:
                del self._verifications[next(iter(self._verifications))]
            known = self._verifications[producer_id] = Verification(epoch, sequence)
        if epoch > known.epoch:
            known.epoch, known.lowest_sequence = epoch, sequence
        elif epoch == known.epoch:
            known.lowest_sequence = min(known.lowest_sequence, sequence)
        return known.guard

    def check(self, batches: RecordBatches, guard: object | None = None, *, is_new_log: bool = False) -> None:
        """Raises an ApiException if a client's batch must not be appended.

        `guard`: the result of `begin_verification`. `is_new_log`: the log never had a record. The exceptions are
        InvalidTxnStateException for a batch outside the verified transaction, InvalidProducerEpochException and
        OutOfOrderSequenceException.
        """
        producer_id, epoch = int(batches.producer_id[0]), int(batches.producer_epoch[0])
        if producer_id <= NO_PRODUCER_ID:
            return
        producer, verification = self.by_id.get(producer_id), self._verifications.get(producer_id)
        is_transactional = bool(batches.attributes[0] & TRANSACTIONAL)
        is_open = producer is not None and producer.transaction_offset is not None
        is_verified = verification is not None and guard is verification.guard
        if is_transactional and not is_open and not is_verified:
            Errors.INVALID_TXN_STATE.raise_for(f"producer {producer_id}: the batch belongs to no open transaction")
        self._check_epoch(producer_id, epoch)
        self._check_sequence(producer_id, epoch, sequences_of(batches, 0)[0], is_new_log=is_new_log)
        if is_open and not is_transactional:
            Errors.INVALID_TXN_STATE.raise_for(f"producer {producer_id}: the batch is not in its open transaction")

    def _check_sequence(self, producer_id: int, epoch: int, first: int, *, is_new_log: bool) -> None:
        producer, verification = self.by_id.get(producer_id), self._verifications.get(producer_id)
        if verification is not None and first > verification.lowest_sequence:
            _out_of_order(producer_id, epoch, verification.lowest_sequence, first)
        if producer is None or producer.epoch == NO_PRODUCER_EPOCH:
            # The producer's records may have been deleted, so any sequence is valid. But in a log that never had a
            # record, a sequence above 0 means that this batch arrived before the first batch (KAFKA-15591).
            if is_new_log and first != 0:
                _out_of_order(producer_id, epoch, 0, first)
            return
        is_new_epoch = epoch > producer.epoch or not producer.batches
        expected = 0 if is_new_epoch else (producer.batches[-1].last_sequence + 1) % SEQUENCES
        if first != expected:
            _out_of_order(producer_id, epoch, expected, first)

    def check_marker(self, producer_id: int, epoch: int, coordinator_epoch: int) -> None:
        """Raises InvalidProducerEpochException or TransactionCoordinatorFencedException for a late marker."""
        producer = self.by_id.get(producer_id)
        if producer is None:
            return
        self._check_epoch(producer_id, epoch)
        if coordinator_epoch < producer.coordinator_epoch:
            Errors.TRANSACTION_COORDINATOR_FENCED.raise_for(
                f"producer {producer_id}: coordinator epoch {producer.coordinator_epoch} here, not {coordinator_epoch}"
            )

    def _check_epoch(self, producer_id: int, epoch: int) -> None:
        producer = self.by_id.get(producer_id)
        known = NO_PRODUCER_EPOCH if producer is None else producer.epoch
        if epoch < known:
            Errors.INVALID_PRODUCER_EPOCH.raise_for(f"producer {producer_id} has epoch {known} here, not {epoch}")

    # Updates after an append.

    def take(self, batches: RecordBatches, markers: Mapping[int, EndMarker]) -> list[AbortedTransaction]:
        """Updates the producers with appended batches; `markers` is the result of `end_markers`.

        Returns the transactions that the batches abort, for the transaction index.
        """
        aborted = []
        for row in (batches.producer_id > NO_PRODUCER_ID).nonzero()[0].tolist():
            producer_id, epoch = int(batches.producer_id[row]), int(batches.producer_epoch[row])
            producer = self.by_id.pop(producer_id, None) or Producer(NO_PRODUCER_EPOCH)
            self.by_id[producer_id] = producer  # Moved to the end, as the most recently active producer.
            self._verifications.pop(producer_id, None)
            if not batches.attributes[row] & CONTROL:
                producer.begin_epoch(epoch)
                self._take_data(producer_id, producer, batches, row)
            elif row in markers:
                producer.begin_epoch(epoch)
                producer.last_timestamp = int(batches.max_timestamp[row])
                ended = self._end(producer_id, producer, int(batches.base_offset[row]), markers[row])
                aborted += [ended] if ended is not None else []
        self._forget_oldest()
        return aborted

    def _forget_oldest(self) -> None:
        """Above MOST_PRODUCERS, drops the least recently active producers without an open transaction.

        A dropped producer may continue with any sequence, like a producer whose records were deleted.
        """
        for _ in range(len(self.by_id) - MOST_PRODUCERS):
            oldest = next((key for key, each in self.by_id.items() if each.transaction_offset is None), None)
            if oldest is None:
                return
            del self.by_id[oldest]

    def _take_data(self, producer_id: int, producer: Producer, batches: RecordBatches, row: int) -> None:
        offset, last_offset = int(batches.base_offset[row]), int(batches.last_offset[row])
        timestamp = producer.last_timestamp = int(batches.max_timestamp[row])
        producer.batches.append(AppendedBatch(*sequences_of(batches, row), offset, last_offset, timestamp))
        if batches.attributes[row] & TRANSACTIONAL and producer.transaction_offset is None:
            producer.transaction_offset = offset
            self.transactions.begin(offset, producer_id)

    def _end(self, producer_id: int, producer: Producer, offset: int, marker: EndMarker) -> AbortedTransaction | None:
        """Applies the end marker at `offset`. Returns the aborted transaction, if it had batches in this log."""
        first_offset = producer.transaction_offset
        producer.coordinator_epoch, producer.transaction_offset = marker.coordinator_epoch, None
        if first_offset is None:
            return None
        stable = self.transactions.end(first_offset, offset)
        return None if marker.is_commit else AbortedTransaction(producer_id, first_offset, offset, stable)

    def expire(self, oldest_ms: int) -> None:
        """Drops producers without records since `oldest_ms` and without an open transaction.

        The caller computes `oldest_ms`, in ms since 1970, from producer.id.expiration.ms. It is compared with records'
        timestamps. Source: ProducerStateManager.removeExpiredProducers.
        """
        expired = [
            producer_id
            for producer_id, producer in self.by_id.items()
            if producer.transaction_offset is None and producer.last_timestamp <= oldest_ms
        ]
        for producer_id in expired:
            del self.by_id[producer_id]

    def restore(self, producers: Mapping[int, Producer]) -> None:
        """Replaces all producers with the producers of a snapshot."""
        self.by_id, self.transactions, self._verifications = {**producers}, Transactions(), {}
        begun = {
            producer.transaction_offset: producer_id
            for producer_id, producer in self.by_id.items()
            if producer.transaction_offset is not None
        }
        for first_offset in sorted(begun):
            self.transactions.begin(first_offset, begun[first_offset])


def _out_of_order(producer_id: int, epoch: int, expected: int, first: int) -> None:
    Errors.OUT_OF_ORDER_SEQUENCE_NUMBER.raise_for(
        f"producer {producer_id}, epoch {epoch}: sequence {expected} is next, not {first}"
    )


def sequences_of(batches: RecordBatches, row: int) -> tuple[int, int]:
    """The first and last sequence of a batch, which may wrap around to 0; -1 for batches without sequences."""
    first = int(batches.base_sequence[row])
    return first, NO_SEQUENCE if first == NO_SEQUENCE else (first + int(batches.last_offset_delta[row])) % SEQUENCES
