"""A file written atomically is the old one or the new one, whatever happens meanwhile."""

import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from kcore.storage.files import write_atomically

WRITER = """
import os, sys
from pathlib import Path
from kcore.storage.files import write_atomically
number = 0
while True:
    number += 1
    write_atomically(Path(sys.argv[1]), f"{os.getpid()} {number}\\n".encode() * 2000)
"""


def only_line(path: Path) -> bytes:
    """The line that a whole file has 2000 times."""
    lines = path.read_bytes().splitlines()
    assert len(lines) == 2000
    assert len(set(lines)) == 1
    return lines[0]


def test_a_file_outlives_kill_9(tmp_path: Path):
    path = tmp_path / "checkpoint"
    write_atomically(path, b"none\n" * 2000)
    for _ in range(3):
        writer = subprocess.Popen([sys.executable, "-c", WRITER, str(path)])
        before, seen = only_line(path), set[bytes]()
        while len(seen) < 3:  # It is killed while it writes.
            assert writer.poll() is None
            seen |= {only_line(path)} - {before}
        os.kill(writer.pid, signal.SIGKILL)
        writer.wait()
        assert only_line(path) != before


def test_what_could_not_be_written_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    path = tmp_path / "checkpoint"
    write_atomically(path, b"old")

    def fails(descriptor: int) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr(os, "fsync", fails)
    with pytest.raises(OSError, match="no space"):
        write_atomically(path, b"new")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_names_and_bytes_are_synced_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The bytes before the name, the name before we say it is done."""
    steps: list[str] = []
    fsync, replace = os.fsync, Path.replace

    def spy(descriptor: int) -> None:
        steps.append("folder" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "file")
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", spy)
    monkeypatch.setattr(Path, "replace", lambda self, to: (steps.append("rename"), replace(self, to)))
    write_atomically(tmp_path / "checkpoint", b"new")
    assert steps == ["file", "rename", "folder"]
