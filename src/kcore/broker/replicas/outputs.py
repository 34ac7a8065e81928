"""What a broker's machine asks of its edge, as data, in the order in which it is to be done."""

from dataclasses import dataclass
from typing import TypeAlias

from kcore.broker.replicas.log_lines import NoticeKind
from kcore.broker.replicas.replica import Key
from kcore.schema.structure import Message


@dataclass(frozen=True, slots=True)
class SendResponse:
    """The response to a request. Everything that must be durable before it is: see ReplicaLog."""

    request_id: int
    response: Message


@dataclass(frozen=True, slots=True)
class Verify:
    """Ask a transaction's coordinator whether the partitions are in it, then call `producing.on_verified`."""

    request_id: int
    transactional_id: str
    producer_id: int
    producer_epoch: int
    keys: tuple[Key, ...]


@dataclass(frozen=True, slots=True)
class FetchFrom:
    """There is something new to fetch from this broker, or nothing more."""

    leader_id: int


@dataclass(frozen=True, slots=True)
class IsrChangesWait:
    """Send the waiting ISR changes to the controller."""


@dataclass(frozen=True, slots=True)
class LogFailed:
    """An operation on this partition's log failed: take its whole directory offline.

    Requests that waited for it were not acknowledged.
    """

    key: Key
    why: str


@dataclass(frozen=True, slots=True)
class Notice:
    """A line for the log, about a control request."""

    kind: NoticeKind
    text: str


Output: TypeAlias = SendResponse | Verify | FetchFrom | IsrChangesWait | LogFailed | Notice
