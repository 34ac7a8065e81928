"""Results on disk: Arrow tables, with the run's facts (machine, versions, plan) in the schema's metadata."""

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final

from kcore.extras import needs
from kcore.storage.files import open_reader, read_text

with needs("report"):
    import pyarrow as pa
    import pyarrow.parquet as pq

METADATA_KEY = b"kcore"
_MOST_BYTES: Final = 1 << 28  # The largest results.jsonl that is read.
RESULTS: Final = "results.parquet"
CELLS: Final = "cells.jsonl"  # The finished cells of a run of `kcore bench` that has not ended.
# Every file that a command writes into a results folder.
RESULT_FILES: Final = (
    *(RESULTS, "results.jsonl", "plan.toml", "report.html", "medians.json", "curves.json"),
    *("rivals.parquet", "rivals.jsonl", "targets.jsonl", "ranges.jsonl"),
    *("profile.jsonl", CELLS),
)
_PROFILES: Final = tuple(f"profile-*.{kind}" for kind in ("folded", "svg", "html"))  # One for each target and size.


def with_facts(table: pa.Table, facts: dict[str, Any]) -> pa.Table:
    """The table with machine, versions and plan in its metadata, where Parquet keeps them."""
    return table.replace_schema_metadata({METADATA_KEY: json.dumps(facts).encode()})


def facts_of(table: pa.Table) -> dict[str, Any]:
    """The facts that `with_facts` stored; empty if the table has none."""
    return facts_in(table.schema)


def facts_in(schema: pa.Schema) -> dict[str, Any]:
    """As `facts_of`, from a schema instead of a table."""
    facts: dict[str, Any] = json.loads((schema.metadata or {}).get(METADATA_KEY, b"{}"))
    return facts


def results_file(path: Path) -> Path:
    """The results file in a folder that `write` filled, or the given file itself."""
    return path / RESULTS if path.is_dir() else path


def columns_in(path: Path) -> list[str]:
    """The columns of a results file; of JSON lines, the fields of the first. OSError or ValueError for other files."""
    if is_lines(path):
        return [*next(rows_of_lines(read_text(path, _MOST_BYTES)), {})]
    open_reader(path).close()  # Refuses a FIFO, on which Arrow would wait for a writer.
    names: list[str] = pq.read_schema(path).names
    return names


def is_lines(path: Path) -> bool:
    """True if the name is that of JSON lines, which commands write and print with --json; False for Parquet."""
    return path.suffix in (".jsonl", ".json")


def read_results(path: Path, table_of: Callable[[list[dict[str, Any]]], pa.Table]) -> pa.Table:
    """Reads a results file; `table_of` makes a table of JSON rows. OSError or ValueError for other files."""
    if is_lines(path):
        return table_of([*rows_of_lines(read_text(path, _MOST_BYTES))])
    open_reader(path).close()
    return pq.read_table(path)


def rows_of_lines(text: str) -> Iterator[dict[str, Any]]:
    """Reads one JSON object per line; ValueError, with the number of the line, for other input."""
    for number, line in enumerate(text.splitlines(), start=1):
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"line {number}: {error}") from None
        if not isinstance(row, dict):
            raise ValueError(f"line {number}: not a JSON object")
        yield row


def filled(table: pa.Table, schema: pa.Schema, needed: Collection[str]) -> pa.Table:
    """The table with the columns of `schema`. Columns that the table lacks, as in results of older versions, are null.

    ValueError if one of `needed` is missing, or a column cannot be cast.
    """
    if lacking := [name for name in needed if name not in table.schema.names]:
        raise ValueError(f"it has no column {', '.join(lacking)}")
    for each in schema:
        if each.name not in table.schema.names:
            table = table.append_column(each.name, pa.nulls(len(table), each.type))
    return table.select(schema.names).cast(schema.with_metadata(table.schema.metadata))


def write(table: pa.Table, directory: Path) -> None:
    """Removes the files of an earlier run, then writes results.parquet and results.jsonl."""
    clear(directory)
    write_rows(table, directory)


def write_rows(table: pa.Table, directory: Path) -> None:
    """Writes results.parquet and results.jsonl."""
    write_table(directory / RESULTS, table)
    write_lines(directory / "results.jsonl", table.to_pylist(maps_as_pydicts="strict"))


@contextmanager
def whole(path: Path) -> Iterator[Path]:
    """Yields a temporary path to write to. At the end the file is renamed to `path`; after an error it is removed."""
    if path.exists() and not path.is_file():  # Renaming would replace a device or a pipe by a file.
        yield path
        return
    part = path.with_name(f".{path.name}.part")
    try:
        yield part
        part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def write_text(path: Path, text: str) -> None:
    """Writes a text: the whole file, or OSError and no file."""
    with whole(path) as part:
        part.write_text(text, encoding="utf-8")


def write_lines(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Writes JSON objects, one per line: the whole file, or OSError and no file."""
    with whole(path) as part, part.open("w", encoding="utf-8") as lines:
        lines.writelines(json.dumps(row) + "\n" for row in rows)


def write_table(path: Path, table: pa.Table) -> None:
    """Writes Parquet: the whole file, or OSError and no file."""
    with whole(path) as part:
        pq.write_table(table, part)


def is_result(name: str) -> bool:
    """True for the name of a file that a command writes into a results folder."""
    return name in RESULT_FILES or any(fnmatchcase(name, pattern) for pattern in _PROFILES)


def clear(directory: Path) -> None:
    """Creates the folder, or removes the files of an earlier run from it: a folder never has files of two runs."""
    directory.mkdir(parents=True, exist_ok=True)
    for path in [path for path in directory.iterdir() if is_result(path.name)]:
        path.unlink(missing_ok=True)
