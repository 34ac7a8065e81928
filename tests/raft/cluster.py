"""A quorum in a few lines: nodes, a network with one delay, disks that flush in a millisecond, one clock."""

import heapq
import random
from collections.abc import Callable, Sequence
from itertools import count
from typing import Any

from kcore.protocol_errors import Errors
from kcore.raft.effects import Committed, Effect, Flush, LeaderChanged, Send, SendResponse, StoreElection
from kcore.raft.log import Appended
from kcore.raft.memory_log import MemoryLog
from kcore.raft.node import RaftNode
from kcore.raft.replicas import ElectionState
from kcore.schema.raft_votes import VoteRequest, VoteResponse
from kcore.schema.structure import Message
from raft.nodes import address, raft_node

VERSIONS = {1: 17, 18: 4, 52: 2, 53: 1, 54: 1, 59: 1, 80: 1, 81: 0, 82: 0}


class Cluster:
    """`nodes` by id; `cut` holds (from, to) pairs that lose everything; whoever is in `down` refuses connections."""

    def __init__(self, ids: Sequence[int] = (1, 2, 3), seed: int = 1, delay_ms: int = 2, **settings: Any) -> None:
        self.dice = random.Random(seed)
        self.ids, self.settings, self.delay_ms = tuple(ids), settings, delay_ms
        self.now_ms = 0
        self.nodes: dict[int, RaftNode] = {}
        self.elections: dict[int, ElectionState | None] = {}
        self.cut: set[tuple[int, int]] = set()
        self.down: set[int] = set()
        self.told: dict[int, list[tuple[int, int]]] = {}  # What each state machine heard of leaders.
        self.committed: dict[int, int] = {}
        self.events = 0
        self._queue: list[tuple[int, int, Callable[[], None]]] = []
        self._order = count()
        for node_id in self.ids:
            self.add(node_id)

    def add(self, node_id: int, log: MemoryLog | None = None, **settings: Any) -> None:
        """Starts a node, or starts it again with that log."""
        node = raft_node(node_id, **{"voters": self.ids, **self.settings, **settings}, log=log)
        object.__setattr__(node.config, "jitter_ms", self.dice.randrange)
        self.nodes[node_id] = node
        self.told.setdefault(node_id, [])
        self.down.discard(node_id)
        self._perform(node, node.start(self.elections.get(node_id), self.now_ms))

    def kill(self, node_id: int) -> MemoryLog:
        """The log that is left."""
        self.down.add(node_id)
        log = self.nodes[node_id].log
        assert isinstance(log, MemoryLog)
        return log.crash()

    def isolate(self, *ids: int) -> None:
        """Both ways, from all that are not among `ids`."""
        for inside in ids:
            for outside in set(self.nodes) - set(ids):
                self.cut |= {(inside, outside), (outside, inside)}

    def heal(self) -> None:
        self.cut.clear()

    # Time.

    def run(self, for_ms: int, until: Callable[[], bool] = lambda: False) -> bool:
        """Lets time pass; True as soon as `until` holds."""
        end_ms = self.now_ms + for_ms
        while not until():
            timer = min(
                ((node.next_deadline_ms, i) for i, node in self._living() if node.next_deadline_ms), default=None
            )
            at = self._queue[0][0] if self._queue else end_ms + 1
            if timer is not None and timer[0] < at:
                at = timer[0]
            if at > end_ms:
                self.now_ms = end_ms
                return until()
            self.now_ms = max(self.now_ms, at)
            if self._queue and self._queue[0][0] <= self.now_ms:
                heapq.heappop(self._queue)[2]()
            elif timer is not None:
                node = self.nodes[timer[1]]
                self._perform(node, node.on_timer(self.now_ms))
                deadline_ms = node.next_deadline_ms
                assert deadline_ms is None or deadline_ms > self.now_ms, f"what is due is not done (E23): {node.state}"
        return True

    def _living(self) -> list[tuple[int, RaftNode]]:
        return [(i, node) for i, node in self.nodes.items() if i not in self.down]

    def _later(self, delay_ms: int, action: Callable[[], None]) -> None:
        heapq.heappush(self._queue, (self.now_ms + delay_ms, next(self._order), action))

    # Effects.

    def perform(self, node_id: int, effects: list[Effect]) -> None:
        self._perform(self.nodes[node_id], effects)

    def _perform(self, node: RaftNode, effects: list[Effect]) -> None:
        self.events += 1
        for effect in effects:
            self._perform_one(node, effect)

    def _perform_one(self, node: RaftNode, effect: Effect) -> None:
        node_id = node.local.id
        match effect:
            case StoreElection(election=election):
                self.elections[node_id] = election
            case Flush():
                self._later(1, lambda: self._flush(node, effect))
            case Send():
                self._send(node, effect)
            case SendResponse(reply_to=reply, response=response):
                assert callable(reply)
                reply(response)
            case LeaderChanged(leader_id=leader_id, epoch=epoch):
                self.told[node_id].append((leader_id, epoch))
            case Committed(high_watermark=high_watermark):
                self.committed[node_id] = high_watermark

    def _lives(self, node: RaftNode) -> bool:
        return node.local.id not in self.down and self.nodes[node.local.id] is node

    def _flush(self, node: RaftNode, flush: Flush) -> None:
        if self._lives(node):
            node.log.flush()
            self._perform(node, node.on_flushed(flush, self.now_ms))

    def _send(self, node: RaftNode, send: Send) -> None:
        target = next((i for i in self.nodes if address(i) == send.address), None)

        def back(response: Message | None) -> None:
            if self._lives(node):
                self._perform(node, node.on_response(send.correlation_id, response, self.now_ms))

        def answered(response: Message) -> None:
            if (target, node.local.id) not in self.cut:
                self._later(self.delay_ms, lambda: back(response))

        self._later(send.timeout_ms, lambda: back(None))
        if target is None or target in self.down:
            self._later(self.delay_ms, lambda: back(None))
        elif (node.local.id, target) not in self.cut:
            self._later(self.delay_ms, lambda: self._deliver(target, send.request, answered))

    def _deliver(self, target: int, request: Message, answered: Callable[[Message], None]) -> None:
        if target in self.down:
            return
        node, version = self.nodes[target], VERSIONS[request.api_key]
        if isinstance(request, VoteRequest) and node.config.level == "3.9":
            version = 1
            if request.topics[0].partitions[0].pre_vote:  # Nothing that version 1 could say.
                answered(VoteResponse(error_code=Errors.UNSUPPORTED_VERSION))
                return
        self._perform(node, node.on_request(request, version, answered, self.now_ms))

    # Questions.

    @property
    def leader(self) -> RaftNode | None:
        """The one with the highest epoch of those that live and lead."""
        leaders = [node for _, node in self._living() if node.state.name == "Leader"]
        return max(leaders, key=lambda node: node.epoch, default=None)

    def is_led(self) -> bool:
        """One leads, all the others that live follow it, and its epoch has committed a record."""
        leader = self.leader
        if leader is None or leader.high_watermark is None:
            return False
        return all(node.epoch == leader.epoch and node.leader_id == leader.local.id for _, node in self._living())

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
        self._perform(leader, effects)
        return appended.last_offset + 1

    def values(self, node_id: int) -> list[bytes]:
        """Of the data records in the node's log."""
        from kcore.wire.records import decode_records

        log = self.nodes[node_id].log
        assert isinstance(log, MemoryLog)
        batches = [batch for batch in log.batches if not batch.is_control]
        return [bytes(record.value or b"") for batch in batches for record in decode_records(batch.data)]
