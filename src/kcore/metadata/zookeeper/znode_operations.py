"""Operations on ZooKeeper as data: reads and conditional writes of znodes, and their results. A controller or a broker
yields them; `kcore.zookeeper` performs them over a session, tests in a tree in memory. States of partitions are
addressed by row of the table: a million of them are columns, not objects.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple, TypeAlias

from kcore.errors import TableError
from kcore.metadata.table.changes import PartitionChanges, UnwrittenChanges
from kcore.types import Int32s

MOST_BYTES: Final = 900_000  # Data of a znode: ZooKeeper closes the session for a request above 1 MiB.


class Node(NamedTuple):
    """A znode that was read."""

    data: bytes
    version: int  # of the data
    czxid: int  # of its creation; of /brokers/ids/<id> it is the broker epoch (KIP-380)


class Create(NamedTuple):
    """A persistent znode; `sequential`: ZooKeeper appends the next number to the path."""

    path: str
    data: bytes = b""
    sequential: bool = False


class SetData(NamedTuple):
    """Only if the znode has that version; -1 for any."""

    path: str
    data: bytes
    version: int = -1


class Delete(NamedTuple):
    """Only if the znode has that version; -1 for any."""

    path: str
    version: int = -1


Operation: TypeAlias = Create | SetData | Delete


class OperationResult(Enum):
    """What became of an operation."""

    DONE = "done"
    NO_NODE = "there is no such znode, or no parent for it"
    NODE_EXISTS = "the znode exists"
    BAD_VERSION = "the znode has another version"
    NOT_EMPTY = "the znode has children"
    TOO_LARGE = "ZooKeeper takes no znode of that size"
    NOT_TRIED = "another operation of the same transaction failed"


@dataclass(frozen=True, slots=True)
class ReadNodes:
    """For each path its Node, None where there is none. `watch`: a change, a creation or a removal becomes an event."""

    paths: Sequence[str]
    watch: bool = False


@dataclass(frozen=True, slots=True)
class ReadChildren:
    """For each path the names below it, None where there is no such znode. `watch`: another set becomes an event."""

    paths: Sequence[str]
    watch: bool = False


@dataclass(frozen=True, slots=True)
class ReadStates:
    """The state znodes of these partitions, by row of the table: `States` of those that have one."""

    rows: Int32s


@dataclass(frozen=True, slots=True)
class WriteNodes:
    """In order, each on its own; or all or none of them, in one transaction. For each an OperationResult."""

    operations: Sequence[Operation]
    atomic: bool = False


@dataclass(frozen=True, slots=True)
class WriteStates:
    """State znodes of partitions, each on its own: a mask of the changes that were taken.

    Of a znode whose version is to be -1, those above it are created, too.
    """

    changes: UnwrittenChanges


@dataclass(frozen=True, slots=True)
class DeletePartitions:
    """The znodes of these partitions, by row of the table: each one's state, then the znode above it.

    Missing znodes are skipped, and so are znodes that have other children. There is no result.
    """

    rows: Int32s


Reading: TypeAlias = ReadNodes | ReadChildren | ReadStates
Writing: TypeAlias = WriteNodes | WriteStates | DeletePartitions


class States(NamedTuple):
    """State znodes that were read: c partitions, ascending by row."""

    changes: PartitionChanges  # `partition_epochs` are the versions found.
    controller_epochs: Int32s  # c: who wrote it
    unreadable: Sequence[TableError] = ()  # Of partitions that are left out: each names its znode.
