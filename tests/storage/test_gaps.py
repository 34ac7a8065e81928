"""Readers of a metadata log find each gap: between snapshot and segment, between segments, between batches."""

import re
from pathlib import Path
from typing import Any

import pytest

from cli.invoking import kcore
from hollow.test_observer import batch as observed
from hollow.test_observer import observer
from kcore.errors import DecodeError, NetworkError, TargetError
from kcore.measure.watch.metadata_log_reader import MetadataLogReader
from kcore.metadata.table.table_arrow import SCHEMA as METADATA_SCHEMA
from kcore.raft.log.raft_log import SnapshotPiece
from kcore.raft.state_machine import SnapshotReader
from kcore.replication.raft_log import OffsetAndEpoch
from kcore.spark.log_source import SCHEMA as LOG_SCHEMA
from kcore.spark.log_source import LogReader
from kcore.spark.metadata_source import MetadataReader
from kcore.storage.raft.metadata_log import load_metadata
from kcore.storage.raft.snapshot import SnapshotId, read_snapshot, why_damaged, write_snapshot
from storage.building import batches
from storage.raft.test_metadata_log import TIME_MS, names, topic, topics_from

FOLDER = "__cluster_metadata-0"


def folder_of(path: Path, kind: str) -> Path:
    """A metadata log of twelve topics that lacks t5, or all from t5 to t7."""
    folder = path / FOLDER
    folder.mkdir()
    one = {offset: topics_from(offset, 1) for offset in range(12)}
    if kind == "between batches":
        (folder / f"{0:020}.log").write_bytes(b"".join(data for offset, data in one.items() if offset != 5))
    elif kind == "between segments":
        (folder / f"{0:020}.log").write_bytes(b"".join(one[offset] for offset in range(5)))
        (folder / f"{8:020}.log").write_bytes(b"".join(one[offset] for offset in range(8, 12)))
    else:
        values = [topic(number) for number in range(5)]
        write_snapshot(folder, SnapshotId(5, 1), values, time_ms=TIME_MS, last_contained_log_timestamp=TIME_MS)
        (folder / f"{8:020}.log").write_bytes(b"".join(one[offset] for offset in range(8, 12)))
    return folder


KINDS = {
    "between batches": "offset 5 is missing",
    "between segments": "offsets 5 to 7 are missing",
    "behind the snapshot": "offsets 5 to 7 are missing",
}
EACH = pytest.mark.parametrize(("kind", "said"), KINDS.items())


@EACH
def test_a_gap_is_an_error_or_ends_the_image(tmp_path: Path, kind: str, said: str) -> None:
    folder = folder_of(tmp_path, kind)
    with pytest.raises(DecodeError, match=said):
        load_metadata(folder)
    image = load_metadata(folder, stop=True)
    assert said in image.problem and names(image) == [f"t{number}" for number in range(5)]
    assert image.end_offset == 5


@EACH
def test_image_and_dump_name_the_gap_and_fail(tmp_path: Path, kind: str, said: str) -> None:
    folder = folder_of(tmp_path, kind)
    for command in (["image"], ["dump"], ["dump", "--deep"], ["dump", "--json"], ["dump", "--json", "--deep"]):
        done = kcore(*command, str(folder))
        assert (done.exit_code != 0, said in done.stderr) == (True, True), command


@EACH
def test_sources_of_spark_name_the_gap(tmp_path: Path, kind: str, said: str) -> None:
    folder = folder_of(tmp_path, kind)
    import pyarrow as pa

    for kind_of_reader, columns in ((LogReader, LOG_SCHEMA), (MetadataReader, METADATA_SCHEMA)):
        schema = columns.append(pa.field("_corrupt", pa.string()))

        def rows(mode: str, of: Any = kind_of_reader, schema: Any = schema) -> list[dict[str, Any]]:
            reader = of([folder], schema, mode, [])
            return [row for part in reader.partitions() for each in reader.read(part) for row in each.to_pylist()]

        assert [said in row["_corrupt"] for row in rows("permissive") if row["_corrupt"]] == [True]
        with pytest.raises(DecodeError, match=said):
            rows("failfast")


def test_compacted_topics_have_gaps_that_are_none(tmp_path: Path) -> None:
    folder = tmp_path / "data-0"
    folder.mkdir()
    (folder / f"{0:020}.log").write_bytes(b"".join(batches(3) + batches(3, first=9)))
    (folder / f"{20:020}.log").write_bytes(b"".join(batches(3, first=20)))
    assert kcore("dump", str(folder)).exit_code == 0


def test_a_gap_that_the_snapshot_covers_is_none(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, "behind the snapshot")
    (folder / f"{8:020}.log").unlink()
    (folder / f"{0:020}.log").write_bytes(topics_from(0, 1))
    (folder / f"{4:020}.log").write_bytes(topics_from(4, 2))
    assert names(load_metadata(folder)) == [f"t{number}" for number in range(6)]
    for command in ("image", "dump"):
        done = kcore(command, str(folder))
        assert done.exit_code == 0 and done.stderr == ""


def test_segments_that_overlap_are_named(tmp_path: Path) -> None:
    folder = tmp_path / FOLDER
    folder.mkdir()
    (folder / f"{0:020}.log").write_bytes(topics_from(0, 5))
    (folder / f"{3:020}.log").write_bytes(topics_from(3, 3))
    said = "offset 3 does not follow offset 4"
    with pytest.raises(DecodeError, match=said):
        load_metadata(folder)
    image = load_metadata(folder, stop=True)
    assert said in image.problem and image.end_offset == 5
    for command in ("image", "dump"):
        done = kcore(command, str(folder))
        assert done.exit_code == 1 and said in done.stderr


def test_a_log_that_begins_behind_its_start_has_no_beginning(tmp_path: Path) -> None:
    folder = tmp_path / FOLDER
    folder.mkdir()
    (folder / f"{3:020}.log").write_bytes(topics_from(3, 2))
    with pytest.raises(DecodeError, match="offsets 0 to 2 are missing"):
        load_metadata(folder)


@pytest.mark.parametrize("change", ["missing", "twice", "swapped"])
def test_a_snapshot_with_a_gap_is_not_loaded(tmp_path: Path, change: str) -> None:
    values = [topic(number) for number in range(6)]
    path = write_snapshot(
        tmp_path, SnapshotId(6, 1), values, time_ms=TIME_MS, last_contained_log_timestamp=TIME_MS, batch_bytes=60
    )
    found = read_snapshot(path).records.batches
    parts = [path.read_bytes()[at : at + size] for at, size in zip(found.position, found.size, strict=True)]
    assert len(parts) > 4
    if change == "missing":
        del parts[2]
    elif change == "twice":
        parts.insert(2, parts[2])
    else:
        parts[2], parts[3] = parts[3], parts[2]
    data = b"".join(parts)
    path.write_bytes(data)
    assert re.search(r"is missing|are missing|does not follow", why_damaged(path) or "")
    with pytest.raises(DecodeError, match=r"is missing|are missing|does not follow"):
        load_metadata(path)
    reader = SnapshotReader(OffsetAndEpoch(6, 1), lambda at, size: SnapshotPiece(data[at : at + size], len(data)))
    with pytest.raises(DecodeError, match=r"is missing|are missing|does not follow"):
        list(reader)
    assert kcore("dump", str(path)).exit_code != 0


def test_followers_of_a_leader_name_a_gap() -> None:
    follower = MetadataLogReader()
    with pytest.raises(NetworkError, match="offset 1 is missing"):
        follower._read(topics_from(0, 1) + topics_from(2, 1), 3, reports_commits=True)
    for data in (observed(0, 2) + observed(3, 5), observed(1, 3)):
        seen, _ = observer()
        with pytest.raises(TargetError, match=r"offset \d is missing"):
            seen.read(data, 5)


def test_a_first_batch_may_begin_before_what_is_asked_for() -> None:
    """A leader sends whole batches."""
    seen, _ = observer()
    seen.read(observed(0, 2), 2)
    seen.on_committed(observed(1, 4), 4)
    assert seen.types()[0].tolist() == [0, 1, 2, 3]
