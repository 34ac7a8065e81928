"""A log directory that goes away under a running node: one line at once, and one when it is back."""

import logging
from pathlib import Path

import pytest

from kcore.server.quorum_node.directory_watch import DirectoryWatch


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "__cluster_metadata-0"
    made.mkdir()
    return made


def test_a_moved_folder_and_its_return_are_logged_once(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    watch = DirectoryWatch(folder)
    with caplog.at_level(logging.INFO):
        watch.look()
        assert watch.problem is None and not caplog.records
        moved = folder.rename(folder.with_name("elsewhere"))
        for _ in range(3):
            watch.look()
        assert watch.problem == f"{folder}: the log directory is gone: it was moved or removed"
        moved.rename(folder)
        watch.look()
    assert watch.problem is None
    gone, back = (each.getMessage() for each in caplog.records)
    assert gone.startswith(f"{folder}: the log directory is gone") and back == f"{folder} is back in its place"


def test_another_folder_in_its_place_is_not_taken_for_it(folder: Path) -> None:
    watch = DirectoryWatch(folder)
    folder.rename(folder.with_name("elsewhere"))
    folder.mkdir()
    watch.look()
    assert watch.problem == f"{folder}: another folder is in the place of the log directory"


def test_a_file_in_its_place_cannot_be_read(folder: Path) -> None:
    watch = DirectoryWatch(folder)
    folder.rename(folder.with_name("elsewhere"))
    folder.write_text("")
    watch.look()
    assert watch.problem == f"{folder}: the log directory cannot be read: Not a directory"
