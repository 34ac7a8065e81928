"""Three brokers under two kcore controllers, and what is done to them: kill -9 and more at seeded random moments.

The brokers are Kafka's of 3.9.1, or kcore's. A round kills controller, broker and ZooKeeper in turn, each twice; each
starts anew at once. In between somebody may sleep until his session is lost, or all lose theirs. Then it waits until
the cluster is whole, and nothing that was acknowledged may be missing; clients go on meanwhile. `ci/chaos --help` runs
it by hand.
"""

import asyncio
import re
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import NamedTuple

from kcore.errors import NetworkError, TargetError
from kcore.measure.processes.zk_cluster import ZkBroker, ZkBrokers, ZookeeperProcess
from kcore.metadata.zookeeper import znodes
from kcore.metadata.zookeeper.znode_operations import Node
from kcore.zookeeper.client import ZookeeperClient
from oracle.kafka_tools import CONSOLE_CONSUMER, TOPICS, VERIFIABLE_PRODUCER, consume, run_tool
from oracle.kcore_brokers import KcoreBroker, KcoreBrokers, consumed
from oracle.reader import Reader
from oracle.zk_controllers import Controller, Tool, disagreement, until

TOPIC = "orders"
PARTITIONS = 6
SESSION_S = 2
WHOLE_S = 120
KINDS = ("controller", "broker", "ZooKeeper")
MOST_WAIT_S = 2.0  # Between two blows.
MESSAGES_S = 100
PRODUCER = """enable.idempotence=true
retries=2147483647
delivery.timeout.ms=600000
request.timeout.ms=4000
max.block.ms=600000
metadata.max.age.ms=5000
"""
CONSUMER = {"request.timeout.ms": 4000, "metadata.max.age.ms": 5000}
BROKERS = f"""default.replication.factor=3
offsets.topic.replication.factor=3
min.insync.replicas=2
replica.lag.time.max.ms=5000
zookeeper.session.timeout.ms={SESSION_S}000
zookeeper.connection.timeout.ms=30000
"""
KCORE_BROKERS = (
    *("--session-timeout", f"{SESSION_S}000"),
    *("--config", "min.insync.replicas=2", "--config", "replica.lag.time.max.ms=5000"),
)
# Lines in the logs of kcore's processes that no kill or pause explains. A pause explains a stale epoch.
FAULT = re.compile(
    r"^(?:Traceback|.* this controller resigns|.* ERROR (?!ALARM|.*STALE_(?:CONTROLLER|BROKER)_EPOCH)).*", re.MULTILINE
)


class Blow(NamedTuple):
    """A kill or a pause of one process, `after_s` after the one before."""

    kind: str  # One of KINDS; or "everybody": all sessions end.
    after_s: float
    which: int = 0  # The place in the list of brokers; for controllers 0 is the active one.
    how: str = "killed"  # Or "paused", until the session is lost.

    def __str__(self) -> str:
        return f"{self.kind} {self.how} after {self.after_s:.2f} s"


def blows_of(seed: int, number: int) -> list[Blow]:
    """A round kills each kind twice; half of the rounds also pause a process, and each fifth ends all sessions."""
    random = Random(f"{seed}/{number}")
    first = number % len(KINDS)
    blows = [_blow(kind, random) for kind in (*KINDS[first:], *KINDS[:first]) * 2]
    if random.random() < 0.5:
        paused = _blow(random.choice(("controller", "broker")), random)._replace(how="paused")
        blows.insert(random.randrange(len(blows)), paused)
    if number % 5 == 4:
        blows.insert(random.randrange(len(blows)), Blow("everybody", random.uniform(0, MOST_WAIT_S), how="paused"))
    return blows


def _blow(kind: str, random: Random) -> Blow:
    after_s = random.uniform(0, MOST_WAIT_S)
    if kind == "broker":
        return Blow(kind, after_s, random.choice((1, 2, 3)))
    return Blow(kind, after_s, int(kind == "controller" and random.random() < 0.2))


@dataclass
class Chaos:
    """All that runs. Messages need two replicas in the ISR, so one broker may be missing at any time.

    kcore's brokers hold no consumer groups: with those a reader of ours reads alone, and a consumer only at the end.
    """

    folder: Path
    zookeeper: ZookeeperProcess
    brokers: ZkBrokers | KcoreBrokers
    controllers: dict[int, Controller] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)
    reviving: dict[str, Future[None]] = field(default_factory=dict)
    pool: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(len(KINDS)))
    reader: Reader = field(default_factory=lambda: Reader(TOPIC))
    producer: Tool | None = None
    consumer: Tool | None = None

    def begin(self) -> None:
        """A topic, who writes it and who reads it."""
        self.await_whole()
        where = ("--bootstrap-server", self.brokers.bootstrap, "--topic", TOPIC)
        run_tool(TOPICS, *where, "--create", "--partitions", PARTITIONS, "--replication-factor", 3)
        settings = self.folder / "producer.properties"
        settings.write_text(PRODUCER)
        rate = ("--throughput", MESSAGES_S, "--producer.config", settings)
        self.producer = Tool(self.folder, VERIFIABLE_PRODUCER, *where, *rate)
        if isinstance(self.brokers, ZkBrokers):
            wishes = [each for wish in CONSUMER.items() for each in ("--consumer-property", "{}={}".format(*wish))]
            group = ("--from-beginning", "--group", "chaos", *wishes)
            self.consumer = Tool(self.folder, CONSOLE_CONSUMER, *where, *group)
        self.clients_go_on()

    # Faults.

    def start_controller(self, broker_id: int) -> None:
        self.controllers[broker_id] = Controller(
            self.zookeeper.address, self.folder, broker_id, "--take-over", "--session-timeout", str(SESSION_S * 1000)
        )

    def strike(self, blow: Blow) -> None:
        """One process dies or sleeps, and is back meanwhile; one of the kind that does so already is waited for."""
        if blow.kind == "everybody":
            self.end_all_sessions()
            return
        if blow.kind in self.reviving:
            self.reviving.pop(blow.kind).result()
        if blow.kind == "ZooKeeper":
            self.zookeeper.kill()
            self._revive(blow, self.zookeeper.start)
        elif blow.kind == "broker":
            self._strike_broker(blow, self.brokers[blow.which])
        else:
            controllers = sorted(self.controllers.values(), key=is_active, reverse=True)
            self._strike_controller(blow, controllers[blow.which])

    def _strike_broker(self, blow: Blow, broker: ZkBroker | KcoreBroker) -> None:
        if blow.how == "paused":
            broker.pause()
            self._revive(blow, lambda: self._resume(broker))
        else:
            broker.kill()
            self._revive(blow, lambda: self._restart(broker))

    def _strike_controller(self, blow: Blow, controller: Controller) -> None:
        if blow.how == "paused":
            controller.pause()
            self._revive(blow, lambda: self._resume(controller))
        else:
            controller.kill()
            self.faults += faults_of(controller)
            self._revive(blow, lambda: self.start_controller(controller.broker_id))

    def _revive(self, blow: Blow, start: Callable[[], None]) -> None:
        self.reviving[blow.kind] = self.pool.submit(_in_the_end, start)

    def _restart(self, broker: ZkBroker | KcoreBroker) -> None:
        """Kafka's once its session has ended: before, it would refuse to start."""
        broker.kill()
        if isinstance(broker, ZkBroker):
            until(lambda: not self.is_registered(broker), f"{broker.name} is gone")
        broker.start()

    def _resume(self, sleeper: ZkBroker | KcoreBroker | Controller) -> None:
        """Once its session has ended."""
        until(lambda: not self.is_registered(sleeper), f"broker {sleeper.broker_id}'s session has ended")
        sleeper.resume()

    def end_all_sessions(self) -> None:
        """A server that starts gives sessions their whole time again: nobody may reach it until that has passed."""
        self.await_all()
        everybody = [*self.brokers.brokers, *self.controllers.values()]
        self.zookeeper.kill()
        for each in everybody:
            each.pause()
        self.zookeeper.start()
        until(lambda: self.sessions() == [], "all sessions have ended")
        for each in everybody:
            each.resume()

    def await_all(self) -> None:
        """Until all that were killed have started."""
        for kind in [*self.reviving]:
            self.reviving.pop(kind).result()

    def nodes(self, paths: list[str]) -> list[Node | None]:
        """The znodes at these paths; None where there is none."""

        async def read() -> list[Node | None]:
            async with ZookeeperClient(self.zookeeper.address) as client:
                return await client.read_nodes(paths)

        return asyncio.run(read())

    def is_registered(self, who: ZkBroker | KcoreBroker | Controller) -> bool:
        """Whether ZooKeeper has the broker's znode, or names this controller; False if it does not answer."""
        try:
            if isinstance(who, Controller):
                return self.holder() is who
            return self.nodes([znodes.broker_path(who.broker_id)]) != [None]
        except NetworkError:
            return True

    def sessions(self) -> list[int]:
        """The czxids, which every new session of a broker or of the controller changes."""
        paths = [znodes.broker_path(broker.broker_id) for broker in self.brokers.brokers]
        return [node.czxid for node in self.nodes([*paths, znodes.CONTROLLER]) if node is not None]

    # Invariants.

    def holder(self) -> Controller | None:
        """The controller of this cluster that the znode /controller names."""
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
        """Values whose records the brokers acknowledged to the producer."""
        assert self.producer is not None
        return [each["value"] for each in self.producer.events() if each["name"] == "producer_send_success"]

    def clients_are_acknowledged(self) -> None:
        """Messages that are sent from now on."""
        assert self.producer is not None
        log = self.producer.log
        before = log.stat().st_size
        until(lambda: _from(log, before).count(b"producer_send_success") > 20, "20 more messages are acknowledged")

    def clients_go_on(self) -> None:
        """Messages that are sent from now on arrive."""
        self.clients_are_acknowledged()
        newest = self.acknowledged()[-1].encode()
        if (consumer := self.consumer) is not None:
            until(lambda: b"\n%b\n" % newest in consumer.log.read_bytes(), f"message {newest!r} is consumed")

    def await_nothing_missing(self) -> int:
        """Until all that was acknowledged can be read, none of it twice; how much that is."""
        acknowledged = self.acknowledged()
        end = time.monotonic() + WHOLE_S
        while missing := self._missing(acknowledged):
            assert time.monotonic() < end, f"acknowledged, and not there: {len(missing)}, {missing[:5]}"
            time.sleep(0.2)
        twice = self.reader.twice()
        assert not twice, f"there more than once: {len(twice)}, {twice[:5]}"
        return len(acknowledged)

    def _missing(self, acknowledged: list[str]) -> list[str]:
        there = self.reader.read_on(self.brokers.bootstrap)
        return [value for value in acknowledged if value not in there]

    def end(self) -> tuple[int, list[str], dict[str, int]]:
        """How many were acknowledged, which of them are missing, and which messages are there more than once."""
        assert self.producer is not None
        self.producer.stop()
        errors = [each for each in self.producer.events() if each["name"] == "producer_send_error"]
        assert errors == [], f"the producer gave up: {errors[:3]}"
        acknowledged = self.acknowledged()
        there = Counter(self._all_there(acknowledged))
        twice = {value: count for value, count in there.items() if count > 1}
        return len(acknowledged), [value for value in acknowledged if value not in there], twice

    def _all_there(self, acknowledged: list[str]) -> list[str]:
        """By Kafka's own consumer, from the beginning."""
        bootstrap = self.brokers.bootstrap
        if isinstance(self.brokers, KcoreBrokers):
            return [value for values in consumed(bootstrap, TOPIC, PARTITIONS, acknowledged) for value in values]
        return consume(acknowledged, "--bootstrap-server", bootstrap, "--topic", TOPIC, "--from-beginning")

    def all_faults(self) -> list[str]:
        """The faults in the logs of kcore's processes, ended and running."""
        running = [
            *self.controllers.values(),
            *(each for each in self.brokers.brokers if isinstance(each, KcoreBroker)),
        ]
        return [*self.faults, *(line for each in running for line in faults_of(each))]

    def keep_logs(self) -> None:
        """Those of the Java processes go with them."""
        for each in (self.zookeeper, *self.brokers.brokers):
            if each.log.exists() and each.log.parent != self.folder:
                shutil.copy(each.log, self.folder / f"{each.name.replace(' ', '-')}.log")

    def close(self) -> None:
        self.pool.shutdown(cancel_futures=True)
        for process in (self.producer, self.consumer, *self.controllers.values()):
            if process is not None:
                process.kill()


def _in_the_end(start: Callable[[], None]) -> None:
    """Retries a start that fails while ZooKeeper is away."""
    end = time.monotonic() + WHOLE_S
    while True:
        try:
            return start()
        except (TargetError, AssertionError):
            if time.monotonic() > end:
                raise


def is_active(controller: Controller) -> bool:
    """Whether the controller runs, and the last line of its log about its role says that it is active."""
    roles = re.findall(rf"controller {controller.broker_id} (is active|has resigned)", controller.log.read_text())
    return controller.process.poll() is None and roles[-1:] == ["is active"]


def faults_of(process: Controller | KcoreBroker) -> list[str]:
    """The lines of the process's log that no kill or pause explains."""
    return [f"{process.log}: {line}" for line in FAULT.findall(process.log.read_text())]


def _from(path: Path, begin: int) -> bytes:
    with path.open("rb") as file:
        file.seek(begin)
        return file.read()


@contextmanager
def chaos(folder: Path, *, kcore_brokers: bool = False) -> Iterator[Chaos]:
    """A cluster with its clients; nothing is left of it but the logs in the folder."""
    with ZookeeperProcess(tick_ms=500) as zookeeper:
        brokers = (
            KcoreBrokers(zookeeper.address, folder, *KCORE_BROKERS)
            if kcore_brokers
            else ZkBrokers(zookeeper.address, properties=BROKERS)
        )
        made = Chaos(folder, zookeeper, brokers)
        try:
            made.start_controller(1000)
            made.start_controller(1001)
            made.brokers.start()
            made.begin()
            yield made
        finally:
            made.close()
            made.brokers.close()


def play(made: Chaos, seed: int, number: int) -> tuple[list[Blow], int]:
    """One round, and how many records are acknowledged after it; AssertionError tells how to repeat it."""
    blows = blows_of(seed, number)
    try:
        for blow in blows:
            time.sleep(blow.after_s)
            made.strike(blow)
        made.await_all()
        made.await_whole()
        made.clients_go_on()
        return blows, made.await_nothing_missing()
    except Exception as error:
        error.add_note(f"round {number} of seed {seed}: {'; '.join(map(str, blows))}")
        made.keep_logs()
        raise
