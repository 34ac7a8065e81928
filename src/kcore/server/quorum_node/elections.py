"""The stored epoch and vote of a node."""

from typing import Protocol

from kcore.raft.membership.replicas import ElectionState


class Elections(Protocol):
    """Stores a node's epoch and vote."""

    def read(self) -> ElectionState | None:
        """The state that was written last; None if there is none."""

    def write(self, election: ElectionState, kraft_version: int) -> None:
        """Stores the state; it is durable when this returns."""


class MemoryElections:
    """The elections of a node that loses its state with its process."""

    def __init__(self) -> None:
        self._election: ElectionState | None = None

    def read(self) -> ElectionState | None:
        return self._election

    def write(self, election: ElectionState, kraft_version: int) -> None:
        self._election = election
