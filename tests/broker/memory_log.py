"""A slow ReplicaLog in memory."""

from functools import lru_cache

from kcore.broker.replicas.log import TimestampAndOffset
from kcore.broker.replicas.producers import Producers
from kcore.broker.replicas.replica import Key
from kcore.broker.replicas.transactions import AbortedTransaction, end_markers
from kcore.protocol_errors import Errors, exception_of
from kcore.replication.epochs import EpochCache
from kcore.types import ZERO_UUID, Uuid
from kcore.wire.record_batch import RecordBatches, scan_batches
from kcore.wire.records import decode_records


@lru_cache(maxsize=10_000)
def last_offset(batch: bytes) -> int:
    return int(scan_batches(batch).last_offset[0])


class MemoryLog:
    """A list of batches."""

    def __init__(self) -> None:
        self.batches: list[bytes] = []
        self.high_watermark = self.start_offset = self.end_offset = 0
        self.epochs, self.producers = EpochCache(), Producers()
        self.aborted: list[AbortedTransaction] = []
        self.fails = False

    def check(self) -> None:
        if self.fails:
            raise exception_of(Errors.KAFKA_STORAGE_ERROR)("the disk is full")

    def append(self, data: bytes, batches: RecordBatches) -> None:
        self.check()
        assert batches.crc_matches.all()
        markers = end_markers(data, batches)
        for row in range(len(batches)):
            begin = int(batches.position[row])
            batch = data[begin : begin + int(batches.size[row])]
            assert batches.base_offset[row] >= self.end_offset
            epoch = int(batches.partition_leader_epoch[row])
            if self.epochs.latest_epoch is None or epoch > self.epochs.latest_epoch:
                self.epochs.assign(epoch, int(batches.base_offset[row]))
            self.batches.append(batch)
            self.end_offset = int(batches.last_offset[row]) + 1
        self.aborted += self.producers.take(batches, markers)

    def assign_epoch(self, epoch: int, start_offset: int) -> None:
        self.check()
        self.epochs.assign(epoch, start_offset)

    def read(self, offset: int, max_bytes: int, end_offset: int, *, at_least_one: bool) -> bytes:
        self.check()
        found = b""
        for batch in self.batches:
            last = last_offset(batch)
            if last < offset:
                continue
            if last >= end_offset or (len(found) + len(batch) > max_bytes and (found or not at_least_one)):
                break
            found += batch
        return found

    def truncate_to(self, offset: int) -> None:
        self.check()
        self.batches = [batch for batch in self.batches if last_offset(batch) < offset]
        self.epochs.truncate_from_end(min(offset, self.end_offset))
        self.start_offset = max(0, min(self.start_offset, offset))
        self.end_offset = last_offset(self.batches[-1]) + 1 if self.batches else self.start_offset
        self.start_offset = min(self.start_offset, self.end_offset)
        self.high_watermark = min(self.high_watermark, self.end_offset)
        self.producers, self.aborted = Producers(), []
        for batch in self.batches:
            batches = scan_batches(batch)
            self.aborted += self.producers.take(batches, end_markers(batch, batches))

    def truncate_fully_and_start_at(self, offset: int) -> None:
        self.batches.clear()
        self.high_watermark = self.start_offset = self.end_offset = offset
        self.epochs, self.producers, self.aborted = EpochCache(), Producers(), []

    def aborted_transactions(self, offset: int, end_offset: int) -> list[AbortedTransaction]:
        self.check()
        return [each for each in self.aborted if each.last_offset >= offset and each.first_offset < end_offset]

    def raise_start_offset(self, offset: int) -> None:
        self.start_offset = max(self.start_offset, min(offset, self.end_offset))
        self.high_watermark = max(self.high_watermark, self.start_offset)

    def find_timestamp(self, timestamp_ms: int) -> TimestampAndOffset | None:
        self.check()
        for batch in self.batches:
            for record in decode_records(batch):
                if record.timestamp >= timestamp_ms >= 0:
                    epoch = self.epochs.epoch_for_offset(record.offset)
                    return TimestampAndOffset(record.timestamp, record.offset, -1 if epoch is None else epoch)
        return None

    def find_latest_timestamp(self) -> TimestampAndOffset | None:
        times = [record.timestamp for batch in self.batches for record in decode_records(batch)]
        return self.find_timestamp(max(times)) if times else None

    @property
    def values(self) -> list[bytes]:
        return [record.value or b"" for batch in self.batches for record in decode_records(batch)]


class MemoryLogs:
    """The logs of a broker, which survive a crash of the broker."""

    def __init__(self) -> None:
        self.by_key: dict[Key, MemoryLog] = {}
        self.topic_ids: dict[Key, Uuid] = {}
        self.strays: list[Key] = []

    def keys(self) -> list[Key]:
        return [*self.by_key]

    def topic_id(self, key: Key) -> Uuid:
        return self.topic_ids.get(key, ZERO_UUID)

    def hold(self, key: Key, topic_id: Uuid, *, is_new: bool) -> MemoryLog:
        if topic_id != ZERO_UUID:
            self.topic_ids[key] = topic_id
        return self.by_key.setdefault(key, MemoryLog())

    def set_stray(self, key: Key) -> None:
        self.strays.append(key)
        self.delete(key)

    def delete(self, key: Key) -> None:
        self.by_key.pop(key, None)
        self.topic_ids.pop(key, None)
