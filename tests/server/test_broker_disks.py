"""The log directories of a broker, one of which refuses something."""

from pathlib import Path

import pytest

from kcore.protocol_errors import Errors, exception_of
from kcore.server.broker.logs import BrokerLogs
from kcore.storage.log_directory import HIGH_WATERMARKS
from kcore.types import Uuid

ID = Uuid(b"t" * 16)
FAILS = pytest.raises(exception_of(Errors.KAFKA_STORAGE_ERROR))


def logs_in(folder: Path) -> BrokerLogs:
    return BrokerLogs([folder / "a", folder / "b"])


def online(logs: BrokerLogs) -> list[str]:
    return [each.path.name for each in logs.online]


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
