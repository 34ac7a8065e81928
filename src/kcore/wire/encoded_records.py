"""Holds the values of many records in one buffer and frames them as batches, without an object per record."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Self

import numpy as np

from kcore._ext.columns import record_framing as kernel
from kcore.types import Int64s, UInt8s
from kcore.wire.record_batch import HEADER_END, crc32c

MAX_BATCH_BYTES: Final = 8 << 20  # KafkaRaftClient.MAX_BATCH_SIZE_BYTES
_CRC: Final = 17  # Offset of a batch's checksum, which covers all bytes after it.
_CRC_END: Final = 21
_AROUND_RECORD: Final = 24  # The most bytes of a record around its value.


@dataclass(frozen=True, slots=True, eq=False)
class EncodedRecords:
    """Values of records, one after the other: value k is values[offsets[k]:offsets[k + 1]]. Iteration yields bytes."""

    values: UInt8s
    offsets: Int64s  # One more than the number of records.

    @classmethod
    def of(cls, values: Sequence[bytes]) -> Self:
        """Makes EncodedRecords from values as bytes."""
        offsets = np.zeros(len(values) + 1, np.int64)
        np.cumsum([len(each) for each in values], out=offsets[1:])
        return cls(np.frombuffer(b"".join(values), np.uint8), offsets)

    @classmethod
    def joined(cls, parts: Sequence[Self]) -> Self:
        """The records of all parts, in order."""
        ends = np.cumsum([0, *(int(part.offsets[-1] - part.offsets[0]) for part in parts)])
        begins = [part.offsets[:-1] - part.offsets[0] + end for part, end in zip(parts, ends, strict=False)]
        values = [part.values[part.offsets[0] : part.offsets[-1]] for part in parts]
        return cls(np.concatenate([np.empty(0, np.uint8), *values]), np.concatenate([*begins, ends[-1:]]))

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def fit_one_batch(self, max_bytes: int = MAX_BATCH_BYTES) -> bool:
        """True if all records fit into one batch at any base offset; may be False although they fit."""
        return HEADER_END + int(self.offsets[-1] - self.offsets[0]) + _AROUND_RECORD * len(self) <= max_bytes

    def __iter__(self) -> Iterator[bytes]:
        data, offsets = self.values.tobytes(), self.offsets.tolist()
        return (data[offsets[k] : offsets[k + 1]] for k in range(len(self)))

    def batches(
        self, base_offset: int, *, epoch: int, timestamp: int, max_bytes: int = MAX_BATCH_BYTES
    ) -> Iterator[bytearray]:
        """Frames the records as batches of magic 2 from `base_offset` on, each of at most `max_bytes` or one record.

        No compression; all records have one timestamp (ms), because a timestamp delta crashes Kafka's nodes
        (RecordsIterator). The batches equal those of `encode_values`.
        """
        first = 0
        while first < len(self):
            left = int(self.offsets[-1] - self.offsets[first]) + _AROUND_RECORD * (len(self) - first)
            largest = int(self.offsets[first + 1] - self.offsets[first]) + _AROUND_RECORD
            data = bytearray(max(min(HEADER_END + left, max_bytes), HEADER_END + largest))
            place = base_offset + first, epoch, timestamp, max_bytes
            size, first = kernel.batch(self.values, self.offsets, first, *place, np.frombuffer(data, np.uint8))
            del data[size:]
            data[_CRC:_CRC_END] = crc32c(memoryview(data)[_CRC_END:]).to_bytes(4)
            yield data
