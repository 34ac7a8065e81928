"""Metadata directories: whose they are, made new, and the election in them."""

import shutil
from pathlib import Path

import pytest

from kcore.errors import StorageError
from kcore.raft.membership.replicas import Address, ElectionState, ReplicaKey, Voter
from kcore.raft.membership.voters import VoterSet
from kcore.replication.raft_log import OffsetAndEpoch
from kcore.storage.meta_properties import MetaProperties, read_meta_properties, write_meta_properties
from kcore.storage.raft.file_raft_log import DiskRaftLog
from kcore.storage.raft.metadata_log import load_metadata
from kcore.storage.raft.quorum_state_file import read_quorum_state
from kcore.storage.raft.raft_dir import METADATA_FOLDER, RaftDirectory, random_directory_id
from kcore.storage.raft.raft_format import format_directory
from kcore.storage.raft.snapshot import read_snapshot
from kcore.types import METADATA_TOPIC_ID, Uuid
from kcore.wire.record_batch import scan_batches
from storage.raft_logs import END, fill
from storage.samples import KRAFT39, KRAFT43

FEATURES_39 = {"metadata.version": 21}
FEATURES_43 = {
    "metadata.version": 30,
    "eligible.leader.replicas.version": 1,
    "group.version": 1,
    "share.version": 1,
    "streams.version": 1,
    "transaction.version": 2,
    "kraft.version": 0,
}


def voters() -> list[Voter]:
    """Those of the recorded quorum of 4.3."""
    ids = {3001: "7VHjOcspTlaDEmxSSjIi9Q", 3002: "mDNKFJRKTSqH50mnV4tRrA", 3003: "YAVI0POcSuOc1f76kbL28g"}
    return [
        Voter(ReplicaKey(node_id, Uuid(id)), {"CONTROLLER": Address("127.0.0.1", 26300 + node_id)}, 0, 1)
        for node_id, id in ids.items()
    ]


def without_times(data: bytes) -> list[bytes]:
    """The batches of a file but for CRC and times in their headers, which tell when it was made."""
    batches = scan_batches(data)
    spans = zip(batches.position.tolist(), (batches.position + batches.size).tolist(), strict=True)
    pieces = [data[begin:end] for begin, end in spans]
    return [piece[:17] + piece[21:27] + piece[43:] for piece in pieces]


def test_a_cluster_id_that_comes_later_is_kept(tmp_path: Path) -> None:
    """The quorum's first leader makes the cluster id; the rest of the file is unchanged."""
    made = format_directory(tmp_path, node_id=3, features=FEATURES_39, without_cluster_id=True)
    assert made.cluster_id is None
    assert "cluster.id" not in (tmp_path / "meta.properties").read_text()
    known = RaftDirectory(tmp_path, node_id=3)
    known.store_cluster_id("abc")
    assert known.cluster_id == RaftDirectory(tmp_path, cluster_id="abc").cluster_id == "abc"
    assert read_meta_properties(tmp_path / "meta.properties") == MetaProperties(1, "abc", 3, made.directory_id)


def test_a_directory_of_static_voters_is_as_kafka_s_own_tool_makes_it(tmp_path: Path) -> None:
    directory = format_directory(tmp_path / "data", node_id=3001, features=FEATURES_39, cluster_id="abc")
    assert sorted(path.name for path in (tmp_path / "data").iterdir()) == ["bootstrap.checkpoint", "meta.properties"]
    ours, theirs = (path / "bootstrap.checkpoint" for path in (tmp_path / "data", KRAFT39))
    assert without_times(ours.read_bytes()) == without_times(theirs.read_bytes())
    meta = read_meta_properties(tmp_path / "data" / "meta.properties")
    assert meta == MetaProperties(1, "abc", 3001, directory.directory_id)
    lines = (tmp_path / "data" / "meta.properties").read_text().splitlines()
    kept = [line.split("=")[0] for line in lines if "=" in line]
    assert kept == [
        line.split("=")[0] for line in (KRAFT39 / "meta.properties").read_text().splitlines() if "=" in line
    ]


def test_a_directory_of_dynamic_voters_is_as_kafka_s_own_tool_makes_it(tmp_path: Path) -> None:
    directory = format_directory(tmp_path, node_id=3003, features=FEATURES_43, initial_voters=voters())
    recorded = KRAFT43 / "controller-3003"
    assert directory.directory_id == read_meta_properties(recorded / "meta.properties").directory_id
    assert len(Uuid(directory.cluster_id)) == 16
    assert load_metadata(tmp_path / "bootstrap.checkpoint").features == {
        name: level for name, level in FEATURES_43.items() if level
    }
    ours, theirs = (path / "bootstrap.checkpoint" for path in (tmp_path, recorded))
    assert without_times(ours.read_bytes()) == without_times(theirs.read_bytes())
    name = f"{METADATA_FOLDER}/{0:020}-{0:010}.checkpoint"
    snapshots = [read_snapshot(path / name) for path in (tmp_path, recorded)]
    assert snapshots[0].kraft_version == snapshots[1].kraft_version and snapshots[0].voters == snapshots[1].voters
    sizes = [[*snapshot.records.batches.size] for snapshot in snapshots]
    assert sizes[0] == sizes[1]
    log, election = directory.open()
    assert election is None
    assert (log.latest_snapshot, log.end_offset, log.last_epoch) == (OffsetAndEpoch(0, 0), 0, 0)
    assert VoterSet.from_record(snapshots[0].voters) == VoterSet.of(voters())
    log.close()


def test_what_cannot_be_formatted(tmp_path: Path) -> None:
    format_directory(tmp_path, node_id=1, features=FEATURES_39)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(StorageError, match="formatted already"):
        format_directory(tmp_path, node_id=1, features=FEATURES_39)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
    with pytest.raises(StorageError, match="below 0"):
        format_directory(tmp_path / "a", node_id=-1, features=FEATURES_39)
    with pytest.raises(StorageError, match=r"metadata\.version"):
        format_directory(tmp_path / "a", node_id=1, features={"group.version": 1})
    with pytest.raises(StorageError, match="initial voters"):
        format_directory(
            tmp_path / "a", node_id=3001, features=FEATURES_43, initial_voters=voters(), directory_id=Uuid(b"a" * 16)
        )
    assert not (tmp_path / "a").exists()
    joins = format_directory(tmp_path / "b", node_id=7, features=FEATURES_43, directory_id=Uuid(b"a" * 16))
    assert joins.directory_id == Uuid(b"a" * 16)


def test_directory_ids_are_none_that_kafka_reserves() -> None:
    made = {random_directory_id() for _ in range(1000)}
    assert len(made) == 1000 and not any(str(each).startswith("-") for each in made)


def test_whose_a_directory_is(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="not formatted"):
        RaftDirectory(tmp_path)
    made = format_directory(tmp_path, node_id=3, features=FEATURES_39, cluster_id="c")
    known = RaftDirectory(tmp_path, node_id=3, cluster_id="c")
    assert (known.node_id, known.cluster_id, known.directory_id) == (3, "c", made.directory_id)
    with pytest.raises(StorageError, match=r"meta\.properties: node\.id is 3, not 4"):
        RaftDirectory(tmp_path, node_id=4)
    with pytest.raises(StorageError, match=r"meta\.properties: cluster\.id is c, not d"):
        RaftDirectory(tmp_path, cluster_id="d")
    write_meta_properties(tmp_path / "meta.properties", MetaProperties(1, "c", 3))
    given = RaftDirectory(tmp_path).directory_id
    assert given != Uuid() and RaftDirectory(tmp_path).directory_id == given
    write_meta_properties(tmp_path / "meta.properties", MetaProperties(0, "c", 3))
    with pytest.raises(StorageError, match="ZooKeeper"):
        RaftDirectory(tmp_path)


# The election.


@pytest.mark.parametrize(
    "election",
    [
        ElectionState(0),
        ElectionState(7, 2),
        ElectionState(7, -1, ReplicaKey(3, Uuid(b"d" * 16))),
        ElectionState(9, 3, ReplicaKey(3, Uuid(b"d" * 16))),
    ],
)
@pytest.mark.parametrize("kraft_version", [0, 1])
def test_an_election_outlives_the_process(tmp_path: Path, election: ElectionState, kraft_version: int) -> None:
    format_directory(tmp_path, node_id=1, features=FEATURES_43)
    directory = RaftDirectory(tmp_path, voters=(1, 2, 3))
    log, nothing = directory.open()
    assert nothing is None
    directory.store_election(ElectionState(0, 1), 0)
    directory.store_election(election, kraft_version)
    state, version = read_quorum_state(tmp_path / METADATA_FOLDER / "quorum-state")
    assert version == kraft_version
    voted = [each.voter_id for each in state.current_voters or ()]
    assert voted == ([] if version else [1, 2, 3])
    log.close()
    log, stored = RaftDirectory(tmp_path).open()
    if kraft_version == 0 and election.voted is not None:  # Static voters have no directory.
        election = election._replace(voted=ReplicaKey(election.voted.id))
    assert stored == election
    log.close()


def test_elections_are_written_as_kafka_does(tmp_path: Path) -> None:
    format_directory(tmp_path, node_id=1, features=FEATURES_43)
    directory = RaftDirectory(tmp_path, voters=(3001, 3002, 3003))
    directory.open()[0].close()
    directory.store_election(ElectionState(2, 3001), 0)
    path = tmp_path / METADATA_FOLDER / "quorum-state"
    assert path.read_bytes() == (KRAFT39 / "quorum-state").read_bytes()
    recorded = KRAFT43 / "controller-3003" / METADATA_FOLDER / "quorum-state"
    directory.store_election(ElectionState(3, 3002, voters()[1].key), 1)
    assert path.read_bytes() == recorded.read_bytes()


def test_an_election_that_is_torn_is_no_election_that_was_forgotten(tmp_path: Path) -> None:
    """To take it for none would be to vote twice."""
    format_directory(tmp_path, node_id=1, features=FEATURES_43)
    directory = RaftDirectory(tmp_path)
    directory.open()[0].close()
    directory.store_election(ElectionState(3, 2), 1)
    path = tmp_path / METADATA_FOLDER / "quorum-state"
    whole = path.read_bytes()
    for end in range(len(whole)):
        path.write_bytes(whole[:end])
        with pytest.raises(StorageError, match="quorum-state: line 1"):
            directory.open()
    path.write_bytes(whole)
    path.with_name("quorum-state.tmp").write_bytes(whole[:20])  # A crash before it took the other's place.
    log, election = directory.open()
    assert election == ElectionState(3, 2) and not path.with_name("quorum-state.tmp").exists()
    log.close()


# Kafka's own.


def test_a_recorded_directory_of_4_3_opens_and_goes_on(tmp_path: Path) -> None:
    shutil.copytree(KRAFT43 / "controller-3003", tmp_path / "data")
    directory = RaftDirectory(tmp_path / "data", node_id=3003, cluster_id="MkU3OEVBNTcwNTJENDM2Qg")
    log, election = directory.open()
    assert election == ElectionState(3, 3002, voters()[1].key)
    recorded = (KRAFT43 / "controller-3003" / METADATA_FOLDER / f"{0:020}.log").read_bytes()
    assert (log.start_offset, log.end_offset, log.last_epoch) == (0, 384, 3)
    assert log.read(0, 1 << 20, END) == recorded
    assert log.latest_snapshot == OffsetAndEpoch(0, 0)
    assert log.validate_offset_and_epoch(384, 3).kind == "VALID"
    fill(log, 3, epoch=4)
    log.close()
    log, _ = directory.open()
    assert (log.end_offset, log.last_epoch) == (387, 4)
    assert log.read(0, len(recorded), 384) == recorded
    log.close()


def test_a_recorded_log_of_3_9_opens(tmp_path: Path) -> None:
    folder = tmp_path / METADATA_FOLDER
    folder.mkdir()
    for name in (f"{0:020}.log", "leader-epoch-checkpoint", "quorum-state"):
        shutil.copy(KRAFT39 / name, folder / name)
    for name in ("meta.properties", "bootstrap.checkpoint"):
        shutil.copy(KRAFT39 / name, tmp_path / name)
    directory = RaftDirectory(tmp_path, node_id=3001, voters=(3001, 3002, 3003))
    log, election = directory.open()
    assert election == ElectionState(2, 3001) and log.last_epoch == 2
    assert log.read(0, 1 << 20, END) == (KRAFT39 / f"{0:020}.log").read_bytes()
    log.close()


def test_a_folder_of_another_topic_is_refused(tmp_path: Path) -> None:
    format_directory(tmp_path, node_id=1, features=FEATURES_43)
    RaftDirectory(tmp_path).open()[0].close()
    path = tmp_path / METADATA_FOLDER / "partition.metadata"
    assert path.read_text() == f"version: 0\ntopic_id: {METADATA_TOPIC_ID}"
    path.write_text("version: 0\ntopic_id: YAVI0POcSuOc1f76kbL28g")
    with pytest.raises(StorageError, match="topic_id is YAVI0POcSuOc1f76kbL28g"):
        RaftDirectory(tmp_path).open()
    DiskRaftLog(tmp_path / METADATA_FOLDER).close()
