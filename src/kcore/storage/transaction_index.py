"""The `.txnindex` of a segment in use: the aborted transactions whose end markers lie in the segment (KIP-98).

Source: TransactionIndex of 3.9.1.
"""

import os
from bisect import bisect_left
from collections.abc import Sequence
from pathlib import Path

from kcore.broker.replicas.transactions import AbortedTransaction
from kcore.errors import StorageError
from kcore.storage.files import is_there, open_reader, open_writer, write_all, write_atomically
from kcore.storage.indexes import format_aborted, read_aborted
from kcore.storage.segment import TRANSACTION_INDEX


class TransactionIndex:
    """There is no file while nothing was aborted. OSError where the disk fails, StorageError for a broken file."""

    def __init__(self, segment: Path) -> None:
        """Beside that segment."""
        self._segment, self._path = segment, segment.with_suffix(TRANSACTION_INDEX)
        self._entries: list[AbortedTransaction] | None = None if is_there(self._path) else []

    @property
    def entries(self) -> Sequence[AbortedTransaction]:
        """All, by the offsets of their end markers."""
        return self._read()

    def _read(self) -> list[AbortedTransaction]:
        """The file, at the first need."""
        if self._entries is None:
            self._entries = read_aborted(self._path, self._segment.stat().st_size)
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
        """Transactions whose end markers lie behind all others of the index."""
        if transactions:
            known = self._read()
            with open_writer(self._path, os.O_APPEND) as file:
                write_all(file, format_aborted(transactions))
            known.extend(transactions)

    def sync(self) -> None:
        """What was appended is on the disk when this returns."""
        if self._entries != []:
            with open_reader(self._path) as file:
                os.fsync(file.fileno())

    def truncate_to(self, offset: int) -> None:
        """Forgets end markers from `offset` on, and a file that is broken altogether."""
        if self._entries == []:
            return
        kept = [each for each in self.entries if each.last_offset < offset] if self.is_whole() else []
        if kept:
            write_atomically(self._path, format_aborted(kept))
        else:
            self._path.unlink(missing_ok=True)
        self._entries = kept
