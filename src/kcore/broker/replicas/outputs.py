"""What a broker's machine asks of its edge, as data, in the order in which it is to be done."""

from dataclasses import dataclass
from typing import TypeAlias

from kcore.broker.replicas.notices import NoticeKind
from kcore.broker.replicas.replica import Key
from kcore.schema.structure import Message


@dataclass(frozen=True, slots=True)
class SendResponse:
    """To a request. All that must last is where it has to be already: ReplicaLog says what is on the disk when."""

    request_id: int
    response: Message


@dataclass(frozen=True, slots=True)
class Verify:
    """A transaction's coordinator is to be asked whether the partitions are in it: `producing.on_verified` hears."""

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
    """The controller is to be asked."""


@dataclass(frozen=True, slots=True)
class LogFailed:
    """The disk refused what had to be done with this partition's log: its whole directory is to go offline.

    Whoever waited for it has not been told that it was done.
    """

    key: Key
    why: str


@dataclass(frozen=True, slots=True)
class Notice:
    """A line for the log, about a control request."""

    kind: NoticeKind
    text: str


Output: TypeAlias = SendResponse | Verify | FetchFrom | IsrChangesWait | LogFailed | Notice
