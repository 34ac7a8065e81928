"""Bugs to be found: each takes one rule out of the node, and names the invariant that must notice.

A bug that is found by another invariant first is looked for further, in other worlds. One that makes a node raise
anything else than a Violation is no test of the invariants: the plant is broken, and to be mended.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from kcore.sim.raft.planted import disk_bugs as disks
from kcore.sim.raft.planted import election_bugs as elections
from kcore.sim.raft.planted import file_bugs as files
from kcore.sim.raft.planted import replication_bugs as replication
from kcore.sim.raft.planted import state_machine_bugs as state_machines
from kcore.sim.raft.planted import voter_change_bugs as voter_changes
from kcore.sim.raft.planted.patches import PLANTED, Patches, Plant, PlantError

__all__ = (
    "PLANTED",
    "Plant",
    "PlantError",
    "disks",
    "elections",
    "files",
    "planted",
    "replication",
    "state_machines",
    "voter_changes",
)


@contextmanager
def planted(name: str | None) -> Iterator[None]:
    """With that bug, or none; PlantError if it cannot be put in."""
    patches = Patches()
    try:
        if name is not None:
            PLANTED[name].put(patches)
        yield
    finally:
        patches.undo()
