"""Builds the control requests that follow from a decision."""

import numpy as np

from kcore.controller.zk.decision import Decision
from kcore.controller.zk.requests.batch import RequestBatch
from kcore.controller.zk.requests.control_request import ControlRequest
from kcore.controller.zk.requests.live_brokers import BrokerPlaces
from kcore.controller.zk.requests.states import distinct
from kcore.controller.zk.requests.versions import RequestVersions
from kcore.metadata.table.partition_table import NO_TOPIC, PartitionTable
from kcore.types import Bools, Int32s

__all__ = ["ControlRequest", "RequestBatch", "RequestBuilder", "add_decision"]


class RequestBuilder:
    """Builds requests from the table after the decision was replayed."""

    def __init__(
        self,
        controller_id: int,
        controller_epoch: int,
        table: PartitionTable,
        versions: RequestVersions,
        places: BrokerPlaces | None = None,
    ) -> None:
        self._head, self._table, self._versions = (controller_id, controller_epoch), table, versions
        self._places = places

    def requests(self, decision: Decision) -> list[ControlRequest]:
        """The requests of a decision; UpdateMetadata first (KAFKA-4443)."""
        batch = RequestBatch(*self._head, self._table, self._versions, places=self._places)
        add_decision(batch, self._table, decision)
        return batch.requests()


def add_decision(batch: RequestBatch, table: PartitionTable, decision: Decision) -> None:
    """Adds the control requests for a replayed decision to a batch; none if it changed nothing."""
    if decision.is_nothing:
        return
    _add_update_metadata(batch, table, decision)
    _add_leader_and_isr(batch, table, decision)
    if len(decision.stopped):  # A broker that shuts down stops its followers, and keeps their logs.
        [broker_row] = table.brokers.rows(decision.shutting_down)
        batch.add_stop_replica(broker_row, decision.stopped, decision.stopped_epochs, delete=False)


def _add_update_metadata(batch: RequestBatch, table: PartitionTable, decision: Decision) -> None:
    """UpdateMetadata: the changes for all live brokers, all partitions for brokers that started."""
    brokers = table.brokers
    started = _started(table, decision)
    if started.any():
        known = (table.topic_row__p != NO_TOPIC) & (table.leader_epoch__p >= 0)
        batch.add_update_metadata(np.flatnonzero(started), np.flatnonzero(known))
    batch.add_update_metadata(np.flatnonzero(brokers.live & ~started), _shown(table, decision))


def _shown(table: PartitionTable, decision: Decision) -> Int32s:
    """The partitions whose state changed, and those with a replica that went online or offline, as in Kafka."""
    turned = [*decision.failed, *(event.broker_id for event in decision.started)]
    held = [table.index.rows(table.brokers.row(broker_id)) for broker_id in turned]
    return distinct(np.concatenate([decision.changes.rows, decision.stopped, *held]))


def _add_leader_and_isr(batch: RequestBatch, table: PartitionTable, decision: Decision) -> None:
    """LeaderAndIsr: the changed partitions for every live replica, all its partitions for a broker that started."""
    rows = decision.changes.rows
    replicas = table.replicas__ps[rows]
    started = np.flatnonzero(_started(table, decision))
    chosen: Bools = (replicas >= 0) & ~np.isin(replicas, started)
    # A broker that shuts down is sent the new leaders, and StopReplica for its followers.
    for broker_id in decision.shutting_down:
        chosen &= ~((replicas == table.brokers.row(broker_id)) & np.isin(rows, decision.stopped)[:, None])
    batch.order(replicas[chosen], np.repeat(rows, chosen.sum(axis=1)))
    for broker_row in started.tolist():
        batch.order(broker_row, table.index.rows(broker_row))


def _started(table: PartitionTable, decision: Decision) -> Bools:
    started = np.zeros(len(table.brokers), np.bool_)
    started[[table.brokers.row(event.broker_id) for event in decision.started]] = True
    return started
