"""The leader's log in the slow twin of `kcore._ext.answer_loop`: batches of one epoch, with their places."""

import os
import struct
from typing import NamedTuple

MOST_BATCHES = 1 << 16  # Remembered batches; fetches from below them are handed back.
HEADER = struct.Struct(">qiibIhi")  # Base offset, length, epoch, magic, CRC, attributes, last offset delta.
LENGTH_END, HEADER_END = 12, 61


class Batch(NamedTuple):
    base_offset: int
    last_offset: int
    file: int
    position: int
    size: int


class Log:
    """The batches that a leader has appended in its epoch."""

    def __init__(self, epoch: int, epoch_start_offset: int) -> None:
        self.epoch, self._epoch_start = epoch, epoch_start_offset
        self.end_offset = -1  # Unknown.
        self._batches: list[Batch] = []
        self._files: list[int] = []

    def close(self) -> None:
        for file in self._files:
            os.close(file)

    def begin_segment(self, descriptor: int) -> None:
        self._files.append(descriptor)

    def appended(self, position: int, length: int) -> None:
        """Add batches: all or none of them."""
        if not self._files:
            raise ValueError("no segment was begun since this node leads")
        if self._batches and self._batches[-1].file == self._files[-1]:
            last = self._batches[-1]
            if last.position + last.size != position:
                raise ValueError(f"batches at {position}, where others do not end")
        new, at, end = [], position, position + length
        next_offset = self.end_offset
        while at < end:
            batch = self._batch_at(at)
            follows = batch.base_offset == next_offset if next_offset >= 0 else batch.base_offset >= self._epoch_start
            if not follows:
                raise ValueError(f"a batch of offset {batch.base_offset}, where {next_offset} follows")
            new.append(batch)
            at, next_offset = at + batch.size, batch.last_offset + 1
        if at != end or not new:
            raise ValueError(f"no whole batches at {position}")
        self._batches += new
        del self._batches[:-MOST_BATCHES]
        self.end_offset = next_offset

    def _batch_at(self, position: int) -> Batch:
        header = os.pread(self._files[-1], HEADER_END, position)
        if len(header) < HEADER_END:
            raise ValueError(f"no batch at {position}")
        base_offset, length, epoch, magic, _, _, delta = HEADER.unpack_from(header)
        if epoch != self.epoch or magic != 2 or delta < 0 or base_offset < 0 or length < HEADER_END - LENGTH_END:
            raise ValueError(f"no batch of epoch {self.epoch} at {position}")
        return Batch(base_offset, base_offset + delta, self._files[-1], position, length + LENGTH_END)

    def read(self, offset: int, max_bytes: int) -> bytes | None:
        """DiskRaftLog.read; None for an unknown offset, and if a file has other bytes."""
        if not self._epoch_start < offset <= self.end_offset or offset < self._batches[0].base_offset:
            return None
        found = b""
        behind = [batch for batch in self._batches if batch.last_offset >= offset]
        for batch in behind:
            if batch.file != behind[0].file or (found and len(found) + batch.size > max_bytes):
                break
            piece = os.pread(batch.file, batch.size, batch.position)
            if len(piece) < batch.size or int.from_bytes(piece[:8]) != batch.base_offset:
                return None
            found += piece
        return found
