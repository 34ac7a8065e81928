"""Bugs that the simulator's invariants must find. Each removes one rule from a raft node. `ci/sim --planted` runs them.

A planted bug names the invariant that must fail. If another invariant fails first, the search continues with the next
seed. If a node raises an exception other than a Violation, the search ends: such a bug tests no invariant.

- `patches`: replaces code of the node while a world runs; `PLANTED` lists all bugs by name
- `disk_bugs`, `file_bugs`: bugs in flushes, and in files that a crash leaves
- `election_bugs`, `voter_change_bugs`: bugs in votes, leaders and changes of the voters
- `replication_bugs`, `state_machine_bugs`: bugs between leader and followers, and between node and state machine
- `hunting`: runs worlds with one bug, or searches for all bugs
- `command`, `all_bugs`: the command line; the results of a search for all bugs
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from planted_raft import (
    disk_bugs,
    election_bugs,
    file_bugs,
    replication_bugs,
    state_machine_bugs,
    voter_change_bugs,
)
from planted_raft.patches import PLANTED, Patches, PlantedBug, PlantingError

__all__ = (
    "PLANTED",
    "PlantedBug",
    "PlantingError",
    "disk_bugs",
    "election_bugs",
    "file_bugs",
    "planting",
    "replication_bugs",
    "state_machine_bugs",
    "voter_change_bugs",
)


@contextmanager
def planting(name: str, bugs: Mapping[str, PlantedBug] = PLANTED) -> Iterator[None]:
    """Runs the `with` block with one of `bugs` in the code; PlantingError if the code to replace is missing."""
    patches = Patches()
    try:
        bugs[name].put(patches)
        yield
    finally:
        patches.undo()
