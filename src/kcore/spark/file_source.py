"""The common part of the formats "kcore.log" and "kcore.metadata": options, and paths as globs and URIs.

`mode` (failfast, permissive, dropmalformed) says how to treat unreadable data, `columns` which columns to make, and
`where` which files, batches and rows to read. PySpark does not tell a source which columns a query needs; conditions.py
says why filters are not pushed down.
"""

import os
import re
from abc import abstractmethod
from collections.abc import Collection, MutableMapping
from glob import glob, has_magic
from json import loads
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from kcore.errors import StorageError
from kcore.extras import needs
from kcore.spark.conditions import Condition, parse_where
from kcore.spark.uri_files import UriPath, uri_path
from kcore.suggestions import did_you_mean

with needs("spark"):
    import pyarrow as pa
    from pyspark.sql.datasource import DataSource, DataSourceReader
    from pyspark.sql.pandas.types import from_arrow_schema
    from pyspark.sql.types import StructType

CORRUPT: Final = "_corrupt"  # A column of permissive mode: why the row's other columns are empty.
FAILFAST: Final = "failfast"
PERMISSIVE: Final = "permissive"
MODES: Final = (FAILFAST, PERMISSIVE, "dropmalformed")
OPTIONS: Final = ("mode", "columns", "where")
_PATHS: Final = ("path", "paths")  # Spark's own options: the paths that were given to `load`.
_CORRUPT_FIELD: Final = pa.field(CORRUPT, pa.string())
_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/")


class FileReader(DataSourceReader):
    """The common part of both readers: paths, columns, mode, and the conditions on rows."""

    def __init__(self, paths: list[Path | UriPath], schema: pa.Schema, mode: str, conditions: list[Condition]) -> None:
        self.paths, self.schema, self.mode, self.conditions = paths, schema, mode, conditions

    def corrupt_row(self, problem: str, **known: Any) -> list[pa.RecordBatch]:
        """In permissive mode, a batch with one row that reports unreadable data; otherwise no batch.

        `where` does not exclude this row: the unreadable data may hold rows that the query asks for.
        """
        if self.mode != PERMISSIVE:
            return []
        row = {name: value for name, value in (known | {CORRUPT: problem}).items() if name in self.schema.names}
        return [pa.RecordBatch.from_pylist([row], schema=self.schema)]


class FileSource(DataSource):
    """The base of both formats: checks the options, and resolves the paths of `load` in Spark's driver."""

    columns: pa.Schema
    known_options: tuple[str, ...] = OPTIONS

    def __init__(self, options: MutableMapping[str, str]) -> None:
        """Raises StorageError for an unknown option, or for an invalid value of an option."""
        super().__init__(options)
        known = {name.lower() for name in (*self.known_options, *_PATHS)}  # Spark's options have small letters.
        for option in options:
            if option.lower() not in known:
                raise StorageError(f"{self.name()}: there is no option {option!r}{_close(option, self.known_options)}")
        self.mode = options.get("mode", FAILFAST).lower()
        if self.mode not in MODES:
            raise StorageError(f"{self.name()}: there is no mode {self.mode!r}{_close(self.mode, MODES)}")
        self._schema = self.columns
        if wanted := [name.strip() for name in options.get("columns", "").split(",") if name.strip()]:
            self._schema = pa.schema([self._field(name) for name in wanted])
        self.conditions = parse_where(options.get("where", ""), self.columns)
        if self.mode == PERMISSIVE:
            self._schema = self._schema.append(_CORRUPT_FIELD)

    def _field(self, name: str) -> pa.Field:
        if name not in self.columns.names:
            raise StorageError(f"{self.name()}: there is no column {name!r}{_close(name, self.columns.names)}")
        return self.columns.field(name)

    def schema(self) -> StructType:
        return from_arrow_schema(self._schema)

    def reader(self, schema: StructType) -> FileReader:
        """A reader of the columns in `schema`; StorageError if a column is unknown, of another type, or NOT NULL."""
        return self.reader_of(self._paths(), self.checked(schema))

    def checked(self, schema: StructType) -> pa.Schema:
        """The columns of a schema in Arrow's types; raises StorageError as `reader` does."""
        columns = pa.schema([self._column(name) for name in schema.fieldNames()])
        for field, known in zip(schema, from_arrow_schema(columns), strict=True):
            if field.dataType != known.dataType:
                types = f"{known.dataType.simpleString()}, not {field.dataType.simpleString()}"
                raise StorageError(f"{self.name()}: the column {field.name} is {types}")
            if not field.nullable:
                raise StorageError(f"{self.name()}: the column {field.name} cannot be NOT NULL: leave these words out")
        return columns

    def _column(self, name: str) -> pa.Field:
        return _CORRUPT_FIELD if name == CORRUPT and self.mode == PERMISSIVE else self._field(name)

    @abstractmethod
    def reader_of(self, paths: list[Path | UriPath], schema: pa.Schema) -> FileReader:
        """Makes the reader of this format."""

    def _paths(self) -> list[Path | UriPath]:
        given = loads(self.options["paths"]) if "paths" in self.options else [self.options.get("path", "")]
        if not all(given):
            raise StorageError(f"{self.name()}: name a file or a folder: spark.read.format(...).load(PATH)")
        return list(dict.fromkeys(path for text in given for path in named_paths(text)))


def named_paths(text: str) -> list[Path | UriPath]:
    """The files and folders that a path, a glob or a URI names. Raises StorageError if none exists."""
    if scheme := _SCHEME.match(text):
        if scheme[1].lower() != "file":
            return [uri_path(text)]
        parts = urlsplit(text)
        if parts.netloc not in ("", "localhost"):
            raise StorageError(f"{text}: a file:// URI names a local file: give a path or file:///PATH")
        text = unquote(parts.path)
    if os.path.lexists(text):
        return [Path(text).resolve()]
    found = sorted(glob(text, recursive=True)) if has_magic(text) else []
    if not found:
        raise StorageError(f"{text}: {'no file matches' if has_magic(text) else 'no such file or folder'}")
    return [Path(each).resolve() for each in found]


def _close(wrong: str, known: Collection[str]) -> str:
    return did_you_mean(wrong, known, f"there are {', '.join(known)}")
