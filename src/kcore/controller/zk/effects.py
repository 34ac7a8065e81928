"""The effects that a handler of the active controller yields: data, which the server performs in order.

A handler is a generator that yields an effect and gets its result back, so it reads like sequential code.
`kcore.server` performs effects with ZooKeeper and sockets, tests with a tree of znodes in memory.

Every write is fenced: ZooKeeper makes it only if `/controller_epoch` still has the version that this controller wrote.
Otherwise `ControllerMovedError` is raised in the handler.
"""

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

from kcore.controller.zk.events import Event
from kcore.controller.zk.log_lines import Notice
from kcore.controller.zk.requests.control_request import ControlRequest
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
    """Send control requests to each broker in this order; requests to stopped brokers are dropped. No result."""

    requests: Sequence[ControlRequest]


@dataclass(frozen=True, slots=True)
class SendResponse:
    """Send the response to the request of a RequestEvent. No result."""

    request_id: int
    response: Message


@dataclass(frozen=True, slots=True)
class HandleLater:
    """Handle this event after all queued events; handlers split long work into such events. No result."""

    event: Event


@dataclass(frozen=True, slots=True)
class LogNotice:
    """Write a line to the operator's log. No result."""

    notice: Notice


@dataclass(frozen=True, slots=True)
class Pause:
    """Let the server do other work before the next part of a long event. No result; no other event is handled."""


Effect: TypeAlias = Reading | Writing | Send | SendResponse | HandleLater | LogNotice | Pause
Steps: TypeAlias = Generator[Effect, Any, T]  # `yield from` a function below has a type; a bare yield has none.


def read_nodes(paths: Sequence[str], *, watch: bool = False) -> Steps[list[Node | None]]:
    """Reads the znode at each path; None where there is no znode."""
    nodes: list[Node | None] = yield ReadNodes(paths, watch)
    return nodes


def read_node(path: str, *, watch: bool = False) -> Steps[Node | None]:
    """Reads one znode; None if it does not exist."""
    [node] = yield from read_nodes([path], watch=watch)
    return node


def read_children(path: str, *, watch: bool = False) -> Steps[list[str]]:
    """The names of a znode's children, sorted; empty if the znode does not exist."""
    [children] = yield ReadChildren([path], watch)
    return sorted(children or [])


def read_states(rows: Int32s) -> Steps[States]:
    """Reads the state znodes of partitions, unchecked; handlers use `znode_reading.read_states`, which checks them."""
    states: States = yield ReadStates(rows)
    return states


def write_nodes(operations: Sequence[Operation], *, atomic: bool = False) -> Steps[list[OperationResult]]:
    """The result of each operation. An operation with too much data is not sent: ZooKeeper would close the session."""
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
    """Deletes the znodes of these partitions."""
    yield DeletePartitions(rows)


def pause_after(place: int, at_once: int) -> Steps[None]:
    """Ends a part of a long event after each `at_once` items; `place` is the item's place, from 1 on."""
    if place % at_once == 0:
        yield Pause()


def log_notice(notice: Notice) -> Steps[None]:
    """Writes a notice to the operator's log."""
    yield LogNotice(notice)


def write_states(changes: UnwrittenChanges) -> Steps[Bools]:
    """Writes partition states; returns a mask of the changes that ZooKeeper accepted."""
    taken: Bools = yield WriteStates(changes)
    return taken
