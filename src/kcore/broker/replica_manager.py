"""A broker that holds real replicas: control requests move them, producers and fetches wait on them.

Source: ReplicaManager and KafkaApis of 3.9.1. No clock, no sockets, no files: `now_ms` comes in, logs are handed in,
`take_outputs` gives what the edge is to do.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final, Protocol

from kcore.broker.broker import Broker, Key, Replica, told_offline
from kcore.broker.config import BrokerConfig
from kcore.broker.fetcher import ReplicaFetcher
from kcore.broker.fetching import WaitingFetch
from kcore.broker.isr_changes import IsrChanges
from kcore.broker.log import ReplicaLog
from kcore.broker.log_validator import LogConfig
from kcore.broker.notices import NoticeKind
from kcore.broker.outputs import Answer, FetchFrom, IsrChangesWait, LogFailed, Notice, Output
from kcore.broker.partition import IsrAnswer, IsrChange, LagLimits, Partition, TopicSettings
from kcore.broker.producing import expire_verifications
from kcore.broker.roles import Action, Order, Role, next_step
from kcore.broker.verifying import Produce
from kcore.broker.waiting import Delayed, Waiting
from kcore.protocol_errors import Errors, exception_of
from kcore.schema import LeaderAndIsrResponse, UpdateMetadataResponse
from kcore.schema.alter_partition import AlterPartitionResponse
from kcore.schema.structure import Message
from kcore.types import ZERO_UUID, Uuid
from kcore.wire.columns import Columns

FULL: Final = 2  # AbstractControlRequest.Type: the request lists all that the broker is to hold.


class Logs(Protocol):
    """The log directories of a broker. Each method may raise KafkaStorageException."""

    def keys(self) -> Iterable[Key]:
        """Of every log that lies there."""

    def topic_id(self, key: Key) -> Uuid:
        """Of the log that lies there; ZERO_UUID if there is none, or it has no id. KafkaStorageException."""

    def hold(self, key: Key, topic_id: Uuid, *, is_new: bool) -> ReplicaLog:
        """The partition's log, made if need be; its topic id, if it is given one, is on the disk.

        One that is not new may lie in a directory that failed: then it is not made.
        """

    def delete(self, key: Key) -> None:
        """Nothing of it is left."""


class ReplicaManager(Broker):
    """The replicas of one broker, and those who wait for them."""

    def __init__(self, config: BrokerConfig, broker_epoch: int, logs: Logs) -> None:
        super().__init__(config.broker_id, broker_epoch)
        self.config, self.logs = config, logs
        self.partitions: dict[Key, Partition] = {}
        self.settings: dict[str, TopicSettings] = {}  # Of topics that have some of their own.
        self.fetchers: dict[int, ReplicaFetcher] = {}
        self.isr_changes = IsrChanges(config.broker_id)
        self.verifying: Waiting[Produce] = Waiting()
        self.producing: Waiting[Delayed] = Waiting()
        self.fetching: Waiting[WaitingFetch] = Waiting()
        self.controller_id = -1
        self.heard_of_replicas = False  # A LeaderAndIsr was taken: what is to be held is known.
        self._fetched_from: dict[Key, int] = {}  # The leader of each replica that follows.
        self._outputs: list[Output] = []
        self._now_ms = 0
        self._names_by_id: dict[Uuid, str] | None = None
        self._offline: dict[Key, frozenset[int]] = {}

    def take_outputs(self) -> list[Output]:
        """What is to be done now, in order."""
        outputs, self._outputs = self._outputs, []
        return outputs

    def output(self, output: Output) -> None:
        self._outputs.append(output)

    def notice(self, kind: NoticeKind, text: str) -> None:
        self.output(Notice(kind, text))

    # Control requests.

    def control(self, message: type[Message], version: int, request: Columns, now_ms: int) -> bytes:
        """As `answer_columns`, at that time."""
        self._now_ms = now_ms
        return self.answer_columns(message, version, request)

    def refusal(self, request: Columns) -> Errors:
        error = super().refusal(request)
        if error is Errors.NONE:
            self.controller_id = request.controller_id
        return error

    def on_update_metadata(self, request: Columns) -> UpdateMetadataResponse:
        response = super().on_update_metadata(request)
        self._names_by_id = None
        offline = request.topic_states.partition_states.offline_replicas
        if response.error_code == Errors.NONE and (self._offline or len(offline.values)):
            self._offline.update(told_offline(request.topic_states))
            self._offline = {key: brokers for key, brokers in self._offline.items() if brokers}
        for key in {key for each in self.producing.by_id.values() for key in each.keys}:
            self.wake(key)  # Who waits for replicas to begin later does not wait for those that are dead.
        return response

    def on_leader_and_isr(self, request: Columns, version: int) -> LeaderAndIsrResponse:
        response = super().on_leader_and_isr(request, version)
        if response.error_code == Errors.NONE:
            self.heard_of_replicas = True
            if request.type == FULL:
                self._remove_strays(request)
        return response

    def _remove_strays(self, request: Columns) -> None:
        """What the article's INIT flag asks for: only what a full request lists is held."""
        states = request.topic_states.partition_states
        names = request.topic_states.topic_name.tolist()
        offsets = states.row_offsets.tolist()
        partitions = states.partition_index.tolist()
        told = {
            (name, partition)
            for name, begin, end in zip(names, offsets, offsets[1:], strict=False)
            for partition in partitions[begin:end]
        }
        offline = {key for key, partition in self.partitions.items() if partition.role is Role.OFFLINE}
        for key in {*self.partitions, *self.logs.keys()} - told - offline:
            self.stopped(key, delete=True)

    def take(self, key: Key, told: Replica) -> Errors:
        partition = self.partitions.get(key)
        if partition is not None and partition.role is Role.OFFLINE:
            return Errors.KAFKA_STORAGE_ERROR
        if key not in self.replicas:
            try:
                known = self.logs.topic_id(key)
            except exception_of(Errors.KAFKA_STORAGE_ERROR) as error:
                self.log_failed(key, error)
                return Errors.KAFKA_STORAGE_ERROR
            if ZERO_UUID not in (known, told.topic_id) and known != told.topic_id:
                return Errors.INCONSISTENT_TOPIC_ID
            if told.topic_id == ZERO_UUID:
                told = replace(told, topic_id=known)
        return super().take(key, told)

    def become(self, key: Key, told: Replica) -> Errors:
        """startReplica where need be, then becomeLeader or becomeFollower."""
        partition = self.partitions.get(key) or self._start(key)
        known = partition.told
        if known is not None and told.partition_epoch < known.partition_epoch:
            return Errors.NONE  # Decided before what the controller answered since.
        try:
            log = self.logs.hold(key, told.topic_id, is_new=told.is_new)
            if told.leader == self.broker_id:
                step = partition.become_leader(told, log, self._now_ms)
            elif self.is_alive(told.leader):
                step = partition.become_follower(told, log)
            else:  # The log is there, so that its high watermark is checkpointed (KAFKA-1647); no more changes.
                return Errors.NONE
            self.carry_out(key, step.actions)
        except exception_of(Errors.KAFKA_STORAGE_ERROR) as error:
            self.log_failed(key, error)
            return Errors.KAFKA_STORAGE_ERROR
        self.replicas[key] = told
        if partition.advance_high_watermark(self._now_ms):
            self.wake(key)
        return Errors.NONE

    def _start(self, key: Key) -> Partition:
        limits = LagLimits(self.config.replica_lag_time_max_ms, self.config.replica_lag_max_offsets)
        partition = self.partitions[key] = Partition(key, self.broker_id, limits, self.is_alive)
        partition.order(Order.START)
        partition.settings = self.settings_of(key[0])
        return partition

    def settings_of(self, topic: str) -> TopicSettings:
        """Its own, or the broker's defaults."""
        default = TopicSettings(self.config.min_insync_replicas, LogConfig(self.config.message_max_bytes))
        return self.settings.get(topic, default)

    def set_settings(self, topic: str, settings: TopicSettings, now_ms: int) -> None:
        """A topic's configuration changed."""
        self.settings[topic] = settings
        for key, partition in self.partitions.items():
            if key[0] == topic:
                partition.settings = settings
                if partition.advance_high_watermark(now_ms):
                    self.wake(key)

    def carry_out(self, key: Key, actions: Sequence[Action]) -> None:
        """What the table of roles asks for, in its order. KafkaStorageException if the log cannot be deleted."""
        for action in actions:
            match action:
                case Action.STOP_FETCHING:
                    self._stop_fetching(key)
                case Action.START_FETCHING:
                    self._start_fetching(self.partitions[key])
                case Action.REFUSE_WAITING:
                    self.wake(key)
                case Action.DELETE_LOG:
                    self.partitions.pop(key, None)
                    self.logs.delete(key)

    def _start_fetching(self, partition: Partition) -> None:
        told, log = partition.told, partition.log
        assert told is not None and log is not None
        fetcher = self.fetchers.get(told.leader)
        if fetcher is None:
            fetcher = self.fetchers[told.leader] = ReplicaFetcher(self, told.leader)
        fetcher.add(partition.key, told.topic_id, told.leader_epoch, log)
        self._fetched_from[partition.key] = told.leader
        self.output(FetchFrom(told.leader))

    def _stop_fetching(self, key: Key) -> None:
        leader = self._fetched_from.pop(key, -1)
        fetcher = self.fetchers.get(leader)
        if fetcher is not None and fetcher.remove(key) and not fetcher:
            del self.fetchers[leader]
            self.output(FetchFrom(leader))

    def assign_topic_id(self, key: Key, topic_id: Uuid) -> Errors:
        super().assign_topic_id(key, topic_id)
        partition = self.partitions[key]
        assert partition.told is not None
        partition.told = replace(partition.told, topic_id=topic_id)
        self.logs.hold(key, topic_id, is_new=False)
        if (fetcher := self.fetchers.get(partition.told.leader)) is not None:
            fetcher.set_topic_id(key, topic_id)
        return Errors.NONE

    def stop(self, key: Key, leader_epoch: int, delete: bool) -> Errors:
        partition = self.partitions.get(key)
        if partition is not None and partition.role is Role.OFFLINE:
            return Errors.KAFKA_STORAGE_ERROR
        return super().stop(key, leader_epoch, delete)

    def stopped(self, key: Key, delete: bool) -> Errors:
        super().stopped(key, delete)
        partition = self.partitions.get(key)
        if partition is None and not delete:
            return Errors.NONE
        order = Order.DELETE if delete else Order.STOP
        if partition is None:
            step = next_step(Role.NONE, order, key)
        else:
            partition.pending = None
            step = partition.order(order)
        try:
            self.carry_out(key, step.actions)
        except exception_of(Errors.KAFKA_STORAGE_ERROR) as error:
            self.log_failed(key, error)
            return Errors.KAFKA_STORAGE_ERROR
        return Errors.NONE

    # Failures.

    def log_failed(self, key: Key, error: Exception) -> None:
        """The disk refused something: the edge takes the directory offline."""
        known = self.partitions.get(key)
        if known is None or known.role is not Role.OFFLINE:
            self.go_offline(key)
            self.output(LogFailed(key, str(error)))

    def go_offline(self, key: Key) -> None:
        """The replica's directory is not to be used any more."""
        partition = self.partitions.get(key) or self._start(key)
        if partition.role is not Role.OFFLINE:
            step = partition.order(Order.FAIL)
            partition.log, partition.pending = None, None
            self.replicas.pop(key, None)
            self.carry_out(key, step.actions)

    # What is known.

    def is_alive(self, broker_id: int) -> bool:
        """As UpdateMetadata told it."""
        brokers = self.table.brokers
        return broker_id in brokers and bool(brokers.live[brokers.row(broker_id)])

    def name_of(self, topic_id: Uuid) -> str | None:
        """A topic's name by its id."""
        if self._names_by_id is None:
            topics = self.table.topics
            self._names_by_id = {each: name for each, name in zip(topics.ids, topics.names, strict=True) if name}
            self._names_by_id.pop(ZERO_UUID, None)
        return self._names_by_id.get(topic_id)

    def offline_replicas(self, row: int) -> frozenset[int]:
        """Of a partition of `table`: who is dead, or has its replica on a disk that failed, as was told (KIP-112)."""
        table = self.table
        key = table.topics.names[table.topic_row__p[row]], int(table.partition_index__p[row])
        return self._offline.get(key, frozenset())

    def knows(self, key: Key) -> bool:
        """Whether UpdateMetadata told of the partition."""
        topic, partition = key
        rows = self.table.rows_of_topic(topic) if topic in self.table.topics else ()
        return len(rows) > 0 and bool((self.table.partition_index__p[rows] == partition).any())

    def partition(self, key: Key) -> Partition:
        """ApiException if this broker does not serve it (ReplicaManager.getPartitionOrError)."""
        partition = self.partitions.get(key)
        if partition is None:
            error = Errors.NOT_LEADER_OR_FOLLOWER if self.knows(key) else Errors.UNKNOWN_TOPIC_OR_PARTITION
            raise exception_of(error)(f"{key[0]}-{key[1]} is not here")
        if partition.role is Role.OFFLINE:
            raise exception_of(Errors.KAFKA_STORAGE_ERROR)(f"{key[0]}-{key[1]} is offline")
        return partition

    # The ISR.

    def propose(self, change: IsrChange) -> None:
        """Asks the controller, unless an older change of that partition is not answered yet."""
        if self.isr_changes.submit(change):
            self.output(IsrChangesWait())
        else:
            self.partitions[change.key].isr_refused(change, Errors.OPERATION_NOT_ATTEMPTED)

    def shrink_isrs(self, now_ms: int) -> None:
        """Who lags is to go; to be called every half of replica.lag.time.max.ms."""
        for partition in self.partitions.values():
            change = partition.shrunk(now_ms)
            if change is not None:
                self.propose(change)

    def on_alter_partition(self, response: AlterPartitionResponse | None, now_ms: int) -> None:
        """The controller's answer; None: there was none."""
        if response is None:
            self.isr_changes.failed(now_ms)
        else:
            for change, answer in self.isr_changes.answered(response, now_ms):
                self.isr_settled(change, answer, now_ms)
        self.output(IsrChangesWait())

    def on_states_written(self, versions: dict[Key, int | None], now_ms: int) -> None:
        """What became of the states that this leader wrote to ZooKeeper itself."""
        for change, answer in self.isr_changes.written(versions, now_ms):
            self.isr_settled(change, answer, now_ms)
        self.output(IsrChangesWait())

    def isr_settled(self, change: IsrChange, answer: Errors | IsrAnswer, now_ms: int) -> None:
        """What became of one change."""
        partition = self.partitions.get(change.key)
        if partition is None:
            return
        if isinstance(answer, Errors):
            if partition.isr_refused(change, answer):
                self.propose(change)
        elif partition.isr_answered(change, answer, now_ms):
            self.wake(change.key)

    # Those who wait.

    def wake(self, key: Key) -> None:
        """Something about the partition changed: whoever waits for that looks again.

        Who looks may find the disk broken, which wakes others in the middle of this: each is answered once. In Kafka
        it was a deadlock to look while the partition was still being changed (KAFKA-13254).
        """
        for produce in self.producing.on(key):
            if (response := produce.response(self)) is not None and self.producing.remove(produce):
                self.output(Answer(produce.request_id, response))
        for fetch in self.fetching.on(key):
            if (found := fetch.response(self)) is not None and self.fetching.remove(fetch):
                self.output(Answer(fetch.request_id, found))

    def forget(self, request_id: int) -> None:
        """Answer that request no more: its client is gone.

        Records that were appended stay, and are committed all the same. Those of a transaction that its coordinator has
        not verified yet are not appended: they would take memory for as long as the coordinator does not answer.
        """
        self.verifying.forget(request_id)
        self.producing.forget(request_id)
        self.fetching.forget(request_id)

    def tick(self, now_ms: int) -> None:
        """Answers those whose time is up."""
        expire_verifications(self, now_ms)
        for produce in self.producing.late(now_ms):
            if self.producing.remove(produce):
                self.output(Answer(produce.request_id, produce.timed_out(self)))
        for fetch in self.fetching.late(now_ms):
            if self.fetching.remove(fetch):
                self.output(Answer(fetch.request_id, fetch.what_there_is(self)))

    @property
    def next_deadline_ms(self) -> int | None:
        """When `tick` has something to do."""
        deadlines = [each.next_deadline_ms for each in (self.verifying, self.producing, self.fetching)]
        return min((each for each in deadlines if each is not None), default=None)
