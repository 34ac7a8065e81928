"""Three kcore controllers under a mix of all requests, and kill -9 of the active one at seeded random moments.

Administrators and brokers change the state over the wire; each client changes its own part of it. Some moments kill a
standby, all three, or all but the active one, or stop the active one for a while. After every few, and at the end, the
clients pause. Then the log has every change that was answered as done and none that was refused, and no id was given
twice. Then all three are killed, and their logs, their snapshots and the states that these give are compared.
`ci/chaos-kraft --help` runs it by hand.
"""

import argparse
import asyncio
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from random import Random
from typing import Final

from oracle.chaos.kraft_kills import Controllers, Story, Watched, shown_at_failure
from oracle.chaos.kraft_large import Large, alter_large
from oracle.chaos.kraft_own import STABLE, Own
from oracle.chaos.kraft_registers import Given, Violation
from oracle.kraft_clients import Asker, FakeBroker, RequestPause, administer
from oracle.kraft_clusters import Node

PROPERTIES: Final = """controller.quorum.election.timeout.ms=400
controller.quorum.fetch.timeout.ms=1000
controller.quorum.election.backoff.max.ms=300
metadata.log.max.record.bytes.between.snapshots=40000
metadata.max.retention.bytes=200000
metadata.max.idle.interval.ms=300
broker.session.timeout.ms=4000
unclean.leader.election.interval.ms=2000
leader.imbalance.check.interval.seconds=3
delegation.token.secret.key=secret
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:ANONYMOUS
"""
CLIENTS: Final = 6
EVERY: Final = 10  # Moments between two checks.


@dataclass
class ChaosStory(Story):
    """With the clients' requests."""

    moments: int = 0  # At which the active controller was killed.
    answers: Counter[str] = field(default_factory=Counter)
    checks: int = 0
    claims: int = 0
    longest_s: float = 0.0  # From a kill to the next commit.

    @property
    def summary(self) -> str:
        """The figures, a line."""
        of = Counter[str]()
        for name, count in self.answers.items():
            of[name.split(" ", 1)[1]] += count
        return (
            f"seed {self.seed}, {self.moments} kills of the active controller; all: {dict(self.kills)}; requests:"
            f" {of['answered']} answered, {of['not controller']} NOT_CONTROLLER, {of['broken']} broken;"
            f" {self.checks} checks, {self.claims} grants looked up, {self.snapshots} snapshots compared,"
            f" {self.loaded} loaded; transactions: {dict(self.transactions)};"
            f" {self.committed} records; {self.longest_s:.1f} s the longest without a commit"
        )


class Chaos(Watched):
    """With administrators and brokers that store nothing as its clients."""

    story: ChaosStory

    def __init__(self, cluster: Controllers, story: ChaosStory) -> None:
        super().__init__(cluster, story)
        self.pause, self.given = RequestPause(), Given()
        self.askers = [
            Asker(self.addresses, self.watch, Random(self.dice.random()), story.answers, cluster.real)
            for _ in range(1 + CLIENTS + len(STABLE))
        ]
        self.asker, *clients = self.askers
        self.large = Large("large")
        self.owners = [
            Own(f"c{number}", number, Random(self.dice.random()), self.watch, self.given, cluster.release)
            for number in range(CLIENTS)
        ]
        self.brokers = [
            FakeBroker(broker_id, asker, self.watch, self.given, Random(self.dice.random()))
            for broker_id, asker in zip(STABLE, clients[CLIENTS:], strict=True)
        ]
        self._tasks: list[asyncio.Task[None]] = []

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """All clients work, once every controller is registered: until then features cannot be updated."""
        async with self.watch.server:
            await self.registered()
            work = [
                administer(own, asker, self.pause) for own, asker in zip(self.owners, self.askers[1:], strict=False)
            ]
            work += [broker.run(self.pause) for broker in self.brokers]
            self._tasks = [asyncio.create_task(each) for each in work]
            try:
                yield
            finally:
                for task in self._tasks:
                    task.cancel()
                await asyncio.gather(*self._tasks, return_exceptions=True)
                for asker in self.askers:
                    await asker.close()

    async def registered(self) -> None:
        """Waits until all voters are registered, also those that a client has unregistered."""
        await self.until(lambda: self.addresses.keys() <= self.watch.image.controllers.keys(), "registered controllers")

    def check_clients(self) -> None:
        for task in self._tasks:
            if task.done():
                task.result()

    async def work(self) -> None:
        """Until so many requests were answered, and so many records written."""
        answered, end = self.answered, self.watch.committed + 50
        await self.until(lambda: self.answered > answered + 60 and self.watch.committed > end, "answers")

    @property
    def answered(self) -> int:
        """So many requests so far."""
        return sum(count for name, count in self.story.answers.items() if name.endswith(" answered"))

    # Moments.

    async def moment(self) -> None:
        """One of them; a controller that was killed starts anew at once, or a little later."""
        await asyncio.sleep(self.dice.random() ** 2 * 2.5)
        await self.until(lambda: self.active, "an active controller")
        active = self.active
        assert active is not None
        others = [node for node in self.cluster.controllers if node is not active]
        begin, before = time.monotonic(), self.watch.committed
        await self.dice.choices(
            (
                *(self.only_active, self.active_and_another, self.all_three, self.standby, self.both_others),
                *(self.deposed, self.in_transaction),
            ),
            (55, 10, 8, 6, 6, 10, 5),
        )[0](active, others)
        for node in [*self._down]:
            self.start(node)
        await self.until(lambda: self.watch.committed > before + 1, "a commit")
        self.story.longest_s = max(self.story.longest_s, time.monotonic() - begin)

    async def only_active(self, active: Node, others: list[Node]) -> None:
        self.kill(active, "active")
        self.story.moments += 1

    async def active_and_another(self, active: Node, others: list[Node]) -> None:
        """The other one stays away for a while: it may need a snapshot."""
        self.kill(self.dice.choice(others), "standby")
        await asyncio.sleep(self.dice.random() * 3)
        await self.only_active(active, others)

    async def all_three(self, active: Node, others: list[Node]) -> None:
        for node in self.dice.sample([active, *others], 3):
            self.kill(node, "all three")
        self.story.moments += 1

    async def standby(self, active: Node, others: list[Node]) -> None:
        self.kill(self.dice.choice(others), "standby")

    async def both_others(self, active: Node, others: list[Node]) -> None:
        """The active one resigns, and its records that no other has may or may not stay."""
        for node in others:
            self.kill(node, "both standbys")
        await asyncio.sleep(self.dice.random() * 3)

    async def stopped(self, active: Node, others: list[Node]) -> None:
        """SIGSTOP until another one is active: it finds what it wrote last taken back."""
        active.pause()
        try:
            await self.until(lambda: self.active not in (None, active), "another active controller")
            await asyncio.sleep(self.dice.random())
        finally:
            active.resume()
        self.story.kills["stopped for a while"] += 1

    async def deposed(self, active: Node, others: list[Node]) -> None:
        """It writes alone for a moment, while the others are stopped; then it is, until one of them is active."""
        self.check_running()
        for node in others:
            node.pause()
        await asyncio.sleep(0.2 + 0.3 * self.dice.random())
        active.pause()
        for node in others:
            node.resume()
        await self.stopped(active, others)

    async def in_transaction(self, active: Node, others: list[Node]) -> None:
        """While it writes what needs several batches; none or all of it takes effect."""
        step = alter_large(self.large, self.dice)
        asked = asyncio.create_task(self.asker.ask(step.request))
        await asyncio.sleep(0.2 + 1.5 * self.dice.random())
        await self.only_active(active, others)
        for node in [*self._down]:
            self.start(node)
        step.settle(await asked)

    async def check(self) -> None:
        """All clients pause; all is committed and at all nodes; what is there is right; all are killed and compared."""
        self.pause.begin_pause()
        await self.until(lambda: self.pause.is_idle, "an answer to every request")
        await self.registered()
        await self.caught_up()
        image = self.watch.image
        for own in self.owners:
            for register in own.registers:
                register.check(image)
        self.large.check(image)
        for broker in self.brokers:
            broker.check()
        self.given.check(image)
        self.story.claims += self.watch.partitions.check()
        await self.compare_all()
        self.story.checks += 1
        self.pause.end_pause()


async def play(cluster: Controllers, story: ChaosStory, moments: int, say: Callable[[str], None]) -> None:
    """So many moments, with checks between them and at the end."""
    chaos = Chaos(cluster, story)
    async with chaos.running():
        await chaos.until(lambda: len(chaos.watch.image.brokers.keys()) >= len(STABLE), "registered brokers")
        last = 0
        while story.moments < moments:
            await chaos.moment()
            if story.moments - last >= EVERY or story.moments >= moments:
                last = story.moments
                await chaos.check()
                say(story.summary)
    chaos.check_logs()


def run(seed: int, moments: int, say: Callable[[str], None] = lambda _: None) -> ChaosStory:
    """The whole; a Violation tells what went wrong, and the nodes' logs are printed then."""
    story = ChaosStory(seed)
    with Controllers(properties=PROPERTIES) as cluster, shown_at_failure(cluster.controllers):
        asyncio.run(play(cluster, story, moments, say))
    return story


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=300, help="moments at which the active one is killed (300)")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    begin = time.monotonic()
    try:
        story = run(given.seed, given.kills, lambda line: print(line, flush=True))
    except Violation as violation:
        print(f"bad: seed {given.seed}: {violation}")
        return 1
    print(f"good: {story.summary}; {time.monotonic() - begin:.0f} s")
    for name, count in sorted(story.answers.items()):
        print(f"  {name}: {count}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
