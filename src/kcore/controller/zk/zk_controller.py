"""The ZooKeeper-mode controller: a thin class over tables and decisions, without sockets, clock or ZooKeeper.

Source: KafkaController of 3.9.1 (onBrokerFailure, onBrokerStartup, doControlledShutdown, onReplicaElection).
"""

import copy
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from kcore.constants import UNKNOWN_BROKER_EPOCH
from kcore.controller.zk.decision import Decision, StateWrite, state_writes
from kcore.controller.zk.events import BrokerFailed, BrokerStarted, ControlledShutdown, PreferredElection
from kcore.controller.zk.leaders import directories
from kcore.controller.zk.requests.builder import ControlRequest, RequestBuilder
from kcore.controller.zk.requests.live_brokers import BrokerPlaces
from kcore.controller.zk.requests.states import ReplicaAvailability, distinct
from kcore.controller.zk.requests.versions import request_versions
from kcore.controller.zk.topics import new_partitions
from kcore.errors import TableError
from kcore.metadata.table.change_sets import no_changes, part
from kcore.metadata.table.changes import UnwrittenChanges
from kcore.metadata.table.partition_table import PartitionTable
from kcore.protocol_errors import Errors
from kcore.replication.elect import ZooKeeperKind, zookeeper_elect
from kcore.schema import ControlledShutdownResponse
from kcore.schema.controlled_shutdown import RemainingPartition
from kcore.types import Bools, Int32s


class ZkController:
    """Decides how events change the partitions of `table`, and which brokers must be sent the changes.

    Every `on_...` returns a Decision and changes nothing; `replay` is the only mutator, called once ZooKeeper has
    accepted the decision's writes; `requests` builds what may be sent after that.
    """

    def __init__(
        self,
        controller_id: int,
        controller_epoch: int,
        table: PartitionTable,
        *,
        inter_broker_protocol: str = "3.9",
        unclean: bool = False,
    ) -> None:
        """`unclean`: unclean.leader.election.enable of all topics. UnsupportedVersionError for an unknown protocol."""
        self.controller_id = controller_id
        self.controller_epoch = controller_epoch
        self.table = table
        self.versions = request_versions(inter_broker_protocol)
        self.unclean: bool | Bools = unclean  # Of all topics, or by partition.
        self.offline_dirs: dict[int, set[int]] = {}  # Broker id -> rows: replicas on failed log directories.
        self.topics_to_be_deleted: set[str] = set()  # No decision touches them.
        self.places = BrokerPlaces()  # For requests.
        # The one rule of 3.9.1's elections that the protocol version decides.
        self._level = "3.9.1" if self.versions.leader_recovery_supported else "zookeeper:3.1-IV0"

    def situation(self) -> ReplicaAvailability:
        """Failed directories and deletions, as requests and decisions see them."""
        return ReplicaAvailability(self.table, self.topics_to_be_deleted, self.offline_dirs)

    def on_broker_failed(self, event: BrokerFailed) -> Decision:
        """Elect where a lost broker led, take it out of every ISR. Brokers that are not live are ignored."""
        known = self.table.brokers
        failed = tuple(broker for broker in event.broker_ids if broker in known and known.live[known.row(broker)])
        if not failed:
            return Decision(no_changes())
        return Decision(self._elect("offline", leaving=failed), failed=failed)

    def on_broker_started(self, event: BrokerStarted) -> Decision:
        """Add a broker, and elect where only it was missing; nothing if this incarnation is live already.

        A higher epoch than a live broker's is a bounce: failure first, then start-up (KIP-380); TableError without.
        """
        return self.on_brokers_started([event])

    def on_brokers_started(self, events: Sequence[BrokerStarted]) -> Decision:
        """The same for several at once."""
        changes = tuple(event for event in events if not self._is_live(event))
        if not changes:
            return Decision(no_changes())
        after = copy.copy(self.table)
        after.brokers = self.table.brokers.copy()
        for event in changes:
            after.brokers.register(event.broker_id, event.broker_epoch, rack=event.rack, endpoints=event.endpoints)
        held = [self.table.index.rows(after.brokers.row(event.broker_id)) for event in changes]
        waiting = _led_by_nobody(after, distinct(np.concatenate(held)))
        return Decision(self._elect("offline", rows=waiting, table=after), started=changes)

    def _is_live(self, event: BrokerStarted) -> bool:
        known = self.table.brokers
        if event.broker_id not in known or not known.live[known.row(event.broker_id)]:
            return False
        epoch = known.epochs[known.row(event.broker_id)]
        if event.broker_epoch > epoch:
            raise TableError(f"broker {event.broker_id} bounced, {epoch} to {event.broker_epoch}: fail it first")
        return True

    def on_failover(self) -> Decision:
        """What ReplicaStateMachine.startup finds: replicas that are offline go out of the ISRs, others lead."""
        brokers = self.table.brokers
        dead = brokers.ids[~brokers.live].tolist()
        return Decision(self._elect("offline", leaving=dead) if dead else no_changes())

    def on_offline_partitions(self, rows: Int32s | None = None) -> Decision:
        """PartitionStateMachine.triggerOnlinePartitionStateChange: elect where there is no leader, if possible."""
        return Decision(self._elect("offline", rows=None if rows is None else _led_by_nobody(self.table, rows)))

    def on_new_partitions(self, rows: Int32s) -> Decision:
        """The first states of partitions that have none; none yet where no replica is online."""
        rows = rows[self.table.leader_epoch__p[rows] < 0]
        rows = rows[~self.situation().being_deleted(rows)]
        return Decision(new_partitions.initial_states(self.table, rows, ~self.situation().offline(rows)))

    def on_replicas_offline(self, broker_id: int, rows: Int32s) -> Decision:
        """Log directories of a live broker failed: as if it had failed, for these partitions alone."""
        changes = self._elect("offline", leaving=(broker_id,))
        return Decision(part(changes, np.isin(changes.rows, rows)))

    def on_controlled_shutdown(self, event: ControlledShutdown) -> Decision:
        """Move the leaders of a broker that wants to stop, take it out of the ISRs that it follows in."""
        error = self._refusal(event)
        if error is not Errors.NONE:
            return Decision(no_changes(), response=ControlledShutdownResponse(error_code=error))
        changes = self._elect("controlled-shutdown", leaving=(event.broker_id,))
        row = self.table.brokers.row(event.broker_id)
        held = self._replicated(self.table.index.rows(row))
        held = held[~self.situation().being_deleted(held)]  # They go anyway (linkedin f19b6935d).
        followed = held[(self.table.leader__p[held] != row) & (self.table.leader_epoch__p[held] >= 0)]
        decision = Decision(
            changes,
            shutting_down=(event.broker_id,),
            stopped=followed,
            stopped_epochs=self.table.leader_epoch__p[followed],
        )
        return replace(decision, response=self.shutdown_response(event, decision))

    def shutdown_response(self, event: ControlledShutdown, decision: Decision) -> ControlledShutdownResponse:
        """The answer to what was decided, or to the part of it that was written: what the broker leads still."""
        if decision.response is not None and decision.response.error_code:
            return decision.response
        row = self.table.brokers.row(event.broker_id)
        held = self._replicated(self.table.index.rows(row))
        held = held[~self.situation().being_deleted(held)]
        led = held[self.table.leader__p[held] == row]
        moved = decision.changes.rows[decision.changes.leaders != event.broker_id]
        return ControlledShutdownResponse(remaining_partitions=self._names(np.setdiff1d(led, moved)))

    def on_preferred_election(self, event: PreferredElection) -> Decision:
        """Elect the first replica where it is live and in the ISR; nothing where it leads already."""
        rows = event.rows
        if rows is not None:
            rows = rows[self.table.leader__p[rows] != self.table.replicas__ps[rows, 0]]
        return Decision(self._elect("preferred", rows=rows))

    def _elect(
        self,
        kind: ZooKeeperKind,
        *,
        rows: Int32s | None = None,
        leaving: Sequence[int] = (),
        table: PartitionTable | None = None,
    ) -> UnwrittenChanges:
        """One election in bulk; not of topics that are being deleted, and with regard to failed log directories."""
        table = self.table if table is None else table
        changes: UnwrittenChanges = zookeeper_elect(
            table, kind, rows=rows, leaving=leaving, unclean=self.unclean, level=self._level
        )
        stateless = table.leader_epoch__p[changes.rows] < 0
        if stateless.any():  # Their first state is on_new_partitions' to give.
            changes = part(changes, ~stateless)
        if self.offline_dirs:
            changes = directories.corrected(
                changes, table, self.offline_dirs, kind, rows, leaving, self.unclean, self._level
            )
        if self.topics_to_be_deleted:
            changes = part(changes, ~self.situation().being_deleted(changes.rows))
        return changes

    def state_writes(self, decision: Decision) -> list[StateWrite]:
        """The conditional writes that ZooKeeper must take before `replay`."""
        return list(state_writes(self.table, decision.changes, self.controller_epoch))

    def replay(self, decision: Decision) -> None:
        """Make the decision true: the one mutator. A decision that is replayed twice is made once."""
        brokers = self.table.brokers
        for broker_id in decision.failed:
            brokers.set_gone(broker_id)
        for event in decision.started:
            brokers.register(event.broker_id, event.broker_epoch, rack=event.rack, endpoints=event.endpoints)
        for broker_id in decision.shutting_down:
            brokers.set_shutting_down(broker_id)
        self.table.apply(decision.changes.written(), controller_epoch=self.controller_epoch, check_epochs=False)

    def requests(self, decision: Decision) -> list[ControlRequest]:
        """The control requests for a replayed decision: UpdateMetadata first, one of each kind a broker."""
        head = self.controller_id, self.controller_epoch
        builder = RequestBuilder(*head, self.table, self.versions, self.places)
        return builder.requests(decision)

    def _refusal(self, event: ControlledShutdown) -> Errors:
        brokers = self.table.brokers
        if event.broker_id not in brokers or not brokers.live[brokers.row(event.broker_id)]:
            return Errors.BROKER_NOT_AVAILABLE
        known = brokers.epochs[brokers.row(event.broker_id)]
        if event.broker_epoch != UNKNOWN_BROKER_EPOCH and event.broker_epoch < known:
            return Errors.STALE_BROKER_EPOCH  # Sent before the bounce, arrived after it (KIP-380).
        return Errors.NONE

    def _replicated(self, rows: Int32s) -> Int32s:
        """Those with more than one replica: a single one has no other leader, and shutdown does not wait for it."""
        if self.table.replicas__ps.shape[1] < 2:
            return rows[:0]
        replicated: Int32s = rows[self.table.replicas__ps[rows, 1] >= 0]
        return replicated

    def _names(self, rows: Int32s) -> list[RemainingPartition]:
        names, table = self.table.topics.names, self.table
        return [
            RemainingPartition(
                topic_name=names[table.topic_row__p[row]], partition_index=int(table.partition_index__p[row])
            )
            for row in rows
        ]


def _led_by_nobody(table: PartitionTable, rows: Int32s) -> Int32s:
    """Partitions with a state whose leader is none or not live."""
    leaders = table.leader__p[rows]
    led_by_nobody: Int32s = rows[(table.leader_epoch__p[rows] >= 0) & ((leaders < 0) | ~table.brokers.live[leaders])]
    return led_by_nobody
