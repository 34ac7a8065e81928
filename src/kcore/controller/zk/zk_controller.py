"""The decisions of the ZooKeeper-mode controller, over its partition table, without sockets, clock or ZooKeeper.

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
from kcore.controller.zk.requests.batch import RequestBatch, add_decision
from kcore.controller.zk.requests.control_request import ControlRequest
from kcore.controller.zk.requests.live_brokers import BrokerPlaces
from kcore.controller.zk.requests.states import ReplicaAvailability, distinct
from kcore.controller.zk.requests.versions import request_versions
from kcore.controller.zk.topics import new_partitions
from kcore.errors import TableError
from kcore.metadata.table.change_sets import no_changes, part
from kcore.metadata.table.changes import UnwrittenChanges
from kcore.metadata.table.partition_table import PartitionTable
from kcore.protocol_errors import Errors
from kcore.releases.known import ZOOKEEPER_RELEASE
from kcore.replication.elect import ZooKeeperKind, zookeeper_elect
from kcore.schema import ControlledShutdownResponse
from kcore.schema.controlled_shutdown import RemainingPartition
from kcore.types import Bools, Int32s


class ZkController:
    """Decides how events change the partitions of `table`, and which brokers must be sent the changes.

    Every `on_...` returns a Decision and changes nothing; `replay` is the only mutator, called once ZooKeeper has
    accepted the decision's writes; `requests` builds the control requests to send after that.
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
        """`unclean`: unclean.leader.election.enable for all topics. UnsupportedVersionError for an unknown protocol."""
        self.controller_id = controller_id
        self.controller_epoch = controller_epoch
        self.table = table
        self.versions = request_versions(inter_broker_protocol)
        self.unclean: bool | Bools = unclean  # For all topics, or by partition.
        self.offline_dirs: dict[int, set[int]] = {}  # Replicas on failed log directories: rows by broker id.
        self.topics_to_be_deleted: set[str] = set()  # Decisions leave these topics as they are.
        self.places = BrokerPlaces()  # The brokers' endpoints, for requests.
        # Whether unclean leaders are marked as recovering: the only rule of elections that depends on the protocol.
        self._level = ZOOKEEPER_RELEASE if self.versions.leader_recovery_supported else "zookeeper:3.1-IV0"

    def situation(self) -> ReplicaAvailability:
        """The failed log directories and the deletions, which decisions and requests take into account."""
        return ReplicaAvailability(self.table, self.topics_to_be_deleted, self.offline_dirs)

    def on_broker_failed(self, event: BrokerFailed) -> Decision:
        """Elect new leaders and shrink the ISRs of failed brokers. Brokers that are not live are ignored."""
        known = self.table.brokers
        failed = tuple(broker for broker in event.broker_ids if broker in known and known.live[known.row(broker)])
        if not failed:
            return Decision(no_changes())
        return Decision(self._elect("offline", leaving=failed), failed=failed)

    def on_broker_started(self, event: BrokerStarted) -> Decision:
        """Add a broker, and elect where no other replica could lead; nothing if this incarnation is live already.

        TableError if a live broker has a lower epoch: it bounced, and must fail first (KIP-380).
        """
        return self.on_brokers_started([event])

    def on_brokers_started(self, events: Sequence[BrokerStarted]) -> Decision:
        """`on_broker_started` for several brokers at once."""
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
        """Remove offline replicas from the ISRs and elect other leaders (ReplicaStateMachine.startup)."""
        brokers = self.table.brokers
        dead = brokers.ids[~brokers.live].tolist()
        return Decision(self._elect("offline", leaving=dead) if dead else no_changes())

    def on_offline_partitions(self, rows: Int32s | None = None) -> Decision:
        """Elect leaders for partitions without a leader (PartitionStateMachine.triggerOnlinePartitionStateChange)."""
        return Decision(self._elect("offline", rows=None if rows is None else _led_by_nobody(self.table, rows)))

    def on_new_partitions(self, rows: Int32s) -> Decision:
        """The first states of new partitions; a partition without an online replica gets none yet."""
        rows = rows[self.table.leader_epoch__p[rows] < 0]
        rows = rows[~self.situation().being_deleted(rows)]
        return Decision(new_partitions.initial_states(self.table, rows, ~self.situation().offline(rows)))

    def on_replicas_offline(self, broker_id: int, rows: Int32s) -> Decision:
        """Log directories of a live broker failed: decide as if the broker had failed for these partitions."""
        changes = self._elect("offline", leaving=(broker_id,))
        return Decision(part(changes, np.isin(changes.rows, rows)))

    def on_controlled_shutdown(self, event: ControlledShutdown) -> Decision:
        """Elect other leaders for a broker that shuts down, and remove it from the ISRs of other leaders."""
        error = self._refusal(event)
        if error is not Errors.NONE:
            return Decision(no_changes(), response=ControlledShutdownResponse(error_code=error))
        changes = self._elect("controlled-shutdown", leaving=(event.broker_id,))
        row = self.table.brokers.row(event.broker_id)
        held = self._replicated(self.table.index.rows(row))
        held = held[~self.situation().being_deleted(held)]  # They are deleted anyway (linkedin f19b6935d).
        followed = held[(self.table.leader__p[held] != row) & (self.table.leader_epoch__p[held] >= 0)]
        decision = Decision(
            changes,
            shutting_down=(event.broker_id,),
            stopped=followed,
            stopped_epochs=self.table.leader_epoch__p[followed],
        )
        return replace(decision, response=self.shutdown_response(event, decision))

    def shutdown_response(self, event: ControlledShutdown, decision: Decision) -> ControlledShutdownResponse:
        """The response to the part of the decision that was written: the partitions that the broker still leads."""
        if decision.response is not None and decision.response.error_code:
            return decision.response
        row = self.table.brokers.row(event.broker_id)
        held = self._replicated(self.table.index.rows(row))
        held = held[~self.situation().being_deleted(held)]
        led = held[self.table.leader__p[held] == row]
        moved = decision.changes.rows[decision.changes.leaders != event.broker_id]
        return ControlledShutdownResponse(remaining_partitions=self._names(np.setdiff1d(led, moved)))

    def on_preferred_election(self, event: PreferredElection) -> Decision:
        """Elect the first replica where it is live, in the ISR and not the leader already."""
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
        """Elect for many partitions at once; skips topics being deleted, and considers failed log directories."""
        table = self.table if table is None else table
        changes: UnwrittenChanges = zookeeper_elect(
            table, kind, rows=rows, leaving=leaving, unclean=self.unclean, level=self._level
        )
        stateless = table.leader_epoch__p[changes.rows] < 0
        if stateless.any():  # `on_new_partitions` decides the first states.
            changes = part(changes, ~stateless)
        if self.offline_dirs:
            changes = directories.corrected(
                changes, table, self.offline_dirs, kind, rows, leaving, self.unclean, self._level
            )
        if self.topics_to_be_deleted:
            changes = part(changes, ~self.situation().being_deleted(changes.rows))
        return changes

    def state_writes(self, decision: Decision) -> list[StateWrite]:
        """The conditional writes that ZooKeeper must accept before `replay`."""
        return list(state_writes(self.table, decision.changes, self.controller_epoch))

    def replay(self, decision: Decision) -> None:
        """Apply a decision to the table: the only mutator. A second replay of the same decision changes nothing."""
        brokers = self.table.brokers
        for broker_id in decision.failed:
            brokers.set_gone(broker_id)
        for event in decision.started:
            brokers.register(event.broker_id, event.broker_epoch, rack=event.rack, endpoints=event.endpoints)
        for broker_id in decision.shutting_down:
            brokers.set_shutting_down(broker_id)
        self.table.apply(decision.changes.written(), controller_epoch=self.controller_epoch, check_epochs=False)

    def requests(self, decision: Decision) -> list[ControlRequest]:
        """The requests for a replayed decision, UpdateMetadata first (KAFKA-4443), one of each kind for a broker."""
        head = self.controller_id, self.controller_epoch
        batch = RequestBatch(*head, self.table, self.versions, places=self.places)
        add_decision(batch, self.table, decision)
        return batch.requests()

    def _refusal(self, event: ControlledShutdown) -> Errors:
        brokers = self.table.brokers
        if event.broker_id not in brokers or not brokers.live[brokers.row(event.broker_id)]:
            return Errors.BROKER_NOT_AVAILABLE
        known = brokers.epochs[brokers.row(event.broker_id)]
        if event.broker_epoch != UNKNOWN_BROKER_EPOCH and event.broker_epoch < known:
            return Errors.STALE_BROKER_EPOCH  # The broker sent it before it bounced (KIP-380).
        return Errors.NONE

    def _replicated(self, rows: Int32s) -> Int32s:
        """The partitions with more than one replica: a single replica cannot be replaced, so shutdown ignores it."""
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
    """The partitions that have a state, and no leader or a leader that is not live."""
    leaders = table.leader__p[rows]
    led_by_nobody: Int32s = rows[(table.leader_epoch__p[rows] >= 0) & ((leaders < 0) | ~table.brokers.live[leaders])]
    return led_by_nobody
