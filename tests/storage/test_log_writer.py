"""Appending to a log: what was promised is there, what was torn is cut off, what does not fit is refused."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from kcore.errors import DecodeError, StorageError
from kcore.storage.files import OS, OsFileSystem
from kcore.storage.log.log_writer import LogWriter
from kcore.storage.log.partition_folder import Log
from storage.building import batch, batches

WRITER = """
import sys
from pathlib import Path
from kcore.storage.log.log_writer import LogWriter
from storage.building import batch
with LogWriter(Path(sys.argv[1]), segment_bytes=4000) as log:
    while True:
        print(log.append(batch(log.end_offset, [b"value"], epoch=log.end_offset // 10)), flush=True)
"""


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_log_is_written_and_read_back(tmp_path: Path):
    made = [*batches(30, size=300), *batches(30, first=30, size=300, epoch=2)]
    with LogWriter(tmp_path / "t-0", segment_bytes=5000, index_interval_bytes=1000) as writer:
        for each in made:
            writer.append(each, sync=False)
        assert writer.end_offset == 60
    with Log(tmp_path / "t-0") as log:
        assert log.problems == [] and log.end_offset == 60
        assert log.leader_epochs == [(0, 0), (2, 30)]
        assert b"".join(bytes(segment.data) for segment in log.segments) == b"".join(made)
        assert len(log.segments) > 3
        for segment in log.segments:
            assert len(segment) <= 5000
            index = segment.offset_index
            assert index is not None and segment.time_index is not None
            starts = dict(zip(segment.batches.position.tolist(), segment.batches.base_offset.tolist(), strict=True))
            assert [
                starts[at] for at in segment.offset_index.positions.tolist()
            ] == segment.offset_index.offsets.tolist()
            assert segment.time_index.offsets[-1] == segment.end_offset - 1


def test_a_log_goes_on_where_it_ended(tmp_path: Path):
    with LogWriter(tmp_path, start_offset=5) as writer:
        writer.append(batch(5, [b"a", b"b"]))
    with LogWriter(tmp_path) as writer:
        assert writer.end_offset == 7
        assert writer.append(b"") == 7
        writer.append(batch(9))
    with Log(tmp_path) as log:
        assert (log.start_offset, log.end_offset, len(log.segments)) == (5, 10, 1)
    assert files(tmp_path) == [
        "00000000000000000005.index",
        "00000000000000000005.log",
        "00000000000000000005.timeindex",
        "leader-epoch-checkpoint",
    ]


@pytest.mark.parametrize("torn", [1, 30, 60])
def test_a_torn_tail_is_cut_off(torn: int, tmp_path: Path):
    with LogWriter(tmp_path) as writer:
        writer.append(batch(0))
        writer.append(batch(1, epoch=3))
    path = tmp_path / f"{0:020}.log"
    os.truncate(path, path.stat().st_size - torn)
    with LogWriter(tmp_path) as writer:
        assert writer.end_offset == 1
        writer.append(batch(1, [b"again"], epoch=4))
    with Log(tmp_path) as log:
        assert log.problems == [] and log.end_offset == 2
        assert log.leader_epochs == [(0, 0), (4, 1)]


def test_an_epoch_whose_first_record_was_never_written_is_forgotten(tmp_path: Path):
    with LogWriter(tmp_path) as writer:
        writer.append(batch(0))
    (tmp_path / "leader-epoch-checkpoint").write_text("0\n2\n0 0\n7 1\n")
    with LogWriter(tmp_path) as writer:
        writer.append(batch(1, epoch=5))
    assert (tmp_path / "leader-epoch-checkpoint").read_text() == "0\n2\n0 0\n5 1\n"


def test_what_does_not_fit_is_refused_and_nothing_is_written(tmp_path: Path):
    broken = bytearray(batch(2))
    broken[-1] ^= 1
    with LogWriter(tmp_path) as writer:
        writer.append(batch(0, [b"a", b"b"], epoch=3))
        for data, error, said in [
            (batch(1), StorageError, "offsets from 1 cannot follow 1"),
            (batch(2, epoch=3) + batch(2, epoch=3), StorageError, "offsets from 2 cannot follow 2"),
            (batch(2, epoch=2), StorageError, "leader epoch 2 cannot follow 3"),
            (batch(2, epoch=5) + batch(3, epoch=4), StorageError, "leader epoch 4 cannot follow 5"),
            (batch(2)[:-1], DecodeError, "torn"),
            (bytes(broken), DecodeError, "CRC does not match"),
        ]:
            with pytest.raises(error, match=said):
                writer.append(data)
    with Log(tmp_path) as log:
        assert log.end_offset == 2 and log.problems == [] and log.leader_epochs == [(3, 0)]


def test_a_segment_holds_no_offset_that_its_index_could_not(tmp_path: Path):
    with LogWriter(tmp_path) as writer:
        writer.append(batch(0))
        writer.append(batch(2**31 - 1))
        writer.append(batch(2**31))
    with Log(tmp_path) as log:
        assert [segment.base_offset for segment in log.segments] == [0, 2**31]


def test_a_full_disk_leaves_no_half_of_a_batch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    class Full(OsFileSystem):
        def write(self, file: int, data: bytes | memoryview) -> int:
            if len(data) < 50:
                raise OSError(28, "No space left on device")
            return super().write(file, data[:40])

    with LogWriter(tmp_path) as writer:
        writer.append(batch(0))
        monkeypatch.setattr(writer, "_files", Full())
        with pytest.raises(OSError, match="No space"):
            writer.append(batch(1))
        monkeypatch.setattr(writer, "_files", OS)
        writer.append(batch(1, [b"after"]))
    with Log(tmp_path) as log:
        assert log.problems == [] and log.end_offset == 2


def test_what_was_appended_outlives_kill_9(tmp_path: Path):
    folder, promised = tmp_path / "t-0", 0
    for _ in range(3):
        writer = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(folder)],
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[1])},
        )
        assert writer.stdout is not None
        goal = promised + 30
        while promised < goal:
            promised = int(writer.stdout.readline())
        os.kill(writer.pid, signal.SIGKILL)
        writer.wait()
        with LogWriter(folder, segment_bytes=4000) as recovered:
            assert recovered.end_offset >= promised
        with Log(folder) as log:
            assert log.problems == []
            offsets = [offset for segment in log.segments for offset in segment.batches.base_offset.tolist()]
            assert offsets == list(range(log.end_offset))
            assert log.leader_epochs == [(epoch, epoch * 10) for epoch in range((log.end_offset + 9) // 10)]
