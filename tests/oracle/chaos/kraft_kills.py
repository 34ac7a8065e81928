"""A cluster under KRaft controllers, and an observer of their quorum: nodes fail, and what they stored is compared.

kcore reads every log and every snapshot. A snapshot of Kafka's own controllers is the image that Kafka made of the log,
so Kafka's and kcore's states are compared with each other as well.
"""

import asyncio
import re
import sys
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from random import Random
from typing import Final

from kcore.measure.processes.java_process import JavaProcess
from kcore.raft.membership.replicas import Address
from kcore.server.quorum_node.describe import describe_quorum
from oracle.chaos.kraft_registers import Violation
from oracle.chaos.kraft_states import NodeFiles, Reference
from oracle.forked import ForkedNode
from oracle.kafka_tools import RELEASE
from oracle.kraft_clusters import KraftCluster, Node
from oracle.kraft_observer import Watch

FAULT: Final = re.compile(r"^(?:Traceback|.* (?:ERROR|CRITICAL) ).*", re.MULTILINE)
# In the logs of Kafka's controllers: an error with the exception in the next line, and a fault handler's report.
KAFKA_FAULT: Final = re.compile(r"^.*(?: ERROR |Encountered .* fault).*\n.*$", re.MULTILINE)
# Errors that Kafka's controllers log where all controllers are Kafka's, too: a request to one that is not active; a
# broker that registers and is unregistered within one delta (ControllerMetricsChanges.handleBrokerChange); a broker
# that registers, and was an eligible leader replica of a topic that lost them to a ClearElrRecord and then was deleted
# (the departure `stale-eligible-replicas`: brokersToElrs still names the topic). One that starts refuses
# DescribeCluster until it has read which metadata.version the log has. On a busy machine events take seconds.
HARMLESS: Final = re.compile(
    r"NotControllerException|NOT_CONTROLLER|NotLeaderOrFollower|Disconnected|disconnected"
    r'|Failed to publish controller metrics.*\n.*"next" is null'
    r"|apiKey=DESCRIBE_CLUSTER.*\n.*(?:Direct|direct)-to-controller communication is not supported"
    r"|Encountered quorum controller fault: .*\n.*existed in isrMembers, but not in the topics map"
    r"|Exceptionally slow controller event"
)
SHOWN: Final = 6000  # Characters of each node's log, where a test fails.


class Controllers(KraftCluster):
    """kcore's controllers are forked, which takes less time than to start a new process."""

    def __init__(
        self,
        *,
        controllers: int = 3,
        brokers: int = 0,
        properties: str = "",
        options: Sequence[str] = (),
        real: Collection[int] | None = (),
        release: str = RELEASE,
    ) -> None:
        super().__init__(
            controllers=controllers,
            brokers=brokers,
            properties=properties,
            options=options,
            real=real,
            release=release,
        )

    def _controller(self, node_id: int, port: int) -> Node:
        if node_id in self.real:
            return super()._controller(node_id, port)
        place = self.folder / f"controller-{node_id}"
        command = ["controller", "kraft", "run", "-c", place / "server.properties", "--release", self.release]
        return ForkedNode(node_id, port, place, command, f"controller {node_id} listens")

    def is_real(self, node: Node) -> bool:
        """Whether the controller is Kafka's."""
        return node.node_id in self.real

    def kind(self, node: Node) -> str:
        """As in "kafka 103"."""
        return f"{'kafka' if self.is_real(node) else 'kcore'} {node.node_id}"


@dataclass
class Story:
    """The events so far."""

    seed: int
    kills: Counter[str] = field(default_factory=Counter)
    active: Counter[str] = field(default_factory=Counter)  # How often `turn` made each node the active controller.
    snapshots: int = 0  # Compared.
    real_snapshots: int = 0  # Compared snapshots that Kafka's controllers wrote.
    loaded: int = 0  # Snapshots that kcore's controllers loaded.
    transactions: Counter[str] = field(default_factory=Counter)  # In the metadata log: ended, and aborted.
    committed: int = 0


class Watched:
    """The controllers of a cluster, and the observer that watches their log."""

    def __init__(self, cluster: Controllers, story: Story) -> None:
        self.cluster, self.story, self.dice = cluster, story, Random(story.seed)
        self.addresses = {node.node_id: Address("127.0.0.1", node.port) for node in cluster.controllers}
        self.watch = Watch(cluster.cluster_id, [*self.addresses.values()], Random(story.seed))
        self.reference = Reference()
        self._down = set[Node]()  # Killed or stopped, and not started again.

    # Subclasses replace these two.

    def check_clients(self) -> None:
        """Raises what a client has found."""

    async def work(self) -> None:
        """Waits until every client has got on."""

    async def until(self, holds: Callable[[], object], what: str, within_s: float = 120.0) -> None:
        """Or until a client has found a fault, or a node has ended by itself."""

        def checked() -> object:
            self.check_clients()
            self.check_running()
            return holds()

        await self.watch.until(checked, what, within_s)

    async def until_none(self, lacking: Callable[[], Sequence[str]], what: str) -> None:
        """Until the list is empty; a Violation shows what is still in it."""
        try:
            await self.until(lambda: not lacking(), what)
        except Violation as violation:
            left = lacking()
            raise Violation(f"{violation}; {len(left)} lacking: {left[:5]}") from violation

    @property
    def active(self) -> Node | None:
        """The active controller, where it is known, and its process runs."""
        found = [node for node in self.cluster.controllers if node.node_id == self.watch.leader_id]
        return found[0] if found and found[0].is_running else None

    def check_running(self) -> None:
        """No node has ended by itself."""
        for node in [*self.cluster.controllers, *self.cluster.brokers]:
            if node not in self._down and not node.is_running:
                raise Violation(f"{node.name} ended by itself: {self.faults(node, node.log_text())[:3]}")

    # Failures.

    def kill(self, node: Node, why: str) -> None:
        self.check_running()
        if node.is_running:
            self._down.add(node)
            node.kill()
            self.story.kills[why] += 1

    def start(self, node: Node) -> None:
        """Does not wait until the node is ready."""
        node.start(wait=False)
        self._down.discard(node)

    async def stop(self, node: Node, why: str, timeout_s: float = 30.0) -> int:
        """SIGTERM; the node's exit code once it has ended."""
        self.check_running()
        self._down.add(node)
        self.story.kills[why] += 1
        return await asyncio.to_thread(node.terminate, timeout_s)

    async def turn(self, node: Node) -> None:
        """Kills or stops whoever is active until the node is; then waits until the clients have got on."""
        while (active := await self.await_active()) is not node:
            before = self.watch.committed
            if self.dice.random() < 0.5:
                self.kill(active, "active")
            else:
                await self.stop(active, "stopped")
            await self.until(lambda: self.active not in (None, active), "another active controller")
            self.start(active)
            await self.until(lambda: self.watch.committed > before + 1, "a commit")  # noqa: B023
        self.story.active[self.cluster.kind(node)] += 1
        await self.work()

    async def await_active(self) -> Node:
        """All controllers run and have caught up."""
        for node in self.cluster.controllers:
            await asyncio.to_thread(node.await_ready)
        await self.caught_up()
        await self.until(lambda: self.active, "an active controller")
        assert self.active is not None
        return self.active

    # Checks.

    async def caught_up(self) -> None:
        """All voters have what was committed, and so has the watch."""
        addresses = [*self.addresses.values()]
        end_s = time.monotonic() + 60
        while True:
            description = await describe_quorum(addresses, controllers=True, timeout_s=60.0, random=self.dice)
            partition = description.partition
            ends = [each.log_end_offset for each in partition.current_voters]
            if min(ends, default=0) >= partition.high_watermark > 0 and len(ends) == len(addresses):
                break
            if time.monotonic() > end_s:
                raise Violation(f"not all voters catch up: {partition}")
            await asyncio.sleep(0.1)
        await self.until(lambda: self.watch.committed >= partition.high_watermark, "the watch up to the high watermark")

    async def compare_all(self) -> None:
        """Kills all controllers, compares their files, and starts them again."""
        await self.caught_up()
        for node in self.cluster.controllers:
            self.kill(node, "for a comparison")
        self.compare()
        for node in self.cluster.controllers:
            self.start(node)
        before = self.watch.committed
        await self.until(lambda: self.watch.committed > before, "a commit after all were killed")

    def compare(self) -> None:
        """The controllers' logs, snapshots and states; the controllers are dead."""
        nodes = [
            NodeFiles.read(node.name, node.data / "__cluster_metadata-0", is_real=self.cluster.is_real(node))
            for node in self.cluster.controllers
        ]
        self.reference.begin_with(self.watch.base)
        self.reference.compare(nodes, self.watch.log.batches, self.watch.committed)
        real = {node.name for node in nodes if node.is_real}
        self.story.snapshots = len(self.reference.compared_snapshots)
        self.story.real_snapshots = sum(name in real for name, _ in self.reference.compared_snapshots)
        self.story.committed = self.watch.committed
        self.story.transactions = self.watch.partitions.transactions

    def check_logs(self) -> None:
        """The controllers' log lines, at the end."""
        for node in self.cluster.controllers:
            said = node.log.read_text()
            self.story.loaded += said.count(" is loaded")
            if faults := self.faults(node, said):
                raise Violation(f"{node.name}: {faults[:3]}")

    def faults(self, node: Node, said: str) -> list[str]:
        """In a node's log: the beginning of each."""
        if self.cluster.is_real(node) or node in self.cluster.brokers:
            return [found for found in KAFKA_FAULT.findall(said) if not HARMLESS.search(found)]
        return [said[each.start() :][:3000] for each in FAULT.finditer(said)]


@contextmanager
def shown_at_failure(nodes: Sequence[JavaProcess], characters: int = SHOWN) -> Iterator[None]:
    """Prints the end of each node's log where the block fails."""
    try:
        yield
    except BaseException:
        for node in nodes:
            lines = node.log.read_text(errors="replace").splitlines()
            text = "\n".join(line for line in lines if not line.startswith("\t"))  # Not Kafka's lists of settings.
            sys.stderr.write(f"--- {node.name}\n{text[-characters:]}\n")
        raise
