"""What the controller hands to the edge, and the clocks that it is handed."""

from collections.abc import Callable, Hashable, Sequence
from typing import NamedTuple, TypeAlias

from kcore.raft.state_machine import AnyAppend, Resign, UpgradeKraftVersion
from kcore.schema.structure import Message


class RequestAnswer(NamedTuple):
    """The response to the request that `reply_to` identifies; None closes the request's connection."""

    reply_to: Hashable
    response: Message | None


class LogLine(NamedTuple):
    """A line for the operator's log; `level` is one of the levels of `logging`."""

    level: int
    text: str


class ReadSnapshotSlice(NamedTuple):
    """A snapshot is being read: call `on_read_slice`, after the events that wait already."""


class WorkOn(NamedTuple):
    """A decision is being made, or requests wait behind it: `on_work` is wanted, behind other events."""

    name: str = "replay"  # Of the request or task that goes on; a standby replays what was committed.


Output: TypeAlias = AnyAppend | Resign | RequestAnswer | LogLine | UpgradeKraftVersion | ReadSnapshotSlice | WorkOn
Outputs: TypeAlias = Sequence[Output]


class Clocks(NamedTuple):
    """The clocks that the edge hands in."""

    now_ms: Callable[[], int]  # It only goes forward.
    wall_ms: Callable[[], int]  # For time stamps.
