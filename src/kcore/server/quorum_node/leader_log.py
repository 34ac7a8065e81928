"""Passes a leader's log and high watermark to the answer loop.

The node's own state changes first: a batch is passed to the loop once the batch is in the log's file.
"""

import asyncio

from kcore._ext import answer_loop as kernel
from kcore.raft.states import Leader
from kcore.storage.log.segmented_log import Place
from kcore.storage.raft.file_raft_log import DiskRaftLog


class LeaderLog:
    """The part of the log that the loop may send to observers."""

    def __init__(self, loop: kernel.Loop, log: DiskRaftLog) -> None:
        self._loop, self.log = loop, log
        self._leading: Leader | None = None  # The leader that the loop answers for.
        self._end = self._high_watermark = -1
        self._written = Place(-1, 0)  # The end of the last batch that the loop has.
        self._is_scheduled = False  # A call that passes the appends to the loop is scheduled.

    def change_leader(self, leading: Leader | None) -> None:
        """Begins with the log of another leader; None: the node does not lead."""
        self._leading, self._written = leading, Place(-1, 0)
        self._end = self._high_watermark = -1

    def follow(self, high_watermark: int | None) -> None:
        """Passes a new high watermark with all appends before it, and schedules the call that passes other appends."""
        if high_watermark is not None and high_watermark != self._high_watermark:
            self._pass_appends()
            self._high_watermark = high_watermark
            self._loop.committed(high_watermark)
        elif self.log.end_offset != self._end and not self._is_scheduled:
            self._is_scheduled = True
            asyncio.get_running_loop().call_soon(self._pass_appends_later)

    def _pass_appends_later(self) -> None:
        """Passes the appends of several events to the loop together; the loop needs them only at the next commit."""
        self._is_scheduled = False
        self._pass_appends()

    def _pass_appends(self) -> None:
        log, leading = self.log, self._leading
        if leading is None or log.end_offset == self._end:
            return
        segment, _ = since = self._written
        if segment < 0:
            since = log.place_of(leading.epoch_start_offset)
        for begin, count in log.written_since(since):
            if begin.base_offset != segment:
                segment = begin.base_offset
                self._loop.begin_segment(log.open_segment(segment))
            self._loop.appended(begin.position, count)
            self._written = Place(segment, begin.position + count)
        self._end = log.end_offset
