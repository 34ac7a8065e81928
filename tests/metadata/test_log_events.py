"""The metadata log as events: each row has the values of its record, without secrets."""

from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest

import kcore
from cases import DATA
from kcore.errors import DecodeError, StorageError
from kcore.metadata import log_events
from kcore.metadata.log_events import EVENTS, events_of
from kcore.schema.metadata_records_security import DelegationTokenRecord, UserScramCredentialRecord
from kcore.schema.metadata_records_settings import ConfigRecord
from kcore.storage.raft.metadata_events import MetadataEvents, event_files
from kcore.wire.metadata_frames import decode_metadata_record, encode_metadata_record
from kcore.wire.record_building import encode_records
from kcore.wire.records import Record, Records, decode_records
from metadata.recorded_logs import TIME_MS, log_of_story
from metadata.stories import Story, log_of
from seeds import seeds

SAMPLE = DATA / "samples/kraft43/controller-3003/__cluster_metadata-0"


def rows_of(records: Records) -> list[dict[str, Any]]:
    table = pa.Table.from_batches(events_of(records), schema=EVENTS)
    table.validate(full=True)
    return table.to_pylist()


def assert_told(records: Records) -> None:
    """Each row is its record in Kafka's JSON; the JSON leaves out tagged fields that have their defaults."""
    rows = rows_of(records)
    for row, record in zip(rows, records, strict=True):
        fields = {name: row[name] for name in EVENTS.names[6:] if row[name] is not None}
        assert row["offset"] == record.offset
        if record.control_type is not None:
            assert (row["recordType"], row["apiKey"], fields) == (record.control, None, {})
            continue
        told, version = decode_metadata_record(record.value or b"")
        assert (row["recordType"], row["apiKey"], row["version"]) == (type(told).__name__, told.api_key, version)
        assert [*fields] in ([], [row["recordType"]])
        for name, value in kcore.to_json(told, version).items():
            if name in (found := fields.get(row["recordType"], {})) and row["recordType"] != "ConfigRecord":
                assert found[name] == value, (row["recordType"], name)


@pytest.mark.parametrize("path", [*SAMPLE.glob("*.log"), *SAMPLE.glob("*.checkpoint")], ids=lambda path: path.name)
def test_a_log_of_4_3(path: Path) -> None:
    assert_told(decode_records(path.read_bytes()))


@pytest.mark.parametrize("name", ["4.4.0-80", "4.4.0-121", "4.4.0-142"])
def test_logs_of_4_4(name: str, tmp_path: Path) -> None:
    for codec in ("none", "zstd"):
        path = log_of_story(name, tmp_path / codec, codec)
        assert_told(decode_records((path / f"{0:020}.log").read_bytes()))
        assert kcore.load_metadata(path).tables()["log"].to_arrow().num_rows > 30


@pytest.mark.parametrize("seed", seeds(3, 30))
def test_random_logs(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_events, "ROWS_AT_ONCE", 7)
    values = Story(Random(seed)).values(300)
    assert_told(log_of(values, batch=11))


def test_time_and_epoch(tmp_path: Path) -> None:
    first, second, *_ = MetadataEvents(log_of_story("4.4.0-142", tmp_path)).to_arrow().to_pylist()
    assert [each["timestamp"].timestamp() * 1000 for each in (first, second)] == [TIME_MS, TIME_MS + 1]
    assert first["epoch"] == 1


def test_only_wanted_columns_are_made() -> None:
    records = decode_records(next(SAMPLE.glob("*.log")).read_bytes())
    [batch] = events_of(records, ["offset", "TopicRecord"])
    assert batch.schema.names == ["offset", "TopicRecord"]
    assert [row["name"] for row in batch["TopicRecord"].to_pylist() if row] == ["orders", "jb", "__consumer_offsets"]


def logged(*values: bytes) -> Records:
    return decode_records(encode_records([Record(k, TIME_MS, None, value) for k, value in enumerate(values)]))


def test_no_secret_is_in_a_row() -> None:
    credential = UserScramCredentialRecord(
        name="alice", mechanism=1, salt=b"SALT", stored_key=b"STORED", server_key=b"SERVER", iterations=4096
    )
    token = DelegationTokenRecord(owner="User:a", requester="User:a", token_id="TOKEN-ID")
    configs = [
        ConfigRecord(resource_type=4, resource_name="", name=name, value=value)
        for name, value in (("ssl.key.password", "PASSWORD"), ("other.plugin", "UNKNOWN"), ("num.io.threads", "8"))
    ]
    rows = rows_of(logged(*(encode_metadata_record(each, 0) for each in (credential, token, *configs))))
    assert rows[0]["UserScramCredentialRecord"] == {"name": "alice", "mechanism": 1, "iterations": 4096}
    assert "tokenId" not in rows[1]["DelegationTokenRecord"] and rows[1]["DelegationTokenRecord"]["owner"] == "User:a"
    assert [row["ConfigRecord"]["value"] for row in rows[2:]] == [None, None, "8"]
    assert not any(word in str(rows) for word in ("SALT", "STORED", "SERVER", "TOKEN-ID", "PASSWORD", "UNKNOWN"))


def test_records_of_a_newer_release_have_no_fields() -> None:
    newer_type, newer_version = b"\1\x64\0abc", b"\1\2\x07abc"
    first, second = rows_of(logged(newer_type, newer_version))
    assert (first["recordType"], first["apiKey"], first["version"]) == (None, 100, 0)
    assert (second["recordType"], second["version"], second["TopicRecord"]) == ("TopicRecord", 7, None)


def test_a_long_header_of_a_frame() -> None:
    """Kafka's readers accept varints with more bytes than the number needs."""
    usual = encode_metadata_record(ConfigRecord(resource_type=2, resource_name="t", name="n", value=None), 0)
    [row] = rows_of(logged(b"\x81\0" + usual[1:]))
    assert row["ConfigRecord"]["resourceName"] == "t"


@pytest.mark.parametrize(
    ("value", "said"),
    [(b"\2\2\0", "offset 0 is no metadata record: a frame of version 2"), (b"\1\2\0\x09t", "^the log: TopicRecord: ")],
)
def test_a_record_that_cannot_be_read(value: bytes, said: str) -> None:
    with pytest.raises(DecodeError, match=said):
        rows_of(logged(value))


def test_a_stream_names_the_damaged_file_and_the_gap(tmp_path: Path) -> None:
    path = log_of_story("4.4.0-142", tmp_path)
    [file] = path.glob("*.log")
    data = file.read_bytes()
    file.write_bytes(data + b"torn" * 30)
    with pytest.raises(DecodeError, match=file.name):
        MetadataEvents(path).to_arrow()
    file.write_bytes(data)
    end = MetadataEvents(path).to_arrow()["offset"][-1].as_py() + 1
    later = Record(end + 5, TIME_MS, None, encode_metadata_record(ConfigRecord(), 0))
    (path / f"{end + 5:020}.log").write_bytes(encode_records([later, replace(later, offset=end + 6)]))
    with pytest.raises(DecodeError, match=rf"{end + 5:020}\.log: "):
        MetadataEvents(path).to_arrow()


def test_files_of_events(tmp_path: Path) -> None:
    assert [file.suffix for file in event_files(SAMPLE)] == [".log"]
    assert event_files(SAMPLE.parent) == event_files(SAMPLE)  # A log directory has the folder.
    snapshots = DATA / "samples/kraft44/static"
    assert event_files(snapshots) == [*snapshots.glob("*.checkpoint")]
    names = [row["recordType"] for row in MetadataEvents(snapshots).to_arrow().to_pylist()]
    assert (names[0], names[-1]) == ("SNAPSHOT_HEADER", "SNAPSHOT_FOOTER")
    with pytest.raises(StorageError, match="neither a segment nor a snapshot"):
        event_files(tmp_path)
    with pytest.raises(StorageError, match="neither a metadata log's folder"):
        event_files(tmp_path / "x.index")
