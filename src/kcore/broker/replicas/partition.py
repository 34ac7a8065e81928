"""One replica as the machine it is: it leads, commits and keeps the ISR, or follows (Partition of 3.9.1). No clock."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from kcore.broker.replicas.appending import Appended, append_as_leader, append_end_marker
from kcore.broker.replicas.followers import Follower
from kcore.broker.replicas.log import ReplicaLog
from kcore.broker.replicas.log_validator import Bytes, CheckedRecords, LogConfig
from kcore.broker.replicas.replica import Key, Replica
from kcore.broker.replicas.roles import Order, Role, Step, next_step
from kcore.broker.replicas.transactions import AbortedTransaction, EndMarker
from kcore.constants import RECOVERED, UNDEFINED_EPOCH, UNDEFINED_EPOCH_OFFSET, UNKNOWN_BROKER_EPOCH
from kcore.protocol_errors import Errors, exception_of
from kcore.replication.epochs import EpochEndOffset
from kcore.types import Uuid
from kcore.wire.record_batch import scan_batches


@dataclass(slots=True)
class TopicSettings:
    """A topic's configuration, as far as a replica needs it."""

    min_insync_replicas: int = 1
    log: LogConfig = field(default_factory=LogConfig)
    deletes: bool = True  # Whether cleanup.policy has "delete" in it.
    retention_ms: int = -1  # Older segments go; below 0: none does.
    retention_bytes: int = -1  # Segments beyond so many bytes go; below 0: none does.
    segment_bytes: int | None = None  # A segment is full then; None: as the broker has it.
    segment_ms: int | None = None  # So is one whose first batch is so much older than the next; None: none is.


@dataclass(frozen=True, slots=True)
class LagLimits:
    """When a follower is out of sync."""

    time_ms: int = 30_000  # replica.lag.time.max.ms
    offsets: int | None = None  # As the article has it, and replica.lag.max.messages until Kafka 0.9.


@dataclass(frozen=True, slots=True, eq=False)
class IsrChange:
    """The leader's request to the controller.

    Compared by identity, so that a late response is not taken for a new one.
    """

    key: Key
    topic_id: Uuid
    leader_epoch: int
    partition_epoch: int
    isr: tuple[int, ...]
    controller_epoch: int
    joins: int | None = None  # The new member; None if members are removed.
    leader_recovery_state: int = RECOVERED
    joins_epoch: int = UNKNOWN_BROKER_EPOCH  # The incarnation that has all of it.


class IsrResponse(NamedTuple):
    """The partition as the controller has it now."""

    leader_epoch: int
    partition_epoch: int
    isr: tuple[int, ...]


class Read(NamedTuple):
    """The result of a fetch, with the offsets before it."""

    records: bytes
    high_watermark: int
    start_offset: int
    end_offset: int
    last_stable_offset: int
    diverging: EpochEndOffset | None = None
    aborted: Sequence[AbortedTransaction] = ()  # Of transactions that have records among `records`.


HIGH_WATERMARK = -1  # In DeleteRecords.

# The change stays in flight until the next LeaderAndIsr (Partition.handleAlterPartitionError).
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
# The controller reports the same partition epoch: nothing was changed.
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
        """`is_alive`: whether a broker is live by what is known of the cluster; `may_join_isr`: and does not stop."""
        self.key, self.broker_id, self.limits = key, broker_id, limits
        self._is_alive, self._may_join_isr = is_alive, may_join_isr
        self.role = Role.NONE
        self.settings = TopicSettings()
        self.received: Replica | None = None  # The last state it was given; its ISR is the committed one.
        self.pending: IsrChange | None = None
        self.followers: dict[int, Follower] = {}
        self.log: ReplicaLog | None = None
        self.leader_epoch_start_offset: int | None = None

    def __str__(self) -> str:
        return f"{self.key[0]}-{self.key[1]}, {self.role.value}, {self.received}, in flight {self.pending}"

    def order(self, order: Order) -> Step:
        """Takes the new role; returns what is to be done for it."""
        step = next_step(self.role, order, self)
        self.role = step.role
        return step

    @property
    def leader_epoch(self) -> int:
        return self.received.leader_epoch if self.received is not None else -1

    @property
    def isr(self) -> tuple[int, ...]:
        """The in-sync replicas as ZooKeeper has them."""
        return self.received.isr if self.received is not None and self.role is Role.LEADER else ()

    @property
    def maximal_isr(self) -> tuple[int, ...]:
        """With the one that may be in already: what is committed must be there, too (KIP-497)."""
        joins = self.pending.joins if self.pending is not None else None
        return self.isr if joins is None else (*self.isr, joins)

    # Roles.

    def become_leader(self, received: Replica, log: ReplicaLog, now_ms: int) -> Step:
        """Serve reads and writes from now on. The high watermark may be advanced then.

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
        """Neither reads nor writes for others from now on, but fetch."""
        self.log, self.received, self.pending = log, received, None
        self.followers, self.leader_epoch_start_offset = {}, None
        return self.order(Order.BECOME_FOLLOWER)

    # As the leader.

    def append(
        self,
        data: Bytes,
        acks: int,
        now_ms: int,
        date_ms: int,
        guard: object | None = None,
        ahead: CheckedRecords | None = None,
    ) -> tuple[Appended, bool]:
        """Appends a producer's batch that `first_look` has checked.

        Returns its place, and whether the high watermark moved. Times as `on_produce` has them, `guard` as
        Producers.check does, `ahead` as `validate` does. ApiException if the batch is refused.
        """
        log = self._log_to_append_to(acks)
        appended = append_as_leader(log, data, self.leader_epoch, self.settings.log, date_ms, guard, ahead)
        return appended, self.advance_high_watermark(now_ms)

    def append_end_marker(
        self, marker: EndMarker, producer_id: int, producer_epoch: int, timestamp_ms: int, now_ms: int
    ) -> Appended:
        """Appends a transaction's end marker. Returns its place. ApiException if it is refused."""
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
        """NotLeaderOrFollowerException if another leads."""
        if self.role is not Role.LEADER or self.log is None:
            raise exception_of(Errors.NOT_LEADER_OR_FOLLOWER)(f"{self} on broker {self.broker_id}")
        return self.log

    @property
    def min_isr(self) -> int:
        """min.insync.replicas, but no more than there are replicas."""
        return min(self.settings.min_insync_replicas, len(self.followers) + 1)

    def advance_high_watermark(self, now_ms: int) -> bool:
        """Commits what all have that are in sync, or about to be; whether that is more than before.

        Never under the minimum ISR (KAFKA-15583): what is committed would not be what the producer was promised.
        """
        log = self.log
        if self.role is not Role.LEADER or log is None or len(self.isr) < self.min_isr:
            return False
        end_offset = committed = log.end_offset
        members = self.maximal_isr
        for broker_id, follower in self.followers.items():
            if follower.end_offset < committed and (
                broker_id in members
                # One that is nearly in: without this it might never catch up with a busy leader.
                or (follower.is_caught_up(end_offset, now_ms, self.limits.time_ms) and self._may_join_isr(broker_id))
            ):
                committed = follower.end_offset
        if committed <= log.high_watermark:
            return False
        log.high_watermark = committed
        return True

    def committed(self, required_offset: int) -> Errors | None:
        """The result for a producer that waits for all below `required_offset`; None while it has to wait."""
        if self.role is not Role.LEADER or self.log is None:
            return Errors.NOT_LEADER_OR_FOLLOWER
        if self.log.high_watermark < required_offset:
            return None
        enough = len(self.maximal_isr) >= self.min_isr
        return Errors.NONE if enough else Errors.NOT_ENOUGH_REPLICAS_AFTER_APPEND

    # The log's start.

    def delete_records(self, offset: int) -> int:
        """Lets the log begin at `offset` at the earliest, -1 for the high watermark; returns that offset.

        PolicyViolationException for a topic that is only compacted, OffsetOutOfRangeException.
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
        """The lowest start offset of the live replicas. NotLeaderOrFollowerException if another broker leads."""
        starts = (each.start_offset for broker_id, each in self.followers.items() if self._is_alive(broker_id))
        return min([self.leader_log().start_offset, *starts])

    # The ISR.

    def follower_fetched(
        self, broker_id: int, broker_epoch: int, offset: int, start_offset: int, end_offset: int, now_ms: int
    ) -> bool:
        """A follower has all below `offset`; whether the high watermark moved.

        NotLeaderOrFollowerException for an earlier incarnation: it may have had records that the current one has lost.
        Checked and recorded in one step, so that no other fetch comes in between (KAFKA-15221). In 3.9.1 only KRaft
        knows the newer epoch; here a follower's own fetches show it.
        """
        follower = self.followers[broker_id]
        if follower.is_outdated(broker_epoch):
            raise exception_of(Errors.NOT_LEADER_OR_FOLLOWER)(
                f"broker {broker_id} of epoch {broker_epoch}: {follower.broker_epoch} has fetched since"
            )
        before, follower.broker_epoch = follower.end_offset, broker_epoch
        follower.fetched(offset, start_offset, end_offset, now_ms)
        return before != offset and self.advance_high_watermark(now_ms)

    def expanded(self, broker_id: int) -> IsrChange | None:
        """The change that takes a follower in which has caught up with what is committed."""
        follower, log, start = self.followers[broker_id], self.log, self.leader_epoch_start_offset
        if self.pending is not None or broker_id in self.isr or not self._may_join_isr(broker_id):
            return None
        if log is None or start is None or follower.end_offset < max(log.high_watermark, start):
            return None
        return self._propose((*self.isr, broker_id), joins=broker_id)

    def shrunk(self, now_ms: int) -> IsrChange | None:
        """The change that removes lagging members."""
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
        """One change at a time is in flight. Until it is answered, the stricter of both ISRs holds."""
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
        """The controller took it; whether the high watermark moved.

        Nothing if a LeaderAndIsr came in between (KAFKA-12686). Equal partition epochs are an answer, too: the
        controller had that ISR already, and the change must not stay in flight for ever (KAFKA-12751). An ISR that is
        smaller may commit more (KAFKA-13091).
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
        """The controller did not take it; whether to ask again."""
        if self.pending is not change:
            return False
        if error in NOT_APPLIED:
            self.pending = None
        return error not in NOT_APPLIED and error not in AWAIT_LEADER_AND_ISR

    # Reads.

    def check_epoch(self, current_leader_epoch: int) -> None:
        """FencedLeaderEpochException or UnknownLeaderEpochException if the asker has another in mind; -1 has none."""
        if current_leader_epoch < 0 or current_leader_epoch == self.leader_epoch:
            return
        stale = current_leader_epoch < self.leader_epoch
        error = Errors.FENCED_LEADER_EPOCH if stale else Errors.UNKNOWN_LEADER_EPOCH
        raise exception_of(error)(f"leader epoch {self.leader_epoch} here, not {current_leader_epoch}")

    def local_log(self, current_leader_epoch: int, *, must_lead: bool) -> ReplicaLog:
        """As getLocalLog: ApiException if the epoch is another, or if this replica does not serve that."""
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
        """Whole batches below `limit`: nothing between there and the log's end, OffsetOutOfRangeException beyond.

        `committed`: for a read_committed consumer, below the last stable offset and with the transactions aborted.
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
        read_end = int(scan_batches(records, check_crc=False).last_offset[-1]) + 1
        return found._replace(records=records, aborted=log.aborted_transactions(offset, read_end))
