"""Bugs that the simulator's invariants must find: each takes one rule out of a raft node. `ci/sim --planted` runs them.

A planted bug names the invariant that must notice it. If another invariant finds it first, the search goes on in other
worlds. A bug that makes a node raise another exception than a Violation tests no invariant: its code needs a mend.

- `patches`: replaces code of the node while a world runs; `PLANTED` lists all bugs by name
- `disk_bugs`, `election_bugs`, `file_bugs`, `replication_bugs`, `state_machine_bugs`, `voter_change_bugs`: the bugs
- `hunting`: runs worlds with one bug, or searches for all
- `command`, `all_bugs`: the command line; the results of a search for all
"""

from collections.abc import Iterator
from contextlib import contextmanager

from planted_raft import (
    disk_bugs,
    election_bugs,
    file_bugs,
    replication_bugs,
    state_machine_bugs,
    voter_change_bugs,
)
from planted_raft.patches import PLANTED, Patches, Plant, PlantError

__all__ = (
    "PLANTED",
    "Plant",
    "PlantError",
    "disk_bugs",
    "election_bugs",
    "file_bugs",
    "planting",
    "replication_bugs",
    "state_machine_bugs",
    "voter_change_bugs",
)


@contextmanager
def planting(name: str) -> Iterator[None]:
    """Has the bug in the code while the body runs; PlantError if it cannot be put in."""
    patches = Patches()
    try:
        PLANTED[name].put(patches)
        yield
    finally:
        patches.undo()
