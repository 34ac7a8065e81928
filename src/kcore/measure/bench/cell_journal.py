"""The finished cells of a run, in a file that keeps them if the driver ends at any moment.

The first line has the plan and the code of kcore, each further line the rows of one cell. A line is appended and synced
when its cell is done. If the driver ends while it writes, the last line is incomplete: the next driver cuts it off.
"""

import json
import os
from io import BufferedReader, FileIO
from itertools import zip_longest
from pathlib import Path
from typing import Any, Final, Self

import pyarrow as pa

from kcore.errors import StorageError
from kcore.measure.bench.bench_plan import Plan
from kcore.measure.bench.bench_results import lacking
from kcore.measure.report import result_files
from kcore.measure.report.own_code import DIGITS, own_sha256
from kcore.measure.report.result_files import CELLS
from kcore.spark.place import batch_of
from kcore.storage.files import OS, open_file, sync_folder, write_all

_MOST_LINE: Final = 1 << 28  # The most bytes of one cell's rows.
_FORMAT: Final = "kcore bench cells 1"


class CellJournal:
    """Appends the rows of finished cells to cells.jsonl in a results folder; `batches` are those of earlier drivers."""

    def __init__(self, directory: Path, plan: Plan) -> None:
        """A journal for a new run; `begin` creates its file."""
        self.path = directory / CELLS
        self.batches: list[pa.RecordBatch] = []
        self.count = 0  # Finished cells, also those of earlier drivers.
        self._head = {"format": _FORMAT, "plan": plan.to_toml(), "kcore_sha256": own_sha256()}
        self._file: int | None = None

    @classmethod
    def resume(cls, directory: Path, plan: Plan) -> Self:
        """The journal of an unfinished run in the folder.

        Raises StorageError if there is none, or if it is of another plan or of other code of kcore. The same error
        names a damaged line, and a file that another driver writes. Raises OSError if the file cannot be opened.
        """
        journal = cls(directory, plan)
        if not journal.path.exists():
            raise StorageError(f"{directory}: no unfinished run of kcore bench is there: it has no {CELLS}")
        journal._open(os.O_RDWR | os.O_APPEND)
        try:
            journal._read()
        except BaseException:
            journal.close()
            raise
        return journal

    def begin(self) -> None:
        """Called before the first cell runs: a new run removes the results of an earlier run from its folder."""
        if self._file is not None:
            return
        result_files.clear(self.path.parent)
        self._open(os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL)
        self._append(self._head)
        sync_folder(self.path.parent)

    def add(self, batch: pa.RecordBatch) -> None:
        """Appends the rows of a finished cell, which are then durable. StorageError if the disk is full or broken."""
        self._append(batch.to_pylist())
        self.count += 1

    def close(self) -> None:
        """Closes the file; another driver may resume it."""
        if self._file is not None:
            OS.close(self._file)
            self._file = None

    def end(self, cells: int) -> None:
        """Closes the file, and removes it if the results of all cells, or of none, are written."""
        self.close()
        if self.count in (0, cells):
            self.path.unlink(missing_ok=True)

    def _open(self, flags: int) -> None:
        self._file = open_file(self.path, flags)
        if not OS.lock(self._file):
            self.close()
            raise StorageError(f"{self.path}: another driver writes this run")

    def _append(self, value: Any) -> None:
        assert self._file is not None
        try:
            write_all(self._file, json.dumps(value).encode() + b"\n")
            OS.fsync(self._file)
        except OSError as error:
            raise StorageError(f"{self.path}: {error.strerror or error}") from None

    def _read(self) -> None:
        """Reads the whole lines, and cuts off what follows them."""
        assert self._file is not None
        end = number = 0
        with BufferedReader(FileIO(self._file, closefd=False)) as lines:  # Another descriptor's end would end the lock.
            while (line := lines.readline(_MOST_LINE)).endswith(b"\n"):
                number, end = number + 1, end + len(line)
                self._take(number, line)
        if len(line) == _MOST_LINE:
            raise StorageError(f"{self.path}: line {number + 1} has more than {_MOST_LINE:,} bytes")
        OS.ftruncate(self._file, end)
        if not number:  # The driver ended before it had written the first line.
            self._append(self._head)

    def _take(self, number: int, line: bytes) -> None:
        try:
            value = json.loads(line)
            if number > 1:
                rows = value if isinstance(value, list) and value else [{}]
                if missing := next(filter(None, map(lacking, rows)), ""):
                    raise ValueError(missing)
                self.batches.append(batch_of(rows))
                self.count += 1
                return
        except (ValueError, TypeError, AttributeError, RecursionError, OverflowError, pa.ArrowException) as error:
            raise StorageError(f"{self.path}: line {number} is damaged: {error}") from None
        self._check_head(value)

    def _check_head(self, head: Any) -> None:
        folder = self.path.parent
        if not isinstance(head, dict) or head.get("format") != _FORMAT:
            raise StorageError(f"{self.path}: not the cells of a run of kcore bench")
        if head.get("plan") != self._head["plan"]:
            changed = _first_difference(str(head.get("plan")), self._head["plan"])
            raise StorageError(f"{folder}: the run there has another plan ({changed}): give the same plan and options")
        if head.get("kcore_sha256") != self._head["kcore_sha256"]:
            code = f"{str(head.get('kcore_sha256'))[:DIGITS]}, this is {self._head['kcore_sha256'][:DIGITS]}"
            raise StorageError(f"{folder}: other code of kcore began the run there ({code}): start a new run")


def _first_difference(there: str, here: str) -> str:
    pairs = zip_longest(there.splitlines(), here.splitlines(), fillvalue="nothing")
    one, other = next((pair for pair in pairs if pair[0] != pair[1]), (there, here))
    return f"{one:.80} there, {other:.80} here"
