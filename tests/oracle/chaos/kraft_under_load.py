"""Real brokers under load by real clients, while brokers and controllers fail and partitions move.

At the end the controllers' logs, snapshots and states are compared, the clients' records are read again, and nobody
may have logged an error.
"""

import asyncio
import signal
from collections.abc import AsyncIterator, Sequence, Set
from contextlib import asynccontextmanager, suppress
from itertools import permutations
from random import Random
from typing import Final

from confluent_kafka.admin import AdminClient, NewTopic

from kcore.errors import NetworkError
from kcore.metadata.table.broker_registration import BrokerRegistration
from kcore.net.connect import connect
from kcore.net.limits.connection_limits import Limits
from kcore.protocol_errors import Errors
from kcore.raft.membership.replicas import Address
from kcore.schema.partitions import AlterPartitionReassignmentsRequest, ReassignablePartition, ReassignableTopic
from oracle.chaos.kraft_checks import complaints_of
from oracle.chaos.kraft_kills import Controllers, Story, Watched
from oracle.chaos.kraft_registers import Violation
from oracle.kraft_clusters import Node
from oracle.kraft_observer import Seen, Watch
from oracle.librdkafka_clients import Client, Reader, TopicMaker, Transactor, Writer, all_records

PROPERTIES: Final = """metadata.log.max.record.bytes.between.snapshots=20000
metadata.max.retention.bytes=200000
metadata.max.idle.interval.ms=300
num.network.threads=1
num.io.threads=2
"""
ORDERS, PAYMENTS, MOVED = "orders", "payments", "moved"
PARTITIONS: Final = {ORDERS: 6, PAYMENTS: 3, MOVED: 60}
INTERNAL: Final = ("__transaction_state", "__consumer_offsets")
LIMITS: Final = Limits(connect_s=3.0, request_s=30.0, close_s=0.2)
ENDS_AT_ONCE: Final = frozenset({Errors.NONE, Errors.NO_REASSIGNMENT_IN_PROGRESS})
AGAIN: Final = frozenset({Errors.REQUEST_TIMED_OUT, Errors.NOT_CONTROLLER})


class Loaded(Watched):
    """The cluster runs already; `topics` are created before the clients start."""

    def __init__(self, cluster: Controllers, story: Story, topics: Sequence[str], clients: Sequence[Client]) -> None:
        super().__init__(cluster, story)
        self.topics, self.clients = topics, clients
        self._tasks: list[asyncio.Task[None]] = []
        self._lost_epochs: dict[int, int] = {}  # By broker, its epoch when it was last killed.

    @asynccontextmanager
    async def running(self, *movers: "Mover") -> AsyncIterator[None]:
        """The clients work; at the end they stop, and all that they did is checked."""
        async with self.watch.server:
            await asyncio.to_thread(create, self.cluster, self.topics)
            for client in self.clients:
                client.start()
            self._tasks = [asyncio.create_task(mover.run()) for mover in movers]
            try:
                await self.work()
                yield
                await self._end(movers)
            finally:
                for client in self.clients:
                    client.ask_to_stop()
                for task in self._tasks:
                    task.cancel()
                await asyncio.gather(*self._tasks, return_exceptions=True)

    def check_clients(self) -> None:
        for client in self.clients:
            client.check()
        for task in self._tasks:
            if task.done():
                task.result()

    async def work(self, steps: int = 3) -> None:
        """Until every client has got on by so many steps of its own."""
        before = [client.done for client in self.clients]

        def behind() -> list[str]:
            return [each.name for each, done in zip(self.clients, before, strict=True) if each.done < done + steps]

        await self.until_none(behind, "all clients' work")

    # Brokers.

    def kill(self, node: Node, why: str) -> None:
        if node in self.cluster.brokers and node.is_running:
            self._lost_epochs[node.node_id] = self._registration(node).epoch
        super().kill(node, why)

    async def lose_broker(self, broker: Node, *, is_quick: bool) -> None:
        """Kill -9; it starts again at once, or when it is fenced."""
        self.kill(broker, "broker")
        if not is_quick:
            await self.until(lambda: self._registration(broker).fenced, f"the fencing of {broker.name}")
        self.start(broker)
        await self.whole()

    def _registration(self, broker: Node) -> BrokerRegistration:
        return self.watch.image.brokers[broker.node_id]

    def _is_back(self, broker: Node) -> bool:
        """It has registered since it was killed, and is unfenced."""
        found = self._registration(broker)
        return found.epoch != self._lost_epochs.get(broker.node_id) and not found.fenced

    async def whole(self) -> None:
        """All brokers are unfenced, and all replicas of the clients' topics that do not move are in sync."""
        await self.until_none(self._lacking, "a whole cluster")

    def _lacking(self) -> list[str]:
        away = [node.name for node in self.cluster.brokers if not self._is_back(node)]
        return away or [
            f"{topic}-{index}: {seen}"
            for topic in (*self.topics, *INTERNAL)
            for index, seen in partitions_of(self.watch, topic).items()
            if {*seen.isr} != {*seen.replicas}
        ]

    # The end.

    async def _end(self, movers: Sequence["Mover"]) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks = []
        for mover in movers:
            await mover.settle(self)
        await self.whole()
        readers = [client for client in self.clients if isinstance(client, Reader)]
        others = [client for client in self.clients if client not in readers]
        for stopped in (others, readers):
            for client in stopped:
                client.ask_to_stop()
            for client in stopped:
                await asyncio.to_thread(client.stop)
            if stopped is others:
                await asyncio.to_thread(self.check_records)
        await self.caught_up()
        for broker in self.cluster.brokers:
            code = await self.stop(broker, "broker stopped", 60.0)
            if code != 128 + signal.SIGTERM:
                raise Violation(f"the controlled shutdown of {broker.name} ended with {code}")
        self.check_topics()
        await self.compare_all()
        self.check_logs()
        if complaints := complaints_of(self.cluster.brokers):
            raise Violation("\n".join(complaints))

    def check_records(self) -> None:
        """All records of the clients' topics, as a new consumer finds them."""
        for topic in self.topics:
            found = all_records(self.cluster.bootstrap, topic, PARTITIONS[topic])
            for client in self.clients:
                if isinstance(client, (Writer, Transactor, Reader)) and client.topic == topic:
                    client.check_records(found)

    def check_topics(self) -> None:
        """Violation unless the topics are those that were created and not deleted."""
        wanted = {*self.topics, *INTERNAL}.union(*(each.there for each in self.clients if isinstance(each, TopicMaker)))
        there = {*self.watch.image.topic_ids}
        if there - {*INTERNAL} != wanted - {*INTERNAL}:
            raise Violation(f"topics: {there - wanted} are there, {wanted - there} are not")


def create(cluster: Controllers, topics: Sequence[str]) -> None:
    """Creates topics with three replicas and min.insync.replicas=2; MOVED has two, so that its replicas can move."""
    made = [
        NewTopic(topic, PARTITIONS[topic], replication_factor=2)
        if topic == MOVED
        else NewTopic(topic, PARTITIONS[topic], replication_factor=3, config={"min.insync.replicas": "2"})
        for topic in topics
    ]
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    for future in admin.create_topics(made).values():
        future.result(60.0)


def partitions_of(watch: Watch, topic: str) -> dict[int, Seen]:
    """A topic's partitions by what is committed."""
    topic_id = watch.image.topic_ids.get(topic)
    return {index: seen for (each, index), seen in watch.partitions.living.items() if each == topic_id}


def under_way(watch: Watch) -> list[str]:
    """The partitions of MOVED that are being reassigned."""
    found = partitions_of(watch, MOVED).items()
    return [f"partition {index}: {seen}" for index, seen in found if seen.adding or seen.removing]


class Mover:
    """Asks brokers to move the partitions of MOVED: all or some of them, also while others move; cancels some."""

    def __init__(self, cluster: Controllers, dice: Random) -> None:
        self._cluster, self._dice = cluster, dice
        self.granted = self.cancelled = 0

    async def run(self) -> None:
        """Until it is cancelled."""
        while True:
            await asyncio.sleep(2 * self._dice.random())
            chosen = self._dice.sample(range(PARTITIONS[MOVED]), self._dice.choice((5, 20, PARTITIONS[MOVED])))
            if self._dice.random() < 0.2:
                errors = await self._ask(dict.fromkeys(chosen))
                self.cancelled += errors.count(Errors.NONE)
            else:
                errors = await self._ask(self._targets(chosen))
                self.granted += errors.count(Errors.NONE)
            if not {*errors} <= ENDS_AT_ONCE:
                raise Violation(f"moves were answered {errors}")

    async def settle(self, loaded: Loaded) -> None:
        """Moves all partitions a last time, and waits until they are where they were sent.

        Where the active controller may be Kafka's, the moves under way are cancelled first: it may never end one that
        replaces another (the departure `earlier-moves-stay`).
        """
        if self._cluster.real:
            await self._ask_until_answered(dict.fromkeys(range(PARTITIONS[MOVED])), ENDS_AT_ONCE)
            await loaded.until_none(lambda: under_way(loaded.watch), "the end of all that is cancelled")
        targets = self._targets(range(PARTITIONS[MOVED]))
        await self._ask_until_answered(targets, {Errors.NONE})

        def elsewhere() -> list[str]:
            found = partitions_of(loaded.watch, MOVED).items()
            return [
                f"partition {at} goes to {targets[at]}: {seen}" for at, seen in found if [*seen.replicas] != targets[at]
            ]

        await loaded.until_none(lambda: [*elsewhere(), *under_way(loaded.watch)], "the end of all moves")

    async def _ask_until_answered(self, targets: dict[int, list[int] | None], right: Set[Errors]) -> None:
        while not (errors := await self._ask(targets)):
            pass
        if not {*errors} <= right:
            raise Violation(f"moves were answered {errors}")

    def _targets(self, partitions: Sequence[int]) -> dict[int, list[int] | None]:
        ways = [*permutations((node.node_id for node in self._cluster.brokers), 2)]
        return {each: [*self._dice.choice(ways)] for each in partitions}

    async def _ask(self, targets: dict[int, list[int] | None]) -> list[Errors]:
        """The partitions' answers; none where nothing is known of the whole request."""
        partitions = [ReassignablePartition(partition_index=each, replicas=to) for each, to in targets.items()]
        request = AlterPartitionReassignmentsRequest(topics=[ReassignableTopic(name=MOVED, partitions=partitions)])
        address = Address("127.0.0.1", self._dice.choice(self._cluster.brokers).port)
        response = None
        with suppress(NetworkError):
            async with await connect(*address, limits=LIMITS) as connection:
                response = await connection.send(request)
        if response is None or response.error_code in AGAIN:
            await asyncio.sleep(0.2)
            return []
        if response.error_code != Errors.NONE:
            raise Violation(f"moves were answered {response}")
        return [Errors.of(each.error_code) for each in response.responses[0].partitions]
