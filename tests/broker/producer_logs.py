"""Random logs of producers, and the partition's state of them after each batch."""

import struct
from random import Random
from typing import Any

from kcore.broker.replicas.producers import Producers
from kcore.broker.replicas.transactions import end_markers
from kcore.wire.record_batch import CONTROL, TRANSACTIONAL, scan_batches
from storage.building import batch, crc32c

State = dict[str, Any]


def emptied(data: bytes) -> bytes:
    """The batch as compaction leaves it without its records: the header stays, the offsets too."""
    header = bytearray(data[:61])
    header[57:61] = bytes(4)
    header[8:12] = struct.pack(">i", 49)
    header[17:21] = struct.pack(">I", crc32c(bytes(header[21:])))
    return bytes(header)


def random_log(dice: Random, length: int = 30) -> list[bytes]:
    """Batches of four producers, idempotent and transactional, of rising and of old epochs; some are empty."""
    found: list[bytes] = []
    offset, epochs, is_open = 0, [0] * 4, [False] * 4
    for _ in range(length):
        producer = dice.randrange(4)
        if dice.random() < 0.1:
            epochs[producer] += 1
        epoch = max(epochs[producer] - (dice.random() < 0.1), 0)
        sequence = dice.choice([0, 5, 2**31 - 2, -1])
        time_ms = dice.choice([-1, 1_000, 1_000 + offset])
        if producer > 1 and dice.random() < 0.3:
            key, value = struct.pack(">hh", 0, dice.randrange(2)), struct.pack(">hi", 0, dice.randrange(4))
            attributes, is_open[producer] = CONTROL | TRANSACTIONAL, False
            made = batch(
                offset, [value], key=key, attributes=attributes, producer=(producer, epoch, -1), time_ms=time_ms
            )
            if dice.random() < 0.3:  # Its transaction is gone: so is what it wrote.
                made = emptied(made)
                is_open[producer] = True
        else:
            attributes = TRANSACTIONAL if producer > 1 else 0
            values = [b"v"] * dice.randrange(1, 4)
            made = batch(offset, values, attributes=attributes, producer=(producer, epoch, sequence), time_ms=time_ms)
            if dice.random() < 0.2:
                made = emptied(made)
        if dice.random() < 0.05:
            made = batch(offset, [b"v"])  # Without a producer.
        found.append(made)
        offset += 1 + int.from_bytes(made[23:27]) + dice.choice([0, 0, 3])
    return found


def states_of(log: list[bytes]) -> list[State]:
    """As ProducerStateFacts.java prints them."""
    producers, found = Producers(), []
    for data in log:
        batches = scan_batches(data)
        producers.take(batches, end_markers(data, batches, tolerant=True))
        undecided = next(iter(producers.transactions.open), -1)
        state: State = {"": undecided}
        for producer_id, each in sorted(producers.by_id.items()):
            kept = [[b.last_sequence, b.last_offset, b.last_offset - b.first_offset, b.timestamp] for b in each.batches]
            first = -1 if each.transaction_offset is None else each.transaction_offset
            state[str(producer_id)] = [each.epoch, each.coordinator_epoch, each.last_timestamp, first, kept]
        found.append(state)
    return found
