"""A machine: a node, its log and its clock, and the state that an edge keeps for them."""

from collections.abc import Callable
from typing import Any, Final, NamedTuple, TypeAlias

from kcore.raft.driver import StateMachineDriver
from kcore.raft.effects import Effect, Flush
from kcore.raft.membership.replicas import Address, ElectionState, ReplicaKey, Voter
from kcore.raft.node import RaftNode
from kcore.raft.raft_config import RaftConfig
from kcore.raft.states import State
from kcore.schema.structure import Message
from kcore.sim.kernel.clock import Clock
from kcore.sim.kernel.file_system import SimFileSystem
from kcore.sim.kernel.simulated_process import NEVER_US, Process
from kcore.sim.raft.disk import SimDirectory, WatchedLog
from kcore.sim.raft.log_consumer import Consumer
from kcore.sim.raft.watched_state_machine import WatchedStateMachine
from kcore.types import Uuid

LISTENER: Final = "CONTROLLER"
FIRST_PORT: Final = 9_000  # A machine's port is this plus its index.
UNCHECKED: Final = None, None, None  # In place of values of the last check: equals no real values.
Trap: TypeAlias = Callable[[str], None]  # Called with the name of each moment at which a machine may crash.


class Call:
    """A request on its way, with the machine that gets the answer."""

    __slots__ = (
        *("arrived_us", "correlation_id", "deadline_us", "destination", "incarnation", "is_answered", "note"),
        *("request", "sent_ms", "served_by", "source", "state", "version"),
    )

    def __init__(
        self,
        source: "Machine | None",
        correlation_id: int,
        destination: "Machine",
        request: Message,
        version: int,
        deadline_us: int = NEVER_US,
        sent_ms: int = 0,
    ) -> None:
        self.source = source  # None for an administrator or a stranger.
        self.incarnation = source.incarnation if source else 0
        self.state = source.node.quorum.state if source else None  # The source's state when it sent this.
        self.correlation_id = correlation_id
        self.destination = destination
        self.request = request
        self.version = version
        self.deadline_us = deadline_us
        self.sent_ms = sent_ms  # By the source's clock.
        self.is_answered = False
        self.arrived_us = -1
        self.served_by = -1  # The incarnation of the destination that got the request.
        self.note: Any = None  # A checker's own data.

    def again(self) -> "Call":
        """A second copy of the request, which the network has duplicated."""
        args = self.source, self.correlation_id, self.destination, self.request, self.version
        twin = Call(*args, self.deadline_us, self.sent_ms)
        twin.note = self.note
        return twin


class Reply(NamedTuple):
    """An answer on its way; `response` is None if the connection is lost or refused."""

    call: Call
    response: Message | None
    is_damaged: bool = False
    is_refused: bool = False  # No process listens at the destination.


class PendingStore:
    """An election that is being stored, and the effects that must wait for it."""

    __slots__ = ("election", "kraft_version", "rest")

    def __init__(self, election: ElectionState, kraft_version: int, rest: list[Effect]) -> None:
        self.election = election
        self.kraft_version = kraft_version
        self.rest = rest


class FsyncTimes:
    """The speed of a machine's files: a factor for each file, and the delay that a fault adds."""

    __slots__ = ("election_factor", "election_fault_us", "log_factor", "log_fault_us")

    def __init__(self, log_factor: int, election_factor: int) -> None:
        self.log_factor = log_factor
        self.election_factor = election_factor
        self.log_fault_us = 0
        self.election_fault_us = 0


class Machine(Process):
    """One of the world's machines; its index is its node's id."""

    node: RaftNode
    disk: SimFileSystem
    directory: SimDirectory  # The directory of its process, or of its last one.
    log: WatchedLog  # The log of its process, or of its last one.
    watched: WatchedStateMachine  # The node's state machine.
    consumer: Consumer  # The inner state machine, in a world of RaftProgram.
    driver: StateMachineDriver[Any]

    def __init__(self, index: int, directory: Uuid, clock: Clock, fsync_times: FsyncTimes, level: str) -> None:
        super().__init__(index)
        self.key = ReplicaKey(index, directory)
        self.address = Address(f"node-{index}", FIRST_PORT + index)
        self.endpoints = {LISTENER: self.address}
        self.config: tuple[Any, RaftConfig] | None = None  # The process's config, with the values it depends on.
        self.clock = clock
        self.fsync_times = fsync_times
        self.level = level  # The release of its process.
        self.stored: ElectionState | None = None  # The election state on the disk.
        self.crash: tuple[int, int] | None = (
            None  # A crash of `lay_in_files`: its kind, and the time until the restart.
        )
        self.is_configured = True  # Whether its configuration names the static voters, if the world has any.
        self.is_up = False
        self.incarnation = 0
        self.trap: Trap | None = None
        self.named_us = -NEVER_US  # When a request to make the machine a voter was last sent.
        self.forget()

    def forget(self) -> None:
        """Resets the state that ends with the process."""
        self.reset_blocked()
        self.open: dict[int, Call] = {}  # By correlation id.
        self.expiry_us = NEVER_US
        self.forget_timer()
        self.is_stopping = False
        self.storing: PendingStore | None = None
        self.fsync: Flush | None = None  # The request that started the running fsync.
        self.wants_fsync: Flush | None = None  # The last flush that was requested during the running fsync.
        self.flush: Callable[[], None] | None = None  # Ends the running flush.
        self.has_calls = True  # The driver may have calls of the state machine to make.
        self.state: State | None = None  # The node's state that the checkers have seen last.
        # The node's and the files' values at the last check; None or UNCHECKED: the checkers run after the next event.
        self.checked: tuple[Any, Any, Any] | None = None
        self.checked_files: tuple[Any, Any, Any] = UNCHECKED
        self.outputs: list[Any] = []  # Outputs of the state machine that are not performed yet.
        self.resumed_us = 0

    def forget_timer(self) -> None:
        """Clears the timer; events of earlier timers are then ignored."""
        self.timer_us = NEVER_US  # The true time at which the timer is due.
        self.timer_ms = NEVER_US  # The deadline for which the timer was set, by the node's clock.

    def as_voter(self, directory_known: bool) -> Voter:
        """The machine as a voter; a static voter has no directory id."""
        return Voter(self.key if directory_known else ReplicaKey(self.index), self.endpoints, 0, int(directory_known))
