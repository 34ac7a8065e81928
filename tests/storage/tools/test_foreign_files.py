"""Files of other logs or of another time in a folder: they are refused, or what gives way to them is kept."""

import logging
import re
import shutil
from pathlib import Path

import pytest

from kcore.constants import UNKNOWN_BROKER_EPOCH
from kcore.errors import StorageError
from kcore.protocol_errors import ApiException
from kcore.raft.membership.replicas import ElectionState
from kcore.replication.raft_log import OffsetAndEpoch
from kcore.server.broker.logs import BrokerLogs
from kcore.storage.checkpoints import TopicPartition, read_leader_epochs
from kcore.storage.log.live_log import LiveLog
from kcore.storage.log.log_directory import CLEAN_SHUTDOWN, LogDirectory, take_clean_shutdown
from kcore.storage.meta_properties import parse_meta_properties
from kcore.storage.raft.metadata_log import load_metadata
from kcore.storage.raft.raft_dir import RaftDirectory
from kcore.storage.raft.raft_format import format_directory
from kcore.wire.record_batch import scan_batches
from raft.batches import snapshot_batches
from storage import building
from storage.raft_logs import FOLDER, SMALL, fill, opened, snapshot

KEY = TopicPartition("t", 0)


def whole(epoch: int) -> bytes:
    return b"".join(snapshot_batches(epoch, [], 0, 0, None, 0))


def add_snapshot(directory: Path, offset: int, epoch: int) -> None:
    (directory / FOLDER / f"{offset:020}-{epoch:010}.checkpoint").write_bytes(whole(epoch))


def metadata_log(directory: Path) -> Path:
    """A log of 40 records, epoch 3 from offset 20 on, with snapshot 20-1."""
    with opened(directory) as log:
        fill(log, 20)
        fill(log, 20, epoch=3)
        log.update_high_watermark(40)
        snapshot(log, 20, 1, whole(1))
    return directory


def contents(directory: Path, pattern: str) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (directory / FOLDER).glob(pattern)}


@pytest.mark.parametrize("foreign", [(20, 2), (15, 3), (4, 9)])
def test_snapshots_that_cannot_be_of_one_log_are_refused(foreign: tuple[int, int], tmp_path: Path) -> None:
    directory = metadata_log(tmp_path)
    before = contents(directory, "*.log")
    add_snapshot(directory, *foreign)
    with pytest.raises(StorageError, match=r"20-0000000001.checkpoint and 0.* cannot be of one log: move away"):
        opened(directory)
    assert contents(directory, "*.log") == before
    with pytest.raises(StorageError, match="cannot be of one log"):
        load_metadata(directory / FOLDER)
    assert "cannot be of one log" in load_metadata(directory / FOLDER, stop=True).problem


@pytest.mark.parametrize("foreign", [(100, 3), (4000, 1), (30, 2), (30, 9)])
def test_a_log_that_gives_way_to_a_snapshot_at_the_start_is_kept(
    foreign: tuple[int, int], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    directory = metadata_log(tmp_path)
    before = contents(directory, "*.log") | contents(directory, "*-0000000001.checkpoint")
    add_snapshot(directory, *foreign)
    with caplog.at_level(logging.WARNING), opened(directory) as log:
        assert (log.latest_snapshot, log.end_offset) == (OffsetAndEpoch(*foreign), foreign[0])
    [line] = [each.getMessage() for each in caplog.records]
    assert f"the log up to offset 40 gives way to snapshot {foreign[0]}-{foreign[1]}" in line
    kept = {name.removesuffix(".aside"): data for name, data in contents(directory, "*.aside").items()}
    assert kept == before


@pytest.mark.parametrize(
    ("foreign", "said"),
    [
        ((100, 3), "the log ends at offset 40, before snapshot 100-3"),
        ((30, 2), "the log has epoch 3 before the end of snapshot 30-2"),
    ],
)
def test_an_image_of_a_snapshot_that_the_log_does_not_lead_to_says_so(
    foreign: tuple[int, int], said: str, tmp_path: Path
) -> None:
    folder = metadata_log(tmp_path) / FOLDER
    add_snapshot(tmp_path, *foreign)
    with pytest.raises(StorageError, match=said):
        load_metadata(folder)
    image = load_metadata(folder, stop=True)
    assert said in image.problem and image.end_offset == foreign[0]


def test_a_snapshot_that_is_damaged_again_does_not_replace_the_first(tmp_path: Path) -> None:
    directory = metadata_log(tmp_path)
    path = directory / FOLDER / f"{20:020}-{1:010}.checkpoint"
    for data in (b"first", b"second"):
        path.unlink(missing_ok=True)
        path.write_bytes(data)
        opened(directory).close()
    assert {*contents(directory, "*.damaged*").values()} == {b"first", b"second"}


def broker_directory(path: Path) -> Path:
    """A broker's log directory with t-0: offsets 0 to 39, epoch 3 from 20 on, all committed."""
    directory = LogDirectory(path, SMALL).open()
    directory.claim(1, "cluster")
    log = directory.create(KEY)
    for data in [*building.batches(20, epoch=1), *building.batches(20, first=20, epoch=3)]:
        log.append(data, scan_batches(data))
    log.high_watermark = 40
    directory.close()
    return path


def segments(path: Path, pattern: str = "*.log") -> dict[str, bytes]:
    return {each.name: each.read_bytes() for each in (path / str(KEY)).glob(pattern)}


def test_a_start_offset_beyond_the_end_deletes_no_segment(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = broker_directory(tmp_path)
    before = segments(path)
    (path / "log-start-offset-checkpoint").write_text("0\n1\nt 0 1000\n")
    with pytest.raises(ApiException, match="t-0 starts at offset 1000, but the log ends at 40: correct the entry"):
        LogDirectory(path, SMALL).open()
    assert segments(path) == before
    with caplog.at_level(logging.WARNING):
        directory = LogDirectory(path, SMALL._replace(set_aside=True)).open()
    assert "its segments are renamed to *.aside" in caplog.text
    assert (directory.logs[KEY].start_offset, directory.logs[KEY].end_offset) == (40, 40)
    assert {name.removesuffix(".aside"): data for name, data in segments(path, "*.aside").items()} == before
    directory.close()
    LogDirectory(path, SMALL).open().close()


def test_an_end_below_what_was_committed_is_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = broker_directory(tmp_path)
    (path / str(KEY) / f"{32:020}.log").unlink()
    with caplog.at_level(logging.WARNING):
        LogDirectory(path, SMALL).open().close()
    assert "t-0: committed up to offset 40 by replication-offset-checkpoint, but the log ends at 32" in caplog.text
    caplog.clear()
    LogDirectory(path, SMALL).open().close()
    assert not caplog.records


def test_a_compaction_that_was_cut_short_is_refused(tmp_path: Path) -> None:
    path = broker_directory(tmp_path)
    for each in sorted((path / str(KEY)).glob("*.log"))[:-1]:
        each.rename(f"{each}.{'swap' if each.name == f'{0:020}.log' else 'deleted'}")
    before = segments(path, "*.log*")
    with pytest.raises(ApiException, match=r"0.log.swap: a Kafka broker did not finish this compaction"):
        LogDirectory(path, SMALL).open()
    assert segments(path, "*.log*") == before


@pytest.mark.parametrize("text", [None, "", "0\n2\n1 0\n7 5\n", "0\n2\n3 20\n1 0\n", "0\n1\n1 0\n"])
def test_leader_epochs_of_another_log_are_made_anew(
    text: str | None, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = broker_directory(tmp_path)
    epochs = path / str(KEY) / "leader-epoch-checkpoint"
    if text is None:
        epochs.unlink()
    else:
        epochs.write_text(text)
    with caplog.at_level(logging.WARNING), LiveLog(path / str(KEY), settings=SMALL) as log:
        assert log.epochs.entries == [(1, 0), (3, 20)]
    assert read_leader_epochs(epochs) == [(1, 0), (3, 20)]
    assert f"{epochs} does not fit the log" in caplog.text


def test_a_partition_in_two_directories_of_zookeeper_mode_is_refused(tmp_path: Path) -> None:
    path = broker_directory(tmp_path / "a")
    shutil.copytree(path, tmp_path / "b")
    logs = BrokerLogs([path, tmp_path / "b"], SMALL)
    with pytest.raises(StorageError, match=r"a/t-0 and .*b/t-0 belong to the same replica: delete one"):
        logs.directories.claim(1, "cluster")
    logs.close()


def test_a_broker_epoch_that_no_controller_gives_is_no_clean_shutdown(tmp_path: Path) -> None:
    (tmp_path / CLEAN_SHUTDOWN).write_text('{"version":0,"brokerEpoch":9223372036854775808}')
    assert take_clean_shutdown(tmp_path) == UNKNOWN_BROKER_EPOCH


def test_a_log_of_no_replica_is_kept_under_another_name(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = broker_directory(tmp_path)
    before = segments(path)
    logs = BrokerLogs([path], SMALL)
    logs.set_stray(KEY)
    assert [*logs.keys()] == []
    logs.close()
    [stray] = path.glob("t-0.*-stray")
    assert {each.name: each.read_bytes() for each in stray.glob("*.log")} == before
    assert f"t-0 in {path} is of no replica of this broker: its folder is renamed to {stray.name}" in caplog.text
    again = BrokerLogs([path], SMALL)
    assert [*again.keys()] == []
    again.close()


def test_an_empty_cluster_id_is_refused() -> None:
    for needs_cluster_id in (True, False):
        with pytest.raises(StorageError, match=r"cluster\.id is empty"):
            parse_meta_properties(b"version=1\nnode.id=1\ncluster.id=\n", needs_cluster_id=needs_cluster_id)


def test_a_lost_directory_id_is_refused_where_voters_are_known_by_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for kraft_version in (0, 1):
        path = tmp_path / str(kraft_version)
        format_directory(path, node_id=1, features={"metadata.version": 30})
        directory = RaftDirectory(path)
        log, _ = directory.open()
        directory.store_election(ElectionState(1), kraft_version)
        log.close()
        meta = path / "meta.properties"
        lost = re.sub(rb"directory.id=.*\n", b"", meta.read_bytes())
        meta.write_bytes(lost)
        if kraft_version:
            with pytest.raises(StorageError, match=r"directory.id was not found, by which the quorum knows this node"):
                RaftDirectory(path)
            assert meta.read_bytes() == lost
        else:
            made = RaftDirectory(path).directory_id
            assert f"directory.id was not found: it is {made} from now on" in caplog.text


def test_a_lost_vote_is_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    format_directory(tmp_path, node_id=1, features={"metadata.version": 30})
    for _ in range(2):
        log, election = RaftDirectory(tmp_path).open(SMALL)
        assert election is None and not caplog.records, "a new node has not voted"
        log.close()
    log, _ = RaftDirectory(tmp_path).open(SMALL)
    fill(log, 3)
    log.close()
    RaftDirectory(tmp_path).open(SMALL)[0].close()
    assert "quorum-state does not exist, but the log has records" in caplog.text
