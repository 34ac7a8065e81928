"""The log directories of a KRaft broker, as it finds them when it starts: ids, owners, clean shutdowns."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kcore.errors import StorageError
from kcore.metadata.table.directory_table import LOST_UUID
from kcore.protocol_errors import ApiException
from kcore.server.broker.logs import BrokerLogs
from kcore.storage.log.log_directory import HIGH_WATERMARKS
from kcore.storage.meta_properties import MetaProperties, read_meta_properties, write_meta_properties
from kcore.storage.raft.raft_format import format_log_directories
from kcore.types import ZERO_UUID, Uuid
from server.kraft.test_kraft_broker import CLUSTER


def write(path: Path, **fields: Any) -> None:
    meta = read_meta_properties(path / "meta.properties")
    changed = {name: getattr(meta, name) for name in ("cluster_id", "node_id", "directory_id")} | fields
    write_meta_properties(path / "meta.properties", MetaProperties(1, **changed))


def same_id(one: Path, other: Path) -> None:
    write(other, directory_id=read_meta_properties(one / "meta.properties").directory_id)


REFUSED: dict[str, Callable[[Path, Path], None]] = {
    "which is that of .*/a, too": same_id,
    "which is reserved": lambda one, other: write(other, directory_id=LOST_UUID),
    "does not exist: format the directory": lambda one, other: (other / "meta.properties").unlink(),
    "node.id is 2, not 1": lambda one, other: write(other, node_id=2),
    "cluster.id is x, not a-cluster": lambda one, other: write(other, cluster_id="x"),
    "is a metadata log, but metadata.log.dir is": lambda one, other: (other / "__cluster_metadata-0").mkdir(),
    "the directory of the metadata log cannot be used": lambda one, other: a_file(one),
    "the metadata log cannot be used: .*no checkpoint": lambda one, other: spoil(one / HIGH_WATERMARKS),
}


def spoil(path: Path) -> None:
    path.write_text("no checkpoint")


def a_file(path: Path) -> None:
    """In a directory's place: root may read and write any directory, and so no permission is in its way."""
    path.rename(path.with_name(f"{path.name}-away"))
    path.write_text("a file")


def test_a_directory_of_an_older_release_gets_an_id(tmp_path: Path) -> None:
    paths = [tmp_path / "a", tmp_path / "b"]
    made = format_log_directories(paths, node_id=1, cluster_id=CLUSTER)
    write(paths[1], directory_id=None)
    first, second = BrokerLogs(paths, node_id=1).directories
    assert first.directory_id == made[paths[0]] and second.directory_id not in (None, first.directory_id)
    assert read_meta_properties(paths[1] / "meta.properties").directory_id == second.directory_id


@pytest.mark.parametrize("why", REFUSED)
def test_directories_that_are_refused(tmp_path: Path, why: str) -> None:
    paths = [tmp_path / "a", tmp_path / "b"]
    made = format_log_directories(paths, node_id=1, cluster_id=CLUSTER)
    logs = BrokerLogs(paths, node_id=1)
    assert [each.directory_id for each in logs.directories] == [
        *made.values()
    ] and logs.directories.cluster_id == CLUSTER
    REFUSED[why](*paths)
    with pytest.raises(StorageError, match=why):
        BrokerLogs(paths, node_id=1)


def test_a_directory_that_cannot_be_read_is_offline(tmp_path: Path) -> None:
    paths = [tmp_path / "a", tmp_path / "b"]
    format_log_directories(paths, node_id=1, cluster_id=CLUSTER)
    shutil.rmtree(paths[1])
    paths[1].write_text("a file")
    logs = BrokerLogs(paths, node_id=1)
    assert [each.path for each in logs.directories.online] == [paths[0]]
    [there] = logs.directories.online
    assert there.directory_id is not None
    logs.create(("t", 0), ZERO_UUID, there.directory_id)
    assert logs.hold(("t", 0), ZERO_UUID, is_new=True).folder.parent == paths[0]
    for is_new in (False, True):
        with pytest.raises(ApiException, match="it may have the log"):
            logs.hold(("t", 1), ZERO_UUID, is_new=is_new)
    with pytest.raises(ApiException, match="is offline"):
        logs.create(("t", 1), ZERO_UUID, Uuid(b"x" * 16))


def test_a_replaced_disk_is_formatted_beside_the_others(tmp_path: Path) -> None:
    paths = [tmp_path / "a", tmp_path / "b"]
    made = format_log_directories(paths, node_id=1, cluster_id=CLUSTER)
    with pytest.raises(StorageError, match="formatted already"):
        format_log_directories(paths, node_id=1, cluster_id=CLUSTER)
    shutil.rmtree(paths[1])
    again = format_log_directories(paths, node_id=1, cluster_id=CLUSTER, passes_over_formatted=True)
    assert [*again] == [paths[1]] and again[paths[1]] != made[paths[1]]
    with pytest.raises(StorageError, match=r"node\.id is 1, not 2"):
        format_log_directories(paths, node_id=2, cluster_id=CLUSTER, passes_over_formatted=True)


def test_a_clean_shutdown_counts_once_and_for_all_directories(tmp_path: Path) -> None:
    paths = [tmp_path / "a", tmp_path / "b"]
    format_log_directories(paths, node_id=1, cluster_id=CLUSTER)
    BrokerLogs(paths, node_id=1).close(44)
    assert (paths[0] / ".kafka_cleanshutdown").read_text() == '{"version":0,"brokerEpoch":44}'
    logs = BrokerLogs(paths, node_id=1)
    assert logs.directories.take_clean_shutdown() == 44
    assert logs.directories.take_clean_shutdown() == -1
    logs.close(45)
    (paths[1] / ".kafka_cleanshutdown").unlink()
    assert BrokerLogs(paths, node_id=1).directories.take_clean_shutdown() == -1


def test_a_shutdown_is_not_clean_for_a_broker_that_lacks_a_directory(tmp_path: Path) -> None:
    """It may be the directory whose file had another epoch (LogManager.readBrokerEpochFromCleanShutdownFiles)."""
    paths = [tmp_path / "a", tmp_path / "b"]
    format_log_directories(paths, node_id=1, cluster_id=CLUSTER)
    BrokerLogs(paths, node_id=1).close(44)
    logs = BrokerLogs(paths, node_id=1)
    logs.directories.fail(logs.directories[1], "its disk is broken")
    assert logs.directories.take_clean_shutdown() == -1
    logs.close()
