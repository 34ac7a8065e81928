"""The log directories of a broker, one of which fails."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from kcore.errors import StorageError
from kcore.protocol_errors import Errors, exception_of
from kcore.server.broker.logs import BrokerLogs
from kcore.storage.log.log_directory import HIGH_WATERMARKS
from kcore.storage.meta_properties import META_PROPERTIES
from kcore.types import Uuid

ID = Uuid(b"t" * 16)
FAILS = pytest.raises(exception_of(Errors.KAFKA_STORAGE_ERROR))


def logs_in(folder: Path) -> BrokerLogs:
    return BrokerLogs([folder / "a", folder / "b"])


def online(logs: BrokerLogs) -> list[str]:
    return [each.path.name for each in logs.directories.online]


def test_a_directory_in_which_no_log_can_be_made(tmp_path: Path) -> None:
    """It is in none, and yet that one goes offline with what is in it."""
    logs = logs_in(tmp_path)
    for key in (("t", 0), ("t", 1)):
        logs.hold(key, ID, is_new=True)
    (tmp_path / "a" / "t-2").write_text("no folder")
    with FAILS:
        logs.hold(("t", 2), ID, is_new=True)
    assert logs.fail(("t", 2), "no folder") == [("t", 0)]
    assert online(logs) == ["b"]
    assert logs.fail(("t", 2), "no folder") is None
    with FAILS:
        logs.hold(("t", 0), ID, is_new=False)
    assert logs.fail(("t", 0), "it may be in the other") is None
    assert logs.hold(("t", 3), ID, is_new=True).folder == tmp_path / "b" / "t-3"
    assert {*logs.keys()} == {("t", 1), ("t", 3)}


def test_a_directory_from_which_no_log_can_be_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    logs = logs_in(tmp_path)
    logs.hold(("t", 0), ID, is_new=True)

    def rename(self: Path, to: Path) -> Path:
        raise OSError("no space")

    monkeypatch.setattr(Path, "rename", rename)
    with FAILS:
        logs.delete(("t", 0))
    assert logs.fail(("t", 0), "no space") == []
    assert online(logs) == ["b"]


def test_a_directory_without_logs_that_takes_no_checkpoint(tmp_path: Path) -> None:
    logs = logs_in(tmp_path)
    logs.hold(("t", 0), ID, is_new=True)
    assert logs.checkpoint() is None
    (tmp_path / "b" / f"{HIGH_WATERMARKS}.tmp").mkdir()
    assert logs.checkpoint() == []
    assert online(logs) == ["a"]
    (tmp_path / "a" / f"{HIGH_WATERMARKS}.tmp").mkdir()
    assert logs.checkpoint() == [("t", 0)]
    assert online(logs) == []
    with FAILS:
        logs.hold(("t", 1), ID, is_new=True)


def test_a_directory_whose_disk_was_unmounted_while_its_logs_are_open(tmp_path: Path) -> None:
    """The bare mount point takes every file, and the open segments are on a disk that nobody finds again."""
    logs = logs_in(tmp_path)
    logs.hold(("t", 0), ID, is_new=True)
    logs.hold(("t", 1), ID, is_new=True)
    assert logs.checkpoint() is None
    (tmp_path / "a").rename(tmp_path / "unmounted")
    (tmp_path / "a").mkdir()
    assert logs.checkpoint() == [("t", 0)]
    assert online(logs) == ["b"]
    assert [*(tmp_path / "a").iterdir()] == []
    assert "unmounted" in str(logs.directories[0].failed)


# At the start.


def a_partition_in_each(folder: Path) -> None:
    """t-0 in the first directory, t-1 in the second."""
    logs = logs_in(folder)
    logs.directories.claim(1, "cluster")
    for key in (("t", 0), ("t", 1)):
        logs.hold(key, ID, is_new=True)
    logs.close()


def breaks_directory(path: Path) -> None:
    shutil.rmtree(path)
    path.write_text("no directory")


def breaks_log(path: Path) -> None:
    [segment] = path.glob("t-*/*.log")
    segment.unlink()
    segment.mkdir()


def breaks_checkpoint(path: Path) -> None:
    (path / HIGH_WATERMARKS).write_text("no checkpoint")


def breaks_meta(path: Path) -> None:
    (path / META_PROPERTIES).write_text("version=what")


WAYS = pytest.mark.parametrize("breaks", [breaks_directory, breaks_log, breaks_checkpoint, breaks_meta])


@WAYS
@pytest.mark.parametrize("broken", [0, 1])
def test_a_directory_that_cannot_be_opened_at_the_start(
    tmp_path: Path, breaks: Callable[[Path], None], broken: int
) -> None:
    """It is offline, and the other is used as far as none of its logs may be in the first (KIP-112)."""
    a_partition_in_each(tmp_path)
    breaks(tmp_path / "ab"[broken])
    logs = logs_in(tmp_path)
    logs.directories.claim(1, "cluster")
    assert online(logs) == ["ba"[broken]]
    assert [*logs.keys()] == [("t", 1 - broken)]
    with FAILS:
        logs.hold(("t", broken), ID, is_new=False)
    assert logs.hold(("t", 1 - broken), ID, is_new=False).end_offset == 0
    assert logs.hold(("u", 0), ID, is_new=True).folder == tmp_path / "ba"[broken] / "u-0"
    assert logs.checkpoint() is None
    logs.close()


@WAYS
def test_no_directory_can_be_opened_at_the_start(tmp_path: Path, breaks: Callable[[Path], None]) -> None:
    a_partition_in_each(tmp_path)
    for name in "ab":
        breaks(tmp_path / name)
    with pytest.raises(exception_of(Errors.KAFKA_STORAGE_ERROR), match=r"no log directory can be used.*/a.*/b"):
        logs_in(tmp_path).directories.claim(1, "cluster")


def test_another_brokers_directory_is_not_offline_but_an_error(tmp_path: Path) -> None:
    """MetaPropertiesEnsemble.verify: the configuration is wrong, not the disk."""
    a_partition_in_each(tmp_path)
    logs = logs_in(tmp_path)
    with pytest.raises(StorageError, match=r"broker\.id is 1, not 2"):
        logs.directories.claim(2, "cluster")
    logs.close()
