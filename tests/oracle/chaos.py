"""Real Kafka 3.9.1 brokers under two kcore controllers, and what is done to them: kill -9 at seeded random moments.

A round kills controller, broker and ZooKeeper, whose turn it is first, some of them again; each starts anew at once.
Then it waits until the cluster is whole; a producer and a consumer go on meanwhile. `ci/chaos --help` runs it by hand.
"""

import argparse
import asyncio
import re
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import NamedTuple

from kcore.controller.effects import Node
from kcore.errors import NetworkError, TargetError
from kcore.hollow.zk.cluster import ZkBroker, ZkBrokers, ZookeeperProcess
from kcore.metadata import znodes
from kcore.zookeeper.client import ZookeeperClient
from oracle.kafka_tools import CONSOLE_CONSUMER, TOPICS, VERIFIABLE_PRODUCER, run_tool
from oracle.zk_controllers import Controller, Tool, disagreement, until

TOPIC = "orders"
PARTITIONS = 12
SESSION_S = 3
WHOLE_S = 120
KINDS = ("controller", "broker", "ZooKeeper")
PRODUCER = """enable.idempotence=true
retries=2147483647
delivery.timeout.ms=600000
request.timeout.ms=10000
max.block.ms=600000
metadata.max.age.ms=5000
"""
BROKERS = f"""default.replication.factor=3
offsets.topic.replication.factor=3
min.insync.replicas=2
zookeeper.session.timeout.ms={SESSION_S}000
zookeeper.connection.timeout.ms=30000
"""
FAULT = re.compile(r"^(?:Traceback|.* resigns$|.* ERROR (?!ALARM)).*", re.MULTILINE)


class Blow(NamedTuple):
    """Who is killed, and how long after the one before."""

    kind: str
    after_s: float
    which: int  # Of the brokers; of the controllers 0 is the active one.


def blows_of(seed: int, number: int) -> list[Blow]:
    """What a round does: the kind whose turn it is, then the others, then controller and ZooKeeper again."""
    random = Random(f"{seed}/{number}")
    turn = KINDS[number % len(KINDS)]
    others = [kind for kind in KINDS if kind != turn]
    random.shuffle(others)
    kinds = [turn, *others, *random.choices(("controller", "ZooKeeper"), k=3)][: random.choice((1, 3, 6, 6))]
    return [Blow(kind, random.uniform(0, 2), _which(kind, random)) for kind in kinds]


def _which(kind: str, random: Random) -> int:
    return random.choice((1, 2, 3)) if kind == "broker" else int(kind == "controller" and random.random() < 0.2)


@dataclass
class Chaos:
    """All that runs. Messages need two replicas in the ISR, so one broker may be missing at any time."""

    folder: Path
    zookeeper: ZookeeperProcess
    brokers: ZkBrokers
    controllers: dict[int, Controller] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)
    reviving: dict[str, Future[None]] = field(default_factory=dict)
    pool: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(len(KINDS)))
    producer: Tool = field(init=False)
    consumer: Tool = field(init=False)

    def begin(self) -> None:
        """A topic, who writes it and who reads it."""
        self.await_whole()
        where = ("--bootstrap-server", self.brokers.bootstrap, "--topic", TOPIC)
        run_tool(TOPICS, *where, "--create", "--partitions", PARTITIONS, "--replication-factor", 3)
        settings = self.folder / "producer.properties"
        settings.write_text(PRODUCER)
        self.producer = Tool(
            self.folder, VERIFIABLE_PRODUCER, *where, "--throughput", 50, "--producer.config", settings
        )
        self.consumer = Tool(self.folder, CONSOLE_CONSUMER, *where, "--from-beginning", "--group", "chaos")
        self.clients_go_on()

    # What is done.

    def start_controller(self, broker_id: int) -> None:
        self.controllers[broker_id] = Controller(
            self.zookeeper.address, self.folder, broker_id, "--take-over", "--session-timeout", str(SESSION_S * 1000)
        )

    def strike(self, blow: Blow) -> None:
        """Kills one process, which starts again meanwhile; one of the kind that does so already is waited for."""
        if blow.kind in self.reviving:
            self.reviving.pop(blow.kind).result()
        if blow.kind == "ZooKeeper":
            self.zookeeper.kill()
            self._revive(blow, self.zookeeper.start)
        elif blow.kind == "broker":
            self.brokers[blow.which].kill()
            self._revive(blow, lambda: self._restart(self.brokers[blow.which]))
        else:
            controller = sorted(self.controllers.values(), key=is_active, reverse=True)[blow.which]
            controller.kill()
            self.faults += faults_of(controller)
            self._revive(blow, lambda: self.start_controller(controller.broker_id))

    def _revive(self, blow: Blow, start: Callable[[], None]) -> None:
        self.reviving[blow.kind] = self.pool.submit(_in_the_end, start)

    def _restart(self, broker: ZkBroker) -> None:
        """Once its session has ended: before, it would refuse to start."""
        broker.kill()
        until(lambda: not self.is_there(znodes.broker_path(broker.broker_id)), f"{broker.name} is gone")
        broker.start()

    def await_all(self) -> None:
        """Until all that were killed have started."""
        for kind in [*self.reviving]:
            self.reviving.pop(kind).result()

    def nodes(self, paths: list[str]) -> list[Node | None]:
        """What ZooKeeper has there."""

        async def read() -> list[Node | None]:
            async with ZookeeperClient(self.zookeeper.address) as client:
                return await client.read_nodes(paths)

        return asyncio.run(read())

    def is_there(self, path: str) -> bool:
        """As far as we know."""
        try:
            return self.nodes([path]) != [None]
        except NetworkError:
            return True

    # What must hold.

    def holder(self) -> Controller | None:
        """Who of ours controls."""
        [node] = self.nodes([znodes.CONTROLLER])
        return self.controllers.get(znodes.decode_controller(node.data).broker_id) if node else None

    def await_whole(self) -> None:
        """ZooKeeper, the table of a controller of ours and all brokers agree; every ISR is whole, its leader in it."""
        end = time.monotonic() + WHOLE_S
        while found := self._wrong():
            assert time.monotonic() < end, f"not whole after {WHOLE_S} s: {found}"
            time.sleep(0.2)

    def _wrong(self) -> str:
        controller = self.holder()
        if controller is None:
            return "no controller of ours controls"
        dead = [broker.name for broker in self.brokers.brokers if not broker.is_running]
        return f"{dead} ended" if dead else disagreement(self.zookeeper.address, self.brokers, controller)

    def acknowledged(self) -> list[str]:
        """Values that the producer was told are safe."""
        return [each["value"] for each in self.producer.events() if each["name"] == "producer_send_success"]

    def clients_are_acknowledged(self) -> None:
        """Messages that are sent from now on."""

        def count() -> int:
            return self.producer.log.read_bytes().count(b"producer_send_success")

        before = count()
        until(lambda: count() > before + 20, "20 more messages are acknowledged")

    def clients_go_on(self) -> None:
        """Messages that are sent from now on arrive."""
        self.clients_are_acknowledged()
        newest = self.acknowledged()[-1].encode()
        until(lambda: b"\n%b\n" % newest in self.consumer.log.read_bytes(), f"message {newest!r} is consumed")

    def end(self) -> tuple[int, list[str], dict[str, int]]:
        """How many were acknowledged, which of them are missing, and which messages are there more than once."""
        self.producer.stop()
        errors = [each for each in self.producer.events() if each["name"] == "producer_send_error"]
        assert errors == [], f"the producer gave up: {errors[:3]}"
        acknowledged = self.acknowledged()
        where = ("--bootstrap-server", self.brokers.bootstrap, "--topic", TOPIC)
        there = Counter(run_tool(CONSOLE_CONSUMER, *where, "--from-beginning", "--timeout-ms", 10_000).split())
        twice = {value: count for value, count in there.items() if count > 1}
        return len(acknowledged), [value for value in acknowledged if value not in there], twice

    def all_faults(self) -> list[str]:
        """Of controllers that ended and of those that run."""
        return [*self.faults, *(line for each in self.controllers.values() for line in faults_of(each))]

    def close(self) -> None:
        self.pool.shutdown(cancel_futures=True)
        for tool in ("producer", "consumer"):
            if hasattr(self, tool):
                getattr(self, tool).kill()
        for controller in self.controllers.values():
            controller.kill()


def _in_the_end(start: Callable[[], None]) -> None:
    """What does not start while ZooKeeper is away starts later."""
    end = time.monotonic() + WHOLE_S
    while True:
        try:
            return start()
        except (TargetError, AssertionError):
            if time.monotonic() > end:
                raise


def is_active(controller: Controller) -> bool:
    """By the last that it said of itself."""
    told = re.findall(r"is active with|has resigned", controller.log.read_text())
    return controller.process.poll() is None and told[-1:] == ["is active with"]


def faults_of(controller: Controller) -> list[str]:
    """What no blow excuses."""
    return [f"{controller.log}: {line}" for line in FAULT.findall(controller.log.read_text())]


@contextmanager
def chaos(folder: Path) -> Iterator[Chaos]:
    """A cluster with its clients; nothing is left of it but the logs in the folder."""
    with ZookeeperProcess(tick_ms=500) as zookeeper:
        made = Chaos(folder, zookeeper, ZkBrokers(zookeeper.address, properties=BROKERS))
        try:
            made.start_controller(1000)
            made.start_controller(1001)
            made.brokers.start()
            made.begin()
            yield made
        finally:
            made.close()
            made.brokers.close()


def play(made: Chaos, seed: int, number: int) -> list[Blow]:
    """One round; AssertionError tells how to repeat it."""
    blows = blows_of(seed, number)
    try:
        for blow in blows:
            time.sleep(blow.after_s)
            made.strike(blow)
        made.await_all()
        made.await_whole()
        made.clients_go_on()
    except Exception as error:
        error.add_note(f"round {number}, {blows}; again: ci/chaos --seed {seed} --first {number} --rounds 1")
        raise
    return blows


def run(folder: Path, seed: int, rounds: int, first: int = 0, until_s: float = float("inf")) -> int:
    """Rounds from `first` on, and a line for each; how many there were. AssertionError for what was lost."""
    end, kills = time.monotonic() + until_s, Counter[str]()
    with chaos(folder) as made:
        for number in range(first, first + rounds):
            if time.monotonic() > end:
                break
            begin = time.monotonic()
            blows = play(made, seed, number)
            kills.update(blow.kind for blow in blows)
            done = ", ".join(f"{blow.kind} after {blow.after_s:.2f} s" for blow in blows)
            print(f"round {number}: {done}; whole and going on after {time.monotonic() - begin:.1f} s", flush=True)
        count, missing, twice = made.end()
        faults = made.all_faults()
    again = f"ci/chaos --seed {seed} --first {first} --rounds {rounds}"
    print(f"{sum(kills.values())} kills {dict(kills)}; {count} acknowledged, {missing=}, {twice=}", flush=True)
    assert not missing and not twice, f"{missing=}, {twice=}; again: {again}"
    assert faults == [], f"{faults[:5]}; again: {again}"
    return sum(kills.values())


def main() -> None:
    """The command line of ci/chaos."""
    parser = argparse.ArgumentParser("ci/chaos", description="kill -9 at random moments; exit code 1 for a finding.")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=200, help="each kills one to six processes")
    parser.add_argument("--first", type=int, default=0, help="the number of the first round")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="no round begins after this time")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="kcore-chaos-"))
    print(f"logs are in {folder}", file=sys.stderr)
    run(folder, options.seed, options.rounds, options.first, options.seconds)


if __name__ == "__main__":
    main()
