"""What the active controller asks of the edge while it handles an event: data, performed in the order it is asked.

A handler is a generator. It yields one of these and is sent what the edge made of it, so that it reads as a story and
still touches no ZooKeeper and no socket; `kcore.server` performs them for real, tests in a tree in memory.
Every write is fenced: it is made only if `/controller_epoch` still has the version that the controller set it to. If
it has another, `ControllerMovedError` is raised where the handler waits.
"""

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, NamedTuple, TypeAlias, TypeVar

from kcore.controller.zk.events import Event
from kcore.controller.zk.notices import Notice
from kcore.controller.zk.requests.builder import ControlRequest
from kcore.errors import TableError
from kcore.metadata.changes import PartitionChanges, UnwrittenChanges
from kcore.schema.structure import Message
from kcore.types import Bools, Int32s

T = TypeVar("T")


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


class Outcome(Enum):
    """What became of an operation."""

    DONE = "done"
    NO_NODE = "there is no such znode, or no parent for it"
    NODE_EXISTS = "the znode exists"
    BAD_VERSION = "the znode has another version"
    NOT_EMPTY = "the znode has children"
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
    """In order, each on its own; or all or none of them, in one transaction. For each an Outcome."""

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

    What is not there is passed over, and so is a znode that others stand below. Nothing comes back.
    """

    rows: Int32s


@dataclass(frozen=True, slots=True)
class Send:
    """To each broker in the order they are sent; a broker that is gone hears nothing. Nothing comes back."""

    requests: Sequence[ControlRequest]


@dataclass(frozen=True, slots=True)
class Answer:
    """The response to a request that came in as an event. Nothing comes back."""

    request_id: int
    response: Message


@dataclass(frozen=True, slots=True)
class HandleLater:
    """An event of our own, to be handled after all that wait now: long work is done in parts. Nothing comes back."""

    event: Event


@dataclass(frozen=True, slots=True)
class Tell:
    """A line for the operator's log. Nothing comes back."""

    notice: Notice


Reading: TypeAlias = ReadNodes | ReadChildren | ReadStates
Writing: TypeAlias = WriteNodes | WriteStates | DeletePartitions
Effect: TypeAlias = Reading | Writing | Send | Answer | HandleLater | Tell
Steps: TypeAlias = Generator[Effect, Any, T]  # `yield from` one of the functions below is typed; a bare yield is not.


class States(NamedTuple):
    """State znodes that were read: c partitions, ascending by row."""

    changes: PartitionChanges  # `partition_epochs` are the versions found.
    controller_epochs: Int32s  # c: who wrote it
    unreadable: Sequence[TableError] = ()  # Of partitions that are left out: each names its znode.


def read_nodes(paths: Sequence[str], *, watch: bool = False) -> Steps[list[Node | None]]:
    """What is at each path."""
    nodes: list[Node | None] = yield ReadNodes(paths, watch)
    return nodes


def read_node(path: str, *, watch: bool = False) -> Steps[Node | None]:
    """What is at one path."""
    [node] = yield from read_nodes([path], watch=watch)
    return node


def read_children(path: str, *, watch: bool = False) -> Steps[list[str]]:
    """The names below a path, sorted; none where there is no such znode."""
    [children] = yield ReadChildren([path], watch)
    return sorted(children or [])


def read_states(rows: Int32s) -> Steps[States]:
    """The states of partitions that have one (`znode_reading.read_states` makes sense of them)."""
    states: States = yield ReadStates(rows)
    return states


def write_nodes(operations: Sequence[Operation], *, atomic: bool = False) -> Steps[list[Outcome]]:
    """What became of each operation."""
    outcomes: list[Outcome] = yield WriteNodes(operations, atomic)
    return outcomes


def delete_partitions(rows: Int32s) -> Steps[None]:
    """The znodes of these partitions go."""
    yield DeletePartitions(rows)


def tell(notice: Notice) -> Steps[None]:
    """The operator is told."""
    yield Tell(notice)


def write_states(changes: UnwrittenChanges) -> Steps[Bools]:
    """Which of the changes were taken."""
    taken: Bools = yield WriteStates(changes)
    return taken
