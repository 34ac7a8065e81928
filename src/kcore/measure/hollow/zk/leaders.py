"""Hollow brokers that lead partitions add followers to the ISR: they send the controller AlterPartition.

A follower has caught up as soon as its broker accepts a LeaderAndIsr for the partition: there is no data to copy.
A leader has at most one AlterPartition in flight; later changes share the next (DefaultAlterPartitionManager, 3.9.1).
If the controller refuses because the partition has changed, a LeaderAndIsr follows and the leader asks again.
"""

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final, NamedTuple, TypeAlias

from kcore.constants import RECOVERED
from kcore.errors import KcoreError, TargetError
from kcore.measure.hollow.zk.receivers import Receiver
from kcore.net.connect import connect
from kcore.net.connection import Connection
from kcore.protocol_errors import Errors
from kcore.schema import LeaderAndIsrRequest
from kcore.schema import alter_partition as schema
from kcore.types import Uuid
from kcore.wire.columns import Columns, Vectors

TopicPartition: TypeAlias = tuple[bytes, int]  # Topic id, partition
_STALE: Final = (  # Not failures: another LeaderAndIsr brings the leader the new state.
    Errors.INVALID_UPDATE_VERSION,
    Errors.FENCED_LEADER_EPOCH,
    Errors.UNKNOWN_TOPIC_OR_PARTITION,
    Errors.UNKNOWN_TOPIC_ID,
    Errors.INELIGIBLE_REPLICA,
    Errors.OPERATION_NOT_ATTEMPTED,
)
_REQUEST_S: Final = 300.0


class State(NamedTuple):
    """A partition's state as LeaderAndIsr carries it."""

    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    partition_epoch: int
    replicas: tuple[int, ...]
    adding: tuple[int, ...]


@dataclass(slots=True)
class Led:
    """A partition with a hollow leader; its ISR may lack replicas."""

    state: State
    is_requested: bool = False  # An AlterPartition for the partition is queued or in flight.


@dataclass(slots=True)
class Leader:
    """A broker's queue of partitions for AlterPartition, and the task and connection that send them."""

    queue: dict[TopicPartition, None] = field(default_factory=dict)
    task: asyncio.Task[None] | None = None
    connection: Connection | None = None


class IsrLeaders:
    """The leaders among all hollow brokers of a cluster; they send requests while `async with` lasts."""

    def __init__(self, brokers: Mapping[int, Receiver], host: str, port: int) -> None:
        """`host` and `port` are the controller's."""
        self.brokers = brokers
        self.changed = 0  # Partitions whose ISR the controller has changed.
        self._address = host, port
        self._led: dict[TopicPartition, Led] = {}
        self._with_leader_and_isr: dict[TopicPartition, set[int]] = {}  # Brokers that accepted LeaderAndIsr.
        self._leaders = {broker_id: Leader() for broker_id in brokers}
        self._failure: KcoreError | OSError | None = None

    async def __aenter__(self) -> "IsrLeaders":
        for broker in self.brokers.values():
            broker.on_accepted = self._accepted
        return self

    async def __aexit__(self, *_: object) -> None:
        for broker in self.brokers.values():
            broker.on_accepted = None
        tasks = [leader.task for leader in self._leaders.values() if leader.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        open_ones = [leader.connection for leader in self._leaders.values() if leader.connection is not None]
        await asyncio.gather(*(each.close() for each in open_ones), return_exceptions=True)

    def check(self) -> None:
        """Raises the error that made a leader fail."""
        if self._failure is not None:
            raise self._failure

    def _accepted(self, broker: Receiver, columns: Columns) -> None:
        if columns.message is not LeaderAndIsrRequest:
            return
        for partition, state in states_of(columns):
            self._with_leader_and_isr.setdefault(partition, set()).add(broker.broker_id)
            if state.leader == broker.broker_id:
                self._led[partition] = Led(state)
            if (led := self._led.get(partition)) is not None:
                self._look(partition, led)

    def _look(self, partition: TopicPartition, led: Led) -> None:
        """Queues the partition if its ISR lacks replicas, and those that are being added have all caught up."""
        state = led.state
        missing = {*state.replicas}.difference(state.isr)
        if led.is_requested or not missing:
            return
        if missing.intersection(state.adding) <= self._with_leader_and_isr.get(partition, set()):
            led.is_requested = True
            leader = self._leaders[state.leader]
            leader.queue[partition] = None
            if leader.task is None:
                leader.task = asyncio.get_running_loop().create_task(self._ask(state.leader, leader))

    async def _ask(self, broker_id: int, leader: Leader) -> None:
        try:
            while leader.queue:
                partitions, leader.queue = [*leader.queue], {}
                await self._ask_once(broker_id, leader, partitions)
        except (KcoreError, OSError) as error:
            self._failure = error
        finally:
            leader.task = None

    async def _ask_once(self, broker_id: int, leader: Leader, partitions: list[TopicPartition]) -> None:
        if leader.connection is None:
            leader.connection = await connect(*self._address, client_id=f"broker-{broker_id}")
        states = {each: led.state for each in partitions if (led := self._led.get(each)) is not None}
        request = self._request(broker_id, states)
        answer: schema.AlterPartitionResponse = await leader.connection.send(request, timeout_s=_REQUEST_S)
        codes = {answer.error_code, *(each.error_code for topic in answer.topics for each in topic.partitions)}
        if wrong := codes - {0, *_STALE}:
            names = ", ".join(sorted(Errors.of(code).name for code in wrong))
            raise TargetError(f"AlterPartition of broker {broker_id} was refused: {names}")
        for topic in answer.topics:
            for each in topic.partitions:
                self._answered((topic.topic_id, each.partition_index), each)

    def _answered(self, partition: TopicPartition, answer: schema.AlterPartitionResponsePartitionData) -> None:
        """Counts the changed ISR and drops the partition, unless a LeaderAndIsr has brought a newer state meanwhile."""
        led = self._led.get(partition)
        if led is None or answer.error_code:
            return
        self.changed += 1
        if led.is_requested and answer.partition_epoch > led.state.partition_epoch:
            del self._led[partition]

    def _request(self, broker_id: int, states: Mapping[TopicPartition, State]) -> schema.AlterPartitionRequest:
        topics: dict[bytes, schema.AlterPartitionRequestTopicData] = {}
        for (topic_id, index), state in states.items():
            if topic_id not in topics:
                topics[topic_id] = schema.AlterPartitionRequestTopicData(topic_id=Uuid(topic_id), partitions=[])
            members = dict.fromkeys((*state.isr, *state.replicas))
            topics[topic_id].partitions.append(
                schema.AlterPartitionRequestPartitionData(
                    partition_index=index,
                    leader_epoch=state.leader_epoch,
                    partition_epoch=state.partition_epoch,
                    leader_recovery_state=RECOVERED,
                    new_isr_with_epochs=[
                        schema.BrokerState(broker_id=each, broker_epoch=self.brokers[each].epoch) for each in members
                    ],
                )
            )
        epoch = self.brokers[broker_id].epoch
        return schema.AlterPartitionRequest(broker_id=broker_id, broker_epoch=epoch, topics=[*topics.values()])


def states_of(columns: Columns) -> Iterator[tuple[TopicPartition, State]]:
    """Each partition in a LeaderAndIsr request, with its state."""
    topics = columns.topic_states
    states = topics.partition_states
    ids = [bytes(row) for row in topics.topic_id]
    owners = (owner for owner, count in zip(ids, _counts(states.row_offsets), strict=True) for _ in range(count))
    numbers = (
        getattr(states, name).tolist() for name in ("partition_index", "leader", "leader_epoch", "partition_epoch")
    )
    lists = (_tuples(getattr(states, name)) for name in ("isr", "replicas", "adding_replicas"))
    for topic_id, index, leader, epoch, version, isr, replicas, adding in zip(owners, *numbers, *lists, strict=True):
        yield (topic_id, index), State(leader, epoch, isr, version, replicas, adding)


def _counts(offsets: Iterable[int]) -> list[int]:
    ends = [int(each) for each in offsets]
    return [end - begin for begin, end in pairwise(ends)]


def _tuples(lists: Vectors) -> list[tuple[int, ...]]:
    values, offsets = lists.values.tolist(), lists.offsets.tolist()
    return [tuple(values[begin:end]) for begin, end in pairwise(offsets)]
