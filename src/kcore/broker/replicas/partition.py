"""One replica as a state machine: as leader it appends, commits and maintains the ISR (Partition of 3.9.1)."""

from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple, Protocol

from kcore.broker.replicas.appending import Appended, append_as_leader, append_end_marker
from kcore.broker.replicas.log import ReplicaLog
from kcore.broker.replicas.log_validator import Bytes, CheckedRecords, LogConfig
from kcore.broker.replicas.replica import Key, Order, Replica, Role, Step, next_step
from kcore.broker.replicas.transactions import AbortedTransaction, EndMarker
from kcore.constants import RECOVERED, UNDEFINED_EPOCH, UNDEFINED_EPOCH_OFFSET, UNKNOWN_BROKER_EPOCH
from kcore.protocol_errors import Errors, exception_of
from kcore.replication.epochs import EpochEndOffset
from kcore.types import Uuid
from kcore.wire.record_batch import scan_batches

UNKNOWN_OFFSET: Final = -1


@dataclass(slots=True)
class Follower:
    """A follower's progress, derived from its fetches (Replica and ReplicaState of 3.9.1); times in milliseconds."""

    end_offset: int = UNKNOWN_OFFSET  # The offset of its last fetch: the follower has all records below it.
    start_offset: int = UNKNOWN_OFFSET
    last_fetch_leader_end_offset: int = 0  # The leader's end offset at its last fetch.
    last_fetch_ms: int = 0
    last_caught_up_ms: int = 0
    broker_epoch: int = UNKNOWN_BROKER_EPOCH  # The epoch of the newest incarnation that fetched (KIP-903).

    def is_outdated(self, broker_epoch: int) -> bool:
        """Whether a fetch is from an earlier incarnation of the broker; False for a fetch without a broker epoch."""
        return broker_epoch != UNKNOWN_BROKER_EPOCH and broker_epoch < self.broker_epoch

    def fetched(self, offset: int, start_offset: int, leader_end_offset: int, now_ms: int) -> None:
        """Records a fetch from `offset`.

        If `offset` is at least the leader's end offset at the previous fetch, the follower was caught up at that time.
        The leader's present end is not decisive, since a busy leader's log grows between fetches.
        """
        if offset >= leader_end_offset:
            self.last_caught_up_ms = max(self.last_caught_up_ms, now_ms)
        elif offset >= self.last_fetch_leader_end_offset:
            self.last_caught_up_ms = max(self.last_caught_up_ms, self.last_fetch_ms)
        self.end_offset, self.start_offset = offset, start_offset
        self.last_fetch_leader_end_offset = max(leader_end_offset, self.last_fetch_leader_end_offset)
        self.last_fetch_ms = now_ms

    def reset(self, leader_end_offset: int, now_ms: int, *, is_new_leader: bool, in_isr: bool) -> None:
        """Resets the progress for a new leader epoch: ISR members count as caught up now, other followers do not."""
        self.last_caught_up_ms = now_ms if in_isr else 0
        if is_new_leader:
            self.end_offset = self.start_offset = self.last_fetch_leader_end_offset = UNKNOWN_OFFSET
            self.last_fetch_ms, self.broker_epoch = 0, UNKNOWN_BROKER_EPOCH
        else:
            self.last_fetch_leader_end_offset = leader_end_offset
            self.last_fetch_ms = now_ms if in_isr else 0

    def is_caught_up(self, leader_end_offset: int, now_ms: int, max_lag_ms: int) -> bool:
        """Whether the follower has all records now, or had all of them at some time within the last `max_lag_ms`."""
        return self.end_offset == leader_end_offset or now_ms - self.last_caught_up_ms <= max_lag_ms


@dataclass(slots=True)
class TopicSettings:
    """The part of a topic's configuration that replicas use."""

    min_insync_replicas: int = 1
    log: LogConfig = field(default_factory=LogConfig)
    deletes: bool = True  # Whether cleanup.policy contains "delete".
    retention_ms: int = -1  # Segments above this age are deleted; below 0: no limit.
    retention_bytes: int = -1  # The oldest segments are deleted above this size of the log; below 0: no limit.
    segment_bytes: int | None = None  # The maximum size of a segment; None: the broker's default.
    segment_ms: int | None = None  # The maximum time between the batches of a segment; None: no limit.
    # The indexes of the partitions whose replica on this broker is throttled while it leads or follows (KIP-73).
    leader_throttled: Container[int] = frozenset()
    follower_throttled: Container[int] = frozenset()


@dataclass(frozen=True, slots=True)
class LagLimits:
    """The limits above which a follower is out of sync."""

    time_ms: int = 30_000  # replica.lag.time.max.ms
    offsets: int | None = None  # The article's limit, which was replica.lag.max.messages before Kafka 0.9.


@dataclass(frozen=True, slots=True, eq=False)
class IsrChange:
    """The leader's request to the controller to change the ISR.

    Changes are compared by identity, so that a late response does not match a newer request.
    """

    key: Key
    topic_id: Uuid
    leader_epoch: int
    partition_epoch: int
    isr: tuple[int, ...]
    controller_epoch: int
    joins: int | None = None  # The new member; None if members are removed.
    leader_recovery_state: int = RECOVERED
    joins_epoch: int = UNKNOWN_BROKER_EPOCH  # The new member's broker epoch when it caught up.


class IsrResponse(NamedTuple):
    """The partition's state in the controller's response."""

    leader_epoch: int
    partition_epoch: int
    isr: tuple[int, ...]


class Read(NamedTuple):
    """The result of a read, with the log's offsets."""

    records: bytes
    high_watermark: int
    start_offset: int
    end_offset: int
    last_stable_offset: int
    diverging: EpochEndOffset | None = None
    aborted: Sequence[AbortedTransaction] = ()  # The aborted transactions with records in `records`.


HIGH_WATERMARK = -1  # The offset in DeleteRecords that stands for the high watermark.

# After these errors the change stays in flight until the next LeaderAndIsr (Partition.handleAlterPartitionError).
AWAIT_LEADER_AND_ISR = frozenset(
    {
        Errors.UNKNOWN_TOPIC_OR_PARTITION,
        Errors.UNKNOWN_TOPIC_ID,
        Errors.FENCED_LEADER_EPOCH,
        Errors.INVALID_UPDATE_VERSION,
        Errors.INVALID_REQUEST,
        Errors.NEW_LEADER_ELECTED,
    }
)
# After these errors the change is dropped, since the controller has not changed the partition.
NOT_APPLIED = frozenset({Errors.OPERATION_NOT_ATTEMPTED, Errors.INELIGIBLE_REPLICA})


class Partition:
    """The replica of one partition on this broker. The caller updates fetchers and waiting requests after a change."""

    def __init__(
        self,
        key: Key,
        broker_id: int,
        limits: LagLimits,
        is_alive: Callable[[int], bool],
        may_join_isr: Callable[[int], bool],
    ) -> None:
        """`is_alive`: whether a broker is live. `may_join_isr`: whether it is live and not in controlled shutdown."""
        self.key, self.broker_id, self.limits = key, broker_id, limits
        self._is_alive, self._may_join_isr = is_alive, may_join_isr
        self.role = Role.NONE
        self.settings = TopicSettings()
        self.received: Replica | None = None  # The last received state; its ISR is committed.
        self.pending: IsrChange | None = None  # The ISR change in flight.
        self.followers: dict[int, Follower] = {}
        self.log: ReplicaLog | None = None
        self.leader_epoch_start_offset: int | None = None

    def __str__(self) -> str:
        return f"{self.key[0]}-{self.key[1]}, {self.role.value}, {self.received}, in flight {self.pending}"

    def order(self, order: Order) -> Step:
        """Changes the role. Returns the step, whose actions the caller must perform."""
        step = next_step(self.role, order, self)
        self.role = step.role
        return step

    @property
    def leader_epoch(self) -> int:
        return self.received.leader_epoch if self.received is not None else -1

    @property
    def isr(self) -> tuple[int, ...]:
        """The committed ISR; empty if this broker does not lead."""
        return self.received.isr if self.received is not None and self.role is Role.LEADER else ()

    @property
    def maximal_isr(self) -> tuple[int, ...]:
        """The ISR, and the member that a change in flight adds: commits need all of these (KIP-497)."""
        joins = self.pending.joins if self.pending is not None else None
        return self.isr if joins is None else (*self.isr, joins)

    # Roles.

    def become_leader(self, received: Replica, log: ReplicaLog, now_ms: int) -> Step:
        """Leads from now on. The caller may then advance the high watermark.

        The epoch's start offset is stored first, so that followers get the end offsets of older epochs (KIP-101).
        """
        is_new_leader, is_new_epoch = self.role is not Role.LEADER, received.leader_epoch > self.leader_epoch
        if is_new_epoch:
            start_offset = log.end_offset
            log.assign_epoch(received.leader_epoch, start_offset)
        self.log, self.pending = log, None
        self.received = replace(received, leader_recovery_state=RECOVERED)
        step = self.order(Order.BECOME_LEADER)
        known = self.followers
        others = (each for each in received.replicas if each != self.broker_id)
        self.followers = {each: known.get(each) or Follower() for each in others}
        if is_new_epoch:
            self.leader_epoch_start_offset = start_offset
            for each, follower in self.followers.items():
                follower.reset(start_offset, now_ms, is_new_leader=is_new_leader, in_isr=each in received.isr)
        return step

    def become_follower(self, received: Replica, log: ReplicaLog) -> Step:
        """Follows the received leader from now on."""
        self.log, self.received, self.pending = log, received, None
        self.followers, self.leader_epoch_start_offset = {}, None
        return self.order(Order.BECOME_FOLLOWER)

    # The leader's appends and commits.

    def append(
        self,
        data: Bytes,
        acks: int,
        now_ms: int,
        date_ms: int,
        guard: object | None = None,
        prechecked: CheckedRecords | None = None,
    ) -> tuple[Appended, bool]:
        """Appends a producer's batch that passed `check_headers`.

        Returns its place, and whether the high watermark rose. Times: see `on_produce`. `guard`: see Producers.check.
        `prechecked`: see `validate`. Raises ApiException if the batch is refused.
        """
        log = self._log_to_append_to(acks)
        appended = append_as_leader(log, data, self.leader_epoch, self.settings.log, date_ms, guard, prechecked)
        return appended, self.advance_high_watermark(now_ms)

    def append_end_marker(
        self, marker: EndMarker, producer_id: int, producer_epoch: int, timestamp_ms: int, now_ms: int
    ) -> Appended:
        """Appends a transaction's end marker. Returns its place. Raises ApiException if the marker is refused."""
        log = self._log_to_append_to(acks=-1)
        appended = append_end_marker(log, marker, producer_id, producer_epoch, self.leader_epoch, timestamp_ms)
        self.advance_high_watermark(now_ms)
        return appended

    def _log_to_append_to(self, acks: int) -> ReplicaLog:
        log = self.leader_log()
        if acks == -1 and len(self.isr) < self.min_isr:
            raise exception_of(Errors.NOT_ENOUGH_REPLICAS)(f"{len(self.isr)} in sync, {self.min_isr} are needed")
        return log

    def leader_log(self) -> ReplicaLog:
        """The log; raises NotLeaderOrFollowerException if this broker does not lead."""
        if self.role is not Role.LEADER or self.log is None:
            raise exception_of(Errors.NOT_LEADER_OR_FOLLOWER)(f"{self} on broker {self.broker_id}")
        return self.log

    @property
    def min_isr(self) -> int:
        """min.insync.replicas, at most the number of replicas."""
        return min(self.settings.min_insync_replicas, len(self.followers) + 1)

    def advance_high_watermark(self, now_ms: int) -> bool:
        """Commits the records that all members of the maximal ISR have; returns whether the high watermark rose.

        Commits nothing if the ISR is smaller than the minimum, as producers expect (KAFKA-15583).
        """
        log = self.log
        if self.role is not Role.LEADER or log is None or len(self.isr) < self.min_isr:
            return False
        end_offset = committed = log.end_offset
        members = self.maximal_isr
        for broker_id, follower in self.followers.items():
            if follower.end_offset < committed and (
                broker_id in members
                # A follower that has caught up may join soon. If commits did not wait for it, it might never reach the
                # high watermark of a busy leader.
                or (follower.is_caught_up(end_offset, now_ms, self.limits.time_ms) and self._may_join_isr(broker_id))
            ):
                committed = follower.end_offset
        if committed <= log.high_watermark:
            return False
        log.high_watermark = committed
        return True

    def committed(self, required_offset: int) -> Errors | None:
        """The result for a producer that waits for the commit of `required_offset`; None while it must wait."""
        if self.role is not Role.LEADER or self.log is None:
            return Errors.NOT_LEADER_OR_FOLLOWER
        if self.log.high_watermark < required_offset:
            return None
        enough = len(self.maximal_isr) >= self.min_isr
        return Errors.NONE if enough else Errors.NOT_ENOUGH_REPLICAS_AFTER_APPEND

    # The log's start.

    def delete_records(self, offset: int) -> int:
        """Raises the start offset to `offset`, or for -1 to the high watermark. Returns the requested start offset.

        Raises PolicyViolationException for a topic without the cleanup policy delete, OffsetOutOfRangeException.
        """
        log = self.leader_log()
        if not self.settings.deletes:
            Errors.POLICY_VIOLATION.raise_for(f"{self.key[0]} has cleanup.policy=compact")
        start_offset = log.high_watermark if offset == HIGH_WATERMARK else offset
        if not 0 <= start_offset <= log.high_watermark:
            Errors.OFFSET_OUT_OF_RANGE.raise_for(f"offset {offset}, the high watermark is {log.high_watermark}")
        log.raise_start_offset(start_offset)
        return start_offset

    @property
    def low_watermark(self) -> int:
        """The lowest start offset of the live replicas. Raises NotLeaderOrFollowerException if another broker leads."""
        starts = (each.start_offset for broker_id, each in self.followers.items() if self._is_alive(broker_id))
        return min([self.leader_log().start_offset, *starts])

    # The ISR.

    def follower_fetched(
        self, broker_id: int, broker_epoch: int, offset: int, start_offset: int, end_offset: int, now_ms: int
    ) -> bool:
        """Records that a follower has all records below `offset`. Returns whether the high watermark rose.

        Raises NotLeaderOrFollowerException for a fetch of an earlier incarnation: the present one may have lost its
        records. The check and the update are one step, so that no other fetch comes between them (KAFKA-15221). In
        3.9.1 only KRaft brokers compare epochs; here the newest epoch is known from the follower's own fetches.
        """
        follower = self.followers[broker_id]
        if follower.is_outdated(broker_epoch):
            raise exception_of(Errors.NOT_LEADER_OR_FOLLOWER)(
                f"broker {broker_id} of epoch {broker_epoch}: its epoch {follower.broker_epoch} has fetched since"
            )
        before, follower.broker_epoch = follower.end_offset, broker_epoch
        follower.fetched(offset, start_offset, end_offset, now_ms)
        return before != offset and self.advance_high_watermark(now_ms)

    def expanded(self, broker_id: int) -> IsrChange | None:
        """Proposes to add a follower to the ISR. Returns the change; None if the follower may not join now."""
        follower, log, start = self.followers[broker_id], self.log, self.leader_epoch_start_offset
        if self.pending is not None or broker_id in self.isr or not self._may_join_isr(broker_id):
            return None
        if log is None or start is None or follower.end_offset < max(log.high_watermark, start):
            return None
        return self._propose((*self.isr, broker_id), joins=broker_id)

    def shrunk(self, now_ms: int) -> IsrChange | None:
        """Proposes to remove lagging members from the ISR. Returns the change; None without one."""
        log = self.log
        if self.role is not Role.LEADER or self.pending is not None or log is None:
            return None
        end_offset = log.end_offset
        isr = tuple(each for each in self.isr if each == self.broker_id or self._in_sync(each, end_offset, now_ms))
        return self._propose(isr) if isr != self.isr else None

    def _in_sync(self, broker_id: int, end_offset: int, now_ms: int) -> bool:
        follower, limits = self.followers.get(broker_id), self.limits
        if follower is None:
            return False
        near = limits.offsets is None or end_offset - follower.end_offset <= limits.offsets
        return near and follower.is_caught_up(end_offset, now_ms, limits.time_ms)

    def _propose(self, isr: tuple[int, ...], *, joins: int | None = None) -> IsrChange:
        """Begins a change of the ISR, one at a time. Until its answer, commits need the members of both ISRs."""
        received = self.received
        assert received is not None
        epochs = received.leader_epoch, received.partition_epoch
        joins_epoch = UNKNOWN_BROKER_EPOCH if joins is None else self.followers[joins].broker_epoch
        change = IsrChange(
            self.key, received.topic_id, *epochs, isr, received.controller_epoch, joins, joins_epoch=joins_epoch
        )
        self.pending = change
        return self.pending

    def isr_answered(self, change: IsrChange, answer: IsrResponse, now_ms: int) -> bool:
        """Applies the controller's new ISR. Returns whether the high watermark rose.

        An answer is ignored after a newer LeaderAndIsr (KAFKA-12686). An answer may have the same partition epoch, if
        the controller already had that ISR; it must end the change, too (KAFKA-12751). A smaller ISR may commit more
        records (KAFKA-13091).
        """
        received = self.received
        if self.pending is not change or received is None:
            return False
        if answer.leader_epoch != received.leader_epoch or answer.partition_epoch < received.partition_epoch:
            return False
        self.pending = None
        self.received = replace(received, isr=answer.isr, partition_epoch=answer.partition_epoch)
        return self.advance_high_watermark(now_ms)

    def isr_refused(self, change: IsrChange, error: Errors) -> bool:
        """Handles the controller's error. Returns whether the change must be sent again."""
        if self.pending is not change:
            return False
        if error in NOT_APPLIED:
            self.pending = None
        return error not in NOT_APPLIED and error not in AWAIT_LEADER_AND_ISR

    # Reads.

    def check_epoch(self, current_leader_epoch: int) -> None:
        """Raises FencedLeaderEpochException or UnknownLeaderEpochException for another leader epoch; accepts -1."""
        if current_leader_epoch < 0 or current_leader_epoch == self.leader_epoch:
            return
        stale = current_leader_epoch < self.leader_epoch
        error = Errors.FENCED_LEADER_EPOCH if stale else Errors.UNKNOWN_LEADER_EPOCH
        raise exception_of(error)(f"leader epoch {self.leader_epoch} here, not {current_leader_epoch}")

    def local_log(self, current_leader_epoch: int, *, must_lead: bool) -> ReplicaLog:
        """The log (getLocalLog). Raises ApiException for another leader epoch, or if this replica must not serve it."""
        self.check_epoch(current_leader_epoch)
        if must_lead:
            return self.leader_log()
        if self.log is None or self.role not in (Role.LEADER, Role.FOLLOWER):
            raise exception_of(Errors.NOT_LEADER_OR_FOLLOWER)(str(self))
        return self.log

    def end_offset_for(self, epoch: int, log: ReplicaLog) -> EpochEndOffset:
        """The end offset of a leader epoch in this log (KIP-101)."""
        return log.epochs.end_offset_for(epoch, log.end_offset)

    def read(
        self,
        log: ReplicaLog,
        offset: int,
        max_bytes: int,
        last_fetched_epoch: int,
        limit: int,
        *,
        at_least_one: bool,
        committed: bool = False,
    ) -> Read:
        """Reads whole batches below `limit`. Raises OffsetOutOfRangeException for an offset outside the log.

        `committed`: read only below the last stable offset, and return the aborted transactions (read_committed).
        """
        start_offset, end_offset = log.start_offset, log.end_offset
        stable_offset = log.producers.last_stable_offset(log.high_watermark, start_offset)
        found = Read(b"", log.high_watermark, start_offset, end_offset, stable_offset)
        out_of_range = exception_of(Errors.OFFSET_OUT_OF_RANGE)
        if last_fetched_epoch >= 0:
            known = self.end_offset_for(last_fetched_epoch, log)
            if UNDEFINED_EPOCH in known or UNDEFINED_EPOCH_OFFSET in known or offset < start_offset:
                raise out_of_range(f"epoch {last_fetched_epoch}, offset {offset}: the log begins at {start_offset}")
            if known.epoch < last_fetched_epoch or known.end_offset < offset:
                return found._replace(diverging=known)
        if not start_offset <= offset <= end_offset:
            raise out_of_range(f"offset {offset} is not in {start_offset} to {end_offset}")
        limit = min(limit, stable_offset) if committed else limit
        records = log.read(offset, max_bytes, limit, at_least_one=at_least_one)
        if not committed or not records:
            return found._replace(records=records)
        return found._replace(records=records, aborted=log.aborted_transactions(offset, end_of(records)))


def end_of(records: Bytes) -> int:
    """The offset after the last record of whole batches."""
    return int(scan_batches(records, check_crc=False).last_offset[-1]) + 1


class HeldPartitions(Protocol):
    """Finds the partitions of this broker. `ReplicaManager` implements this and the other interfaces to replicas."""

    def partition(self, key: Key) -> Partition:
        """The partition; raises ApiException if this broker does not serve it."""


class StoredPartitions(HeldPartitions, Protocol):
    """The partitions of this broker, and a method that reports a failed disk."""

    def log_failed(self, key: Key, error: Exception) -> None:
        """Takes the partition offline, and asks the server to take its log directory offline."""
