"""The outputs of `ReplicaManager`: operations that the server performs in order."""

from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

from kcore.broker.replicas.replica import Key
from kcore.schema.structure import Message
from kcore.steps import Steps


class NoticeKind(Enum):
    """The subject of a log line. The server limits the rate of lines for each kind separately."""

    CONTROLS = "the controller has changed"
    STALE = "a request from an old controller, or for an old incarnation of this broker"
    IMPOSSIBLE = "a request with invalid names or states"


@dataclass(frozen=True, slots=True)
class SendResponse:
    """Send the response to a request. Its appends are in the log, as safe as ReplicaLog describes."""

    request_id: int
    response: Message


@dataclass(frozen=True, slots=True)
class SendInSteps:
    """Run the steps with other work in between, and send their response. No effect if the client has disconnected."""

    request_id: int
    steps: Steps[Message]


@dataclass(frozen=True, slots=True)
class Verify:
    """Ask the coordinator whether its transaction has these partitions, then call `producing.on_verified`."""

    request_id: int
    transactional_id: str
    producer_id: int
    producer_epoch: int
    keys: tuple[Key, ...]


@dataclass(frozen=True, slots=True)
class FetchFrom:
    """Start fetching from this leader, or stop if this broker follows it for no partition any more."""

    leader_id: int


@dataclass(frozen=True, slots=True)
class IsrChangesWait:
    """Send the waiting ISR changes to the controller."""


@dataclass(frozen=True, slots=True)
class LogFailed:
    """An operation on this partition's log failed: take the log's whole directory offline."""

    key: Key
    why: str


@dataclass(frozen=True, slots=True)
class Notice:
    """Log a line about a control request."""

    kind: NoticeKind
    text: str


Output: TypeAlias = SendResponse | SendInSteps | Verify | FetchFrom | IsrChangesWait | LogFailed | Notice
