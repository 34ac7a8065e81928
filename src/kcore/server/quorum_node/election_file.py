"""The interface of the file in which a node of a quorum keeps its epoch and its vote."""

from typing import NamedTuple

from kcore.raft.membership.replicas import ElectionState
from kcore.storage.raft.raft_dir import RaftDirectory


class DirectoryElections(NamedTuple):
    """The file `quorum-state`."""

    directory: RaftDirectory
    at_start: ElectionState | None

    def read(self) -> ElectionState | None:
        """The one at the start."""
        return self.at_start

    def write(self, election: ElectionState, kraft_version: int) -> None:
        """Durable when it returns."""
        self.directory.store_election(election, kraft_version)
