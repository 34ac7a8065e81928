"""A table of many runs at one URI: a folder of Parquet with a partition for each run, as Spark and Hive read it.

Each run is one file, `run=ID/results.parquet`. Its rows are those of the run's results.parquet, with the columns
`plan`, `started`, `host`, `kcore_sha256` and `kcore_commit`; its metadata are the run's facts.
"""

import re
from datetime import datetime
from typing import Any, Final
from uuid import uuid4

from kcore.extras import needs
from kcore.measure.report.result_files import facts_of
from kcore.measure.report.uri_folder import UriFolder
from kcore.suggestions import did_you_mean

with needs("report"):
    import pyarrow as pa
    import pyarrow.parquet as pq

FILE: Final = "results.parquet"
_RUN: Final = "run="
_NAME: Final = re.compile(r"[\w.-]{1,200}")
_MOST_SHOWN: Final = 5


class ResultTable:
    """The runs that commands have appended at a URI or a path, as `UriFolder` takes it."""

    def __init__(self, uri: str) -> None:
        """Raises ValueError or OSError as `UriFolder` does."""
        self._folder = UriFolder(uri)
        self.uri = self._folder.uri

    def check(self) -> None:
        """Raises OSError unless the table's folder can be read and written. Creates it on a local disk."""
        self._folder.check()
        self.runs()

    def runs(self) -> list[str]:
        """The names of all runs, the oldest first; none if the folder does not exist."""
        return sorted(name.removeprefix(_RUN) for name in self._folder.names() if name.startswith(_RUN))

    def append(self, table: pa.Table, plan: str) -> str:
        """Adds a run with these rows and facts, and returns its name, which begins with its time and host.

        On a local disk the file appears whole. Raises OSError if it cannot be written.
        """
        facts = facts_of(table)
        run, code = _name_of(facts), facts.get("code", {})
        about = {"plan": plan, "started": facts.get("when"), "host": facts.get("machine", {}).get("host")}
        about |= {"kcore_sha256": code.get("sha256"), "kcore_commit": code.get("commit")}
        for name in [name for name in about if name not in table.column_names]:
            table = table.append_column(name, pa.array([about[name]] * len(table), pa.string()))
        files, folder = self._folder.files, f"{self._folder.path}/{_RUN}{run}"
        files.create_dir(folder, recursive=True)
        part = f"{folder}/{FILE}" if self._folder.local is None else f"{folder}/.{FILE}.part"
        pq.write_table(table, part, filesystem=files)
        if part != f"{folder}/{FILE}":
            files.move(part, f"{folder}/{FILE}")
        return run

    def read(self, run: str) -> pa.Table:
        """The rows of a run, with its facts. `run` is the name, or its beginning, if only one run begins so.

        Raises ValueError for an unknown run, OSError if it cannot be read.
        """
        name = self._whole_name(run)
        return pq.ParquetFile(self._folder.files.open_input_file(f"{self._folder.path}/{_RUN}{name}/{FILE}")).read()

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
