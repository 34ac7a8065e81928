"""Checkpoints, meta.properties, partition.metadata and quorum-state: as Kafka wrote them, and what Kafka refuses."""

import re
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from kcore.errors import StorageError
from kcore.replication.epochs import EpochEntry
from kcore.schema.quorum_state import QuorumStateData
from kcore.storage import checkpoints, meta_properties, partition_metadata, properties
from kcore.storage.meta_properties import MetaProperties
from kcore.storage.raft import quorum_state_file as quorum_state
from kcore.types import Uuid
from storage.samples import KRAFT39, KRAFT43, METADATA_43, SAMPLES

WRITTEN_AT = datetime(2026, 11, 21, 8, 1, 37, tzinfo=UTC)


def files(pattern: str) -> list[Path]:
    found = sorted(path for folder in (KRAFT43, KRAFT39) for path in folder.rglob(pattern))
    assert found
    return found


def name_of(path: Path) -> str:
    return str(path.relative_to(SAMPLES))


@pytest.mark.parametrize("path", files("leader-epoch-checkpoint"), ids=name_of)
def test_leader_epochs_as_kafka_wrote_them(path: Path, tmp_path: Path):
    entries = checkpoints.read_leader_epochs(path)
    checkpoints.write_leader_epochs(tmp_path / "again", entries)
    assert (tmp_path / "again").read_bytes() in {path.read_bytes(), path.read_bytes() or b"0\n0\n"}


def test_the_epochs_of_a_controller():
    assert checkpoints.read_leader_epochs(METADATA_43 / "leader-epoch-checkpoint") == [
        EpochEntry(1, 0),
        EpochEntry(3, 197),
    ]


@pytest.mark.parametrize("path", files("*-offset-checkpoint"), ids=name_of)
def test_offsets_as_kafka_wrote_them(path: Path, tmp_path: Path):
    assert path.name in checkpoints.OFFSETS
    checkpoints.write_offsets(tmp_path / "again", checkpoints.read_offsets(path))
    assert (tmp_path / "again").read_bytes() == path.read_bytes() or not path.read_bytes()


def test_the_offsets_of_a_broker():
    found = checkpoints.read_offsets(KRAFT43 / "broker2-a" / "replication-offset-checkpoint")
    assert list(found.items()) == [
        (("__consumer_offsets", 0), 3),
        (("orders", 2), 0),
        (("jb", 1), 0),
        (("orders", 1), 2),
    ]


def test_a_checkpoint_may_be_empty_or_end_after_its_version():
    assert checkpoints.parse_offsets("") == {} == checkpoints.parse_offsets("0\n")


def test_lines_and_fields_are_javas():
    assert checkpoints.parse_leader_epochs("0\n2\n1 0\n2 77\n") == checkpoints.parse_leader_epochs("0\n2\n1 0\n2 77")
    assert checkpoints.parse_leader_epochs("0\r\n2\r1\t 0  \r\n+2 \x0b9223372036854775807") == [(1, 0), (2, 2**63 - 1)]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("1\n0\n", "line 1: version 1, not 0"),
        ("zero\n0\n", "line 1: 'zero' is no int32"),
        ("0\n\n", "line 2: '' is no int32"),
        ("0\n1\n1 2 3\n", "line 3: 3 fields, not 2"),
        ("0\n1\n 1 2\n", "line 3: 3 fields, not 2"),
        ("0\n2\n1 2\n\n", "line 4: 0 fields, not 2"),
        ("0\n2\n1 2\n", "line 2: 2 entries are promised, 1 follow"),
        ("0\n0\n1 2\n", "line 2: 0 entries are promised, 1 follow"),
        ("0\n1\n2147483648 2\n", "line 3: '2147483648' is no int32"),
        ("0\n1\n1 9223372036854775808\n", "line 3: '9223372036854775808' is no int64"),
        ("0\n1\n1_0 2\n", "line 3: '1_0' is no int32"),
        ("0\n1\n\u0661 2\n", "is no int32"),
    ],
)
def test_an_invalid_checkpoint_is_an_error_with_its_line(text: str, said: str):
    with pytest.raises(StorageError, match=re.escape(said)):
        checkpoints.parse_leader_epochs(text)


def test_errors_name_the_file(tmp_path: Path):
    path = tmp_path / "replication-offset-checkpoint"
    path.write_bytes(b"0\n1\nt\xff 0 1\n")
    with pytest.raises(StorageError, match=rf"{re.escape(str(path))}: line 3: not UTF-8"):
        checkpoints.read_offsets(path)


def test_a_topic_that_could_not_be_read_again_is_not_written():
    with pytest.raises(StorageError, match="no topic's name"):
        checkpoints.format_offsets({("two words", 0): 1})


@pytest.mark.parametrize("path", files("meta.properties"), ids=name_of)
def test_meta_properties_as_kafka_wrote_them(path: Path):
    meta = meta_properties.read_meta_properties(path)
    assert meta.version == 1 and meta.cluster_id == "MkU3OEVBNTcwNTJENDM2Qg"
    date = datetime.strptime(path.read_text().splitlines()[1], "#%a %b %d %H:%M:%S UTC %Y").replace(tzinfo=UTC)
    assert meta_properties.format_meta_properties(meta, date) == path.read_bytes()


@pytest.mark.parametrize("meta", [MetaProperties(0), MetaProperties(0, "c:d", 7), MetaProperties(1, " x", 0, Uuid())])
def test_meta_properties_of_both_versions_read_back(meta: MetaProperties, tmp_path: Path):
    meta_properties.write_meta_properties(tmp_path / "meta.properties", meta)
    assert meta_properties.read_meta_properties(tmp_path / "meta.properties") == meta
    assert [path.name for path in tmp_path.iterdir()] == ["meta.properties"]


def test_version_0_is_what_zookeeper_brokers_wrote():
    meta = meta_properties.parse_meta_properties(b"#\n#Mon\nbroker.id=3\nversion=0\ncluster.id=abc\n")
    assert meta == MetaProperties(0, "abc", 3)
    assert b"broker.id=3\n" in meta_properties.format_meta_properties(meta, WRITTEN_AT)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"version=2\n", "version 2 is not one of 0, 1"),
        (b"version=one\n", "version: 'one' is no int32"),
        (b"version=1\nnode.id=1\n", "cluster.id was not found"),
        (b"version=1\ncluster.id=x\nbroker.id=1\n", "node.id was not found"),
        (b"version=1\ncluster.id=x\nnode.id=2147483648\n", "node.id: '2147483648' is no int32"),
        (b"directory.id=short\n", "directory.id: 'short' is no uuid"),
        (b"a=1\nb=\\u12\n", "line 2: malformed"),
    ],
)
def test_what_is_no_meta_properties(data: bytes, said: str):
    with pytest.raises(StorageError, match=re.escape(said)):
        meta_properties.parse_meta_properties(data)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"a=1\nb:2\nc 3\nd = 4\ne\n", {"a": "1", "b": "2", "c": "3", "d": "4", "e": ""}),
        (b"  # not\n! nor\n\n \t\n k=v", {"k": "v"}),
        (b"a\\=b\\:\\ c=d\\te\\u0041\\q", {"a=b: c": "d\teAq"}),
        (b"list=one,\\\n   two,\\\r\n\ttwo more", {"list": "one,two,two more"}),
        (b"even=two\\\\\nnext=1", {"even": "two\\", "next": "1"}),
        (b"torn=end\\", {"torn": "end"}),
        (b"k\\\n # =x", {"k#": "x"}),
        (b"k=1\nk=2", {"k": "2"}),
        (b"e=\\ud83d\\ude00", {"e": "\U0001f600"}),
        (b"latin=\xe9", {"latin": "\xe9"}),
        (b"=v", {"": "v"}),
        (b"a==b", {"a": "=b"}),
    ],
)
def test_properties_are_javas(data: bytes, expected: dict[str, str]):
    assert properties.parse_properties(data) == expected


def test_properties_are_written_as_java_17_writes_them():
    written = properties.format_properties({"a b": " x y", "k=:#!": "t\tn\nr\rf\f\\"}, WRITTEN_AT)
    assert written.startswith(b"#\n#Sat Nov 21 08:01:37 UTC 2026\n")
    assert set(written.decode().splitlines()[2:]) == {"a\\ b=\\ x y", "k\\=\\:\\#\\!=t\\tn\\nr\\rf\\f\\\\"}


@pytest.mark.parametrize("path", files("partition.metadata"), ids=name_of)
def test_partition_metadata_as_kafka_wrote_it(path: Path, tmp_path: Path):
    topic_id = partition_metadata.read_partition_metadata(path)
    partition_metadata.write_partition_metadata(tmp_path / "again", topic_id)
    assert (tmp_path / "again").read_bytes() == path.read_bytes()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "line 1 is missing"),
        ("version: 0", "line 2 is missing"),
        ("version: 0\n\n", "line 2 is missing or empty"),
        ("version: -1\ntopic_id: 32OAJ1NRRqWR6n6C9dxfSQ", "line 1: version '-1'"),
        ("version:0\ntopic_id: 32OAJ1NRRqWR6n6C9dxfSQ", "line 1: not a name and a value"),
        ("version: 0\ntopic_id: 32OAJ1NRRqWR6n6C9dxfS", "is no uuid"),
        ("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAA", "line 2: topic_id is the zero uuid"),
    ],
)
def test_what_is_no_partition_metadata(text: str, said: str):
    with pytest.raises(StorageError, match=re.escape(said)):
        partition_metadata.parse_partition_metadata(text)


@pytest.mark.parametrize("path", files("*quorum-state"), ids=name_of)
def test_quorum_state_as_kafka_wrote_it(path: Path, tmp_path: Path):
    state, version = quorum_state.read_quorum_state(path)
    (tmp_path / "again").write_bytes(quorum_state.format_quorum_state(state, version))
    assert (tmp_path / "again").read_bytes() == path.read_bytes()


def test_the_quorum_state_of_a_voter_and_of_an_observer():
    state, version = quorum_state.read_quorum_state(METADATA_43 / "quorum-state")
    assert (version, state.leader_id, state.leader_epoch, state.voted_id) == (1, 3002, 3, 3002)
    observer, _ = quorum_state.read_quorum_state(KRAFT43 / "broker2-a" / "observer-quorum-state")
    assert (observer.leader_id, observer.voted_id) == (3002, -1)
    old, version = quorum_state.read_quorum_state(KRAFT39 / "quorum-state")
    assert version == 0 and [voter.voter_id for voter in old.current_voters or ()] == [3001, 3002, 3003]


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "line 1: the file is empty"),
        (b"[]", "line 1: not a JSON object"),
        (b"{", "line 1: "),
        (b"{}", "data_version is None"),
        (b'{"data_version":2}', "data_version is 2"),
        (b'{"data_version":true}', "data_version is True"),
        (b'{"data_version":1,"leaderId":1}', "leaderEpoch: missing"),
        (b'{"data_version":1,"leaderId":"x","leaderEpoch":1,"votedId":1,"votedDirectoryId":""}', "leaderId: expected"),
        (b"[" * 100_000, "line 1: "),
        (b"\xff", "line 1: not UTF-8"),
    ],
)
def test_what_is_no_quorum_state(data: bytes, said: str):
    with pytest.raises(StorageError, match=re.escape(said)):
        quorum_state.parse_quorum_state(data)


@pytest.mark.parametrize(
    "parse",
    [
        lambda data: checkpoints.parse_offsets(data.decode("latin-1")),
        lambda data: partition_metadata.parse_partition_metadata(data.decode("latin-1")),
        meta_properties.parse_meta_properties,
        quorum_state.parse_quorum_state,
    ],
)
def test_any_prefix_is_read_or_refused(parse: Callable[[bytes], object]):
    samples = [path.read_bytes() for path in KRAFT43.rglob("*") if path.is_file() and path.stat().st_size < 200]
    refused = 0
    for sample in samples:
        for end in range(len(sample) + 1):
            try:
                parse(sample[:end])
            except StorageError:
                refused += 1
    assert refused


def test_no_version_can_carry_what_it_has_not():
    with pytest.raises(StorageError, match="data_version"):
        quorum_state.format_quorum_state(QuorumStateData(), 2)
