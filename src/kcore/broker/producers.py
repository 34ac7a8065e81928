"""What a partition knows of its idempotent producers: sequences in order, duplicates told (KIP-98).

Source: ProducerStateManager, ProducerAppendInfo and ProducerStateEntry of 3.9.1, without transactions.
"""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from kcore.protocol_errors import Errors, exception_of
from kcore.wire.record_batch import RecordBatches
from kcore.wire.record_building import CONTROL

BATCHES_TO_RETAIN: Final = 5  # ProducerStateEntry.NUM_BATCHES_TO_RETAIN: as many as a producer has in flight.
NO_PRODUCER_ID: Final = -1
NO_PRODUCER_EPOCH: Final = -1
SEQUENCES: Final = 2**31  # After the largest comes 0.


class AppendedBatch(NamedTuple):
    """A batch of one producer, as it lies in the log."""

    first_sequence: int
    last_sequence: int
    first_offset: int
    last_offset: int
    timestamp: int  # milliseconds


@dataclass(slots=True)
class Producer:
    """The newest epoch of a producer, and the last batches that it wrote in it."""

    epoch: int
    batches: deque[AppendedBatch] = field(default_factory=lambda: deque(maxlen=BATCHES_TO_RETAIN))


class Producers:
    """The producers of one partition, by id."""

    def __init__(self) -> None:
        self.by_id: dict[int, Producer] = {}

    def duplicate_of(self, batches: RecordBatches) -> AppendedBatch | None:
        """The batch in the log that the one batch of `batches` repeats: it is answered as that was."""
        producer = self.by_id.get(int(batches.producer_id[0]))
        if producer is None or producer.epoch != int(batches.producer_epoch[0]):
            return None
        first, last = sequences_of(batches, 0)
        same = (each for each in producer.batches if (each.first_sequence, each.last_sequence) == (first, last))
        return next(same, None)

    def check(self, batches: RecordBatches) -> None:
        """InvalidProducerEpochException or OutOfOrderSequenceException if the one batch may not be appended."""
        producer_id, epoch = int(batches.producer_id[0]), int(batches.producer_epoch[0])
        if producer_id <= NO_PRODUCER_ID:
            return
        producer = self.by_id.get(producer_id)
        known = NO_PRODUCER_EPOCH if producer is None else producer.epoch
        if epoch < known:
            raise exception_of(Errors.INVALID_PRODUCER_EPOCH)(
                f"producer {producer_id} has epoch {known} here, not {epoch}"
            )
        if producer is None or known == NO_PRODUCER_EPOCH:
            return  # All that it wrote may have been deleted: any sequence will do.
        first, _ = sequences_of(batches, 0)
        is_first = epoch > known or not producer.batches
        expected = 0 if is_first else (producer.batches[-1].last_sequence + 1) % SEQUENCES
        if first != expected:
            raise exception_of(Errors.OUT_OF_ORDER_SEQUENCE_NUMBER)(
                f"producer {producer_id}, epoch {epoch}: sequence {expected} is next, not {first}"
            )

    def take(self, batches: RecordBatches) -> None:
        """Batches that were appended, of producers and of others."""
        for row in (batches.producer_id > NO_PRODUCER_ID).nonzero()[0].tolist():
            producer_id, epoch = int(batches.producer_id[row]), int(batches.producer_epoch[row])
            producer = self.by_id.get(producer_id)
            if producer is None or producer.epoch != epoch:
                producer = self.by_id[producer_id] = Producer(epoch)
            if batches.attributes[row] & CONTROL:
                continue  # The end of a transaction has no sequence.
            offset = int(batches.base_offset[row])
            last_offset = offset + int(batches.last_offset_delta[row])
            timestamp = int(batches.max_timestamp[row])
            producer.batches.append(AppendedBatch(*sequences_of(batches, row), offset, last_offset, timestamp))

    def restore(self, entries: Iterable[tuple[int, int, AppendedBatch | None]]) -> None:
        """Producer id, epoch and last batch, as a snapshot has them; all known before is forgotten."""
        self.by_id = {
            producer_id: Producer(epoch, deque([] if batch is None else [batch], BATCHES_TO_RETAIN))
            for producer_id, epoch, batch in entries
        }


def sequences_of(batches: RecordBatches, row: int) -> tuple[int, int]:
    """First and last sequence of a batch; it may wrap around."""
    first = int(batches.base_sequence[row])
    return first, (first + int(batches.last_offset_delta[row])) % SEQUENCES
