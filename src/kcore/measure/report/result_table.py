"""A table of many runs at one URI: a folder of Parquet with a partition for each run, as Spark and Hive read it.

Each run is one file, `run=ID/results.parquet`. Its rows are those of the run's results.parquet, with the columns `plan`
and `started`; its metadata are the run's facts. Rows name their host, and the kcore that measured them.
"""

import re
from datetime import datetime
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit
from uuid import uuid4

from kcore.extras import needs
from kcore.measure.report.result_files import facts_of
from kcore.suggestions import did_you_mean

with needs("report"):
    import pyarrow as pa
    import pyarrow.parquet as pq
    from pyarrow import fs

FILE: Final = "results.parquet"
_RUN: Final = "run="
_NAME: Final = re.compile(r"[\w.-]{1,200}")
_ALIASES: Final = {"s3a": "s3", "s3n": "s3"}  # Hadoop's names for S3.
_MOST_SHOWN: Final = 5


class ResultTable:
    """The runs that commands have appended at a URI or a path; the URI's scheme is one of `pyarrow.fs`."""

    def __init__(self, uri: str) -> None:
        """Finds the file system, such as that of file:///DIR, s3://BUCKET/DIR or hdfs://HOST:PORT/DIR.

        Raises ValueError for another scheme, OSError if the file system does not answer.
        """
        self.uri = uri
        parts = urlsplit(uri)
        try:
            if parts.scheme and "://" in uri:
                scheme = _ALIASES.get(parts.scheme, parts.scheme)
                self._files, self._root = fs.FileSystem.from_uri(parts._replace(scheme=scheme).geturl())
            else:
                self._files, self._root = fs.LocalFileSystem(), str(Path(uri).resolve())
        except pa.ArrowException as error:
            raise ValueError(_first_line(error)) from None

    def check(self) -> None:
        """Raises OSError unless the table's folder can be read. Creates it on a local disk."""
        if self._files.type_name == "local":
            self._files.create_dir(self._root, recursive=True)
        self.runs()

    def runs(self) -> list[str]:
        """The names of all runs, the oldest first; none if the folder does not exist."""
        selector = fs.FileSelector(self._root, allow_not_found=True)
        names = [each.base_name for each in self._files.get_file_info(selector)]
        return sorted(name.removeprefix(_RUN) for name in names if name.startswith(_RUN))

    def append(self, table: pa.Table, plan: str) -> str:
        """Adds a run with these rows and facts, and returns its name, which begins with its time and host.

        On a local disk the file appears whole. Raises OSError if it cannot be written.
        """
        facts = facts_of(table)
        run = _name_of(facts)
        for name, text in (("plan", plan), ("started", facts.get("when"))):
            table = table.append_column(name, pa.array([text] * len(table), pa.string()))
        folder = f"{self._root}/{_RUN}{run}"
        self._files.create_dir(folder, recursive=True)
        part = f"{folder}/.{FILE}.part" if self._files.type_name == "local" else f"{folder}/{FILE}"
        pq.write_table(table, part, filesystem=self._files)
        if part != f"{folder}/{FILE}":
            self._files.move(part, f"{folder}/{FILE}")
        return run

    def read(self, run: str) -> pa.Table:
        """The rows of a run, with its facts. `run` is the name, or its beginning, if only one run begins so.

        Raises ValueError for an unknown run, OSError if it cannot be read.
        """
        name = self._whole_name(run)
        return pq.ParquetFile(self._files.open_input_file(f"{self._root}/{_RUN}{name}/{FILE}")).read()

    def _whole_name(self, run: str) -> str:
        runs = self.runs()
        found = [name for name in runs if name == run] or [name for name in runs if name.startswith(run)]
        if len(found) == 1:
            return found[0]
        if found:
            raise ValueError(f"{len(found)} runs begin with {run!r}: {', '.join(found[-_MOST_SHOWN:])}")
        newest = f"the newest are {', '.join(runs[-_MOST_SHOWN:])}" if runs else "the table has no run"
        raise ValueError(f"there is no run {run!r}{did_you_mean(run, runs, newest)}")


def _name_of(facts: dict[str, Any]) -> str:
    """A name that sorts by time: the time of the run, its host, and eight random digits."""
    when = datetime.fromisoformat(str(facts["when"])).strftime("%Y%m%dT%H%M%SZ")
    host = "".join(_NAME.findall(str(facts.get("machine", {}).get("host", ""))))
    return f"{when}-{host or 'host'}-{uuid4().hex[:8]}"


def _first_line(error: Exception) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__)
