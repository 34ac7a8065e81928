"""Recorded files with bytes changed: every reader gives what it can, or an error of ours, and nothing else."""

import json
import random
import shutil
import struct
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from kcore.broker.replicas.transactions import AbortedTransaction
from kcore.errors import KcoreError
from kcore.protocol_errors import Errors, exception_of
from kcore.raft.membership.replicas import ElectionState, ReplicaKey
from kcore.server.broker.logs import BrokerLogs
from kcore.storage import checkpoints, meta_properties, partition_metadata
from kcore.storage.log.indexes import OffsetIndex, TimeIndex, format_aborted, read_aborted
from kcore.storage.log.producer_snapshot import ProducerState, format_producers, read_producers
from kcore.storage.log.segment import Segment
from kcore.storage.raft import quorum_state_file as quorum_state
from kcore.storage.raft.metadata_log import load_metadata
from kcore.storage.raft.raft_dir import RaftDirectory
from kcore.storage.raft.raft_format import format_directory
from kcore.storage.raft.snapshot import read_snapshot
from kcore.storage.tools.coordinator_records import OFFSETS
from kcore.storage.tools.diverge import diverge
from kcore.storage.tools.dump import Detail, dump_lines
from kcore.wire.record_batch import crc32c
from raft.nodes import directory, started, voter
from storage import building
from storage.raft_logs import SMALL, fill, snapshot
from storage.samples import KRAFT39, KRAFT43, METADATA_43
from storage.test_irregular_files import fill_broker

MUTATIONS = 150
EXTREMES = (b"\0", b"\x7f", b"\x80", b"\xff", b"\0\0\0\0", b"\x7f\xff\xff\xff", b"\x80\0\0\0", b"\xff\xff\xff\xff")


def mutated(data: bytes, dice: random.Random) -> bytes:
    """One to three of: bytes set to extremes or anything, cut off, left out, doubled."""
    for _ in range(dice.randint(1, 3)):
        at, end = sorted(dice.randint(0, len(data)) for _ in range(2))
        length = dice.randint(1, 16)
        match dice.randrange(5):
            case 0:
                extreme = dice.choice(EXTREMES)
                data = data[:at] + extreme + data[at + len(extreme) :]
            case 1:
                data = data[:at] + dice.randbytes(length) + data[at + length :]
            case 2:
                data = data[:at]
            case 3:
                data = data[:at] + data[at + length :]
            case _:
                data = data[:end] + data[at:]
    return data


def with_right_crcs(data: bytes) -> bytes:
    """Batches whose CRC is right whatever they hold: what lies behind that check is met then, too."""
    made, at = bytearray(data), 0
    while at + 61 <= len(made):
        end = at + 12 + int.from_bytes(made[at + 8 : at + 12], signed=True)
        if not at + 61 <= end <= len(made):
            break
        made[at + 17 : at + 21] = crc32c(bytes(made[at + 21 : end])).to_bytes(4)
        at = end
    return bytes(made)


def recorded(pattern: str) -> list[bytes]:
    found = [path.read_bytes() for folder in (KRAFT43, KRAFT39) for path in sorted(folder.rglob(pattern))]
    assert found
    return found


def read_index(path: Path) -> object:
    return OffsetIndex.read(path, 0, 4096) if path.suffix == ".index" else TimeIndex.read(path, 0, 4096)


def read_segment(path: Path) -> object:
    with Segment(path) as segment:
        assert segment.valid_bytes <= len(segment) and segment.end_offset is not None
        for problem in segment.problems:
            raise problem
        return segment.batches


PRODUCERS = format_producers([ProducerState(7, 2, 41, 1000, 3, 1000, 5, -1), ProducerState(8, 0, -1, -1, 0, 0, 0, 9)])
OFFSETS_INDEX = struct.pack(">8i", 7, 70, 14, 140, 21, 210, 0, 0)
TIMES_INDEX = struct.pack(">qiqiqi", building.TIME_MS, 7, building.TIME_MS + 1, 14, 0, 0)
ABORTED = format_aborted([AbortedTransaction(1, 7, 9, 7), AbortedTransaction(2, 8, 12, 10)])
Sample = tuple[str, Callable[[], list[bytes]], Callable[[Path], object]]
SAMPLES: list[Sample] = [
    ("quorum-state", lambda: recorded("*quorum-state"), quorum_state.read_quorum_state),
    ("meta.properties", lambda: recorded("meta.properties"), meta_properties.read_meta_properties),
    ("partition.metadata", lambda: recorded("partition.metadata"), partition_metadata.read_partition_metadata),
    ("leader-epoch-checkpoint", lambda: recorded("leader-epoch-checkpoint"), checkpoints.read_leader_epochs),
    ("replication-offset-checkpoint", lambda: recorded("*-offset-checkpoint"), checkpoints.read_offsets),
    (f"{0:020}.index", lambda: [OFFSETS_INDEX], read_index),
    (f"{0:020}.timeindex", lambda: [TIMES_INDEX], read_index),
    (f"{0:020}.txnindex", lambda: [ABORTED], read_aborted),
    (f"{0:020}.snapshot", lambda: [PRODUCERS], read_producers),
    (f"{0:020}.log", lambda: recorded("*.log"), read_segment),
    (f"{0:020}-{0:010}.checkpoint", lambda: recorded("*.checkpoint"), read_snapshot),
    (f"{0:020}.log", lambda: recorded("*.log"), load_metadata),
    (f"{0:020}.log", lambda: recorded("*.log"), lambda path: load_metadata(path, stop=True)),
    (f"{0:020}-{0:010}.checkpoint", lambda: recorded("*.checkpoint"), load_metadata),
]
DETAILS = [Detail(), Detail(deep=True, contents=True), Detail(metadata=True), Detail(coordinator=OFFSETS)]


@pytest.mark.parametrize(("name", "samples", "read"), SAMPLES, ids=range(len(SAMPLES)))
def test_readers_of_changed_files(
    name: str, samples: Callable[[], list[bytes]], read: Callable[[Path], object], tmp_path: Path
):
    dice, whole, refused = random.Random(name), samples(), 0
    for number in range(MUTATIONS):
        data = mutated(dice.choice(whole), dice)
        if name.endswith((".log", ".checkpoint")) and number % 2:
            data = with_right_crcs(data)
        (tmp_path / name).write_bytes(data)
        try:
            read(tmp_path / name)
        except KcoreError:
            refused += 1
    assert refused


@pytest.mark.parametrize("detail", DETAILS, ids=["batches", "records", "metadata", "offsets"])
def test_dumps_of_changed_files(detail: Detail, tmp_path: Path):
    dice = random.Random(str(detail))
    for name, samples, _ in SAMPLES[5:11]:
        for number in range(MUTATIONS // 3):
            data = mutated(dice.choice(samples()), dice)
            (tmp_path / name).write_bytes(with_right_crcs(data) if number % 2 and name.endswith("log") else data)
            with suppress(KcoreError):
                for line in dump_lines(tmp_path / name, detail):
                    line.encode()


EXTREME_VALUES = (2**31 - 1, 2**31, 2**63, 10**4000, -1, -2, -(2**31), 0.5, 1e999, True, None, "1", "\0", [], {})
FIELDS = ("leaderId", "leaderEpoch", "votedId", "votedDirectoryId", "data_version", "clusterId", "\0", "\ud800")


@pytest.mark.parametrize(
    "field", ["leaderId", "leaderEpoch", "votedId", "votedDirectoryId", "data_version", "clusterId"]
)
def test_extremes_in_quorum_state(field: str, tmp_path: Path):
    path = tmp_path / "quorum-state"
    good = {"leaderId": 1, "leaderEpoch": 3, "votedId": -1, "votedDirectoryId": "A" * 22, "data_version": 1}
    for value in EXTREME_VALUES:
        path.write_text(json.dumps(good | {field: value}))
        try:
            state, _ = quorum_state.read_quorum_state(path)
        except KcoreError as error:
            assert str(path) in str(error) and "\n" not in str(error)
        else:
            assert state.leader_epoch >= 0 and min(state.leader_id, state.voted_id) >= -1


@pytest.fixture(scope="module")
def node_directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("node") / "data"
    format_directory(path, node_id=1, features={"metadata.version": 30}, directory_id=directory(1))
    made = RaftDirectory(path, voters=(1, 2, 3))
    log, _ = made.open(SMALL)
    fill(log, 30)
    log.update_high_watermark(20)
    snapshot(log, 8, 1, (METADATA_43 / f"{0:020}-{0:010}.checkpoint").read_bytes())
    log.close()
    made.store_election(ElectionState(1, -1, ReplicaKey(2)), 0)
    return path


def test_nodes_of_changed_files(node_directory: Path, tmp_path: Path):
    dice, ended = random.Random(23), 0
    files = sorted(path.relative_to(node_directory) for path in node_directory.rglob("*") if path.is_file())
    assert len(files) > 15
    for number in range(MUTATIONS):
        path, name = tmp_path / str(number), dice.choice(files)
        shutil.copytree(node_directory, path)
        data = mutated((path / name).read_bytes(), dice)
        (path / name).chmod(0o644)
        (path / name).write_bytes(with_right_crcs(data) if number % 2 and name.suffix == ".log" else data)
        try:
            log, election = RaftDirectory(path, node_id=1, voters=(1, 2, 3)).open(SMALL)
            try:
                started(log=log, election=election, voters=[voter(node_id) for node_id in (1, 2, 3)])
            finally:
                log.close()
        except KcoreError:
            ended += 1
        shutil.rmtree(path)
    assert ended


def test_brokers_of_changed_files(tmp_path: Path):
    """A directory goes offline for what is wrong in it; the broker does not end for it."""
    fill_broker(tmp_path / "whole")
    dice, offline = random.Random(23), 0
    files = sorted(path.relative_to(tmp_path / "whole") for path in (tmp_path / "whole").rglob("*") if path.is_file())
    for number in range(MUTATIONS):
        path, name = tmp_path / str(number), dice.choice(files)
        shutil.copytree(tmp_path / "whole", path)
        data = mutated((path / name).read_bytes(), dice)
        (path / name).write_bytes(with_right_crcs(data) if number % 2 and name.suffix == ".log" else data)
        logs = BrokerLogs([tmp_path / "good", path], SMALL)
        try:
            logs.directories.claim(1, "cluster")
        except KcoreError as error:
            assert "it belongs to" in str(error)
        offline += len(logs.directories.online) == 1
        for key in [*logs.keys()]:
            log = logs.hold(key, logs.topic_id(key), is_new=False)
            try:
                log.read(log.start_offset, 1000, log.end_offset, at_least_one=True)
            except exception_of(Errors.KAFKA_STORAGE_ERROR) as error:  # Within a segment that is not the last.
                assert "no whole batch at position" in str(error)
        logs.close()
        shutil.rmtree(path)
    assert offline


def test_replicas_of_changed_files_compared(tmp_path: Path):
    for name in ("a", "b"):
        fill_broker(tmp_path / name)
    dice = random.Random(23)
    whole = {path: path.read_bytes() for path in sorted((tmp_path / "b" / "t-0").iterdir())}
    for _ in range(MUTATIONS):
        changed = dice.choice([*whole])
        changed.write_bytes(mutated(whole[changed], dice))
        for read in ("bytes", "headers", "epochs"):
            with suppress(KcoreError):
                diverge(tmp_path / "a" / "t-0", tmp_path / "b" / "t-0", read=read)
        changed.write_bytes(whole[changed])
