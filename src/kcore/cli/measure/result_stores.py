"""The stores of results besides the local folder: the table of `--table`, and the folder of a URI at `--out`."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Final, NamedTuple

import pyarrow as pa
import typer
from rich.console import Console
from rich.markup import escape

from kcore.cli.console import fail, say
from kcore.measure.report.exits import Exit
from kcore.measure.report.result_files import is_result
from kcore.measure.report.result_table import ResultTable
from kcore.measure.report.uri_folder import UriFolder
from kcore.storage.uris import without_password

STORM: Final = "storm"  # The folder of the storm's results, inside the run's folder.
Out = Annotated[
    str | None,
    typer.Option(
        metavar="DIR|URI",
        show_default=False,
        help="Results folder; default out/COMMAND-<time>. With a URI, such as s3://BUCKET/DIR, the results are copied "
        "there from the default folder.",
    ),
]
Table = Annotated[
    str | None,
    typer.Option(
        metavar="URI",
        help="Also append the rows to the table of runs at this path or URI, such as s3://BUCKET/DIR: Parquet, with a "
        "partition for each run.",
    ),
]


class Stores(NamedTuple):
    """The stores of a run; None for one that the run does not have."""

    table: ResultTable | None = None
    folder: UriFolder | None = None

    def append(self, rows: pa.Table, plan: str, directory: Path, console: Console) -> None:
        """Appends a run to the table. A failure ends the command with one line, since `directory` has the results."""
        if self.table is not None:
            with _stored("--table", self.table.uri, directory):
                run = self.table.append(rows, plan)
            console.print(f"Appended to {escape(self.table.uri)} as the run {run}", soft_wrap=True)

    def copy(self, directory: Path, console: Console) -> None:
        """Copies `directory` to the folder, in place of earlier results. A failure ends the command with one line."""
        if self.folder is not None:
            with _stored("--out", self.folder.uri, directory):
                self.folder.replace(directory, STORM)
            console.print(f"Copied to {escape(self.folder.uri)}", soft_wrap=True)


NO_STORES: Final = Stores()


def stores_of(out: str | None, table: str | None, overwrite: bool) -> tuple[Path | None, Stores]:
    """The local folder of --out, None for the default one, and the stores.

    Ends the command with exit code 2 if a store is not writable, or has results that are not to be overwritten.
    """
    runs = None if table is None else _table_at(table)
    if out is None or "://" not in out:
        return None if out is None else Path(out), Stores(runs)
    folder = _folder_at(out, overwrite)
    return folder.local, Stores(runs, folder if folder.local is None else None)


def _table_at(uri: str) -> ResultTable:
    try:
        found = ResultTable(uri)
        found.check()
    except Exception as error:  # A file system of fsspec raises errors of its package.
        fail(store_error("--table", uri, error))
    return found


def _folder_at(uri: str, overwrite: bool) -> UriFolder:
    try:
        folder = UriFolder(uri)
        if folder.local is not None:
            return folder  # `results_directory` checks it.
        folder.check()
        present = [name for name in folder.names() if is_result(name)]
    except Exception as error:  # A file system of fsspec raises errors of its package.
        fail(store_error("--out", uri, error))
    if present and not overwrite:
        held = f"{folder.uri} holds the results of an earlier run ({present[0]})"
        fail(f"--out: {held}: name another folder or add --overwrite")
    return folder


def store_error(option: str, uri: str, error: Exception) -> str:
    """An error of a store in one line, without passwords."""
    return without_password(f"{option} {uri}: {' '.join(str(error).split())}")


@contextmanager
def _stored(option: str, uri: str, directory: Path) -> Iterator[None]:
    try:
        yield
    except Exception as error:  # A file system of fsspec raises errors of its package.
        say(f"kcore: {store_error(option, uri, error)}: the results are in {directory} only", err=True)
        raise typer.Exit(Exit.INVALID) from None
