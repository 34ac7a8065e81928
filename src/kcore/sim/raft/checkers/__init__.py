"""The invariants that every simulated world must keep under any fault: one class per subject, with common hooks.

| module | invariants |
|---|---|
| `base` | none: the hooks of all checkers |
| `election_checker` | one leader per epoch, elected by a majority; one durable vote per epoch; nothing forgotten |
| `vote_checker` | when a vote or pre-vote may or must be granted; a leader with a fetching majority stays (KIP-996) |
| `log_checker` | one batch per offset and epoch; truncations, flushes, and claims about the durable log |
| `snapshot_checker` | a log begins at a snapshot; all nodes have the same snapshots |
| `voter_change_checker` | only requested changes, one voter at a time; a new voter is caught up (KIP-853) |
| `commit_checker` | the high watermark: monotone, durable at a majority, of the own epoch; equal data everywhere |
| `consumer_checker` | a state machine gets each committed record once, in order; and its node's leadership once |
| `request_checker` | each request is answered once and in time; retries back off; nothing grows without bound |

Sources: Raft's properties (figure 3.2 of the dissertation), Kafka's RaftEventSimulationTest, KIP-595, 630, 853 and 996.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final

from kcore.raft.log.batches import StoredBatch
from kcore.raft.states import State
from kcore.replication.raft_log import OffsetAndEpoch
from kcore.sim.raft.checkers.base import Checker, is_for
from kcore.sim.raft.checkers.commit_checker import Commits
from kcore.sim.raft.checkers.consumer_checker import Consumers
from kcore.sim.raft.checkers.election_checker import Elections
from kcore.sim.raft.checkers.log_checker import Logs
from kcore.sim.raft.checkers.request_checker import Requests
from kcore.sim.raft.checkers.snapshot_checker import Snapshots
from kcore.sim.raft.checkers.vote_checker import Votes
from kcore.sim.raft.checkers.voter_change_checker import VoterChanges
from kcore.sim.raft.disk import LogWatcher
from kcore.sim.raft.simulated_machine import UNCHECKED, Machine
from kcore.sim.raft.world_state import WorldState

CHECKERS: Final[tuple[type[Checker], ...]] = (
    *(Elections, Votes, Logs, Snapshots, VoterChanges, Commits, Consumers, Requests),
)


def _own(checkers: list[Checker], hook: str) -> list[Callable[..., None]]:
    """The overridden hooks of the checkers, in order."""
    return [
        getattr(checker, hook) for checker in checkers if getattr(type(checker), hook) is not getattr(Checker, hook)
    ]


def _all(checkers: list[Checker], hook: str) -> Callable[..., None]:
    """Calls each overridden hook."""
    own = _own(checkers, hook)
    if len(own) == 1:
        return own[0]

    def call(*given: Any) -> None:
        for each in own:
            each(*given)

    return call


class _ByKind(dict[type[Any], tuple[Callable[..., None], ...]]):
    """The hooks for messages of each kind, in order; filled at the first message of a kind."""

    def __init__(self, checkers: list[Checker], hook: str) -> None:
        self._hooks = _own(checkers, hook)

    def __missing__(self, kind: type[Any]) -> tuple[Callable[..., None], ...]:
        self[kind] = hooks = tuple(hook for hook in self._hooks if is_for(hook, kind))
        return hooks


class Checkers:
    """All checkers as one: each hook calls the checkers that override it."""

    def __init__(self, world: WorldState, more: Sequence[Callable[[WorldState], Checker]] = ()) -> None:
        """`more`: checkers of further invariants, called after the others."""
        kinds: list[Callable[[WorldState], Checker]] = [*CHECKERS, *more]
        checkers = [kind(world) for kind in kinds]
        self._machines = world.machines
        self.on_open = _all(checkers, "on_open")
        self.on_end = _all(checkers, "on_end")
        self.on_forgotten = _all(checkers, "on_forgotten")
        self.on_stored = _all(checkers, "on_stored")
        self.on_timer = _all(checkers, "on_timer")
        self.on_committed = _all(checkers, "on_committed")
        self.on_leader_changed = _all(checkers, "on_leader_changed")
        self.on_snapshot_loaded = _all(checkers, "on_snapshot_loaded")
        self.on_notice = _all(checkers, "on_notice")
        self.on_appended = _own(checkers, "on_appended")
        self.on_cut = _all(checkers, "on_cut")
        self.on_replaced = _all(checkers, "on_replaced")
        self.on_frozen = _all(checkers, "on_frozen")
        self.on_admin_request = _all(checkers, "on_admin_request")
        self.on_expired = _all(checkers, "on_expired")
        self.at_end = _all(checkers, "at_end")
        # The hooks for messages, by kind of message; the edge calls them one by one.
        self.on_send = _ByKind(checkers, "on_send")
        self.on_request = _ByKind(checkers, "on_request")
        self.on_answer = _ByKind(checkers, "on_answer")  # By the kind of the response.
        self.before_response = _ByKind(checkers, "before_response")
        self.on_boot = _all(checkers, "on_boot")
        self._audit = _all(checkers, "audit")
        self._on_state = _all(checkers, "on_state")
        self._after_event = _own(checkers, "after_event")
        self._after_write = _own(checkers, "after_write")
        self.on_crash_in_event = _all(checkers, "on_crash_in_event")

    def watcher(self, machine: Machine) -> LogWatcher:
        """The watcher through which a machine's log calls the checkers."""
        return _Watcher(self, machine)

    def on_state(self, machine: Machine, state: State) -> None:
        """The node has handled an event that changed its state; the effects are not performed yet."""
        before, machine.state = machine.state, state
        self._on_state(machine, before, state)

    def after_event(self, machine: Machine) -> None:
        """Calls the `after_write` and `after_event` of all checkers, if the event changed a value that these read.

        The log, the voters and the stored election change only with operations on files, which the disk counts. A call
        of the state machine, or a checker that depends on other values, resets `machine.checked`.
        """
        count, fsync, storing = machine.checked_files
        if count != machine.disk.count or fsync is not machine.fsync or storing is not machine.storing:
            for check in self._after_write:
                check(machine)
            machine.checked_files = machine.disk.count, machine.fsync, machine.storing
        state, high_watermark, storing = machine.checked or UNCHECKED
        quorum = machine.node.quorum
        if state is not quorum.state or high_watermark != quorum.high_watermark or storing is not machine.storing:
            for check in self._after_event:
                check(machine)
            machine.checked = quorum.state, quorum.high_watermark, machine.storing

    def audit(self) -> None:
        """Runs all audits. After the next event of a machine, the machine's checks run even if nothing has changed."""
        for machine in self._machines:
            machine.checked, machine.checked_files = None, UNCHECKED
        self._audit()


class _Watcher(LogWatcher):
    def __init__(self, checkers: Checkers, machine: Machine) -> None:
        self._checkers, self._machine = checkers, machine

    def on_appended(self, batch: StoredBatch, epoch_before: int) -> None:
        for check in self._checkers.on_appended:
            check(self._machine, batch, epoch_before)

    def on_cut(self, batches: tuple[StoredBatch, ...], durable_end: int) -> None:
        self._checkers.on_cut(self._machine, batches, durable_end)
        if self._machine.trap is not None:
            self._machine.trap("log cut")

    def on_replaced(self, snapshot: OffsetAndEpoch) -> None:
        self._checkers.on_replaced(self._machine, snapshot)

    def on_frozen(self, snapshot: OffsetAndEpoch) -> None:
        self._checkers.on_frozen(self._machine, snapshot)
        if self._machine.trap is not None:
            self._machine.trap("snapshot frozen")
