"""The ZooKeeper-mode controller: a thin class over tables and decisions, without sockets, clock or ZooKeeper.

Source: KafkaController of 3.9.1 (onBrokerFailure, onBrokerStartup, doControlledShutdown, onReplicaElection).
"""

import copy

import numpy as np

from kcore.constants import UNKNOWN_BROKER_EPOCH
from kcore.controller.decision import Decision, StateWrite, state_writes
from kcore.controller.events import BrokerFailed, BrokerStarted, ControlledShutdown, PreferredElection
from kcore.controller.request_versions import request_versions
from kcore.controller.requests import ControlRequest, RequestBuilder
from kcore.errors import TableError
from kcore.metadata.broker_table import BrokerTable
from kcore.metadata.changes import PartitionChanges
from kcore.metadata.partition_table import PartitionTable
from kcore.protocol_errors import Errors
from kcore.replication.election import elect
from kcore.schema import ControlledShutdownResponse
from kcore.schema.controlled_shutdown import RemainingPartition
from kcore.types import Int32s


class ZkController:
    """Decides what events mean for the partitions of `table` and who must hear of it.

    Every `on_...` returns a Decision and changes nothing; `replay` is the only mutator, for when ZooKeeper has taken
    the decision's state writes; `requests` builds what may leave after that.
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
        self._unclean = unclean
        # The one rule of 3.9.1's elections that the protocol version decides.
        self._level = "3.9.1" if self.versions.leader_recovery_supported else "zookeeper:3.1-IV0"

    def on_broker_failed(self, event: BrokerFailed) -> Decision:
        """Elect where a lost broker led, take it out of every ISR. Brokers that are not known as live are no news."""
        known = self.table.brokers
        failed = tuple(broker for broker in event.broker_ids if broker in known and known.live[known.row(broker)])
        if not failed:
            return Decision(_no_changes())
        changes = elect(self.table, "offline", leaving=failed, unclean=self._unclean, level=self._level)
        return Decision(changes, failed=failed)

    def on_broker_started(self, event: BrokerStarted) -> Decision:
        """Introduce a broker, and elect where only it was missed; nothing if this incarnation is known as live.

        A higher epoch than a live broker's is a bounce: failure first, then start-up (KIP-380); TableError without.
        """
        known = self.table.brokers
        if event.broker_id in known and known.live[known.row(event.broker_id)]:
            epoch = known.epochs[known.row(event.broker_id)]
            if event.broker_epoch > epoch:
                raise TableError(f"broker {event.broker_id} bounced, {epoch} to {event.broker_epoch}: fail it first")
            return Decision(_no_changes())
        brokers = self._brokers_with(event)
        row = brokers.row(event.broker_id)
        after = copy.copy(self.table)
        after.brokers = brokers
        waiting = _led_by_nobody(after, row) if row < len(self.table.brokers) else np.empty(0, np.int32)
        changes = elect(after, "offline", rows=waiting, unclean=self._unclean, level=self._level)
        return Decision(changes, started=(event,))

    def on_controlled_shutdown(self, event: ControlledShutdown) -> Decision:
        """Move the leaders of a broker that wants to stop, take it out of the ISRs that it follows in."""
        error = self._refusal(event)
        if error is not Errors.NONE:
            return Decision(_no_changes(), response=ControlledShutdownResponse(error_code=error))
        changes = elect(
            self.table, "controlled-shutdown", leaving=(event.broker_id,), unclean=self._unclean, level=self._level
        )
        row = self.table.brokers.row(event.broker_id)
        held = self._replicated(self.table.index.rows(row))
        led = held[self.table.leader__p[held] == row]
        remaining = np.setdiff1d(led, changes.rows[changes.leaders != event.broker_id], assume_unique=True)
        followed = held[(self.table.leader__p[held] != row) & (self.table.leader_epoch__p[held] >= 0)]
        response = ControlledShutdownResponse(remaining_partitions=self._names(remaining))
        return Decision(
            changes,
            shutting_down=(event.broker_id,),
            stopped=followed,
            stopped_epochs=self.table.leader_epoch__p[followed],
            response=response,
        )

    def on_preferred_election(self, event: PreferredElection) -> Decision:
        """Lead where the first replica is, wherever it is live and in the ISR; nothing where it leads already."""
        rows = event.rows
        if rows is not None:
            rows = rows[self.table.leader__p[rows] != self.table.replicas__ps[rows, 0]]
        return Decision(elect(self.table, "preferred", rows=rows, level=self._level))

    def state_writes(self, decision: Decision) -> list[StateWrite]:
        """The conditional writes that ZooKeeper must take before `replay`."""
        return list(state_writes(self.table, decision.changes, self.controller_epoch))

    def replay(self, decision: Decision) -> None:
        """Make the decision true: the one mutator."""
        brokers = self.table.brokers
        for broker_id in decision.failed:
            row = brokers.row(broker_id)
            brokers.live[row] = brokers.shutting_down[row] = False
        for event in decision.started:
            brokers.register(event.broker_id, event.broker_epoch, rack=event.rack, endpoints=event.endpoints)
        for broker_id in decision.shutting_down:
            brokers.shutting_down[brokers.row(broker_id)] = True
        self.table.apply(decision.changes.written(), controller_epoch=self.controller_epoch)

    def requests(self, decision: Decision) -> list[ControlRequest]:
        """What brokers must hear, once the decision is replayed: UpdateMetadata first, one of each kind a broker."""
        builder = RequestBuilder(self.controller_id, self.controller_epoch, self.table, self.versions)
        return builder.requests(decision)

    def _brokers_with(self, event: BrokerStarted) -> BrokerTable:
        brokers = self.table.brokers.copy()
        brokers.register(event.broker_id, event.broker_epoch, rack=event.rack, endpoints=event.endpoints)
        return brokers

    def _refusal(self, event: ControlledShutdown) -> Errors:
        brokers = self.table.brokers
        if event.broker_id not in brokers or not brokers.live[brokers.row(event.broker_id)]:
            return Errors.BROKER_NOT_AVAILABLE
        known = brokers.epochs[brokers.row(event.broker_id)]
        if event.broker_epoch != UNKNOWN_BROKER_EPOCH and event.broker_epoch < known:
            return Errors.STALE_BROKER_EPOCH  # Sent before the bounce, arrived after it (KIP-380).
        return Errors.NONE

    def _replicated(self, rows: Int32s) -> Int32s:
        """Those with more than one replica: a single one cannot be handed over, and nobody waits for it."""
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


def _led_by_nobody(table: PartitionTable, broker_row: int) -> Int32s:
    """The partitions of that broker whose leader is none, or not live."""
    rows = table.index.rows(broker_row)
    leaders = table.leader__p[rows]
    led_by_nobody: Int32s = rows[(leaders < 0) | ~table.brokers.live[leaders]]
    return led_by_nobody


def _no_changes() -> PartitionChanges:
    nothing = np.empty(0, np.int32)
    return PartitionChanges(nothing, nothing, np.zeros(1, np.int32), nothing, nothing, nothing, np.empty(0, np.int8))
