"""Clients of a KRaft controller over the wire: administrators, and brokers that have no records and store nothing."""

import asyncio
from collections import Counter
from contextlib import suppress
from random import Random
from typing import Any, Final

from kcore.errors import DisconnectedError, NetworkError, RequestTimeoutError
from kcore.net.connect import connect
from kcore.net.connection import Connection
from kcore.net.limits.connection_limits import Limits
from kcore.net.versions import api_name, response_of
from kcore.protocol_errors import Errors
from kcore.raft.membership.replicas import Address
from kcore.schema.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionRequestPartitionData,
    AlterPartitionRequestTopicData,
    BrokerState,
)
from kcore.schema.broker_lifecycle import BrokerHeartbeatRequest
from kcore.schema.envelope import EnvelopeRequest
from kcore.schema.headers import RequestHeader, ResponseHeader
from kcore.schema.log_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsRequestDirectoryData,
    AssignReplicasToDirsRequestPartitionData,
    AssignReplicasToDirsRequestTopicData,
)
from kcore.schema.principal import DefaultPrincipalData
from kcore.schema.producers import AllocateProducerIdsRequest
from kcore.schema.scram import DescribeUserScramCredentialsRequest
from kcore.schema.structure import Message, Struct
from kcore.server.envelopes import FORWARDABLE, names_another_controller
from kcore.types import Uuid
from kcore.wire.codec import decode_from, encode
from oracle.chaos.kraft_own import Own, directories_of, registration
from oracle.chaos.kraft_registers import Given, Violation
from oracle.chaos.kraft_requests import next_step
from oracle.kraft_observer import Claim, Seen, Watch

TIME_OUT_S: Final = 30.0
LIMITS: Final = Limits(connect_s=3.0, request_s=TIME_OUT_S, close_s=0.2)
ANONYMOUS: Final = "ANONYMOUS"
PAUSE_S: Final = 0.05
BEAT_S: Final = 0.3
MOST_CHANGES: Final = 5
VAGUE: Final = frozenset({Errors.UNKNOWN_SERVER_ERROR.value, Errors.REQUEST_TIMED_OUT.value})
UNSERVED: Final = DescribeUserScramCredentialsRequest  # Kafka's controllers advertise it, and never answer it.
INNER: Final = 7  # The correlation id in an envelope.


class RequestPause:
    """Counts the clients' requests under way, and lets no client begin another one during a pause."""

    def __init__(self) -> None:
        self._may_begin = asyncio.Event()
        self._may_begin.set()
        self._under_way = 0

    async def begin(self) -> None:
        """Waits for the end of a pause, and counts one request."""
        while not self._may_begin.is_set():
            await self._may_begin.wait()
        self._under_way += 1

    def end(self) -> None:
        self._under_way -= 1

    @property
    def is_idle(self) -> bool:
        return self._under_way == 0

    def end_pause(self) -> None:
        self._may_begin.set()

    def begin_pause(self) -> None:
        self._may_begin.clear()


class Asker:
    """One client's connections to the controllers."""

    def __init__(
        self,
        nodes: dict[int, Address],
        watch: Watch,
        dice: Random,
        answers: Counter[str],
        real: frozenset[int] = frozenset(),
    ) -> None:
        """`answers`: how many requests of each kind were answered, were refused by a former leader, or broke.

        `real`: Kafka's own controllers. They may have done a request that they answer with an error of VAGUE.
        """
        self._nodes, self._watch, self._dice, self._answers, self._real = nodes, watch, dice, answers, real
        self._connections: dict[int, Connection] = {}

    async def close(self) -> None:
        for connection in self._connections.values():
            with suppress(NetworkError):
                await connection.close()

    async def _connection(self) -> tuple[int, Connection]:
        """To the active controller, as it seems, or to another one once in a while."""
        while True:
            node_id = self._watch.leader_id
            if node_id not in self._nodes or self._dice.random() < 0.03:
                node_id = self._dice.choice([*self._nodes])
            try:
                if node_id not in self._connections:
                    address = self._nodes[node_id]
                    self._connections[node_id] = await connect(*address, client_id="chaos", limits=LIMITS)
                return node_id, self._connections[node_id]
            except NetworkError:
                await asyncio.sleep(PAUSE_S)

    async def ask(self, request: Message, principal: str | None = None) -> Any:
        """The response; None where the connection broke, or where no active controller was there."""
        name = api_name(type(request))
        is_forwarded = principal is not None or (type(request) in FORWARDABLE and self._dice.random() < 0.3)
        while True:
            node_id, connection = await self._connection()
            if node_id in self._real and isinstance(request, UNSERVED):
                return None
            sent = _enveloped(connection, request, principal or ANONYMOUS) if is_forwarded else request
            try:
                asked = connection.send(sent)
                break
            except DisconnectedError:  # Nothing was sent.
                del self._connections[node_id]
        try:
            response = await asked
        except RequestTimeoutError as error:
            raise Violation(f"{name} got no answer: {error}") from error
        except NetworkError:
            self._connections.pop(node_id, None)
            self._answers[f"{name} broken"] += 1
            return None
        if is_forwarded:
            response = _opened(connection, request, response)
        if response is None or names_another_controller(response):
            self._answers[f"{name} not controller"] += 1
            await asyncio.sleep(PAUSE_S)
            return None
        if VAGUE & (errors := _errors_in(response)) and node_id in self._real:
            self._answers[f"{name} vague"] += 1
            return None
        if Errors.UNKNOWN_SERVER_ERROR in errors:
            raise Violation(f"{request} was answered {response}")
        self._answers[f"{name} answered"] += 1
        return response


def _version(connection: Connection, request: Message) -> int:
    assert connection.versions is not None
    return connection.versions.choose(type(request), None)


def _enveloped(connection: Connection, request: Message, principal: str) -> EnvelopeRequest:
    version = _version(connection, request)
    header = RequestHeader(
        request_api_key=request.api_key, request_api_version=version, correlation_id=INNER, client_id="a client"
    )
    data = encode(header, type(request).header_version(version)) + encode(request, version)
    who = b"\0\0" + encode(DefaultPrincipalData(type="User", name=principal), 0)
    return EnvelopeRequest(request_data=data, request_principal=who, client_host_address=bytes((127, 0, 0, 1)))


def _opened(connection: Connection, request: Message, envelope: Any) -> Any:
    """The response in the envelope; None for another controller's."""
    error = Errors.of(envelope.error_code)
    if error is Errors.NOT_CONTROLLER:
        return None
    if error is not Errors.NONE:
        raise Violation(f"the envelope of {request} was answered {error!r}")
    version, kind = _version(connection, request), response_of(type(request))
    header, at = decode_from(ResponseHeader, kind.header_version(version), envelope.response_data)
    assert header.correlation_id == INNER
    return decode_from(kind, version, envelope.response_data, at)[0]


def _errors_in(message: Struct) -> set[int]:
    """All error codes of a response."""
    found = set[int]()
    for name in type(message).__slots__:
        value = getattr(message, name, None)
        if name == "error_code" and isinstance(value, int):
            found.add(value)
        elif isinstance(value, list):
            found |= {code for each in value if isinstance(each, Struct) for code in _errors_in(each)}
    return found


async def administer(own: Own, asker: Asker, pause: RequestPause) -> None:
    """Until it is cancelled."""
    while True:
        await pause.begin()
        try:
            if (step := next_step(own)) is not None:
                step.settle(await asker.ask(step.request, step.principal))
        finally:
            pause.end()
        await asyncio.sleep(own.dice.random() * PAUSE_S)


class FakeBroker:
    """It registers, sends heartbeats, changes ISRs of what it leads, and comes anew now and then."""

    def __init__(self, broker_id: int, asker: Asker, watch: Watch, given: Given, dice: Random) -> None:
        self.broker_id, self._asker, self._watch, self._given, self._dice = broker_id, asker, watch, given, dice
        self._directories = directories_of(broker_id)
        self._incarnation = Uuid(dice.randbytes(16))
        self.epoch: int | None = None  # The epoch of this incarnation.
        self._previous_epoch = -1
        self._is_fenced, self._is_stopping = True, False

    async def run(self, pause: RequestPause) -> None:
        """Until it is cancelled."""
        while True:
            await pause.begin()
            try:
                await self._live()
            finally:
                pause.end()
            await asyncio.sleep(BEAT_S * self._dice.random())

    async def _live(self) -> None:
        if self.epoch is None:
            await self._register()
            return
        await self._beat(self.epoch)
        if self._is_fenced or self.epoch is None:
            return
        chance = self._dice.random()
        if chance < 0.4:
            await self._change_isrs(self.epoch)
        elif chance < 0.5:
            await self._assign(self.epoch)
        elif chance < 0.6:
            await self._allocate(self.epoch)
        elif chance < 0.62:
            self._is_stopping = True
        elif chance < 0.63:
            self._begin_anew(-1)  # A crash.

    def _begin_anew(self, previous_epoch: int) -> None:
        self._incarnation, self.epoch = Uuid(self._dice.randbytes(16)), None
        self._previous_epoch, self._is_fenced, self._is_stopping = previous_epoch, True, False

    async def _register(self) -> None:
        request = registration(
            *(self._watch, self.broker_id, self._incarnation, self._directories), self._previous_epoch
        )
        response = await self._asker.ask(request)
        if response is None or response.error_code == Errors.DUPLICATE_BROKER_REGISTRATION:
            return
        if response.error_code != Errors.NONE:
            raise Violation(f"{request} was answered {response}")
        self.epoch = response.broker_epoch
        self._given.epoch(response.broker_epoch, self.broker_id, self._incarnation)

    async def _beat(self, epoch: int) -> None:
        request = BrokerHeartbeatRequest(
            broker_id=self.broker_id,
            broker_epoch=epoch,
            current_metadata_offset=self._watch.committed - 1,
            want_shut_down=self._is_stopping,
            cordoned_log_dirs=[],
        )
        response = await self._asker.ask(request)
        if response is None:
            return
        if response.error_code != Errors.NONE:
            raise Violation(f"broker {self.broker_id} of epoch {epoch}: a heartbeat was answered {response}")
        self._is_fenced = response.is_fenced
        if self._is_stopping and (response.should_shut_down or response.is_fenced):
            self._begin_anew(epoch)

    async def _change_isrs(self, epoch: int) -> None:
        led = [(key, seen) for key, seen in self._watch.partitions.living.items() if seen.leader == self.broker_id]
        by_topic: dict[Uuid, list[AlterPartitionRequestPartitionData]] = {}
        asked: dict[tuple[Uuid, int], tuple[int, ...]] = {}
        for (topic_id, index), seen in self._dice.sample(led, min(MOST_CHANGES, len(led))):
            isr = self._isr(seen)
            asked[topic_id, index] = isr
            change = AlterPartitionRequestPartitionData(
                partition_index=index,
                leader_epoch=seen.leader_epoch,
                new_isr_with_epochs=[BrokerState(broker_id=each, broker_epoch=self._epoch_of(each)) for each in isr],
                partition_epoch=seen.partition_epoch,
            )
            by_topic.setdefault(topic_id, []).append(change)
        if not asked:
            return
        topics = [
            AlterPartitionRequestTopicData(topic_id=topic_id, partitions=each) for topic_id, each in by_topic.items()
        ]
        request = AlterPartitionRequest(broker_id=self.broker_id, broker_epoch=epoch, topics=topics)
        response = await self._asker.ask(request)
        if response is None:
            return
        for topic in response.topics:
            for partition in topic.partitions:
                if partition.error_code == Errors.NONE:
                    self._claim(topic.topic_id, partition, asked[topic.topic_id, partition.partition_index])

    def _claim(self, topic_id: Uuid, partition: Any, isr: tuple[int, ...]) -> None:
        def holds(seen: Seen) -> bool:
            is_it = (seen.partition_epoch, seen.leader_epoch) == (partition.partition_epoch, partition.leader_epoch)
            return is_it and seen.leader == partition.leader_id and [*seen.isr] == partition.isr

        if not {*partition.isr} <= {*isr}:  # Where that ends a reassignment, those that go are left out.
            raise Violation(f"the ISR {isr} was asked for, and granted as {partition}")
        self._watch.claim(
            Claim(f"AlterPartition was granted as {partition}", (topic_id, partition.partition_index), holds)
        )

    def _isr(self, seen: Seen) -> tuple[int, ...]:
        """All, or some of them."""
        others = [each for each in seen.replicas if each != self.broker_id]
        if self._dice.random() < 0.3:
            others = [each for each in others if self._dice.random() < 0.5]
        return (self.broker_id, *others)

    def _epoch_of(self, broker_id: int) -> int:
        found = self._watch.image.brokers.registrations().get(broker_id)
        return -1 if found is None else found.epoch

    async def _assign(self, epoch: int) -> None:
        held = [key for key, seen in self._watch.partitions.living.items() if self.broker_id in seen.replicas]
        directory = self._dice.choice(self._directories)
        chosen = self._dice.sample(held, min(MOST_CHANGES, len(held)))
        topics = [
            AssignReplicasToDirsRequestTopicData(
                topic_id=topic_id, partitions=[AssignReplicasToDirsRequestPartitionData(partition_index=index)]
            )
            for topic_id, index in dict(chosen).items()
        ]
        request = AssignReplicasToDirsRequest(
            broker_id=self.broker_id,
            broker_epoch=epoch,
            directories=[AssignReplicasToDirsRequestDirectoryData(id=directory, topics=topics)],
        )
        response = await self._asker.ask(request)
        if response is None or response.error_code != Errors.NONE:
            return
        for topic in response.directories[0].topics:
            for partition in topic.partitions:
                if partition.error_code == Errors.NONE:
                    self._claim_directory(topic.topic_id, partition.partition_index, directory)

    def _claim_directory(self, topic_id: Uuid, index: int, directory: Uuid) -> None:
        def holds(seen: Seen) -> bool:
            return (self.broker_id, directory) in zip(seen.replicas, seen.directories, strict=True)

        text = f"the replica of broker {self.broker_id} was assigned to {directory}"
        self._watch.claim(Claim(text, (topic_id, index), holds))

    async def _allocate(self, epoch: int) -> None:
        response = await self._asker.ask(AllocateProducerIdsRequest(broker_id=self.broker_id, broker_epoch=epoch))
        if response is not None and response.error_code == Errors.NONE:
            self._given.block(response.producer_id_start, response.producer_id_len)

    def check(self) -> None:
        """Against what is committed: a registration that was answered is there."""
        if self.epoch is None:
            return
        found = self._watch.image.brokers.registrations().get(self.broker_id)
        if found is None or (found.epoch, found.incarnation_id) != (self.epoch, self._incarnation):
            raise Violation(f"broker {self.broker_id} registered as {self.epoch}, {self._incarnation}: {found}")
