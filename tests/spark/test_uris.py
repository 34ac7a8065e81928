"""kcore.log and kcore.metadata at URIs: the rows are those of the same files at a local path."""

import pickle
import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import pytest
from fsspec.implementations.local import LocalFileSystem
from pyspark.sql import SparkSession

from cases import DATA
from kcore.errors import DecodeError, StorageError
from kcore.metadata.image.table_names import TABLES
from kcore.spark import uri_files
from kcore.spark.file_source import FileSource
from kcore.spark.log_source import LogSource
from kcore.spark.log_stream import StreamedLogSource
from kcore.spark.metadata_source import MetadataSource
from kcore.spark.uri_files import UriPath, uri_path
from storage.building import batches, write_log

METADATA = DATA / "samples/kraft43/controller-3003/__cluster_metadata-0"
FOLDER = "__cluster_metadata-0"


def uri_of(path: Path) -> str:
    """A URI that fsspec opens in every process; its file system is not PyArrow's local one."""
    return f"local://{path}"


def rows_of(source: type[FileSource], place: Path | str, **options: str) -> list[str]:
    """The rows of a read, each as text, sorted. Each task is pickled, as Spark does."""
    made = source({"path": str(place), **options})
    reader = made.reader(made.schema())
    found: list[str] = []
    for part in reader.partitions():
        task, its_part = pickle.loads(pickle.dumps((reader, part)))
        found += [str(row) for batch in task.read(its_part) for row in batch.to_pylist()]
    return sorted(found)


def as_at_uri(rows: list[str], path: Path) -> list[str]:
    """Rows of the local path with the names that the URI's rows have."""
    return sorted(row.replace(str(path), uri_of(path)) for row in rows)


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """t-0 with two segments and an index, t-1 with a flipped bit, and a folder that is being deleted."""
    folder = tmp_path / "logs"
    write_log(folder / "t-0", {0: b"".join(batches(60)), 60: b"".join(batches(5, first=60))}, [(0, 0)])
    (folder / "t-0" / f"{0:020}.index").touch()
    damaged = batches(3)
    damaged[1] = damaged[1][:-1] + b"!"
    write_log(folder / "t-1", {0: b"".join(damaged) + b"torn" * 30})
    write_log(folder / "t-2.0a1b-delete", {0: b"".join(batches(1))})
    return folder


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A copy of a metadata log in its log directory."""
    shutil.copytree(METADATA, tmp_path / "controller" / FOLDER)
    return tmp_path / "controller" / FOLDER


@pytest.mark.parametrize("mode", ["permissive", "dropmalformed"])
@pytest.mark.parametrize("name", ["", "t-0", f"t-0/{60:020}.log", "t-1", f"t-1/{0:020}.log", f"t-0/{0:020}.index"])
def test_log_rows_are_those_of_the_local_path(logs: Path, name: str, mode: str) -> None:
    path = logs / name
    local = rows_of(LogSource, path, mode=mode)
    found = rows_of(LogSource, uri_of(path), mode=mode)
    assert found == as_at_uri(local, path) and (found or name.endswith(".index"))


def test_a_metadata_log_is_also_a_log(copy: Path) -> None:
    for path in (copy, copy.parent, *copy.glob("*.checkpoint")):
        local = rows_of(LogSource, path)
        assert rows_of(LogSource, uri_of(path)) == as_at_uri(local, path) and local


def test_damage_fails_with_the_uri(logs: Path) -> None:
    with pytest.raises(DecodeError, match=rf"^{re.escape(uri_of(logs))}/t-1/{0:020}\.log: .*CRC does not match"):
        rows_of(LogSource, uri_of(logs))


def test_where_skips_files_without_opening_them(logs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    read = UriPath.read

    def recorded(place: UriPath) -> bytes:
        opened.append(place.name.removeprefix(f"{uri_of(logs)}/"))
        return read(place)

    monkeypatch.setattr(UriPath, "read", recorded)
    first, second = (f"t-0/{base:020}.log" for base in (0, 60))
    for where, files in (
        ("partition = 0", [first, second]),
        ("topic = 't' and partition = 0 and offset >= 60", [second]),
        (f"file = '{uri_of(logs)}/{first}' and offset <> 7", [first]),
        ("topic = 'other'", []),
    ):
        opened.clear()
        found = rows_of(LogSource, uri_of(logs), where=where)
        local = rows_of(LogSource, logs, where=where.replace(uri_of(logs), str(logs)))
        assert (found, opened) == (as_at_uri(local, logs), files), where


def test_large_files_at_a_uri_are_not_split(logs: Path) -> None:
    source = LogSource({"path": uri_of(logs / "t-0"), "splitSize": "1000"})
    assert len(source.reader(source.schema()).partitions()) == 2


@pytest.mark.parametrize("bases", [(0, 3, 9), (3, 9, 12), (0, 9, 9 + 2)])
@pytest.mark.parametrize("table", ["", "log"])
def test_holes_between_the_segments_of_a_metadata_log_are_found(
    tmp_path: Path, bases: tuple[int, ...], table: str
) -> None:
    """Segments of two records each, in kcore.log; the recorded log without one of its parts, in kcore.metadata."""
    folder = tmp_path / FOLDER
    if table:
        shutil.copytree(METADATA, folder)
        for each in folder.glob("*.checkpoint"):
            each.unlink()
        [segment, *_] = sorted(folder.glob("*.log"))
        segment.rename(folder / f"{bases[0]:020}.log")
        shutil.copy(folder / f"{bases[0]:020}.log", folder / f"{10**6 + bases[1]:020}.log")
    else:
        write_log(folder, {base: b"".join(batches(2, first=base)) for base in bases})
    source: type[FileSource] = MetadataSource if table else LogSource
    options = {"table": table} if table else {}
    local = rows_of(source, folder, mode="permissive", **options)
    assert any("before it" in row for row in local)
    assert rows_of(source, uri_of(folder), mode="permissive", **options) == as_at_uri(local, folder)
    with pytest.raises(DecodeError, match=rf"^{re.escape(uri_of(folder))}/"):
        rows_of(source, uri_of(folder), **options)


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of temporary files, which must be empty at the end."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    yield folder
    assert [*folder.iterdir()] == []


@pytest.mark.usefixtures("temporary")
@pytest.mark.parametrize("table", [*TABLES, "log"])
def test_metadata_tables_are_those_of_the_local_path(copy: Path, table: str) -> None:
    for path in (copy, copy.parent):
        local = rows_of(MetadataSource, path, table=table)
        assert rows_of(MetadataSource, uri_of(path), table=table) == as_at_uri(local, path)
    assert local or table not in ("partitions", "topics", "log")


@pytest.mark.usefixtures("temporary")
@pytest.mark.parametrize("table", ["topics", "partitions", "log"])
def test_a_segment_or_a_snapshot_is_a_metadata_log(copy: Path, table: str) -> None:
    count = 0
    for path in (*copy.glob("*.log"), *copy.glob("*.checkpoint")):
        local = rows_of(MetadataSource, path, table=table, mode="permissive")
        assert rows_of(MetadataSource, uri_of(path), table=table, mode="permissive") == as_at_uri(local, path)
        count += len(local)
    assert count


@pytest.mark.usefixtures("temporary")
@pytest.mark.parametrize("table", ["topics", "partitions", "log"])
def test_damage_of_a_metadata_log_is_named_by_the_uri(copy: Path, table: str) -> None:
    last = sorted(copy.glob("*.log"))[-1]
    last.write_bytes(last.read_bytes() + b"torn" * 30)
    local = rows_of(MetadataSource, copy, table=table, mode="permissive")
    found = rows_of(MetadataSource, uri_of(copy), table=table, mode="permissive")
    assert found == as_at_uri(local, copy) and any(f"{uri_of(last)}: " in row for row in found)
    with pytest.raises(DecodeError, match=f"^{re.escape(uri_of(last))}: "):
        rows_of(MetadataSource, uri_of(copy), table=table)
    next(copy.glob("*.checkpoint")).write_bytes(b"")
    with pytest.raises((StorageError, DecodeError), match=f"^{re.escape(uri_of(copy))}/"):
        rows_of(MetadataSource, uri_of(copy), table=table)


@pytest.mark.usefixtures("temporary")
def test_a_replica_of_another_topic_is_refused_before_it_is_copied(logs: Path) -> None:
    for name in ("t-0", f"t-0/{0:020}.log"):
        with pytest.raises(StorageError, match="a replica of t-0, not of __cluster_metadata: "):
            rows_of(MetadataSource, uri_of(logs / name))


def refused(place: str, source: type[FileSource] = LogSource) -> str:
    """The error of a place that is refused when Spark plans the read; it has one line."""
    with pytest.raises(StorageError) as error:
        made = source({"path": place})
        made.reader(made.schema()).partitions()
    assert "\n" not in str(error.value)
    return str(error.value)


@pytest.mark.parametrize("source", [LogSource, MetadataSource])
def test_places_that_cannot_be_read_are_refused_when_planning(
    source: type[FileSource], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert refused("gopher://a/b", source) == "gopher://a/b: Protocol not known: gopher"
    assert refused("s3:///x", source) == "s3:///x: Missing bucket name in S3 URI"
    fsspec.register_implementation("needy", "no_such_package.Files", errtxt="Install no_such_package", clobber=True)
    assert refused("needy://a/b", source) == "needy://a/b: Install no_such_package"
    gone = uri_of(tmp_path / "gone")
    assert refused(gone, source) == f"{gone}: no such file or folder"
    assert refused("file://host/a", source).startswith("file://host/a: a file:// URI names a local file: ")
    for glob in ("t-*", "t-[0-3]", "**/x.log"):
        text = f"{uri_of(tmp_path)}/{glob}"
        assert refused(text, source) == f"{text}: a glob matches local files only: name a file or a folder"
    neither = f"^{re.escape(uri_of(tmp_path))}: neither a segment nor a"
    assert re.match(neither, refused(uri_of(tmp_path), source))

    def forbidden(*_: Any, **__: Any) -> None:
        raise PermissionError(f"no permission\nfor {tmp_path}")

    monkeypatch.setattr(LocalFileSystem, "info", forbidden)
    assert refused(uri_of(tmp_path), source) == f"{uri_of(tmp_path)}: no permission"


def test_neither_passwords_nor_parameters_are_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    uri = "s3://KEY:a%2Fsecret@bucket/folder?endpoint_override=127.0.0.1:1&scheme=http"

    def failing(uri: str) -> None:
        raise OSError(f"When opening {uri} or s3://KEY:secret@other: refused")

    place = UriPath(uri_files._shown(uri), True, uri, "bucket/folder")
    assert str(place) == "s3://KEY:***@bucket/folder" and "secret" not in repr(place)
    monkeypatch.setattr(uri_files, "_opened", failing)
    shown = "s3://KEY:***@bucket/folder"
    assert refused(uri) == f"{shown}: When opening {shown} or s3://KEY:***@other: refused"


def test_a_file_that_is_gone_when_its_task_reads_it(logs: Path) -> None:
    for mode, expected in (("permissive", 1), ("dropmalformed", 0)):
        source = LogSource({"path": uri_of(logs / "t-0"), "mode": mode})
        reader = source.reader(source.schema())
        _, last = reader.partitions()
        (logs / "t-0" / f"{60:020}.log").rename(logs / "away")
        rows = [row for batch in reader.read(last) for row in batch.to_pylist()]
        assert [row["_corrupt"].startswith(f"{last.path}: ") for row in rows] == [True] * expected
        (logs / "away").rename(logs / "t-0" / f"{60:020}.log")


def test_a_file_that_is_too_large_is_not_read(logs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = uri_path(uri_of(logs / "t-0" / f"{0:020}.log"))
    monkeypatch.setattr("kcore.storage.log.segment.MOST_SEGMENT", 100)
    for act in (place.read, lambda: place.copy_to(logs / "copy")):
        with pytest.raises(StorageError, match=rf"^{re.escape(place.name)}: [\d,]+ bytes are more than the 100 "):
            act()
    assert not (logs / "copy").exists()


def test_a_stream_reads_local_folders_only(logs: Path) -> None:
    source = StreamedLogSource({"path": uri_of(logs)})
    with pytest.raises(StorageError, match=f"^{uri_of(logs)}: a stream reads local folders only: use spark.read$"):
        source.streamReader(source.schema())


@pytest.mark.long
def test_spark_reads_uris(spark: SparkSession, logs: Path) -> None:
    def found(name: str, *places: str, **options: str) -> list[str]:
        return sorted(map(str, spark.read.format(name).options(**options).load([*places]).collect()))

    local = found("kcore.log", str(logs), mode="permissive")
    assert found("kcore.log", uri_of(logs), mode="permissive") == as_at_uri(local, logs) and len(local) > 60
    where = {"where": "partition = 0 and offset >= 58"}
    assert len(found("kcore.log", str(logs), uri_of(logs / "t-0"), **where)) == 2 * 7
    for table in ("partitions", "log"):
        local = found("kcore.metadata", str(METADATA), table=table)
        assert found("kcore.metadata", uri_of(METADATA), table=table) == local and local
    with pytest.raises(Exception, match="Protocol not known: gopher"):
        found("kcore.log", "gopher://a/b")
