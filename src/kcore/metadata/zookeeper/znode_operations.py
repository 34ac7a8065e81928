"""Operations on ZooKeeper as data: reads and conditional writes of znodes, and their results.

A controller or a broker yields them; `kcore.zookeeper` performs them over a session, tests in a tree in memory. State
znodes are addressed by rows of the partition table, so that a million states are columns, not objects.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple, TypeAlias

from kcore.errors import TableError
from kcore.metadata.table.changes import PartitionChanges, UnwrittenChanges
from kcore.types import Int32s

MOST_BYTES: Final = 900_000  # The most data of a znode; ZooKeeper closes the connection for a request above 1 MiB.


class Node(NamedTuple):
    """A znode that was read."""

    data: bytes
    version: int  # The version of the data.
    czxid: int  # The transaction that created it; for /brokers/ids/<id> the broker epoch (KIP-380).


class Create(NamedTuple):
    """Create a persistent znode; with `sequential` ZooKeeper appends the next number to the path."""

    path: str
    data: bytes = b""
    sequential: bool = False


class SetData(NamedTuple):
    """Set the data if the znode has this version; -1 is any version."""

    path: str
    data: bytes
    version: int = -1


class Delete(NamedTuple):
    """Delete the znode if it has this version; -1 is any version."""

    path: str
    version: int = -1


Operation: TypeAlias = Create | SetData | Delete


class OperationResult(Enum):
    """The result of an operation."""

    DONE = "done"
    NO_NODE = "the znode or its parent does not exist"
    NODE_EXISTS = "the znode exists"
    BAD_VERSION = "the znode has another version"
    NOT_EMPTY = "the znode has children"
    TOO_LARGE = "the data is too large for a znode"
    NOT_TRIED = "another operation of the same transaction failed"


@dataclass(frozen=True, slots=True)
class ReadNodes:
    """Read znodes: a Node for each path, or None. `watch`: the next change, creation or deletion becomes an event."""

    paths: Sequence[str]
    watch: bool = False


@dataclass(frozen=True, slots=True)
class ReadChildren:
    """Read the names of children for each path, or None. `watch`: the next change of the names becomes an event."""

    paths: Sequence[str]
    watch: bool = False


@dataclass(frozen=True, slots=True)
class ReadStates:
    """Read the state znodes of partitions, by row of the table. The result: `States` of partitions that have one."""

    rows: Int32s


@dataclass(frozen=True, slots=True)
class WriteNodes:
    """Do operations in order, each independently, or all or none with `atomic`: an OperationResult for each."""

    operations: Sequence[Operation]
    atomic: bool = False


@dataclass(frozen=True, slots=True)
class WriteStates:
    """Write state znodes, each independently: a mask of the changes that ZooKeeper accepted.

    With version -1 the znode and its parents are created.
    """

    changes: UnwrittenChanges


@dataclass(frozen=True, slots=True)
class DeletePartitions:
    """Delete the state znodes of partitions, by row of the table, and then their parents.

    Missing znodes and parents with other children are skipped. No result.
    """

    rows: Int32s


Reading: TypeAlias = ReadNodes | ReadChildren | ReadStates
Writing: TypeAlias = WriteNodes | WriteStates | DeletePartitions


class States(NamedTuple):
    """The state znodes of c partitions, ascending by row."""

    changes: PartitionChanges  # `partition_epochs` are the versions of the znodes.
    controller_epochs: Int32s  # c: the epoch of the controller that wrote the state
    unreadable: Sequence[TableError] = ()  # The errors of unreadable states; each names its znode.
