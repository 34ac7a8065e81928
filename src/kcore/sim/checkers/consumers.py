"""What a node tells its state machine: all that is committed, once and in order, and who leads.

Each node has a consumer here: it starts from the latest snapshot, as a state machine does, and then reads the log up to
each Committed that it is told. What it reads must be what was committed in this world.
"""

from typing import TYPE_CHECKING

from kcore.raft.effects import Committed, LeaderChanged, SnapshotLoaded
from kcore.raft.states import Leader, Resigned, State
from kcore.sim.checkers.base import Checker
from kcore.sim.machine import Machine
from kcore.sim.violation import Violation

if TYPE_CHECKING:
    from kcore.sim.world import World

NOBODY = -1, 0  # Whom a node follows that has told nothing.


class Consumer:
    """A state machine's memory."""

    __slots__ = ("high_watermark", "leader", "may_repeat", "position", "resigned")

    def __init__(self, position: int) -> None:
        self.position = position  # All below has been read, or was in a snapshot.
        self.high_watermark = -1  # As it was told last.
        self.may_repeat = False  # The node was elected, and knew no high watermark then.
        self.leader = NOBODY  # And its epoch, as it was told last.
        self.resigned = -1  # The last epoch that this node is known to lead no more.


class Consumers(Checker):
    """CommittedIsTold, ReadsBelowHighWatermark, SameCommittedData, LeaderIsTold, OwnEpochCommitted, SingleLeader,
    LeaderNeverLoadsSnapshot."""

    def __init__(self, world: "World") -> None:
        super().__init__(world)
        self._consumers: dict[int, Consumer] = {}  # By machine.

    def on_boot(self, machine: Machine) -> None:
        latest = machine.log.latest_snapshot
        self._consumers[machine.index] = Consumer(latest.offset if latest is not None else 0)

    # What is committed.

    def on_committed(self, machine: Machine, effect: Committed) -> None:
        consumer, known = self._consumers[machine.index], machine.node.high_watermark
        told = effect.high_watermark
        if known is None or told > known:
            raise Violation("ReadsBelowHighWatermark", f"node {machine.index} says {effect}, and knows {known}")
        if told < max(consumer.high_watermark + (not consumer.may_repeat), consumer.position):
            after = max(consumer.high_watermark, consumer.position)
            raise Violation("CommittedIsTold", f"node {machine.index} says {effect} again: it was at {after}")
        consumer.high_watermark, consumer.may_repeat = told, False

    def on_state(self, machine: Machine, before: State | None, state: State) -> None:
        if type(state) is Leader:
            self._consumers[machine.index].may_repeat = True

    def on_snapshot_loaded(self, machine: Machine, effect: SnapshotLoaded) -> None:
        consumer = self._consumers[machine.index]
        if type(machine.node.state) is Leader:
            raise Violation("LeaderNeverLoadsSnapshot", f"node {machine.index} says {effect}")
        if effect.snapshot.offset <= consumer.position:
            raise Violation("CommittedIsTold", f"node {machine.index} says {effect}: it was at {consumer.position}")
        consumer.position = effect.snapshot.offset

    # Who leads.

    def on_leader_changed(self, machine: Machine, effect: LeaderChanged) -> None:
        """Who leads is the same for all; a leader's state machine waits for the epoch's first record (KAFKA-12619)."""
        consumer, node = self._consumers[machine.index], machine.node
        leader = effect.leader_id, effect.epoch
        if leader == consumer.leader or effect.epoch < consumer.leader[1]:
            raise Violation("LeaderIsTold", f"node {machine.index} says {effect} after {consumer.leader}")
        if effect.epoch == consumer.leader[1] and effect.leader_id >= 0 and consumer.resigned == effect.epoch:
            raise Violation("LeaderIsTold", f"node {machine.index} says {effect}, and has resigned (KAFKA-17333)")
        if consumer.leader == (machine.index, effect.epoch):
            consumer.resigned = effect.epoch
        consumer.leader = leader
        if effect.leader_id < 0:
            return
        if effect.leader_id == machine.index and (node.high_watermark or 0) <= effect.epoch_start_offset:
            raise Violation("OwnEpochCommitted", f"node {machine.index} says {effect} at {node.high_watermark}")
        known = self.facts.leaders.get(effect.epoch)
        if known is None or known[0].id != effect.leader_id:
            raise Violation("SingleLeader", f"node {machine.index} says {effect}, and it was {known}")

    # Both.

    def after_event(self, machine: Machine) -> None:
        """It reads what it was told of; and nothing is kept back, unless a barrier does that."""
        consumer = self._consumers[machine.index]
        if consumer.high_watermark > consumer.position:
            self._read(machine, consumer)
        if machine.storing is not None:
            return
        quorum = machine.node.quorum
        high_watermark, state = quorum.high_watermark, quorum.state
        if high_watermark is not None and high_watermark != consumer.high_watermark:
            told = f"node {machine.index} is at {high_watermark}, and has told {consumer.high_watermark}"
            raise Violation("CommittedIsTold", told)
        if type(state) is Leader and (high_watermark is None or machine.node.is_stopped):
            return
        leader = -1 if type(state) is Resigned else state.leader_id, state.epoch
        if leader != consumer.leader and not machine.node.is_stopped:
            raise Violation("LeaderIsTold", f"node {machine.index} is {state}, and has told {consumer.leader}")

    def _read(self, machine: Machine, consumer: Consumer) -> None:
        if consumer.position < machine.log.start_offset:
            told = f"node {machine.index}: its state machine is at {consumer.position}"
            raise Violation("CommittedIsTold", f"{told}, the log begins at {machine.log.start_offset}")
        self.facts.committed.check(machine.log, consumer.position, consumer.high_watermark, machine.index)
        consumer.position = consumer.high_watermark
