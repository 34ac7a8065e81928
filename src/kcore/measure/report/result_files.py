"""Results on disk: Arrow tables, with what the figures need beside them in the schema's metadata."""

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from kcore.extras import needs
from kcore.storage.files import open_reader, read_text

with needs("report"):
    import pyarrow as pa
    import pyarrow.parquet as pq

METADATA_KEY = b"kcore"
_MOST_BYTES: Final = 1 << 28  # The largest results.jsonl that is read.
# All that commands keep in a results folder.
RESULT_FILES: Final = (
    *("results.parquet", "results.jsonl", "plan.toml", "report.html", "medians.json", "curves.json"),
    *("rivals.parquet", "rivals.jsonl", "targets.jsonl", "ranges.jsonl"),
    "profile.jsonl",
)
_PROFILES: Final = tuple(f"profile-*.{kind}" for kind in ("folded", "svg", "html"))  # One a target and size.


def with_facts(table: pa.Table, facts: dict[str, Any]) -> pa.Table:
    """The table with machine, versions and plan in its metadata, where Parquet keeps them."""
    return table.replace_schema_metadata({METADATA_KEY: json.dumps(facts).encode()})


def facts_of(table: pa.Table) -> dict[str, Any]:
    """The facts that `with_facts` stored; empty if the table has none."""
    return facts_in(table.schema)


def facts_in(schema: pa.Schema) -> dict[str, Any]:
    """Like `facts_of`, from the schema alone."""
    facts: dict[str, Any] = json.loads((schema.metadata or {}).get(METADATA_KEY, b"{}"))
    return facts


def results_file(path: Path) -> Path:
    """The results file in a folder that `write` filled, or the given file itself."""
    return path / "results.parquet" if path.is_dir() else path


def columns_in(path: Path) -> list[str]:
    """The columns of a `results_file`; of lines those of the first one. OSError or ValueError if it is none."""
    if is_lines(path):
        return [*next(rows_of_lines(read_text(path, _MOST_BYTES)), {})]
    open_reader(path).close()  # Arrow would wait for whoever writes to a FIFO.
    names: list[str] = pq.read_schema(path).names
    return names


def is_lines(path: Path) -> bool:
    """JSON lines by its name, as commands keep them and print them with --json; else Parquet."""
    return path.suffix in (".jsonl", ".json")


def read_results(path: Path, table_of: Callable[[list[dict[str, Any]]], pa.Table]) -> pa.Table:
    """From a `results_file`; `table_of` makes a table of rows. OSError or ValueError if it is none."""
    if is_lines(path):
        return table_of([*rows_of_lines(read_text(path, _MOST_BYTES))])
    open_reader(path).close()
    return pq.read_table(path)


def rows_of_lines(text: str) -> Iterator[dict[str, Any]]:
    """Reads one JSON object per line; ValueError for other input, with its line."""
    for number, line in enumerate(text.splitlines(), start=1):
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"line {number}: {error}") from None
        if not isinstance(row, dict):
            raise ValueError(f"line {number}: not a JSON object")
        yield row


def filled(table: pa.Table, schema: pa.Schema, needed: Collection[str]) -> pa.Table:
    """The table with the columns of `schema`: those that are missing, as in results of older versions, are null.

    ValueError if one of `needed` is missing, or a column cannot be cast.
    """
    if lacking := [name for name in needed if name not in table.schema.names]:
        raise ValueError(f"it has no column {', '.join(lacking)}")
    for each in schema:
        if each.name not in table.schema.names:
            table = table.append_column(each.name, pa.nulls(len(table), each.type))
    return table.select(schema.names).cast(schema.with_metadata(table.schema.metadata))


def write(table: pa.Table, directory: Path) -> None:
    """results.parquet and results.jsonl, each whole; the files of an earlier run are removed first."""
    clear(directory)
    write_table(directory / "results.parquet", table)
    write_lines(directory / "results.jsonl", table.to_pylist(maps_as_pydicts="strict"))


@contextmanager
def whole(path: Path) -> Iterator[Path]:
    """Another name to write to; the file gets its own name when it is complete, and is removed if it cannot be."""
    if path.exists() and not path.is_file():  # A device or a pipe has no other name.
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
    """The file whole, or OSError and no file."""
    with whole(path) as part:
        part.write_text(text, encoding="utf-8")


def write_lines(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Writes JSON objects, one a line: the whole file, or OSError and no file."""
    with whole(path) as part, part.open("w", encoding="utf-8") as lines:
        lines.writelines(json.dumps(row) + "\n" for row in rows)


def write_table(path: Path, table: pa.Table) -> None:
    """Writes Parquet: the whole file, or OSError and no file."""
    with whole(path) as part:
        pq.write_table(table, part)


def clear(directory: Path) -> None:
    """Make the folder, or remove the files of an earlier run from it: no two runs' files stand side by side."""
    directory.mkdir(parents=True, exist_ok=True)
    for name in (*RESULT_FILES, *(path.name for pattern in _PROFILES for path in directory.glob(pattern))):
        (directory / name).unlink(missing_ok=True)
