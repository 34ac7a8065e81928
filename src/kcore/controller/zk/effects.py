"""The effects that a handler of the active controller yields to the edge: data, performed in order.

A handler is a generator. It yields an effect and is sent its result, so that it reads like sequential code without
access to ZooKeeper or sockets; `kcore.server` performs them for real, tests in a tree in memory. Every write is fenced:
it is made only if `/controller_epoch` still has the version that the controller set it to. If it has another,
`ControllerMovedError` is raised where the handler waits.
"""

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

from kcore.controller.zk.events import Event
from kcore.controller.zk.log_lines import Notice
from kcore.controller.zk.requests.builder import ControlRequest
from kcore.metadata.table.changes import UnwrittenChanges
from kcore.metadata.zookeeper.znode_operations import (
    MOST_BYTES,
    Delete,
    DeletePartitions,
    Node,
    Operation,
    OperationResult,
    ReadChildren,
    Reading,
    ReadNodes,
    ReadStates,
    States,
    WriteNodes,
    WriteStates,
    Writing,
)
from kcore.schema.structure import Message
from kcore.types import Bools, Int32s

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Send:
    """Control requests, to each broker in this order; those to stopped brokers are dropped. No result."""

    requests: Sequence[ControlRequest]


@dataclass(frozen=True, slots=True)
class SendResponse:
    """The response to a request that came in as an event. No result."""

    request_id: int
    response: Message


@dataclass(frozen=True, slots=True)
class HandleLater:
    """An event of our own, to be handled after all that are queued now: long work is done in parts. No result."""

    event: Event


@dataclass(frozen=True, slots=True)
class LogNotice:
    """A line for the operator's log. No result."""

    notice: Notice


Effect: TypeAlias = Reading | Writing | Send | SendResponse | HandleLater | LogNotice
Steps: TypeAlias = Generator[Effect, Any, T]  # `yield from` one of the functions below is typed; a bare yield is not.


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


def write_nodes(operations: Sequence[Operation], *, atomic: bool = False) -> Steps[list[OperationResult]]:
    """The result of each operation. One that is too large for ZooKeeper is not tried: it would cost the session."""
    tried = [each for each in operations if isinstance(each, Delete) or len(each.data) <= MOST_BYTES]
    outcomes: list[OperationResult]
    if len(tried) == len(operations):
        outcomes = yield WriteNodes(operations, atomic)
        return outcomes
    outcomes = [OperationResult.NOT_TRIED] * len(tried)
    if tried and not atomic:
        outcomes = yield WriteNodes(tried, atomic)
    results = dict(zip(map(id, tried), outcomes, strict=True))
    return [results.get(id(each), OperationResult.TOO_LARGE) for each in operations]


def delete_partitions(rows: Int32s) -> Steps[None]:
    """The znodes of these partitions go."""
    yield DeletePartitions(rows)


def log_notice(notice: Notice) -> Steps[None]:
    """Logs a notice for the operator."""
    yield LogNotice(notice)


def write_states(changes: UnwrittenChanges) -> Steps[Bools]:
    """Which of the changes were taken."""
    taken: Bools = yield WriteStates(changes)
    return taken
