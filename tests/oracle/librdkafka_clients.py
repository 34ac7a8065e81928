"""Clients of real brokers by librdkafka, each in a thread of its own, and what must be true of what they did."""

import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from random import Random
from threading import Event, Thread
from typing import Any, Final, NamedTuple

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from oracle.chaos.kraft_registers import Violation

WAIT_S: Final = 120.0
CALL_S: Final = 30.0  # The timeout of one blocking call; one that took longer is made again.
COMMON: Final = {
    **{"socket.timeout.ms": 10_000, "reconnect.backoff.max.ms": 1000, "topic.metadata.refresh.interval.ms": 2000},
    "log_level": 2,
}
# Nothing is known of what became of a request, or the brokers cannot serve it now.
AGAIN: Final = frozenset(
    {
        *(KafkaError._TIMED_OUT, KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN),
        *(KafkaError.REQUEST_TIMED_OUT, KafkaError.NOT_CONTROLLER, KafkaError.INVALID_REPLICATION_FACTOR),
        *(KafkaError.BROKER_NOT_AVAILABLE, KafkaError.NETWORK_EXCEPTION),
    }
)


class Found(NamedTuple):
    """A record as a consumer has it."""

    partition: int
    offset: int
    value: str


def code_of(error: KafkaException) -> int:
    return int(error.args[0].code())


def configuration(bootstrap: str, **options: object) -> dict[str, Any]:
    return {
        "bootstrap.servers": bootstrap,
        **COMMON,
        **{name.replace("_", "."): each for name, each in options.items()},
    }


class Client(ABC):
    """Works until it is stopped. `done` grows as it gets on."""

    def __init__(self, name: str, bootstrap: str, seed: int = 0) -> None:
        self.name, self.bootstrap, self.done = name, bootstrap, 0
        self.dice = Random(f"{name} {seed}")
        self._stopping, self._fault = Event(), list[BaseException]()
        self._thread = Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def ask_to_stop(self) -> None:
        self._stopping.set()

    def stop(self) -> None:
        """Until the thread has ended; raises what went wrong in it."""
        self._stopping.set()
        self._thread.join(2 * WAIT_S)
        self.check()
        if self._thread.is_alive():
            raise Violation(f"{self.name} does not end")

    def check(self) -> None:
        """Raises what went wrong so far."""
        if self._fault:
            raise Violation(f"{self.name}: {self._fault[0]!r}") from self._fault[0]

    @property
    def is_stopping(self) -> bool:
        return self._stopping.is_set()

    def _run(self) -> None:
        try:
            self.work()
        except BaseException as error:  # `check` raises it in the test's thread.
            self._fault.append(error)

    @abstractmethod
    def work(self) -> None:
        """In the thread, until `is_stopping`."""

    def again(self, call: Callable[[float], object]) -> None:
        """A call of a transactional producer, until it gets an answer."""
        end_s = time.monotonic() + 2 * WAIT_S
        while True:
            try:
                call(CALL_S)
                return
            except KafkaException as error:
                if not error.args[0].retriable() or time.monotonic() > end_s:
                    raise


class Writer(Client):
    """An idempotent producer with acks=all; `acknowledged` are the acknowledged values.

    It has one request at a time under way. With more, a request may reach a new leader before the request ahead of it,
    and is out of order. Then librdkafka begins a new producer epoch, and may write records of other partitions twice
    (librdkafka's issue 4953).
    """

    def __init__(self, name: str, bootstrap: str, topic: str, per_s: int = 100, digits: int = 1) -> None:
        super().__init__(name, bootstrap)
        self.topic, self._pause_s, self._digits = topic, 1 / per_s, digits
        self.acknowledged: list[str] = []

    def work(self) -> None:
        options = {"enable_idempotence": True, "message_timeout_ms": 600_000, "linger_ms": 5, "max_in_flight": 1}
        producer = Producer(configuration(self.bootstrap, **options))
        number = 0
        while not self.is_stopping:
            producer.produce(self.topic, f"{self.name}.{number:0{self._digits}}", on_delivery=self._on_delivery)
            producer.poll(self._pause_s)
            number += 1
        if left := producer.flush(WAIT_S):
            raise Violation(f"{left} records of {number} got no answer")

    def _on_delivery(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            raise Violation(f"a record was refused: {error}")
        value = message.value()
        assert isinstance(value, bytes)
        self.acknowledged.append(value.decode())
        self.done += 1

    def check_records(self, found: Sequence[Found]) -> None:
        """Violation unless all acknowledged values are there, none twice, each partition's in the order sent."""
        mine = [each for each in found if each.value.startswith(f"{self.name}.")]
        counts = Counter(each.value for each in mine)
        if lost := [value for value in self.acknowledged if value not in counts]:
            raise Violation(f"{len(lost)} acknowledged records of {self.name} are lost, such as {lost[:5]}")
        if twice := [each for each in mine if counts[each.value] > 1]:
            raise Violation(f"{len(twice)} records of {self.name} are there more than once, such as {twice[:12]}")
        last: dict[int, int] = {}
        for each in mine:
            number = int(each.value.rpartition(".")[2])
            if number <= last.get(each.partition, -1):
                raise Violation(f"{each} is not in order")
            last[each.partition] = number


class Transactor(Client):
    """A transactional producer that aborts some; each transaction's records go to several partitions."""

    def __init__(self, name: str, bootstrap: str, topic: str, partitions: int) -> None:
        super().__init__(name, bootstrap)
        self.topic, self._partitions = topic, partitions
        self.committed, self.aborted = list[list[str]](), list[list[str]]()
        self.unknown: list[list[str]] = []  # The producer failed for good while it committed: either is right.
        self.is_open = self._is_committing = False

    def work(self) -> None:
        producer = self._producer()
        turn = 0
        while not self.is_stopping:
            turn += 1
            values = [f"{self.name}.{turn}.{number}" for number in range(self.dice.randint(3, 20))]
            where = self.unknown
            self.is_open = True
            try:
                where = self._transaction(producer, values)
            except KafkaException as error:
                if not error.args[0].fatal():
                    raise
                if not self._is_committing:
                    where = self.aborted
                producer = self._producer()
            finally:
                self.is_open = False
                where.append(values)
            self.done += 1

    def _producer(self) -> Producer:
        options = {"transactional_id": self.name, "message_timeout_ms": 60_000, "linger_ms": 5}
        producer = Producer(configuration(self.bootstrap, **options))
        self.again(producer.init_transactions)
        return producer

    def _transaction(self, producer: Producer, values: Sequence[str]) -> list[list[str]]:
        """Returns the list to which the transaction belongs."""
        self._is_committing = False
        try:
            producer.begin_transaction()
            for value in values:
                producer.produce(self.topic, value, partition=self.dice.randrange(self._partitions))
                producer.poll(0.02 * self.dice.random())
            if self.dice.random() < 0.7:
                self._is_committing = True
                self.again(producer.commit_transaction)
                return self.committed
        except KafkaException as error:
            if not error.args[0].txn_requires_abort() and code_of(error) != KafkaError._STATE:
                raise  # _STATE: a record was refused, since the transaction has failed already.
            self._is_committing = False  # It was refused: to abort it is all that can be done.
        self.again(producer.abort_transaction)
        return self.aborted

    def check_records(self, found: Sequence[Found]) -> None:
        """By a reader of what is committed: each transaction is there whole and once, or not at all."""
        counts = Counter(each.value for each in found if each.value.startswith(f"{self.name}."))
        if twice := [value for value, count in counts.items() if count > 1]:
            raise Violation(f"{len(twice)} records of {self.name} are there twice, such as {twice[:5]}")
        for kinds, right in ((self.committed, {1}), (self.aborted, {0}), (self.unknown, {0, 1})):
            for values in kinds:
                there = {counts.pop(value, 0) for value in values}
                if len(there) > 1 or not there <= right:
                    raise Violation(f"the transaction of {values} is there {there} times, and {right} is right")
        if counts:
            raise Violation(f"nobody wrote {counts}")


class Reader(Client):
    """Reads a topic while others write it; `found` is what it saw."""

    def __init__(self, name: str, bootstrap: str, topic: str, found: set[Found] | None = None) -> None:
        """`found`: shared with the other members of a group."""
        super().__init__(name, bootstrap)
        self.topic = topic
        self.found = set[Found]() if found is None else found

    def check_records(self, found: Sequence[Found]) -> None:
        """In the end it has seen exactly what another reader finds afterwards."""
        there, end_s = {*found}, time.monotonic() + WAIT_S
        while not self.found >= there and time.monotonic() < end_s:
            self.check()
            time.sleep(0.1)
        if self.found != there:
            more, less = sorted(self.found - there), sorted(there - self.found)
            raise Violation(f"{self.name}: {len(more)} records seen by it alone: {more[:5]}; never: {less[:5]}")


class CommittedReader(Reader):
    """Without a group, all partitions, only what is committed; each record once."""

    def __init__(self, name: str, bootstrap: str, topic: str, partitions: int) -> None:
        super().__init__(name, bootstrap, topic)
        self._assigned = [TopicPartition(topic, each, 0) for each in range(partitions)]

    def work(self) -> None:
        options = {"group_id": self.name, "isolation_level": "read_committed", "auto_offset_reset": "error"}
        consumer = Consumer(configuration(self.bootstrap, **options, enable_auto_commit=False))
        consumer.assign(self._assigned)
        while not self.is_stopping:
            found = taken(consumer.consume(100, timeout=0.3))
            self.done += len(found)
            self.found |= {*found}
            if self.done != len(self.found):
                raise Violation(f"some of {found} was given twice")
        consumer.close()


class GroupMember(Reader):
    """One consumer of a group, which commits what it has read; a record may be given to another member again."""

    def __init__(self, name: str, bootstrap: str, topic: str, found: set[Found], group: str, protocol: str) -> None:
        super().__init__(name, bootstrap, topic, found)
        self._options = {"group_id": group, "group_protocol": protocol, "auto_offset_reset": "earliest"}

    def work(self) -> None:
        consumer = Consumer(configuration(self.bootstrap, **self._options, enable_auto_commit=False))
        consumer.subscribe([self.topic])
        while not self.is_stopping:
            if found := taken(consumer.consume(200, timeout=0.3)):
                self.found |= {*found}
                self.done += len(found)
                self._commit(consumer)
        consumer.close()

    def _commit(self, consumer: Consumer) -> None:
        try:
            consumer.commit(asynchronous=False)
        except KafkaException as error:  # Another member reads the uncommitted records again.
            refused = {KafkaError.ILLEGAL_GENERATION, KafkaError.UNKNOWN_MEMBER_ID, KafkaError.REBALANCE_IN_PROGRESS}
            if code_of(error) not in {*AGAIN, *refused, KafkaError._NO_OFFSET, KafkaError.STALE_MEMBER_EPOCH}:
                raise


# A consumer goes on after these. It gets the last one if all brokers are kcore's, which coordinate no groups.
HARMLESS: Final = (KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN, KafkaError.UNSUPPORTED_VERSION)


def taken(messages: Iterable[Message]) -> list[Found]:
    """The records among a consumer's messages; KafkaException for an error among them that is not harmless."""
    found = []
    for each in messages:
        if (error := each.error()) is not None:
            if error.code() in HARMLESS:
                continue
            if error.code() == KafkaError.UNSUPPORTED_VERSION and "FindCoordinator" in error.str():
                continue  # kcore's brokers coordinate nothing; librdkafka asks for a coordinator without need, too.
            raise KafkaException(error)
        value = each.value()
        assert isinstance(value, bytes)
        found.append(Found(each.partition() or 0, each.offset() or 0, value.decode()))
    return found


def is_end(message: Message) -> bool:
    """The consumer has reached the end of a partition; this is no record."""
    error = message.error()
    return error is not None and error.code() == KafkaError._PARTITION_EOF


class TopicMaker(Client):
    """Creates and deletes topics; `there` are those that must be there in the end."""

    def __init__(self, name: str, bootstrap: str, brokers: int, most: int = 5) -> None:
        super().__init__(name, bootstrap)
        self._brokers, self._most = brokers, most
        self.there = set[str]()

    def work(self) -> None:
        admin = AdminClient(configuration(self.bootstrap))
        number = 0
        while not self.is_stopping:
            number += 1
            topic = NewTopic(
                f"{self.name}-{number}",
                num_partitions=self.dice.choice((1, 3, 10)),
                replication_factor=self.dice.randint(1, self._brokers),
            )
            self._until_done(lambda: admin.create_topics([topic]), KafkaError.TOPIC_ALREADY_EXISTS)  # noqa: B023
            self.there.add(topic.topic)
            if len(self.there) > self._most:
                gone = self.dice.choice(sorted(self.there))
                self._until_done(lambda: admin.delete_topics([gone]), KafkaError.UNKNOWN_TOPIC_OR_PART)  # noqa: B023
                self.there.remove(gone)
            self.done += 1
            time.sleep(self.dice.random())

    def _until_done(self, ask: Callable[[], dict[str, Any]], done_before: int) -> None:
        """`done_before`: how a request is refused that was done already.

        A broker sends a request again whose connection to the controller broke (NodeToControllerChannelManager), so
        this may be the first answer.
        """
        end_s = time.monotonic() + 2 * WAIT_S
        while True:
            try:
                for future in ask().values():
                    future.result(WAIT_S)
                return
            except KafkaException as error:
                code = code_of(error)
                if code == done_before:
                    return
                if code not in AGAIN or time.monotonic() > end_s:
                    raise
                time.sleep(0.2)


def all_records(bootstrap: str, topic: str, partitions: int, isolation: str = "read_committed") -> list[Found]:
    """All that a new consumer finds, from the beginning to the end of each partition."""
    options = {"group_id": "all", "isolation_level": isolation, "auto_offset_reset": "error"}
    options |= {"enable_partition_eof": True, "enable_auto_commit": False}
    consumer = Consumer(configuration(bootstrap, **options))
    consumer.assign([TopicPartition(topic, each, 0) for each in range(partitions)])
    left, found = {*range(partitions)}, list[Found]()
    end_s = time.monotonic() + WAIT_S
    while left:
        if time.monotonic() > end_s:
            raise Violation(f"the end of partitions {sorted(left)} of {topic} is not found")
        messages = consumer.consume(500, timeout=0.5)
        for each in messages:
            if each.error() is not None and each.error().code() == KafkaError._PARTITION_EOF:
                left.discard(each.partition() or 0)
        records = (
            each for each in messages if each.error() is None or each.error().code() != KafkaError._PARTITION_EOF
        )
        found += taken(records)
    consumer.close()
    return found
