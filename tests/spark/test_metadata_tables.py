"""The tables of the format kcore.metadata, as its reader makes them for Spark; test_sources.py has them in Spark."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import kcore
from cases import DATA
from kcore.errors import DecodeError, StorageError
from kcore.metadata.image.table_names import TABLES
from kcore.spark.metadata_source import MetadataSource
from metadata.recorded_logs import log_of_story

METADATA = DATA / "samples/kraft43/controller-3003/__cluster_metadata-0"


def read(path: Path, table: str, **options: str) -> pa.Table:
    source = MetadataSource({"path": str(path), "table": table, **options})
    schema = source.schema()
    reader = source.reader(schema)
    batches = [batch for part in reader.partitions() for batch in reader.read(part)]
    assert all(batch.schema.names == schema.fieldNames() for batch in batches)
    return pa.Table.from_batches(batches)


@pytest.mark.parametrize("table", [*TABLES, "log"])
def test_a_table_is_that_of_the_library(table: str) -> None:
    expected = pa.table(kcore.load_metadata(METADATA).tables()[table])
    found = MetadataSource({"path": str(METADATA), "table": table.upper()})
    assert found.schema().fieldNames() == expected.schema.names
    if len(expected):
        assert read(METADATA, table).to_pylist() == expected.to_pylist()


def test_columns_and_where_of_the_log_of_4_4(tmp_path: Path) -> None:
    path = log_of_story("4.4.0-142", tmp_path)
    options = {"columns": "AccessControlEntryRecord", "where": "AccessControlEntryRecord is not null and offset > 3"}
    found = read(path, "log", **options)
    assert found.schema.names == ["AccessControlEntryRecord"]
    rows: list[dict[str, Any]] = found["AccessControlEntryRecord"].to_pylist()
    assert len(rows) > 3 and all(row["principal"].startswith("User:") for row in rows)
    assert {row["id"] for row in read(path, "acls").to_pylist()} <= {row["id"] for row in rows}


def test_damage_is_an_error_or_a_row(tmp_path: Path) -> None:
    path = log_of_story("4.4.0-142", tmp_path)
    [file] = path.glob("*.log")
    whole = len(read(path, "log"))
    file.write_bytes(file.read_bytes() + b"torn" * 30)
    for table in ("log", "acls"):
        with pytest.raises(DecodeError, match=f"{file.name}: "):
            read(path, table)
    rows = read(path, "log", mode="permissive").to_pylist()
    assert [file.name in row["_corrupt"] for row in rows if row["_corrupt"]] == [True] and len(rows) == whole + 1
    rows = read(path, "acls", mode="permissive").to_pylist()
    assert [file.name in row["_corrupt"] for row in rows if row["_corrupt"]] == [True] and len(rows) > 3
    assert len(read(path, "log", mode="dropmalformed")) == whole


def test_an_unknown_table_names_the_tables() -> None:
    with pytest.raises(
        StorageError, match=r"^kcore\.metadata: there is no table 'topcs'; there are partitions, "
    ) as error:
        MetadataSource({"path": "x", "table": "topcs"})
    assert str(error.value).endswith("features and log") and "\n" not in str(error.value)
    with pytest.raises(StorageError, match="there is no option 'tabel'; did you mean 'table'"):
        MetadataSource({"path": "x", "tabel": "log"})
    with pytest.raises(StorageError, match="there is no column 'leader'"):
        MetadataSource({"path": "x", "table": "topics", "columns": "leader"})
