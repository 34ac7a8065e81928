"""kcore's controllers of a story: one, or a quorum whose nodes reach each other at once.

The story says which of them wins an election.
"""

import asyncio
import base64
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, Self

import kcore
from controller.kraft.recorded.story_node import Edge, RaftReply, StoryNode, formatted, nodes_of
from controller.kraft.recorded.story_wire import Json, batches_of, plain, request_bytes
from kcore.raft.effects import Send, SendResponse
from kcore.releases.known import RELEASES
from kcore.schema.structure import Message

STEP_MS: Final = 100  # As the recorder lets time pass once more, until nothing was written twice.
QUIET_STEPS: Final = 5
MOST_TICKS: Final = 2_000  # Deadlines of raft's in one wait.
ANSWER_S: Final = 0.2  # A request that is open so long waits for raft's time.
TURNS: Final = frozenset({"stop", "start", "resign", "snapshot"})


class StoryWorld:
    """`async with` it: then one of the nodes is the active controller."""

    def __init__(self, story: Json, kafka_way: frozenset[str]) -> None:
        self._story, self._kafka_way = story, kafka_way
        self.edge = Edge(self._send, self._respond)
        self.clocks = self.edge.clocks
        self._of = {each["controllerId"]: each for each in nodes_of(story)}
        self._disks = {node_id: formatted(story, "CONTROLLER") for node_id in self._of}
        self.nodes: dict[int, StoryNode] = {}  # Those that run.
        self._letters: deque[Callable[[], None]] = deque()
        self._is_delivering = False
        self._read_to = 0

    @property
    def is_quorum(self) -> bool:
        """Whether there is more than one controller."""
        return len(self._of) > 1

    async def __aenter__(self) -> Self:
        self.edge.preferred = self._story.get("leader", -1)
        for node_id in self._of:
            await self._open(node_id, self._story["placementSeed"])
        self.wait_for_leadership()
        await self.register(registered(self._story["bootstrap"]))
        return self

    async def __aexit__(self, *_: object) -> None:
        for node in self.nodes.values():
            await node.close()

    async def _open(self, node_id: int, placement_seed: int) -> None:
        disk = self._disks[node_id]
        node = StoryNode(self._story, self._kafka_way, disk, self.edge, self._of[node_id], placement_seed)
        self.nodes[node_id] = node
        await node.open()
        self._deliver()

    # Raft's network and time.

    def _send(self, node: StoryNode, send: Send) -> None:
        self._post(lambda: self._asked(node, send))

    def _respond(self, effect: SendResponse) -> None:
        assert isinstance(effect.reply_to, RaftReply)
        self._answer(effect.reply_to, effect.response)

    def _post(self, letter: Callable[[], None]) -> None:
        self._letters.append(letter)
        if not self._is_delivering:
            asyncio.get_running_loop().call_soon(self._deliver)

    def _answer(self, to: RaftReply, response: Message | None) -> None:
        self._post(lambda: self._answered(to, response))

    def _answered(self, to: RaftReply, response: Message | None) -> None:
        if to.node in self.nodes.values():
            to.node.perform(to.node.node.on_response(to.correlation_id, response, self.clocks.raft_ms))

    def _asked(self, sender: StoryNode, send: Send) -> None:
        reply_to = RaftReply(sender, send.correlation_id)
        ports = {each["port"]: node_id for node_id, each in self._of.items()}
        target = self.nodes.get(ports[send.address.port])
        if target is None:
            self._answer(reply_to, None)
            return
        _, version = RELEASES[self._story["release"]].apis[type(send.request).__name__.removesuffix("Request")]
        target.perform(target.node.on_request(send.request, version, reply_to, self.clocks.raft_ms))

    def _deliver(self) -> None:
        """All messages, until nobody has any more."""
        if self._is_delivering:
            return
        self._is_delivering = True
        while self._letters:
            self._letters.popleft()()
        self._is_delivering = False

    def _tick(self) -> None:
        """Raft's time goes on to the next deadline; the node that shall lead comes first."""
        nodes = sorted(self.nodes.values(), key=lambda each: each.node_id != self.edge.preferred)
        due = [each.node.next_deadline_ms for each in nodes]
        self.clocks.raft_ms = max(self.clocks.raft_ms + 1, min(each for each in due if each is not None))
        for each in nodes:
            each.perform(each.node.on_timer(self.clocks.raft_ms))
        self._deliver()

    def _wait(self, until: Callable[[], bool]) -> None:
        self._deliver()
        for _ in range(MOST_TICKS):
            if until():
                return
            self._tick()
        raise AssertionError([repr(each.node.state) for each in self.nodes.values()])

    def wait_for_leadership(self) -> None:
        """Raft's time passes until a controller leads that all follow."""
        self._wait(self._is_led)
        self._wait(self._is_level)

    def _is_led(self) -> bool:
        return any(each.controller.epoch is not None and each.node.leads for each in self.nodes.values())

    def _is_level(self) -> bool:
        """All of them know the leader, and have the whole log."""
        leader = self.active
        return all(
            each.node.leader_id == leader.node_id
            and each.node.log.end_offset == leader.node.log.end_offset == each.controller.committed
            for each in self.nodes.values()
        )

    @property
    def active(self) -> StoryNode:
        """The active controller's node."""
        active = [each for each in self.nodes.values() if each.controller.epoch is not None]
        return max(active, key=lambda each: each.controller.epoch or 0)

    # The steps of a story.

    async def ask(self, data: bytes, node_id: int | None = None) -> bytes | None:
        """The answer of that controller, or of the active one; None where the connection was closed instead."""
        node = self.active if node_id is None else self.nodes[node_id]
        asked = asyncio.create_task(node.ask(data))
        while self.is_quorum and not asked.done():
            done, _ = await asyncio.wait({asked}, timeout=ANSWER_S)
            if not done:
                self._tick()
        return await asked

    async def register(self, order: Sequence[int] = ()) -> None:
        """Each controller registers itself, where metadata.version knows controllers; those in `order` first."""
        for node_id in (*order, *(each for each in self.nodes if each not in order)):
            node = self.nodes.get(node_id)
            if node is not None and node.registration.is_wanted():
                body = plain(kcore.to_json(node.registration.request(), 0))
                await self.ask(request_bytes("ControllerRegistration", 0, body, 0))
        self._deliver()

    def advance(self, ms: int) -> None:
        """Time passes at once, and what is due happens; then some more time, until nothing happens."""
        self.clocks.now_ms += ms
        self._run_due()
        quiet = 0
        while quiet < QUIET_STEPS:
            self.clocks.now_ms, before = self.clocks.now_ms + STEP_MS, self.active.disk.log.end_offset
            self._run_due()
            quiet = quiet + 1 if self.active.disk.log.end_offset == before else 0

    def _run_due(self) -> None:
        self.active.run_due()
        self._deliver()

    def elect_again(self, leader_id: int) -> None:
        """The active controller gives up its leadership, and that one is elected."""
        self.edge.preferred = leader_id
        self.active.resign()
        self.wait_for_leadership()

    async def turn(self, step: Json) -> Json:
        """A step in which controllers come and go: what it shows beside the log."""
        node_id, kind = step["node"], step["kind"]
        self.edge.preferred = step.get("leader", -1)
        if kind == "resign":
            self.elect_again(step["leader"])
        elif kind == "snapshot":
            return {"snapshot": self._snapshot(node_id)}
        elif kind == "start":
            if "leftover" in step:
                self._leave(node_id, base64.b64decode(step["leftoverData"]))
            self._of[node_id] = {**self._of[node_id], "config": step["config"]}
            await self._open(node_id, step["placementSeed"])
            self.wait_for_leadership()
        else:
            await self._stop(node_id, step["how"])
        await self.register(registered(step["batches"]))
        return {}

    async def _stop(self, node_id: int, how: str) -> None:
        node = self.nodes[node_id]
        if how == "stop":
            node.perform(node.node.shutdown(self.clocks.raft_ms))
            self._deliver()
        del self.nodes[node_id]
        await node.close()
        if self.nodes:
            self.wait_for_leadership()

    def _leave(self, node_id: int, data: bytes) -> None:
        """Appends the records of a leader that ended in a transaction."""
        log = self._disks[node_id].log
        log.append_as_leader(data, log.last_epoch)
        log.flush()
        self._read_to = log.end_offset

    def _snapshot(self, node_id: int) -> Json:
        disk, snapshot = self._disks[node_id], self.nodes[node_id].snapshot()
        piece = disk.log.snapshot_piece(snapshot, 0, 1 << 30)
        assert piece is not None
        batches = [each for each in batches_of(piece.data) if not each.get("control")]
        records = [{**record, "offset": -1} for each in batches for record in each["records"]]
        return {"offset": snapshot.offset, "epoch": snapshot.epoch, "records": records}

    def written(self) -> list[Json]:
        """The batches of the active controller's log since the last call."""
        if not self.nodes:
            return []
        node = self.active
        found, self._read_to = node.written(self._read_to), node.disk.log.end_offset
        return found


def registered(batches: Sequence[Json]) -> list[int]:
    """Controllers, in the order in which they were registered."""
    return [
        record["json"]["controllerId"]
        for batch in batches
        for record in batch["records"]
        if record["type"] == "RegisterControllerRecord"
    ]
