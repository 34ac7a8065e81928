"""Steps that read and write znodes, and log: generators that yield effects, which the node's server performs.

A generator gets the result of each effect back, so it reads like sequential code. A controller performs the effects as
its own, fenced by `/controller_epoch` (`controller/zk/effects.py`); a broker's writes are not fenced.
"""

from collections.abc import Generator, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, TypeVar

from kcore.metadata.zookeeper.znode_operations import (
    MOST_BYTES,
    Delete,
    Node,
    Operation,
    OperationResult,
    ReadChildren,
    ReadNodes,
    WriteNodes,
)
from kcore.node.zk.notices import Notice, TextNotice
from kcore.steps import Steps, sorting

T = TypeVar("T")
ZNODES_AT_ONCE: Final = 2_000  # Znodes that one effect reads or writes. An atomic write has one effect.
MOST_TRIES: Final = 10  # To alter a znode that other nodes change meanwhile.
CHANGED_MEANWHILE: Final = (OperationResult.BAD_VERSION, OperationResult.NODE_EXISTS, OperationResult.NO_NODE)
SORTED_AT_ONCE: Final = 5_000  # Names that one part sorts: each takes up to 1 us.
MOST_REMEMBERED: Final = 10_000  # The most errors that are remembered, so that they are logged once.


@dataclass(frozen=True, slots=True)
class LogNotice:
    """Write a line to the operator's log. No result."""

    notice: Notice


@dataclass(frozen=True, slots=True)
class Pause:
    """Let the server do other work before the next part of long work. No result; a controller handles no event."""


ZnodeEffect: TypeAlias = ReadNodes | ReadChildren | WriteNodes | LogNotice | Pause
ZnodeSteps: TypeAlias = Generator[ZnodeEffect, Any, T]  # As `controller.zk.effects.Steps`.


def read_nodes(paths: Sequence[str], *, watch: bool = False) -> ZnodeSteps[list[Node | None]]:
    """Reads the znode at each path; None where there is no znode."""
    # Only a failover reads many znodes with a watch. The controller serves no client yet, so one long read is harmless.
    if watch or len(paths) <= ZNODES_AT_ONCE:
        nodes: list[Node | None] = yield ReadNodes(paths, watch)
        return nodes
    nodes = []
    for begin in range(0, len(paths), ZNODES_AT_ONCE):
        nodes += yield ReadNodes(paths[begin : begin + ZNODES_AT_ONCE], watch)
    return nodes


def read_node(path: str, *, watch: bool = False) -> ZnodeSteps[Node | None]:
    """Reads one znode; None if it does not exist."""
    [node] = yield from read_nodes([path], watch=watch)
    return node


def read_children(path: str, *, watch: bool = False) -> ZnodeSteps[list[str]]:
    """The names of a znode's children, sorted; empty if the znode does not exist."""
    [children] = yield ReadChildren([path], watch)
    return (yield from sorted_names(children or []))


def write_nodes(operations: Sequence[Operation], *, atomic: bool = False) -> ZnodeSteps[list[OperationResult]]:
    """The result of each operation. An operation with too much data is not sent: ZooKeeper would close the session."""
    tried = [each for each in operations if isinstance(each, Delete) or len(each.data) <= MOST_BYTES]
    outcomes: list[OperationResult] = []
    if atomic and len(tried) == len(operations):
        outcomes = yield WriteNodes(operations, atomic)
    elif atomic:
        outcomes = [OperationResult.NOT_TRIED] * len(tried)
    else:
        for begin in range(0, len(tried), ZNODES_AT_ONCE):
            outcomes += yield WriteNodes(tried[begin : begin + ZNODES_AT_ONCE], atomic)
    if len(tried) == len(operations):
        return outcomes
    results = dict(zip(map(id, tried), outcomes, strict=True))
    return [results.get(id(each), OperationResult.TOO_LARGE) for each in operations]


def pause_after(place: int, at_once: int) -> ZnodeSteps[None]:
    """Ends a part of long work after each `at_once` items; `place` is the item's place, from 1 on."""
    if place % at_once == 0:
        yield Pause()


def pause_if_many(count: int, at_once: int) -> ZnodeSteps[None]:
    """Ends a part of long work between two passes over `count` items, if these are `at_once` or more."""
    if count >= at_once:
        yield Pause()


def paused(steps: Steps[T]) -> ZnodeSteps[T]:
    """Runs the steps, with a pause after each; returns their result."""
    while True:
        try:
            next(steps)
        except StopIteration as done:
            result: T = done.value
            return result
        yield Pause()


def sorted_names(names: Iterable[str]) -> ZnodeSteps[list[str]]:
    """As `sorted`; many names are sorted in parts."""
    return (yield from paused(sorting(names, str, SORTED_AT_ONCE)))


def log_notice(notice: Notice) -> ZnodeSteps[None]:
    """Writes a notice to the operator's log."""
    yield LogNotice(notice)


def pass_over(passed_over: set[str], errors: Iterable[Exception]) -> ZnodeSteps[None]:
    """Logs each error, which names its znode, as a warning; a znode that does not change is logged once."""
    for text in map(str, errors):
        if text not in passed_over:
            if len(passed_over) >= MOST_REMEMBERED:
                passed_over.clear()
            passed_over.add(text)
            yield from log_notice(TextNotice(f"skipped an unreadable znode: {text}", "warning"))
