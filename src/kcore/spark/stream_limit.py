"""The limit of a micro-batch: how far each partition may be read, so that all together have at most so many bytes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from kcore.storage.log.segment import map_file
from kcore.wire.log_formats import scan_log

_AT_ONCE: Final = 10_000  # Batch headers per step, so that a short limit reads few headers of a long segment.


@dataclass(frozen=True, slots=True)
class Backlog:
    """The records of a partition that a stream has not read: offsets from `first` to `end`, and their segments."""

    first: int
    end: int
    paths: Sequence[Path]
    size: int  # Bytes of the segments; the first one may have records before `first`.

    def end_within(self, most_bytes: int) -> tuple[int, int]:
        """The offset after the batches that fit into `most_bytes`, and their bytes. Whole batches only."""
        offset, used = self.first, 0
        for path in self.paths:
            data, start = map_file(path), 0
            while start < len(data):
                batches = scan_log(data, start=start, limit=_AT_ONCE, check_crc=False, stop=True, skip=True)
                is_new = batches.last_offset >= self.first
                ends = used + np.cumsum(np.where(is_new, batches.size, 0), dtype=np.int64)
                fits = (ends <= most_bytes) | ~is_new
                is_over = ~fits | (batches.last_offset >= self.end)
                count = int(is_over.argmax()) if is_over.any() else len(batches)
                if count and is_new[count - 1]:
                    offset, used = int(batches.last_offset[count - 1]) + 1, int(ends[count - 1])
                if count < len(batches):
                    return offset, used
                if batches.problem or not len(batches):
                    break
                start = batches.end
        return self.end, used

    def end_of_first(self) -> int:
        """The offset after the first batch that the stream has not read; `end` without a readable batch."""
        for path in self.paths:
            batches = scan_log(map_file(path), check_crc=False, stop=True, skip=True)
            rows = np.flatnonzero(batches.last_offset >= self.first)
            if len(rows):
                return min(self.end, int(batches.last_offset[rows[0]]) + 1)
        return self.end


def limited(backlogs: Mapping[str, Backlog], most_bytes: int) -> dict[str, int]:
    """The end of each partition in the next micro-batch.

    All partitions share the limit equally, and a partition with less than its share leaves the rest to the others. If
    no batch fits, the limit is exceeded by one batch: otherwise the stream would stand still.
    """
    ends: dict[str, int] = {}
    left = most_bytes
    for done, name in enumerate(by_size := sorted(backlogs, key=lambda name: backlogs[name].size)):
        ends[name], used = backlogs[name].end_within(left // (len(by_size) - done))
        left -= used
    if backlogs and all(ends[name] == backlogs[name].first for name in by_size):
        ends[by_size[0]] = backlogs[by_size[0]].end_of_first()
    return ends
