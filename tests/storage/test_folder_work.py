"""A broker's log directory writes topic ids and deletes folders on a thread, and loses nothing by it."""

import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kcore.protocol_errors import Errors, exception_of
from kcore.storage.checkpoints import TopicPartition
from kcore.storage.log import folder_work
from kcore.storage.log.live_log import Settings
from kcore.storage.log.log_directory import LogDirectory, topic_id_in
from kcore.types import ZERO_UUID, Uuid
from kcore.wire.record_batch import scan_batches
from storage import building

P, Q = TopicPartition("t", 0), TopicPartition("t", 1)
ID = Uuid(b"i" * 16)


class Held:
    """Work that a thread begins and does not end before `release`."""

    def __init__(self, work: Callable[..., None]) -> None:
        self.threads: list[int] = []
        self._work, self._may_go_on = work, threading.Event()

    def __call__(self, *given: Any) -> None:
        self.threads.append(threading.get_ident())
        if self.threads[-1] != threading.main_thread().ident:
            self._may_go_on.wait()
        self._work(*given)

    def release(self) -> None:
        self._may_go_on.set()


@pytest.fixture
def deletion(monkeypatch: pytest.MonkeyPatch) -> Iterator[Held]:
    held = Held(shutil.rmtree)
    monkeypatch.setattr(folder_work.shutil, "rmtree", held)
    yield held
    held.release()


@pytest.fixture
def directory(tmp_path: Path) -> LogDirectory:
    return LogDirectory(tmp_path / "logs", Settings(), in_background=True).open()


def appended(directory: LogDirectory, key: TopicPartition) -> None:
    data = building.batch(0, [b"v"])
    directory.logs[key].append(data, scan_batches(data))


def test_a_folder_is_deleted_by_a_thread_after_its_name(directory: LogDirectory, deletion: Held) -> None:
    directory.create(P)
    directory.delete(P)
    assert [each.name[-7:] for each in directory.path.iterdir()] == ["-delete"]
    deletion.release()
    directory.close()
    assert not [each for each in directory.path.iterdir() if each.is_dir()]
    assert threading.get_ident() not in deletion.threads


def in_folder(directory: LogDirectory, suffix: str) -> list[str]:
    return sorted(each.name for each in (directory.path / str(P)).iterdir() if each.suffix == suffix)


@pytest.mark.parametrize("how", ["raise the start", "truncate fully"])
def test_segments_are_deleted_by_a_thread_after_their_names(tmp_path: Path, deletion: Held, how: str) -> None:
    """With their producer snapshots. The thread deletes a folder meanwhile.

    A large segment takes long, and the event loop must not wait.
    """
    directory = LogDirectory(tmp_path / "logs", Settings(segment_bytes=100), in_background=True).open()
    for key in (P, Q):
        directory.create(key)
    directory.delete(Q)
    log = directory.logs[P]
    for offset in range(5):
        data = building.batch(offset, [b"v" * 50])
        log.append(data, scan_batches(data))
    before = in_folder(directory, ".log")
    snapshots = [f"{each.removesuffix('.log')}.snapshot" for each in before[1:]]  # One where each segment begins.
    assert in_folder(directory, ".snapshot") == snapshots
    if how == "raise the start":
        log.raise_start_offset(3)
        gone, left, left_snapshots = [*before[:3], *snapshots[:2]], before[3:], snapshots[2:]
    else:
        log.truncate_fully_and_start_at(0)
        gone, left, left_snapshots = [*before, *snapshots], [f"{0:020}.log"], []
    assert in_folder(directory, ".log") == left and in_folder(directory, ".snapshot") == left_snapshots
    assert {f"{each}.deleted" for each in gone} <= {*in_folder(directory, ".deleted")}
    deletion.release()
    directory.close()
    assert in_folder(directory, ".log") == left and not in_folder(directory, ".deleted")


@pytest.mark.parametrize("how", ["promote", "set stray"])
def test_segments_are_deleted_although_their_folder_gets_another_name(tmp_path: Path, deletion: Held, how: str) -> None:
    """The thread, which deletes a folder meanwhile, knows the segments by their old names."""
    directory = LogDirectory(tmp_path / "logs", Settings(segment_bytes=100), in_background=True).open()
    directory.create(Q)
    directory.delete(Q)
    log = directory.create_future(P, ID, 0, 100) if how == "promote" else directory.create(P)
    for offset in range(5):
        data = building.batch(offset, [b"v" * 50])
        log.append(data, scan_batches(data))
    log.raise_start_offset(3)
    if how == "promote":
        assert directory.promote(P) is log
    else:
        directory.set_stray(P)
    assert len([*directory.path.glob("*/*.log.deleted")]) == 3
    deletion.release()
    directory.close()
    assert not [*directory.path.glob("*/*.deleted")] and len([*directory.path.glob("*/*.log")]) == 2


def test_a_log_of_a_failed_directory_deletes_no_segment(tmp_path: Path) -> None:
    """A caller that still has the log gets the error of a failed disk."""
    directory = LogDirectory(tmp_path / "logs", Settings(segment_bytes=100), in_background=True).open()
    log = directory.create(P)
    for offset in range(3):
        data = building.batch(offset, [b"v" * 50])
        log.append(data, scan_batches(data))
    directory.fail("the disk is lost")
    with pytest.raises(exception_of(Errors.KAFKA_STORAGE_ERROR), match="Input/output error"):
        log.raise_start_offset(2)
    assert not in_folder(directory, ".deleted") and len(in_folder(directory, ".log")) == 3
    with pytest.raises(exception_of(Errors.KAFKA_STORAGE_ERROR), match="Input/output error"):
        directory.assign_topic_id(P, ID)


def test_a_start_deletes_files_whose_deletion_a_crash_interrupted(directory: LogDirectory) -> None:
    directory.create(P)
    directory.close()
    for kind in ("log", "snapshot"):
        (directory.path / str(P) / f"{7:020}.{kind}.deleted").write_bytes(b"x")
    again = LogDirectory(directory.path).open()
    assert not in_folder(again, ".deleted") and again.logs[P].end_offset == 0


def test_a_topic_id_waits_for_the_thread_but_not_for_records(directory: LogDirectory, deletion: Held) -> None:
    """The thread deletes another folder meanwhile."""
    for key in (P, Q):
        directory.create(key)
    directory.delete(Q)
    directory.assign_topic_id(P, ID)
    folder = directory.logs[P].folder
    assert directory.topic_id(P) == ID and topic_id_in(folder) == ZERO_UUID
    appended(directory, P)
    assert topic_id_in(folder) == ID
    deletion.release()
    directory.close()
    assert LogDirectory(directory.path).open().topic_id(P) == ID


def test_a_deleted_log_gets_no_topic_id(directory: LogDirectory, deletion: Held) -> None:
    for key in (P, Q):
        directory.create(key)
    directory.delete(Q)
    directory.assign_topic_id(P, ID)
    directory.delete(P)
    deletion.release()
    directory.close()
    assert not [*directory.path.glob("*/partition.metadata")] and not (directory.path / str(P)).exists()


def test_an_error_of_the_thread_is_the_directorys(directory: LogDirectory, deletion: Held) -> None:
    directory.create(P)
    directory.delete(P)
    [folder] = directory.path.glob("*-delete")
    shutil.move(folder, directory.path.parent / "gone")
    deletion.release()
    directory._work.close()
    with pytest.raises(exception_of(Errors.KAFKA_STORAGE_ERROR), match="No such file"):
        directory.checkpoint()


def test_a_failed_directory_does_not_wait_for_its_disk(directory: LogDirectory, deletion: Held) -> None:
    for key in (P, Q):
        directory.create(key)
    directory.delete(Q)
    directory.assign_topic_id(P, ID)
    assert directory.fail("the disk is lost") == [P]
    deletion.release()
