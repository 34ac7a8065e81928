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

    def first_batch(self) -> tuple[int, int]:
        """The offset after the first batch that the stream has not read, and the batch's bytes.

        `end` and 0 without a readable batch.
        """
        for path in self.paths:
            batches = scan_log(map_file(path), check_crc=False, stop=True, skip=True)
            rows = np.flatnonzero(batches.last_offset >= self.first)
            if len(rows):
                return min(self.end, int(batches.last_offset[rows[0]]) + 1), int(batches.size[rows[0]])
        return self.end, 0


def limited(backlogs: Mapping[str, Backlog], most_bytes: int, waiting: Sequence[str] = ()) -> dict[str, int]:
    """The end of each partition in the next micro-batch.

    All partitions share the limit equally, and a partition with less than its share leaves the rest to the others. If
    no batch fits, the limit is exceeded by one batch: otherwise the stream would stand still. `waiting`: partitions
    that `still_waiting` has found. The first one gets a batch, even if its share is smaller: otherwise other
    partitions, which always have new records, could take the limit for ever.
    """
    ends: dict[str, int] = {}
    by_size, left = sorted(backlogs, key=lambda name: backlogs[name].size), most_bytes
    if (longest := next((name for name in waiting if name in backlogs), None)) is not None:
        backlog = backlogs[longest]
        ends[longest], used = backlog.end_within(left // len(backlogs))
        if ends[longest] == backlog.first:
            ends[longest], used = backlog.first_batch()
        left = max(0, left - used)
        by_size.remove(longest)
    for done, name in enumerate(by_size):
        ends[name], used = backlogs[name].end_within(left // (len(by_size) - done))
        left -= used
    if by_size and all(ends[name] == backlogs[name].first for name in ends):
        ends[by_size[0]] = backlogs[by_size[0]].first_batch()[0]
    return ends


def still_waiting(backlogs: Mapping[str, Backlog], ends: Mapping[str, int], waiting: Sequence[str]) -> list[str]:
    """The partitions of which a micro-batch reads nothing, the one that has waited longest first.

    `ends`: the result of `limited`. `waiting`: the result of this function for the micro-batch before.
    """
    found = {name for name, backlog in backlogs.items() if ends[name] == backlog.first}
    return [*(name for name in waiting if name in found), *(name for name in backlogs if name in found - {*waiting})]
