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
from kcore.controller.zk.requests.control_request import ControlRequest
from kcore.metadata.table.changes import UnwrittenChanges
from kcore.metadata.zookeeper.znode_operations import (
    DeletePartitions,
    Reading,
    ReadStates,
    States,
    WriteStates,
    Writing,
)
from kcore.node.zk.znode_steps import LogNotice, Pause
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


Effect: TypeAlias = Reading | Writing | Send | SendResponse | HandleLater | LogNotice | Pause
Steps: TypeAlias = Generator[Effect, Any, T]  # `yield from` a function below has a type; a bare yield has none.
"""A handler may `yield from` ZnodeSteps, too: a controller performs all of their effects."""


def read_states(rows: Int32s) -> Steps[States]:
    """Reads the state znodes of partitions, unchecked; handlers use `znode_reading.read_states`, which checks them."""
    states: States = yield ReadStates(rows)
    return states


def delete_partitions(rows: Int32s) -> Steps[None]:
    """Deletes the znodes of these partitions."""
    yield DeletePartitions(rows)


def write_states(changes: UnwrittenChanges) -> Steps[Bools]:
    """Writes partition states; returns a mask of the changes that ZooKeeper accepted."""
    taken: Bools = yield WriteStates(changes)
    return taken
