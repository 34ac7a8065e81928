"""The hooks of a checker."""

from collections.abc import Callable
from typing import Any, Final, TypeVar

from kcore.raft.effects import Committed, LeaderChanged, Notice, SnapshotLoaded
from kcore.raft.log.batches import StoredBatch
from kcore.raft.membership.replicas import ElectionState
from kcore.raft.states import State
from kcore.replication.raft_log import OffsetAndEpoch
from kcore.schema.structure import Message
from kcore.sim.raft.simulated_machine import Call, Machine, Reply
from kcore.sim.raft.world_state import WorldState

Hook = TypeVar("Hook", bound=Callable[..., None])
_KINDS: Final = "kinds_of_messages"  # The attribute of a hook that lists its kinds of messages.


def only_for(*kinds: type[Message]) -> Callable[[Hook], Hook]:
    """Limits a hook to these kinds of messages: kinds of responses for `on_answer`, of requests for other hooks."""

    def mark(hook: Hook) -> Hook:
        setattr(hook, _KINDS, kinds)
        return hook

    return mark


def is_for(hook: Callable[..., None], kind: type[Any]) -> bool:
    """Whether the hook is called for messages of that kind."""
    kinds: tuple[type[Message], ...] | None = getattr(hook, _KINDS, None)
    return kinds is None or kind in kinds


class Checker:
    """Checks the invariants of one subject, and raises Violation if one does not hold. Every hook is optional.

    A checker keeps its own state by the machine's index. It reads the world, and changes only the world's `Facts`.
    """

    def __init__(self, world: WorldState) -> None:
        self.world = world
        self.facts = world.facts

    # Processes and disks.

    def on_boot(self, machine: Machine) -> None:
        """A process has created its node, which has not started yet."""

    def on_open(self, machine: Machine) -> None:
        """A process has opened its directory; it has no node yet."""

    def on_end(self, machine: Machine) -> None:
        """A process has ended, by a crash or by itself; `machine.stored` is the election that it left on the disk."""

    def on_forgotten(self, machine: Machine) -> None:
        """The machine's disk was replaced; the quorum knows the machine only by its id."""

    def on_stored(self, machine: Machine, election: ElectionState) -> None:
        """An election state is durable on the disk."""

    # Events of a node.

    def on_state(self, machine: Machine, before: State | None, state: State) -> None:
        """The node has handled an event and changed its state; `before` is None for a new process.

        The effects of the event are still to come.
        """

    def on_crash_in_event(self, machine: Machine) -> None:
        """The machine is about to crash in the middle of an event; some of the event's messages may have been sent."""

    def after_event(self, machine: Machine) -> None:
        """The event's effects are performed, up to a barrier (`machine.storing`); called again when the barrier opens.

        Not called after an event that changed nothing: no state, no high watermark, no stored election, and no call of
        the state machine. A checker that depends on other values must reset `machine.checked`.
        """

    def after_write(self, machine: Machine) -> None:
        """As `after_event`, for checks of the log: called if the event changed a file, or began or ended a write."""

    def on_timer(self, machine: Machine, now_ms: int) -> None:
        """The node has handled its timer."""

    def on_committed(self, machine: Machine, effect: Committed) -> None:
        """The node reports a new high watermark; its state machine does not have the records yet."""

    def on_leader_changed(self, machine: Machine, effect: LeaderChanged) -> None:
        """The node reports a leader; its state machine does not know the leader yet."""

    def on_snapshot_loaded(self, machine: Machine, effect: SnapshotLoaded) -> None:
        """The node reports a loaded snapshot; its state machine has not read the snapshot yet."""

    def on_notice(self, machine: Machine, effect: Notice) -> None:
        """The node reports a problem to its operator."""

    # Changes of the log, within an event.

    def on_appended(self, machine: Machine, batch: StoredBatch, epoch_before: int) -> None:
        """A batch is written; `epoch_before`: the epoch of the batch before it."""

    def on_cut(self, machine: Machine, batches: tuple[StoredBatch, ...], durable_end: int) -> None:
        """The end of the log is cut; `durable_end`: how far the log was durable before."""

    def on_replaced(self, machine: Machine, snapshot: OffsetAndEpoch) -> None:
        """The log now begins after a snapshot of the leader."""

    def on_frozen(self, machine: Machine, snapshot: OffsetAndEpoch) -> None:
        """A snapshot that the node has made or loaded is complete."""

    # Messages. `only_for` limits a hook to the kinds that it needs: most messages are Fetches, which most hooks ignore.

    def on_admin_request(self, call: Call) -> None:
        """A client outside the quorum has sent a request."""

    def on_send(self, machine: Machine, call: Call) -> None:
        """A node sends a request."""

    def on_request(self, machine: Machine, call: Call) -> None:
        """A request arrives."""

    def on_answer(self, machine: Machine, call: Call, response: Message) -> None:
        """A node sends an answer."""

    def before_response(self, machine: Machine, reply: Reply) -> None:
        """An answer arrives; the node has not handled it yet."""

    def on_expired(self, call: Call) -> None:
        """A request has timed out."""

    # At intervals.

    def audit(self) -> None:
        """Called at intervals of simulated time."""

    def at_end(self) -> None:
        """All faults are over, and all nodes have all committed records."""
