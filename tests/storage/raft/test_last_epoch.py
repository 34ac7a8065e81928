"""The way out for a quorum at the end of its epochs, as docs/guides/repair-epochs.md has it: followed step by step."""

import json
from pathlib import Path

import pytest

from kcore.errors import RaftLogError
from kcore.raft.membership.replicas import ElectionState, ReplicaKey
from kcore.storage.checkpoints import read_leader_epochs
from kcore.storage.raft.raft_dir import RaftDirectory
from kcore.storage.raft.raft_format import format_directory
from raft.nodes import directory, started, state, voter
from storage.raft_logs import FOLDER, fill

IDS = (1, 2, 3)
LAST = 2**31 - 1


def at_the_end(path: Path, node_id: int, kraft_version: int) -> Path:
    """A directory whose log has epochs up to 4 + `node_id`, and whose quorum-state a forged request has raised."""
    format_directory(path, node_id=node_id, features={"metadata.version": 30}, directory_id=directory(node_id))
    made = RaftDirectory(path, voters=IDS)
    log, _ = made.open()
    for epoch in (1, 4 + node_id):
        fill(log, 3, epoch)
    log.close()
    made.store_election(ElectionState(LAST, -1, ReplicaKey(9, directory(9))), kraft_version)
    return path


def start(path: Path) -> tuple[str, int, int]:
    """The state of its node at the start."""
    log, election = RaftDirectory(path, voters=IDS).open()
    try:
        node, _ = started(log=log, election=election, voters=[voter(node_id) for node_id in IDS])
        return state(node)
    finally:
        log.close()


@pytest.mark.parametrize("kraft_version", [0, 1])
def test_epochs_begin_anew_where_all_agree_on_one(tmp_path: Path, kraft_version: int) -> None:
    paths = [at_the_end(tmp_path / str(node_id), node_id, kraft_version) for node_id in IDS]
    for path in paths:
        with pytest.raises(RaftLogError, match="above 2147483646, the last one"):
            start(path)
    highest = max(read_leader_epochs(path / FOLDER / "leader-epoch-checkpoint")[-1].epoch for path in paths)
    assert highest == 7
    for path in paths:
        file = path / FOLDER / "quorum-state"
        said = json.loads(file.read_text())
        said |= {"leaderEpoch": highest + 1_000_000, "leaderId": -1, "votedId": -1}
        if "votedDirectoryId" in said:
            said["votedDirectoryId"] = "A" * 22
        file.write_text(json.dumps(said))
    assert [start(path) for path in paths] == [("Unattached", 1_000_007, -1)] * 3
