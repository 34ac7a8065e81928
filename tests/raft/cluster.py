"""A quorum in a few lines, in a simulated world: one delay on all links, disks that flush in 1 ms, one clock."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

from kcore.protocol_errors import Errors
from kcore.raft.effects import Committed, Effect, Flush, LeaderChanged, Send, SendResponse, StoreElection
from kcore.raft.log.memory_log import MemoryLog
from kcore.raft.log.raft_log import Appended
from kcore.raft.membership.replicas import ElectionState
from kcore.raft.node import RaftNode
from kcore.schema.raft_votes import VoteRequest, VoteResponse
from kcore.schema.structure import Message
from kcore.sim.kernel.clock import Clock
from kcore.sim.kernel.events import Kernel
from kcore.sim.kernel.network import Links, Network
from kcore.sim.kernel.simulated_process import NEVER_US, Process
from raft.nodes import address, raft_node

VERSIONS = {1: 17, 18: 4, 52: 2, 53: 1, 54: 1, 59: 1, 80: 1, 81: 0, 82: 0}
LARGEST_ID: Final = 9
MS: Final = 1_000  # In us.
FLUSH_US: Final = 1 * MS
MOST_OPEN: Final = 20  # Requests that a killed process may have owed.


class Machine(Process):
    """Where a node runs, one after the other; its index is their id. Connections to it are refused unless `is_up`."""

    node: RaftNode
    election: ElectionState | None = None  # As stored.
    is_up = False
    timer_us = NEVER_US  # When the timer goes off that counts; others are passed over.


class Cluster(Kernel):
    """`nodes` by id. `seed` is that of the dice of the nodes: no message is lost or late, unless a link is cut."""

    def __init__(self, ids: Sequence[int] = (1, 2, 3), seed: int = 1, delay_ms: int = 2, **settings: Any) -> None:
        super().__init__(seed, "")
        self.handlers = (self._on_event,) * len(self.handlers)
        self.ids, self.settings, self.delay_ms = tuple(ids), settings, delay_ms
        self.clock = Clock(0, drift=0.0)
        self.network = Network(Links(delay_ms * MS), LARGEST_ID + 1, self.random, jitter=0.0)
        self.machines: dict[int, Machine] = {}
        self.open: dict[
            int, list[Callable[[], None]]
        ] = {}  # By node that received them: functions that end the last requests.
        self.refusing: set[tuple[int, int]] = set()
        self.resets = False  # Whether the connections of a killed process end at once.
        self.leaders: dict[int, list[tuple[int, int]]] = {}  # The leaders that each state machine got, with epochs.
        self.committed: dict[int, int] = {}
        for node_id in self.ids:
            self.add(node_id)

    @property
    def now_ms(self) -> int:
        return self.clock.ms(self.now_us)

    @property
    def nodes(self) -> dict[int, RaftNode]:
        """The last of each machine, killed ones included."""
        return {i: machine.node for i, machine in self.machines.items()}

    def add(self, node_id: int, log: MemoryLog | None = None, **settings: Any) -> None:
        """Starts a node, or starts it again with that log."""
        machine = self.machines.setdefault(node_id, Machine(node_id))
        node = raft_node(node_id, **{"voters": self.ids, **self.settings, **settings}, log=log)
        object.__setattr__(node.config, "jitter_ms", self.random.randrange)
        machine.node, machine.is_up, machine.timer_us = node, True, NEVER_US
        self.leaders.setdefault(node_id, [])
        self.perform(node_id, node.start(machine.election, self.now_ms))

    def kill(self, node_id: int) -> MemoryLog:
        """The log that is left."""
        machine = self.machines[node_id]
        machine.is_up = False
        for reset in self.open.pop(node_id, []) if self.resets else ():
            self.after_us(self.delay_ms * MS, reset)
        assert isinstance(machine.node.log, MemoryLog)
        return machine.node.log.crash()

    def isolate(self, *ids: int) -> None:
        """Both ways, from all that are not among `ids`."""
        for inside in ids:
            for outside in set(self.machines) - set(ids):
                self.cut(inside, outside)

    def cut(self, one: int, other: int) -> None:
        """Both ways."""
        self.network.cut(one, other)
        self.network.cut(other, one)

    def refuse(self, one: int, other: int) -> None:
        """Connections from one to the other are refused, though it lives."""
        self.refusing.add((one, other))

    def heal(self) -> None:
        self.network.heal()

    # Time.

    def run(self, for_ms: int, until: Callable[[], bool] = lambda: False) -> bool:
        """Lets time pass; True as soon as `until` holds."""
        for machine in self._living():
            self._arm(machine)  # Tests call nodes, too.
        return self.run_us(for_ms * MS, until)

    def _living(self) -> list[Machine]:
        return [machine for machine in self.machines.values() if machine.is_up]

    def _on_event(self, machine: Machine | None, do: Callable[[], None]) -> None:
        if machine is None or machine.is_up:
            do()

    def _arm(self, machine: Machine) -> None:
        """Sets the timer to the node's next deadline, if that is sooner."""
        deadline_ms = machine.node.next_deadline_ms
        if deadline_ms is None:
            return
        due_us = max(self.clock.when_us(deadline_ms), self.now_us + 1)
        if due_us < machine.timer_us:
            machine.timer_us = due_us
            self.after_us(due_us - self.now_us, partial(self._on_timer, machine, due_us), machine)

    def _on_timer(self, machine: Machine, due_us: int) -> None:
        if due_us != machine.timer_us:
            return
        machine.timer_us = NEVER_US
        node, deadline_ms = machine.node, machine.node.next_deadline_ms
        if deadline_ms is None or deadline_ms > self.now_ms:  # It was put off.
            self._arm(machine)
            return
        self.perform(machine.index, node.on_timer(self.now_ms))
        deadline_ms = node.next_deadline_ms
        assert deadline_ms is None or deadline_ms > self.now_ms, f"what is due is not done (E23): {node.state}"

    # Effects.

    def perform(self, node_id: int, effects: list[Effect]) -> None:
        machine = self.machines[node_id]
        for effect in effects:
            self._perform_one(machine, effect)
        self._arm(machine)

    def _perform_one(self, machine: Machine, effect: Effect) -> None:
        match effect:
            case StoreElection(election=election):
                machine.election = election
            case Flush():
                self.after_us(FLUSH_US, partial(self._flush, machine, machine.node, effect), machine)
            case Send():
                self._send(machine, effect)
            case SendResponse(reply_to=reply, response=response):
                assert callable(reply)
                reply(response)
            case LeaderChanged(leader_id=leader_id, epoch=epoch):
                self.leaders[machine.index].append((leader_id, epoch))
            case Committed(high_watermark=high_watermark):
                self.committed[machine.index] = high_watermark

    def _flush(self, machine: Machine, node: RaftNode, flush: Flush) -> None:
        if machine.node is node:
            node.log.flush()
            self.perform(machine.index, node.on_flushed(flush, self.now_ms))

    def _send(self, machine: Machine, send: Send) -> None:
        node = machine.node
        target = next((each for i, each in self.machines.items() if address(i) == send.address), None)

        def back(response: Message | None) -> None:
            if machine.node is node:
                self.perform(machine.index, node.on_response(send.correlation_id, response, self.now_ms))

        def refused() -> None:
            if machine.node is node:
                self.perform(machine.index, node.on_refused(send.correlation_id, self.now_ms))
            back(None)

        self.after_us(send.timeout_ms * MS, partial(back, None), machine)
        if target is None or not target.is_up or (machine.index, target.index) in self.refusing:
            self.after_us(self.delay_ms * MS, refused, machine)
            return
        self.open[target.index] = [*self.open.get(target.index, [])[-MOST_OPEN:], partial(back, None)]

        def answered(response: Message) -> None:
            for delay_us in self.network.delays_us(target.index, machine.index):
                self.after_us(delay_us, partial(back, response), machine)

        for delay_us in self.network.delays_us(machine.index, target.index):
            self.after_us(delay_us, lambda: self._deliver(target.index, send.request, answered), target)

    def _deliver(self, target: int, request: Message, answered: Callable[[Message], None]) -> None:
        node, version = self.nodes[target], VERSIONS[request.api_key]
        if isinstance(request, VoteRequest) and node.config.level == "3.9":
            version = 1
            if request.topics[0].partitions[0].pre_vote:  # Nothing that version 1 could say.
                answered(VoteResponse(error_code=Errors.UNSUPPORTED_VERSION))
                return
        self.perform(target, node.on_request(request, version, answered, self.now_ms))

    # Questions.

    @property
    def leader(self) -> RaftNode | None:
        """The one with the highest epoch of those that live and lead."""
        leaders = [each.node for each in self._living() if each.node.state.name == "Leader"]
        return max(leaders, key=lambda node: node.epoch, default=None)

    def is_led(self) -> bool:
        """One leads, all the others that live follow it, and its epoch has committed a record."""
        leader = self.leader
        if leader is None or leader.high_watermark is None:
            return False
        nodes = [machine.node for machine in self._living()]
        return all(node.epoch == leader.epoch and node.leader_id == leader.local.id for node in nodes)

    def elect(self, within_ms: int = 10_000) -> RaftNode:
        assert self.run(within_ms, self.is_led), {i: repr(node.state) for i, node in self.nodes.items()}
        assert self.leader is not None
        return self.leader

    def append(self, *values: bytes) -> int:
        """By the leader; the offset behind them."""
        leader = self.leader
        assert leader is not None
        appended, effects = leader.append(values, leader.epoch, leader.next_offset, self.now_ms)
        assert isinstance(appended, Appended)
        self.perform(leader.local.id, effects)
        return appended.last_offset + 1

    def values(self, node_id: int) -> list[bytes]:
        """The values of the data records in the node's log."""
        from kcore.wire.records import decode_records

        log = self.nodes[node_id].log
        assert isinstance(log, MemoryLog)
        batches = [batch for batch in log.batches if not batch.is_control]
        return [bytes(record.value or b"") for batch in batches for record in decode_records(batch.data)]
