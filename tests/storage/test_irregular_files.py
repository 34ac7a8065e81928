"""Tests irregular or far too large files in a log directory: each gives a one-sentence error and no hang."""

import os
import re
import shutil
import signal
import socket
import struct
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kcore.errors import FileKindError, KcoreError, StorageError
from kcore.protocol_errors import ApiException
from kcore.raft.membership.replicas import ElectionState, ReplicaKey
from kcore.server.broker.logs import BrokerLogs
from kcore.storage import files
from kcore.storage.checkpoints import TopicPartition, read_leader_epochs, read_offsets
from kcore.storage.log.indexes import OffsetIndex, TimeIndex, read_aborted
from kcore.storage.log.log_directory import LogDirectory
from kcore.storage.log.producer_snapshot import read_producers
from kcore.storage.log.segment import Segment
from kcore.storage.meta_properties import read_meta_properties
from kcore.storage.partition_metadata import read_partition_metadata
from kcore.storage.raft.quorum_state_file import read_quorum_state
from kcore.storage.raft.raft_dir import RaftDirectory
from kcore.storage.raft.raft_format import format_directory
from kcore.storage.raft.snapshot import read_snapshot
from kcore.storage.tools.dump import Detail, dump_lines
from kcore.types import Uuid
from kcore.wire.record_batch import scan_batches
from raft.nodes import directory, started, voter
from storage import building
from storage.raft_logs import FOLDER, SMALL, fill

SPARSE = 1 << 36  # 64 GiB that take no place.
KEY = TopicPartition("t", 0)


@pytest.fixture(autouse=True)
def no_hang() -> Iterator[None]:
    """A reader that waits for a FIFO's other end waits for ever."""

    def fail(*_: object) -> None:
        raise AssertionError("it hangs")

    before = signal.signal(signal.SIGALRM, fail)
    signal.alarm(600)  # Beside whatever work no test takes that long.
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def fifo(path: Path) -> None:
    os.mkfifo(path)


def bound_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        before = Path.cwd()
        os.chdir(path.parent)  # A socket's path has 107 bytes at most.
        try:
            made.bind(path.name)
        finally:
            os.chdir(before)


def device(path: Path) -> None:
    path.symlink_to("/dev/zero")


KINDS: dict[str, Callable[[Path], None]] = {
    "a FIFO": fifo,
    "a folder": Path.mkdir,
    "a socket": bound_socket,
    "a device": device,
}


def replaced(path: Path, kind: str) -> None:
    path.unlink()
    KINDS[kind](path)


# A quorum's node.

QUORUM_FILES = [
    "meta.properties",
    ".lock",
    "recovery-point-offset-checkpoint",
    *(
        f"{FOLDER}/{name}"
        for name in (
            "quorum-state",
            "partition.metadata",
            "leader-epoch-checkpoint",
            *(f"{base:020}.{suffix}" for base in (0, 24) for suffix in ("log", "index", "timeindex")),
        )
    ),
]


@pytest.fixture(scope="module")
def quorum_directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("node") / "data"
    format_directory(path, node_id=1, features={"metadata.version": 30}, directory_id=directory(1))
    made = RaftDirectory(path, voters=(1, 2, 3))
    log, _ = made.open(SMALL)
    fill(log, 30)
    log.close()
    made.store_election(ElectionState(1, -1, ReplicaKey(2)), 0)
    return path


def start_node(path: Path) -> None:
    log, election = RaftDirectory(path, voters=(1, 2, 3)).open(SMALL)
    try:
        started(log=log, election=election, voters=[voter(node_id) for node_id in (1, 2, 3)])
    finally:
        log.close()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", QUORUM_FILES)
def test_a_node_names_what_is_no_file(name: str, kind: str, quorum_directory: Path, tmp_path: Path):
    path = shutil.copytree(quorum_directory, tmp_path / "data")
    start_node(path)
    replaced(path / name, kind)
    with pytest.raises(StorageError, match=rf"{re.escape(str(path / name))}: {kind}, not a regular file"):
        start_node(path)
    assert KINDS[kind] is not fifo or (path / name).is_fifo()  # It is somebody's, and stays.


@pytest.mark.parametrize("name", ["meta.properties.tmp", "recovery-point-offset-checkpoint.tmp"])
def test_a_fifo_where_a_file_is_written_is_named(name: str, quorum_directory: Path, tmp_path: Path):
    path = shutil.copytree(quorum_directory, tmp_path / "data")
    fifo(path / name)
    with pytest.raises(StorageError, match=f"{name}: a FIFO"):
        start_node(path)
        RaftDirectory(path).store_cluster_id("c")


def test_a_link_to_nothing_is_no_forgotten_vote(quorum_directory: Path, tmp_path: Path):
    path = shutil.copytree(quorum_directory, tmp_path / "data")
    (path / FOLDER / "quorum-state").unlink()
    (path / FOLDER / "quorum-state").symlink_to("gone")
    with pytest.raises(StorageError, match=r"quorum-state"):
        start_node(path)


def test_links_to_files_and_folders_are_followed(quorum_directory: Path, tmp_path: Path):
    elsewhere = shutil.copytree(quorum_directory, tmp_path / "elsewhere")
    state = elsewhere / FOLDER / "quorum-state"
    state.rename(tmp_path / "state")
    state.symlink_to(tmp_path / "state")
    (tmp_path / "data").symlink_to(elsewhere)
    start_node(tmp_path / "data")


@pytest.mark.parametrize("name", ["index", "timeindex"])
@pytest.mark.parametrize("base", [0, 24])
def test_an_index_beyond_its_segment_is_built_anew(name: str, base: int, quorum_directory: Path, tmp_path: Path):
    path = shutil.copytree(quorum_directory, tmp_path / "data")
    start_node(path)
    index = path / FOLDER / f"{base:020}.{name}"
    right = index.read_bytes()
    for size in (SPARSE, len(right) + 12 * 8 * 10_000):
        with index.open("r+b") as file:
            file.truncate(size)
            file.seek(size - 1)
            file.write(b"\1")
        start_node(path)
        assert index.read_bytes() == right


@pytest.mark.parametrize(
    "name",
    [name for name in QUORUM_FILES if name != ".lock" and not name.endswith(("index", "leader-epoch-checkpoint"))],
)
def test_no_more_of_a_file_is_read_than_it_may_have(name: str, quorum_directory: Path, tmp_path: Path):
    path = shutil.copytree(quorum_directory, tmp_path / "data")
    os.truncate(path / name, SPARSE)
    with pytest.raises(StorageError, match=r"68,719,476,736 bytes are more than the [0-9,]+ that such a file may have"):
        start_node(path)


# A broker's log directory.


def fill_broker(path: Path) -> None:
    logs = LogDirectory(path, SMALL).open()
    logs.claim(1, "cluster")
    log = logs.create(KEY)
    logs.assign_topic_id(KEY, Uuid(bytes(range(16))))
    log.assign_epoch(1, 0)
    for data in building.batches(30, epoch=1):
        log.append(data, scan_batches(data))
    log.raise_start_offset(1)
    logs.close()


BROKER_FILES = [
    "meta.properties",
    "replication-offset-checkpoint",
    "log-start-offset-checkpoint",
    *(
        f"t-0/{name}"
        for name in (
            "leader-epoch-checkpoint",
            "partition.metadata",
            f"{24:020}.log",
            f"{30:020}.snapshot",
        )
    ),
]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", BROKER_FILES)
def test_a_log_directory_goes_offline_with_what_is_no_file(name: str, kind: str, tmp_path: Path):
    good, bad = tmp_path / "good", tmp_path / "bad"
    fill_broker(bad)
    replaced(bad / name, kind)
    logs = BrokerLogs([good, bad], SMALL)
    logs.directories.claim(1, "cluster")
    assert [each.failed is None for each in logs.directories] == [True, False]
    assert f"{bad / name}: {kind}, not a regular file" in str(logs.directories[1].failed)
    logs.close()


@pytest.mark.parametrize("name", [f"{0:020}.log", *(f"{24:020}.{suffix}" for suffix in ("index", "timeindex"))])
def test_what_a_broker_reads_and_writes_later_is_refused_then(name: str, tmp_path: Path):
    fill_broker(tmp_path)
    replaced(tmp_path / "t-0" / name, "a FIFO")
    logs = LogDirectory(tmp_path, SMALL).open()
    with pytest.raises(ApiException, match=f"{name}: a FIFO, not a regular file"):
        logs.logs[KEY].read(0, 1000, 30, at_least_one=True)
        logs.close()


# Every reader.

READERS: dict[str, Callable[[Path], object]] = {
    "quorum-state": read_quorum_state,
    "meta.properties": read_meta_properties,
    "partition.metadata": read_partition_metadata,
    "leader-epoch-checkpoint": read_leader_epochs,
    "replication-offset-checkpoint": read_offsets,
    f"{0:020}.log": Segment,
    f"{0:020}.index": lambda path: OffsetIndex.read(path, 0),
    f"{0:020}.timeindex": lambda path: TimeIndex.read(path, 0),
    f"{0:020}.txnindex": read_aborted,
    f"{0:020}.snapshot": read_producers,
    f"{0:020}-{0:010}.checkpoint": read_snapshot,
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", READERS)
def test_readers_refuse_what_is_no_file(name: str, kind: str, tmp_path: Path):
    KINDS[kind](tmp_path / name)
    with pytest.raises(FileKindError, match=f"{re.escape(name)}: {kind}, not a regular file"):
        READERS[name](tmp_path / name)
    with pytest.raises((KcoreError, OSError), match=re.escape(name)):
        list(dump_lines(tmp_path / name, Detail()))


@pytest.mark.parametrize("name", READERS)
def test_readers_refuse_what_is_far_too_large(name: str, tmp_path: Path):
    (tmp_path / name).touch()
    os.truncate(tmp_path / name, SPARSE)
    with pytest.raises(StorageError, match=rf"{re.escape(name)}: 68,719,476,736 bytes are more than"):
        READERS[name](tmp_path / name)


@pytest.mark.parametrize("name", READERS)
def test_readers_refuse_what_they_may_not_read_and_what_is_gone(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    with pytest.raises(FileNotFoundError, match=re.escape(name)):
        READERS[name](tmp_path / name)
    (tmp_path / name).touch()

    def denied(path: object, *_: object, **__: object) -> int:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(os, "open", denied)  # Not by chmod: root may read all.
    with pytest.raises(PermissionError, match=re.escape(name)):
        READERS[name](tmp_path / name)


@pytest.mark.parametrize(("name", "entry"), [("index", ">ii"), ("timeindex", ">qi")])
def test_an_index_has_no_more_entries_than_its_segment_batches(name: str, entry: str, tmp_path: Path):
    path = tmp_path / f"{0:020}.{name}"
    read = OffsetIndex.read if name == "index" else TimeIndex.read
    path.write_bytes(b"".join(struct.pack(entry, each, each) for each in range(1, 12)) + bytes(24_000))
    assert len(read(path, 0, 10 * 61).offsets) == 11  # The time index may have one more than there are batches.
    with pytest.raises(StorageError, match="11 entries are more than a segment of 609 bytes can have"):
        read(path, 0, 10 * 61 - 1)


def test_a_file_that_grows_while_it_is_read_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = tmp_path / "small"
    path.write_bytes(bytes(100))
    assert files.read_bytes(path, 100) == bytes(100)
    monkeypatch.setattr(files, "_PIECE", 7)
    assert files.read_bytes(path, 100) == bytes(100)
    size = os.fstat

    def seen_before(descriptor: int) -> os.stat_result:
        found = size(descriptor)
        return os.stat_result((*found[:6], 10, *found[7:10]))

    monkeypatch.setattr(os, "fstat", seen_before)
    with pytest.raises(StorageError, match="51 bytes are more than the 50"):
        files.read_bytes(path, 50)
