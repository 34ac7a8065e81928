"""DiskRaftLog: the contract of all raft logs, in one segment and in many."""

from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from kcore.replication.raft_log import Level
from kcore.storage.log.segmented_log import Settings
from kcore.storage.raft.file_raft_log import DiskRaftLog
from raft.log_contract import LogContract, NewLog
from storage.raft_logs import FOLDER


class TestDiskRaftLog(LogContract):
    @pytest.fixture
    def new_log(self, tmp_path: Path) -> Iterator[NewLog]:
        """A test has one open at a time: it opens hundreds, and each has files open."""
        numbers, opened = count(), list[DiskRaftLog]()

        def make(level: Level) -> DiskRaftLog:
            abandon()
            opened.append(DiskRaftLog(tmp_path / str(next(numbers)) / FOLDER, Settings(1 << 20, 100), level=level))
            return opened[-1]

        def abandon() -> None:
            while opened:
                opened.pop().abandon()

        yield make
        abandon()
