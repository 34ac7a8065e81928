"""The `.txnindex` of a segment in use: the aborted transactions whose end markers lie in the segment (KIP-98).

Source: TransactionIndex of 3.9.1.
"""

import os
from bisect import bisect_left
from collections.abc import Sequence
from pathlib import Path

from kcore.broker.replicas.transactions import AbortedTransaction
from kcore.errors import StorageError
from kcore.storage.files import OS, FileSystem, is_there, opened, remove, sync_file, write_all, write_atomically
from kcore.storage.log.indexes import format_aborted, read_aborted
from kcore.storage.log.segment import TRANSACTION_INDEX, beside


class TransactionIndex:
    """There is no file while nothing was aborted. OSError where the disk fails, StorageError for a broken file."""

    def __init__(self, segment: Path, files: FileSystem = OS) -> None:
        """Beside that segment."""
        self._segment, self._path, self._files = segment, beside(segment, TRANSACTION_INDEX), files
        self._entries: list[AbortedTransaction] | None = None if is_there(self._path, files) else []

    @property
    def entries(self) -> Sequence[AbortedTransaction]:
        """All, by the offsets of their end markers."""
        return self._read()

    def _read(self) -> list[AbortedTransaction]:
        """The file, at the first need."""
        if self._entries is None:
            self._entries = read_aborted(self._path, self._files.size_of(self._segment), self._files)
        return self._entries

    def is_whole(self) -> bool:
        """False for a file that a power cut has torn."""
        try:
            self._read()
        except StorageError:
            return False
        return True

    def overlapping(self, offset: int, end_offset: int) -> tuple[list[AbortedTransaction], bool]:
        """Transactions with records or end marker in [offset, end_offset), and True if no later segment has others."""
        found, entries = [], self.entries
        for each in entries[bisect_left(entries, offset, key=lambda entry: entry.last_offset) :]:
            if each.first_offset < end_offset:
                found.append(each)
            if each.last_stable_offset >= end_offset:
                return found, True
        return found, False

    def append(self, transactions: list[AbortedTransaction]) -> None:
        """Transactions whose end markers lie after all others of the index."""
        if transactions:
            known = self._read()
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
            with opened(self._path, flags, files=self._files) as file:
                write_all(file, format_aborted(transactions), self._files)
            known.extend(transactions)

    def sync(self) -> None:
        """Makes appended entries durable."""
        if self._entries != []:
            sync_file(self._path, self._files)

    def moved_to(self, segment: Path) -> None:
        """Beside that name of the segment from now on: its folder was renamed."""
        self._segment, self._path = segment, beside(segment, TRANSACTION_INDEX)

    def truncate_to(self, offset: int) -> None:
        """Forgets end markers from `offset` on, and a file that is broken altogether."""
        if self._entries == []:
            return
        kept = [each for each in self.entries if each.last_offset < offset] if self.is_whole() else []
        if kept:
            write_atomically(self._path, format_aborted(kept), self._files)
        else:
            remove(self._path, self._files)
        self._entries = kept
