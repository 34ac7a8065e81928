"""The replicas of a broker: carries out orders, and answers waiting requests when partitions change.

The server passes the time as `now_ms` and the logs as `Logs`, and performs `take_outputs()`. Source: ReplicaManager and
KafkaApis of 3.9.1.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Protocol

from kcore.broker.replicas.broker_config import BrokerConfig
from kcore.broker.replicas.cluster_view import ClusterView
from kcore.broker.replicas.fetch_sessions import FetchSessionCache
from kcore.broker.replicas.fetcher import FetcherHooks, ReplicaFetcher
from kcore.broker.replicas.fetching import WaitingFetch
from kcore.broker.replicas.isr_changes import IsrChanges
from kcore.broker.replicas.log import ReplicaLog
from kcore.broker.replicas.log_validator import LogConfig
from kcore.broker.replicas.outputs import FetchFrom, IsrChangesWait, LogFailed, Notice, NoticeKind, Output, SendResponse
from kcore.broker.replicas.partition import IsrChange, IsrResponse, LagLimits, Partition, TopicSettings
from kcore.broker.replicas.producing import Produce, expire_verifications
from kcore.broker.replicas.replica import Action, Key, Order, Replica, Role, next_step
from kcore.broker.replicas.replication_quota import ReplicationQuotas
from kcore.broker.replicas.waiting import Delayed, Waiting
from kcore.protocol_errors import Errors, exception_of
from kcore.schema.alter_partition import AlterPartitionResponse
from kcore.types import Uuid


class Logs(Protocol):
    """The log directories of a broker. Each method may raise KafkaStorageException."""

    def keys(self) -> Iterable[Key]:
        """The keys of all logs on disk."""

    def topic_id(self, key: Key) -> Uuid:
        """The topic id of the log on disk; ZERO_UUID if there is no log, or if the log has no id."""

    def hold(self, key: Key, topic_id: Uuid, *, is_new: bool) -> ReplicaLog:
        """The partition's log; stores the topic id, unless it is ZERO_UUID.

        In ZooKeeper mode a missing log is created. But if `is_new` is false and a directory has failed, which may have
        the log, no log is created. In KRaft mode `broker/directories/` decides before this call whether to create the
        log. KafkaStorageException if the log is missing and is not created.
        """

    def delete(self, key: Key) -> None:
        """Deletes the log."""

    def set_stray(self, key: Key) -> None:
        """Renames a log without a replica as a stray, and so keeps it."""


class ReplicaManager:
    """The replicas of one broker, and the requests that wait for them."""

    def __init__(
        self, config: BrokerConfig, broker_epoch: int, logs: Logs, sessions: FetchSessionCache | None = None
    ) -> None:
        """`sessions`: the cache of fetch sessions; with None the broker has no sessions."""
        self.broker_id = config.broker_id
        self.broker_epoch = broker_epoch  # The epoch of this incarnation (KIP-380).
        self.config, self.logs = config, logs
        self.cluster = ClusterView()
        self.replicas: dict[Key, Replica] = {}  # The last accepted state of each partition of this broker.
        self.partitions: dict[Key, Partition] = {}
        self.settings: dict[str, TopicSettings] = {}  # The settings of topics that differ from the defaults.
        self.quotas = ReplicationQuotas(config, self.settings)
        self.fetchers: dict[int, ReplicaFetcher] = {}
        self.isr_changes = IsrChanges(config.broker_id)
        self.verifying: Waiting[Produce] = Waiting()
        self.producing: Waiting[Delayed] = Waiting()
        self.fetching: Waiting[WaitingFetch] = Waiting()
        self.sessions = sessions or FetchSessionCache()
        self._fetched_from: dict[Key, int] = {}  # The leader from which each following replica fetches.
        self._outputs: list[Output] = []
        self.fetch_epoch: Callable[[], int] = lambda: self.broker_epoch  # The epoch in fetches to leaders (KIP-903).
        self._fetcher_hooks = FetcherHooks(lambda: self.fetch_epoch(), self.log_failed, self.wake, self.quotas.follower)

    def take_outputs(self) -> list[Output]:
        """The outputs since the last call, in order."""
        outputs, self._outputs = self._outputs, []
        return outputs

    def output(self, output: Output) -> None:
        self._outputs.append(output)

    def notice(self, kind: NoticeKind, text: str) -> None:
        self.output(Notice(kind, text))

    # Orders.

    def state(self, key: Key) -> Replica | None:
        """The last accepted state of the partition; None if the broker does not have it."""
        return self.replicas.get(key)

    def topic_id_on_disk(self, key: Key) -> Uuid:
        """The topic id of the log on disk; ZERO_UUID if there is no log, or if the log has no id.

        Raises KafkaStorageException if the replica's directory is offline.
        """
        partition = self.partitions.get(key)
        if partition is not None and partition.role is Role.OFFLINE:
            raise exception_of(Errors.KAFKA_STORAGE_ERROR)(f"{key[0]}-{key[1]} is offline")
        try:
            return self.logs.topic_id(key)
        except exception_of(Errors.KAFKA_STORAGE_ERROR) as error:
            self.log_failed(key, error)
            raise

    def hold_only(self, keys: set[Key]) -> None:
        """Deletes all replicas except `keys`; other logs in the log directories without a replica become strays."""
        for key in {*self.partitions, *self.logs.keys()} - keys:
            self.remove(key)

    def remove(self, key: Key) -> None:
        """Deletes a replica and its log. A log without a replica is renamed as a stray (LogManager.addStrayLog)."""
        partition = self.partitions.get(key)
        if partition is not None:
            self.stop(key, delete=True)
            return
        try:
            self.logs.set_stray(key)
        except exception_of(Errors.KAFKA_STORAGE_ERROR) as error:
            self.log_failed(key, error)

    def cluster_changed(self) -> None:
        """Checks waiting requests after a change of `cluster`: DeleteRecords waits only for live brokers."""
        for key in {key for each in self.producing.by_id.values() for key in each.keys}:
            self.wake(key)

    def become(self, key: Key, received: Replica, now_ms: int) -> Errors:
        """Starts the replica if needed (startReplica), then leads or follows (becomeLeader, becomeFollower)."""
        partition = self.partitions.get(key) or self._start(key)
        if partition.role is Role.OFFLINE:  # An offline replica is not created in another directory.
            return Errors.KAFKA_STORAGE_ERROR
        known = partition.received
        if known is not None and received.partition_epoch < known.partition_epoch:
            return Errors.NONE  # The state is older than the controller's last AlterPartition response.
        try:
            log = self.logs.hold(key, received.topic_id, is_new=received.is_new)
            if received.leader == self.broker_id:
                step = partition.become_leader(received, log, now_ms)
            elif self.cluster.is_alive(received.leader):
                step = partition.become_follower(received, log)
            else:  # The log was created, so that its high watermark is checkpointed (KAFKA-1647); the role stays.
                return Errors.NONE
            self.carry_out(key, step.actions)
        except exception_of(Errors.KAFKA_STORAGE_ERROR) as error:
            self.log_failed(key, error)
            return Errors.KAFKA_STORAGE_ERROR
        self.replicas[key] = received
        if partition.advance_high_watermark(now_ms):
            self.wake(key)
        return Errors.NONE

    def _start(self, key: Key) -> Partition:
        limits = LagLimits(self.config.replica_lag_time_max_ms, self.config.replica_lag_max_offsets)
        is_alive, may_join_isr = self.cluster.is_alive, self.cluster.may_join_isr
        partition = self.partitions[key] = Partition(key, self.broker_id, limits, is_alive, may_join_isr)
        partition.order(Order.START)
        partition.settings = self.settings_of(key[0])
        return partition

    def settings_of(self, topic: str) -> TopicSettings:
        """The topic's settings, or the broker's defaults."""
        default = TopicSettings(self.config.min_insync_replicas, LogConfig(self.config.message_max_bytes))
        return self.settings.get(topic, default)

    def set_settings(self, topic: str, settings: TopicSettings, now_ms: int) -> None:
        """Applies a changed configuration of a topic to its partitions."""
        self.settings[topic] = settings
        for key, partition in self.partitions.items():
            if key[0] == topic:
                partition.settings = settings
                if partition.advance_high_watermark(now_ms):
                    self.wake(key)

    def carry_out(self, key: Key, actions: Sequence[Action]) -> None:
        """Performs a step's actions in order. Raises KafkaStorageException if the log cannot be deleted."""
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
        received, log = partition.received, partition.log
        assert received is not None and log is not None
        fetcher = self.fetchers.get(received.leader)
        if fetcher is None:
            fetcher = self.fetchers[received.leader] = ReplicaFetcher(received.leader, self.config, self._fetcher_hooks)
        fetcher.add(partition.key, received.topic_id, received.leader_epoch, log)
        self._fetched_from[partition.key] = received.leader
        self.output(FetchFrom(received.leader))

    def _stop_fetching(self, key: Key) -> None:
        leader = self._fetched_from.pop(key, -1)
        fetcher = self.fetchers.get(leader)
        if fetcher is not None and fetcher.remove(key) and not fetcher:
            del self.fetchers[leader]
            self.output(FetchFrom(leader))

    def assign_topic_id(self, key: Key, topic_id: Uuid) -> Errors:
        """Adds the topic id to a replica without one."""
        self.replicas[key] = replace(self.replicas[key], topic_id=topic_id)
        partition = self.partitions[key]
        assert partition.received is not None
        partition.received = replace(partition.received, topic_id=topic_id)
        self.logs.hold(key, topic_id, is_new=False)
        if (fetcher := self.fetchers.get(partition.received.leader)) is not None:
            fetcher.set_topic_id(key, topic_id)
        return Errors.NONE

    def replace_log(self, key: Key, log: ReplicaLog) -> None:
        """Uses another log with the same records, after the replica moved to another log directory."""
        partition = self.partitions.get(key)
        if partition is not None and partition.log is not None:
            partition.log = log
            if (fetcher := self.fetchers.get(self._fetched_from.get(key, -1))) is not None:
                fetcher.set_log(key, log)

    def stop(self, key: Key, delete: bool) -> Errors:
        """Stops leading or following; with `delete` also deletes the log."""
        partition = self.partitions.get(key)
        if partition is not None and partition.role is Role.OFFLINE:
            return Errors.KAFKA_STORAGE_ERROR
        known = self.replicas.get(key)
        if known is not None and delete:
            del self.replicas[key]
        elif known is not None:
            self.replicas[key] = replace(known, stopped=True)
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
        """Takes the partition offline, and asks the server to take its log directory offline."""
        known = self.partitions.get(key)
        if known is None or known.role is not Role.OFFLINE:
            self.go_offline(key)
            self.output(LogFailed(key, str(error)))

    def go_offline(self, key: Key) -> None:
        """Marks the replica offline, because its log directory is offline."""
        partition = self.partitions.get(key) or self._start(key)
        if partition.role is not Role.OFFLINE:
            step = partition.order(Order.FAIL)
            partition.log, partition.pending = None, None
            self.replicas.pop(key, None)
            self.carry_out(key, step.actions)

    def forget_offline(self, key: Key) -> None:
        """Drops an offline replica, because its topic was created again, or the replica has another directory now."""
        known = self.partitions.get(key)
        if known is not None and known.role is Role.OFFLINE:
            del self.partitions[key]

    # Look-ups.

    def partition(self, key: Key) -> Partition:
        """The partition; raises ApiException if this broker does not serve it (ReplicaManager.getPartitionOrError)."""
        partition = self.partitions.get(key)
        if partition is None:
            error = Errors.NOT_LEADER_OR_FOLLOWER if self.cluster.knows(key) else Errors.UNKNOWN_TOPIC_OR_PARTITION
            raise exception_of(error)(f"{key[0]}-{key[1]} is not here")
        if partition.role is Role.OFFLINE:
            raise exception_of(Errors.KAFKA_STORAGE_ERROR)(f"{key[0]}-{key[1]} is offline")
        return partition

    def expire_producers(self, date_ms: int) -> None:
        """Drops producers that have written nothing for producer.id.expiration.ms; `date_ms` is in ms since 1970."""
        for partition in self.partitions.values():
            if partition.log is not None:
                partition.log.producers.expire(date_ms - self.config.producer_id_expiration_ms)

    # The ISR.

    def propose(self, change: IsrChange) -> None:
        """Sends the change to the controller, unless an older change of the partition is unanswered."""
        if self.isr_changes.submit(change):
            self.output(IsrChangesWait())
        else:
            self.partitions[change.key].isr_refused(change, Errors.OPERATION_NOT_ATTEMPTED)

    def shrink_isrs(self, now_ms: int) -> None:
        """Removes lagging members from ISRs; called every half of replica.lag.time.max.ms."""
        for partition in self.partitions.values():
            change = partition.shrunk(now_ms)
            if change is not None:
                self.propose(change)

    def on_alter_partition(self, response: AlterPartitionResponse | None, now_ms: int) -> None:
        """Called with the controller's answer to the changes in flight; None without an answer."""
        if response is None:
            self.isr_changes.failed(now_ms)
        else:
            for change, answer in self.isr_changes.answered(response, now_ms):
                self.isr_settled(change, answer, now_ms)
        self.output(IsrChangesWait())

    def on_states_written(self, versions: dict[Key, int | None], now_ms: int) -> None:
        """Called with the results of writes to ZooKeeper, if leaders write ISRs themselves."""
        for change, answer in self.isr_changes.written(versions, now_ms):
            self.isr_settled(change, answer, now_ms)
        self.output(IsrChangesWait())

    def isr_settled(self, change: IsrChange, answer: Errors | IsrResponse, now_ms: int) -> None:
        """Applies the result of one ISR change: the new ISR or an error."""
        partition = self.partitions.get(change.key)
        if partition is None:
            return
        if isinstance(answer, Errors):
            if partition.isr_refused(change, answer):
                self.propose(change)
        elif partition.isr_answered(change, answer, now_ms):
            self.wake(change.key)

    # Waiting requests.

    def wake(self, key: Key) -> None:
        """Checks the requests that wait for the partition, after it changed.

        A check may find a disk failure, and so check other requests in between; each request is still answered once. In
        Kafka, a check during a change of the partition was a deadlock (KAFKA-13254).
        """
        for produce in self.producing.on(key):
            if (response := produce.response(self)) is not None and self.producing.remove(produce):
                self.output(SendResponse(produce.request_id, response))
        for fetch in self.fetching.on(key):
            fetch.answer_if_enough(self, key)

    def forget(self, request_id: int) -> None:
        """Drops a request whose client has disconnected.

        Appended records stay, and are committed. Records that wait for their transaction's coordinator are dropped at
        once, so that they use no memory.
        """
        self.verifying.forget(request_id)
        self.producing.forget(request_id)
        self.fetching.forget(request_id)

    def tick(self, now_ms: int) -> None:
        """Answers the requests whose deadline has passed."""
        self.sessions.set_time(now_ms)
        self.quotas.set_time(now_ms)
        expire_verifications(self, now_ms)
        for produce in self.producing.late(now_ms):
            if self.producing.remove(produce):
                self.output(SendResponse(produce.request_id, produce.timed_out(self)))
        for fetch in self.fetching.late(now_ms):
            fetch.answer(self)

    @property
    def next_deadline_ms(self) -> int | None:
        """When `tick` must be called; None if no request waits."""
        deadlines = [each.next_deadline_ms for each in (self.verifying, self.producing, self.fetching)]
        return min((each for each in deadlines if each is not None), default=None)
