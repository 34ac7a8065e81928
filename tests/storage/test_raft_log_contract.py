"""DiskRaftLog: the contract of all raft logs, in one segment and in many."""

from itertools import count
from pathlib import Path

import pytest

from kcore.replication.raft_log import Level
from kcore.storage.raft_log import DiskRaftLog
from kcore.storage.segmented_log import Settings
from raft.log_contract import LogContract, NewLog
from storage.raft_logs import FOLDER


class TestDiskRaftLog(LogContract):
    @pytest.fixture
    def new_log(self, tmp_path: Path) -> NewLog:
        numbers = count()

        def make(level: Level) -> DiskRaftLog:
            return DiskRaftLog(tmp_path / str(next(numbers)) / FOLDER, Settings(1 << 20, 100), level=level)

        return make
