"""A machine: a node, its log and its clock, and what an edge keeps for them."""

from collections import deque
from typing import Any, Final

from kcore.raft.effects import Effect, Flush
from kcore.raft.node import RaftNode
from kcore.raft.replicas import Address, ElectionState, ReplicaKey, Voter
from kcore.raft.voters import VoterSet
from kcore.schema.structure import Message
from kcore.sim.clock import Clock
from kcore.sim.disk import SimLog
from kcore.types import Uuid

NEVER_US: Final = 1 << 62
PAUSED: Final = 1  # Bits of a gate: events wait.
STORING: Final = 2
LISTENER: Final = "CONTROLLER"
FIRST_PORT: Final = 9_000  # A machine's port says which it is.


class Call:
    """A request on its way, and where its answer goes."""

    __slots__ = (
        *("arrived_us", "correlation_id", "deadline_us", "destination", "incarnation", "is_answered", "request"),
        *("served_by", "source", "version"),
    )

    def __init__(
        self,
        source: "Machine | None",
        correlation_id: int,
        destination: "Machine",
        request: Message,
        version: int,
        deadline_us: int = NEVER_US,
    ) -> None:
        self.source = source  # None: an administrator, or a stranger.
        self.incarnation = source.incarnation if source else 0
        self.correlation_id = correlation_id
        self.destination = destination
        self.request = request
        self.version = version
        self.deadline_us = deadline_us
        self.is_answered = False
        self.arrived_us = -1
        self.served_by = -1  # The incarnation that it came to.


class PendingStore:
    """An election on its way to the disk, and what may leave only behind it."""

    __slots__ = ("election", "rest")

    def __init__(self, election: ElectionState, rest: list[Effect]) -> None:
        self.election = election
        self.rest = rest


class Append:
    """Records that a leader took, and where it said that they would be."""

    __slots__ = ("epoch", "offset", "value")

    def __init__(self, offset: int, epoch: int, value: bytes) -> None:
        self.offset = offset
        self.epoch = epoch
        self.value = value


class Machine:
    """One of the world's machines; its index is its node's id."""

    def __init__(self, index: int, directory: Uuid, clock: Clock, log: SimLog) -> None:
        self.index = index
        self.key = ReplicaKey(index, directory)
        self.clock = clock
        self.log = log
        self.election: ElectionState | None = None  # As on the disk.
        self.is_configured = True  # With the voters, where the world begins so.
        self.node: RaftNode
        self.is_up = False
        self.incarnation = 0
        self.fsync_factor = 1
        self.named_us = -NEVER_US  # When somebody last asked to make it a voter.
        self.forget()

    def forget(self) -> None:
        """All that a process takes with it."""
        self.gate = 0
        self.inbox: deque[tuple[Any, ...]] = deque()
        self.open: dict[int, Call] = {}  # By correlation id.
        self.expiry_us = self.timer_us = NEVER_US
        self.idle_timers = 0
        self.is_stopping = False
        self.storing: PendingStore | None = None
        self.fsync: Flush | None = None  # What the one under way was asked for by.
        self.wants_fsync: Flush | None = None
        self.appends: deque[Append] = deque()  # Neither committed nor given up.
        self.resumed_us = self.led_since_us = 0
        self.heard_us: dict[int, int] = {}  # When a node fetched last.
        self.seen_state: Any = None
        self.seen_voters: VoterSet | None = None
        self.seen_high_watermark = -1
        self.checked_to = 0  # Committed batches below were compared.
        self.seen_start = -1

    @property
    def address(self) -> Address:
        return Address(f"node-{self.index}", FIRST_PORT + self.index)

    @property
    def endpoints(self) -> dict[str, Address]:
        return {LISTENER: self.address}

    def as_voter(self, directory_known: bool) -> Voter:
        """Static voters are known by their ids alone."""
        return Voter(self.key if directory_known else ReplicaKey(self.index), self.endpoints, 0, int(directory_known))
