"""The control requests that follow a decision: who hears what, grouped by broker, one of each kind a broker.

Source: ControllerBrokerRequestBatch of 3.9.1, where an event may send a broker several of a kind.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from kcore.constants import UNKNOWN_BROKER_EPOCH
from kcore.controller.decision import Decision
from kcore.controller.live_brokers import LiveLeaders, live_brokers_of
from kcore.controller.request_versions import RequestVersions
from kcore.controller.states import TopicStates, distinct, leader_and_isr_states, update_metadata_states
from kcore.metadata.partition_table import NO_TOPIC, PartitionTable
from kcore.schema import LeaderAndIsrRequest, StopReplicaRequest, UpdateMetadataRequest
from kcore.schema.structure import Message
from kcore.types import Bools, Int16s, Int32s, Int64s
from kcore.wire.columns import Columns, Rows
from kcore.wire.fanout import Fanout, encode_fanout

NO_TYPE = np.zeros(1, np.int8)  # Neither incremental nor full: that is for KRaft controllers (KIP-866).


@dataclass(frozen=True, slots=True)
class ControlRequest:
    """One message for one broker or many; they differ in the broker epoch alone (KIP-380)."""

    message: type[Message]
    version: int
    broker_ids: Int32s
    broker_epochs: Int64s
    columns: Columns

    def fanout(self, client_id: str | None = None) -> Fanout:
        """The body, encoded once for all of the brokers; `buffers(epoch)` of it is what one of them is sent."""
        return encode_fanout(self.columns, self.version, client_id)


class RequestBuilder:
    """Builds requests from the table as it stands after the decision."""

    def __init__(
        self, controller_id: int, controller_epoch: int, table: PartitionTable, versions: RequestVersions
    ) -> None:
        self._head = {
            "controller_id": np.array([controller_id], np.int32),
            "controller_epoch": np.array([controller_epoch], np.int32),
            "broker_epoch": np.array([UNKNOWN_BROKER_EPOCH]),  # The fan-out puts each broker's own in.
            "is_kraft_controller": np.zeros(1, np.bool_),
        }
        self._table = table
        self._versions = versions

    def requests(self, decision: Decision) -> list[ControlRequest]:
        """UpdateMetadata first, so that a leader named in LeaderAndIsr is known (KAFKA-4443), then the others."""
        if decision.is_nothing:
            return []
        return [*self._update_metadata(decision), *self._leader_and_isr(decision), *self._stop_replica(decision)]

    def _update_metadata(self, decision: Decision) -> Iterator[ControlRequest]:
        """To all live brokers what changed, to those that started everything."""
        table, brokers = self._table, self._table.brokers
        started = np.zeros(len(brokers), np.bool_)
        started[[brokers.row(event.broker_id) for event in decision.started]] = True
        live_brokers = live_brokers_of(brokers)
        if started.any():
            known = (table.topic_row__p != NO_TOPIC) & (table.leader_epoch__p >= 0)
            yield self._metadata_of(np.flatnonzero(known).astype(np.int32), live_brokers, started)
        others = brokers.live & ~started
        if others.any():
            yield self._metadata_of(self._shown(decision), live_brokers, others)

    def _shown(self, decision: Decision) -> Int32s:
        """The partitions that changed, and those that now have a replica on or off line: Kafka sends both."""
        brokers, index = self._table.brokers, self._table.index
        turned = [*decision.failed, *(event.broker_id for event in decision.started)]
        held = [index.rows(brokers.row(broker_id)) for broker_id in turned]
        rows = distinct(np.concatenate([decision.changes.rows, decision.stopped, *held]))
        with_state: Int32s = rows[self._table.leader_epoch__p[rows] >= 0]
        return with_state

    def _metadata_of(self, rows: Int32s, live_brokers: Rows, chosen: Bools) -> ControlRequest:
        table = self._table
        rows = rows[np.argsort(table.topic_row__p[rows], kind="stable")]
        begins = np.array([0, len(rows)], np.int32)
        states = TopicStates(table, rows, begins, update_metadata_states(table, rows))
        fields = {"topic_states": states.of(0), "live_brokers": live_brokers}
        return self._request(
            UpdateMetadataRequest, self._versions.update_metadata, np.flatnonzero(chosen).astype(np.int16), fields
        )

    def _leader_and_isr(self, decision: Decision) -> Iterator[ControlRequest]:
        """To every live replica the partitions that changed; to a broker that started all that it holds."""
        table = self._table
        broker_rows, rows = self._addressed(decision)
        order = np.lexsort((table.topic_row__p[rows], broker_rows))
        broker_rows, rows = broker_rows[order], rows[order]
        begins = np.append(np.flatnonzero(np.diff(broker_rows, prepend=-1)), len(rows))
        columns = leader_and_isr_states(table, rows)
        if not self._versions.leader_recovery_supported:
            del columns["leader_recovery_state"]
        states = TopicStates(table, rows, begins, columns)
        receivers = broker_rows[begins[:-1]]
        live_leaders = LiveLeaders(table.brokers, receivers, broker_rows, table.leader__p[rows])
        for request in range(len(receivers)):
            yield self._request(
                LeaderAndIsrRequest,
                self._versions.leader_and_isr,
                receivers[request : request + 1],
                {"topic_states": states.of(request), "live_leaders": live_leaders.of(request), "type": NO_TYPE},
            )

    def _addressed(self, decision: Decision) -> tuple[Int16s, Int32s]:
        """(broker row, partition row) of every state that a LeaderAndIsr carries."""
        table = self._table
        rows = decision.changes.rows
        replicas = table.replicas__ps[rows]
        chosen: Bools = (replicas >= 0) & table.brokers.live[replicas]
        for broker_id in decision.shutting_down:  # It hears of what it led; what it follows it is told to stop.
            chosen &= ~((replicas == table.brokers.row(broker_id)) & np.isin(rows, decision.stopped)[:, None])
        started = [table.brokers.row(event.broker_id) for event in decision.started]
        if started:
            chosen &= ~np.isin(replicas, started)
        broker_rows, partition_rows = [replicas[chosen]], [np.repeat(rows, chosen.sum(axis=1))]
        for broker_row in started:
            held = table.index.rows(broker_row)
            held = held[table.leader_epoch__p[held] >= 0]
            broker_rows.append(np.full(len(held), broker_row, np.int16))
            partition_rows.append(held)
        return np.concatenate(broker_rows), np.concatenate(partition_rows)

    def _stop_replica(self, decision: Decision) -> Iterator[ControlRequest]:
        """A broker that shuts down stops following, and keeps its logs."""
        if not len(decision.stopped):
            return
        order = np.argsort(self._table.topic_row__p[decision.stopped], kind="stable")
        rows = decision.stopped[order]
        columns = {"partition_index": self._table.partition_index__p[rows]}
        if self._versions.stop_replica >= 3:  # Older ones do not ask for an epoch (KAFKA-9539).
            columns["leader_epoch"] = decision.stopped_epochs[order]
        states = TopicStates(self._table, rows, np.array([0, len(rows)], np.int32), columns, with_ids=False)
        broker_rows = self._table.brokers.rows(decision.shutting_down)
        yield self._request(
            StopReplicaRequest, self._versions.stop_replica, broker_rows, {"topic_states": states.of(0)}
        )

    def _request(
        self, message: type[Message], version: int, broker_rows: Int16s, fields: dict[str, Any]
    ) -> ControlRequest:
        brokers = self._table.brokers
        columns = Columns.of_columns(message, self._head | fields, None)
        return ControlRequest(message, version, brokers.ids[broker_rows], brokers.epochs[broker_rows], columns)
