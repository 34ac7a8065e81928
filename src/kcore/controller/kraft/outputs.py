"""The outputs of the controller for the edge, and the clocks that the edge provides."""

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
    """The snapshot has more slices: the edge must call `on_read_slice` after the events that already wait."""


class WorkOn(NamedTuple):
    """A decision has more parts, or requests wait: the edge must call `on_work` after the events that already wait."""

    name: str = "replay"  # The request or task that continues; "replay" on a standby.


Output: TypeAlias = AnyAppend | Resign | RequestAnswer | LogLine | UpgradeKraftVersion | ReadSnapshotSlice | WorkOn
Outputs: TypeAlias = Sequence[Output]


class Clocks(NamedTuple):
    """The clocks that the edge provides."""

    now_ms: Callable[[], int]  # Monotonic.
    wall_ms: Callable[[], int]  # The wall clock, for time stamps.
