"""The clients of `chaos_disks`: one producer to several topics, one consumer of all, and requests to move replicas."""

import asyncio
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from threading import Event
from typing import Final, NamedTuple

from confluent_kafka import Consumer, ElectionType, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from kcore.errors import NetworkError
from kcore.net.connect import connect
from kcore.net.limits.connection_limits import Limits
from kcore.schema.log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from oracle.chaos.kraft_registers import Violation
from oracle.librdkafka_clients import WAIT_S, Client, configuration

Key = tuple[str, int]  # Topic and partition.
TOPICS: Final[Mapping[str, int]] = {"orders": 6, "events": 3, "large": 3}  # With their numbers of partitions.
KEYS: Final[Sequence[Key]] = [(topic, index) for topic, count in TOPICS.items() for index in range(count)]
LARGE_RECORDS: Final = 1_500  # Written first, so that a replica of `large` is moved for a while.
LARGE_BYTES: Final = 16_000
RECORD_BYTES: Final = 150
LIMITS: Final = Limits(connect_s=1.0, request_s=2.0, close_s=0.1)
# The last one is what kcore's brokers say to whoever looks for a group's coordinator, which librdkafka always does.
HARMLESS: Final = frozenset(
    {KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN, KafkaError._PARTITION_EOF, KafkaError.UNSUPPORTED_VERSION}
)


class Read(NamedTuple):
    """A record's offset, and the number that the producer has given it."""

    offset: int
    number: int


def number_of(value: bytes) -> int:
    return int(value[:10])


def check_found(found: Mapping[Key, Sequence[Read]], acknowledged: Collection[int]) -> None:
    """Violation unless all acknowledged records are there, none twice, each partition's in the order sent."""
    seen: dict[int, tuple[Key, int]] = {}
    for key, records in found.items():
        last = Read(-1, -1)
        for each in records:
            if (before := seen.setdefault(each.number, (key, each.offset))) != (key, each.offset):
                raise Violation(f"record {each.number} is in {key} at {each.offset}, and in {before[0]} at {before[1]}")
            if each.number <= last.number or each.offset <= last.offset:
                raise Violation(f"{key}: {each} comes behind {last}")
            last = each
    if lost := [number for number in acknowledged if number not in seen]:
        raise Violation(f"{len(lost)} acknowledged records are lost, such as {lost[:5]}")


class PacedProducer(Client):
    """An idempotent producer with acks=all, to all topics in turn; `acknowledged`: the numbers of acknowledged records.

    It pauses while `go_on` is not set. One request at a time is under way: see `librdkafka_clients.Writer`.
    """

    def __init__(self, name: str, bootstrap: str, per_s: int) -> None:
        super().__init__(name, bootstrap)
        self._pause_s = 1 / per_s
        self.acknowledged: list[int] = []
        self.sent = 0
        self.go_on = Event()

    def work(self) -> None:
        options = {"enable_idempotence": True, "message_timeout_ms": 600_000, "linger_ms": 5, "max_in_flight": 1}
        producer = Producer(configuration(self.bootstrap, **options, request_timeout_ms=5000))
        for _ in range(LARGE_RECORDS):
            self._send(producer, "large", LARGE_BYTES)
        topics = [*TOPICS]
        while not self.is_stopping:
            if self.go_on.is_set():
                self._send(producer, topics[self.sent % len(topics)], RECORD_BYTES)
            producer.poll(self._pause_s)
        if left := producer.flush(WAIT_S):
            raise Violation(f"{left} records of {self.sent} got no answer")

    def _send(self, producer: Producer, topic: str, size: int) -> None:
        value = f"{self.sent:010}".encode().ljust(size, b".")
        producer.produce(topic, value, on_delivery=self._on_delivery)
        self.sent += 1

    def _on_delivery(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            raise Violation(f"a record was refused: {error}")
        value = message.value()
        assert isinstance(value, bytes)
        self.acknowledged.append(number_of(value))
        self.done += 1

    def is_quiet(self) -> bool:
        """Everything that was sent is answered."""
        return self.done == self.sent


class LiveConsumer(Client):
    """Reads all partitions while they are written; `found` is what it was given."""

    def __init__(self, name: str, bootstrap: str) -> None:
        super().__init__(name, bootstrap)
        self.found: dict[Key, list[Read]] = {key: [] for key in KEYS}

    def work(self) -> None:
        options = {"group_id": self.name, "auto_offset_reset": "error", "enable_auto_commit": False}
        consumer = Consumer(configuration(self.bootstrap, **options))
        consumer.assign([TopicPartition(*key, 0) for key in KEYS])
        while not self.is_stopping:
            for key, record in taken(consumer.consume(200, timeout=0.3)):
                self.found[key].append(record)
                self.done += 1
        consumer.close()


def taken(messages: Sequence[Message]) -> list[tuple[Key, Read]]:
    """The records among a consumer's messages; ends of partitions are left out."""
    found = []
    for each in messages:
        if (error := each.error()) is not None:
            if error.code() in HARMLESS:
                continue
            raise KafkaException(error)
        value, topic = each.value(), each.topic()
        assert isinstance(value, bytes) and topic is not None
        found.append(((topic, each.partition() or 0), Read(each.offset() or 0, number_of(value))))
    return found


def read_all(bootstrap: str, ends: Mapping[Key, int]) -> dict[Key, list[Read]]:
    """The records that a new consumer reads from the beginning, up to these offsets."""
    options = {"group_id": "all", "auto_offset_reset": "error", "enable_auto_commit": False}
    consumer = Consumer(configuration(bootstrap, **options))
    consumer.assign([TopicPartition(*key, 0) for key in ends])
    found: dict[Key, list[Read]] = {key: [] for key in ends}
    left, end_s = {key for key, end in ends.items() if end}, time.monotonic() + WAIT_S
    while left:
        if time.monotonic() > end_s:
            raise Violation(f"the end of {sorted(left)} is not found")
        for key, record in taken(consumer.consume(500, timeout=0.5)):
            found[key].append(record)
            if record.offset >= ends[key] - 1:
                left.discard(key)
    consumer.close()
    return found


def create_topics(bootstrap: str, assignment: Callable[[int], list[int]]) -> None:
    """`assignment`: the replicas of a partition, by its index; kcore's directories are cordoned otherwise."""
    admin = AdminClient(configuration(bootstrap))
    topics = [
        NewTopic(name, count, replica_assignment=[assignment(index) for index in range(count)])
        for name, count in TOPICS.items()
    ]
    for future in admin.create_topics(topics).values():
        future.result(WAIT_S)


def elect_uncleanly(bootstrap: str, keys: Sequence[Key]) -> None:
    """As `kafka-leader-election --election-type unclean`; which replica leads is up to the controller."""
    admin = AdminClient(configuration(bootstrap))
    future = admin.elect_leaders(ElectionType.UNCLEAN, [TopicPartition(*key) for key in keys])
    if refused := {str(each): error for each, error in future.result(WAIT_S).items() if error is not None}:
        raise Violation(f"no unclean election: {refused}")


def move_replicas(port: int, places: Mapping[Key, str]) -> bool:
    """Asks a broker to move its replicas there; whether it has answered."""
    paths: dict[str, dict[str, list[int]]] = {}
    for (topic, index), path in places.items():
        paths.setdefault(path, {}).setdefault(topic, []).append(index)
    request = AlterReplicaLogDirsRequest(
        dirs=[
            AlterReplicaLogDir(
                path=path,
                topics=[AlterReplicaLogDirTopic(name=topic, partitions=indexes) for topic, indexes in topics.items()],
            )
            for path, topics in paths.items()
        ]
    )

    async def ask() -> None:
        connection = await connect("127.0.0.1", port, client_id="chaos", limits=LIMITS)
        async with connection:
            await connection.send(request)

    try:
        asyncio.run(ask())
    except NetworkError:
        return False
    return True
