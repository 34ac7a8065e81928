"""kcore's and Kafka's own controllers in one quorum: they take turns as the active one over one log.

The clients are those of `kraft_chaos`: administrators and brokers over the wire. Before each check all controllers are
killed. kcore reads every log and every snapshot; a snapshot of Kafka's is the image that Kafka made of the log, so that
Kafka's and kcore's states are compared with each other.
"""

import asyncio
import re
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from kcore.protocol_errors import Errors
from oracle.kraft_chaos import Chaos, Controllers, Story
from oracle.kraft_clusters import FIRST_CONTROLLER, Node

PROPERTIES: Final = """metadata.log.max.record.bytes.between.snapshots=4000
metadata.max.idle.interval.ms=300
broker.session.timeout.ms=4000
controller.quorum.append.linger.ms=0
num.network.threads=1
num.io.threads=2
delegation.token.secret.key=secret
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:ANONYMOUS
listener.security.protocol.map=CONTROLLER:PLAINTEXT
"""
# An error with the exception in the next line, and what a fault handler tells.
FAULT: Final = re.compile(r"^.*(?: ERROR |Encountered .* fault).*\n.*$", re.MULTILINE)
# Errors that real controllers log where all are Kafka's, too: a request to one that is not active; and a broker that
# registers and is unregistered within one delta (ControllerMetricsChanges.handleBrokerChange asks null for its id).
HARMLESS: Final = re.compile(
    r"NotControllerException|NOT_CONTROLLER|NotLeaderOrFollower|Disconnected|disconnected"
    r'|Failed to publish controller metrics.*\n.*"next" is null'
)


class MixedControllers(Controllers):
    """kcore's have the first ids."""

    def __init__(self, *, kcore: int, real: int) -> None:
        first = FIRST_CONTROLLER + kcore
        super().__init__(controllers=kcore + real, properties=PROPERTIES, real=range(first, first + real))

    def is_real(self, node: Node) -> bool:
        """Kafka's."""
        return node.node_id in self.real


@dataclass
class Turns(Story):
    """How often each node was found active."""

    active: Counter[str] = field(default_factory=Counter)
    real_snapshots: int = 0  # Of Kafka's own, equal to kcore's state.


class MixedChaos(Chaos):
    """Its moments end the active one's turn."""

    cluster: MixedControllers
    story: Turns

    def __init__(self, cluster: MixedControllers, story: Turns) -> None:
        super().__init__(cluster, story)
        for token in (each for own in self.owners for each in own.tokens):
            # Kafka looks tokens up in a cache that follows the log a little later (DelegationTokenPublisher).
            token.anyway = frozenset({Errors.DELEGATION_TOKEN_NOT_FOUND})

    async def turn(self, node: Node) -> None:
        """That node becomes the active one: whoever is, is killed or stopped until then; then it works for a while."""
        while (active := await self.await_active()) is not node:
            before = self.watch.committed
            if self.dice.random() < 0.5:
                self.kill(active, "active")
                self.story.moments += 1
            else:
                self._down.add(active)
                await asyncio.to_thread(active.terminate)
                self.story.kills["told to stop"] += 1
            await self.until(lambda: self.active not in (None, active), "another active controller")
            self.start(active)
            await self.until(lambda: self.watch.committed > before + 1, "a commit")  # noqa: B023
        self.story.active[f"{'kafka' if self.cluster.is_real(node) else 'kcore'} {node.node_id}"] += 1
        answered, end = self.answered, self.watch.committed + 50
        await self.until(lambda: self.answered > answered + 60 and self.watch.committed > end, "answers")

    async def await_active(self) -> Node:
        """All others run and are ready."""
        for node in self.cluster.controllers:
            await asyncio.to_thread(node.await_ready)
        await self.caught_up()
        await self.until(lambda: self.active, "an active controller")
        assert self.active is not None
        return self.active

    @property
    def answered(self) -> int:
        """So many requests so far."""
        return sum(count for name, count in self.story.answers.items() if name.endswith(" answered"))

    def faults(self, node: Node, said: str) -> list[str]:
        """Of Kafka's, too."""
        if not self.cluster.is_real(node):
            return super().faults(node, said)
        return [found for found in FAULT.findall(said) if not HARMLESS.search(found)]

    def compare(self) -> None:
        """And count Kafka's own snapshots among those that are kcore's state."""
        super().compare()
        real = {node.name for node in self.cluster.controllers if self.cluster.is_real(node)}
        self.story.real_snapshots = sum(name in real for name, _ in self.reference.compared_snapshots)


async def _play(cluster: MixedControllers, story: Turns, rounds: int, say: Callable[[str], None]) -> None:
    chaos = MixedChaos(cluster, story)
    async with chaos.running():
        for _ in range(rounds):
            for node in chaos.dice.sample(cluster.controllers, len(cluster.controllers)):
                await chaos.turn(node)
            await chaos.check()
            say(f"{dict(story.active)}; {story.told}")
    chaos.check_logs()


def run(seed: int, *, kcore: int, real: int, rounds: int, say: Callable[[str], None] = lambda _: None) -> Turns:
    """In each round every node has a turn, in random order; a Violation tells what went wrong."""
    story = Turns(seed)
    with MixedControllers(kcore=kcore, real=real) as cluster:
        try:
            asyncio.run(_play(cluster, story, rounds, say))
        except BaseException:
            for node in cluster.controllers:
                sys.stderr.write(f"--- {node.name}\n{node.log.read_text()[-6000:]}\n")
            raise
    return story


if __name__ == "__main__":
    print(run(1, kcore=int(sys.argv[1]), real=int(sys.argv[2]), rounds=int(sys.argv[3]), say=print))
