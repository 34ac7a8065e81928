"""The control requests that follow a decision: who hears what, grouped by broker, one of each kind a broker.

Source: ControllerBrokerRequestBatch of 3.9.1, where an event may send a broker several of a kind.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from kcore.controller.decision import Decision
from kcore.controller.request_versions import RequestVersions
from kcore.controller.states import PartitionStates, topic_states
from kcore.metadata.broker_table import Endpoint
from kcore.metadata.partition_table import PartitionTable
from kcore.schema import LeaderAndIsrRequest, StopReplicaRequest, UpdateMetadataRequest
from kcore.schema.structure import Message
from kcore.types import Bools, Int16s, Int32s, Int64s
from kcore.wire.columns import Columns, Rows, Strings
from kcore.wire.fanout import Fanout, encode_fanout

NOWHERE = Endpoint(-1, "", "", 0)  # Node.noNode(): a broker without listeners.


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
        self._head: dict[str, Any] = {"controller_id": controller_id, "controller_epoch": controller_epoch}
        self._table = table
        self._versions = versions

    def requests(self, decision: Decision) -> list[ControlRequest]:
        """UpdateMetadata first, so that a leader named in LeaderAndIsr is known (KAFKA-4443), then the others."""
        if decision.is_nothing:
            return []
        return [*self._update_metadata(decision), *self._leader_and_isr(decision), *self._stop_replica(decision)]

    def _update_metadata(self, decision: Decision) -> Iterator[ControlRequest]:
        """To all live brokers what changed, to those that started everything."""
        brokers = self._table.brokers
        started = np.zeros(len(brokers), np.bool_)
        started[[brokers.row(event.broker_id) for event in decision.started]] = True
        everything = np.flatnonzero(self._table.leader_epoch__p >= 0).astype(np.int32) if started.any() else None
        for chosen, rows in ((started, everything), (brokers.live & ~started, decision.changes.rows)):
            if rows is not None and chosen.any():
                yield self._metadata_of(rows, np.flatnonzero(chosen).astype(np.int16))

    def _metadata_of(self, rows: Int32s, broker_rows: Int16s) -> ControlRequest:
        rows = self._by_topic(rows)
        states = PartitionStates(self._table, rows, leader_and_isr=False)
        live_brokers = self._live_brokers()
        columns = Columns(
            UpdateMetadataRequest, **self._head, topic_states=states.topics(0, len(rows)), live_brokers=live_brokers
        )
        return self._request(columns, self._versions.update_metadata, broker_rows)

    def _leader_and_isr(self, decision: Decision) -> Iterator[ControlRequest]:
        """To every live replica the partitions that changed; to a broker that started all that it holds."""
        broker_rows, rows = self._addressed(decision)
        order = np.lexsort((self._table.topic_row__p[rows], broker_rows))
        broker_rows, rows = broker_rows[order], rows[order]
        states = PartitionStates(self._table, rows, leader_and_isr=True)
        first = np.flatnonzero(np.diff(broker_rows, prepend=-1))
        for begin, end in zip(first.tolist(), [*first[1:].tolist(), len(rows)], strict=True):
            columns = Columns(
                LeaderAndIsrRequest,
                **self._head,
                topic_states=states.topics(begin, end),
                live_leaders=self._live_leaders(states.leaders[begin:end]),
            )
            yield self._request(columns, self._versions.leader_and_isr, broker_rows[begin : begin + 1])

    def _addressed(self, decision: Decision) -> tuple[Int16s, Int32s]:
        """(broker row, partition row) of every state that a LeaderAndIsr carries."""
        table = self._table
        rows = decision.changes.rows
        replicas = table.replicas__ps[rows]
        chosen: Bools = (replicas >= 0) & table.brokers.live[replicas]
        for broker_id in decision.shutting_down:  # It hears of what it led; what it follows it is told to stop.
            chosen &= ~((replicas == table.brokers.row(broker_id)) & np.isin(rows, decision.stopped)[:, None])
        started = [table.brokers.row(event.broker_id) for event in decision.started]
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
        states = {"partition_index": self._table.partition_index__p[rows]}
        if self._versions.stop_replica >= 3:  # Older ones do not ask for an epoch (KAFKA-9539).
            states["leader_epoch"] = decision.stopped_epochs[order]
        topics = topic_states(self._table.topics, self._table.topic_row__p[rows], states, with_ids=False)
        columns = Columns(StopReplicaRequest, **self._head, topic_states=topics)
        for broker_id in decision.shutting_down:
            broker_rows = np.array([self._table.brokers.row(broker_id)], np.int16)
            yield self._request(columns, self._versions.stop_replica, broker_rows)

    def _request(self, columns: Columns, version: int, broker_rows: Int16s) -> ControlRequest:
        brokers = self._table.brokers
        return ControlRequest(columns.message, version, brokers.ids[broker_rows], brokers.epochs[broker_rows], columns)

    def _by_topic(self, rows: Int32s) -> Int32s:
        """The same rows, those of a topic together."""
        topic_rows = self._table.topic_row__p[rows]
        if (topic_rows[1:] >= topic_rows[:-1]).all():
            return rows
        return rows[np.argsort(topic_rows, kind="stable")]

    def _live_leaders(self, leaders: Int16s) -> Rows:
        brokers = self._table.brokers
        rows = np.unique(leaders)
        rows = rows[(rows >= 0) & brokers.live[rows]]
        places = [(brokers.endpoints[row] or (NOWHERE,))[0] for row in rows.tolist()]
        return Rows(
            np.array([0, len(rows)], np.int32),
            broker_id=brokers.ids[rows],
            host_name=Strings.of(place.host for place in places),
            port=np.array([place.port for place in places], np.int32),
        )

    def _live_brokers(self) -> Rows:
        brokers = self._table.brokers
        rows = np.flatnonzero(brokers.live)
        lists = [brokers.endpoints[row] for row in rows.tolist()]
        endpoints = [endpoint for each in lists for endpoint in each]
        first = [(each or (NOWHERE,))[0] for each in lists]
        columns: dict[str, Any] = {
            "id": brokers.ids[rows],
            "endpoints": Rows(
                np.cumsum([0, *map(len, lists)], dtype=np.int32),
                port=np.array([endpoint.port for endpoint in endpoints], np.int32),
                host=Strings.of(endpoint.host for endpoint in endpoints),
                listener=Strings.of(endpoint.listener for endpoint in endpoints),
                security_protocol=np.array([endpoint.security_protocol for endpoint in endpoints], np.int16),
            ),
            "rack": Strings.of(brokers.racks[row] for row in rows.tolist()),
            # Version 0 knows one listener; the newer ones drop these.
            "v0_host": Strings.of(place.host for place in first),
            "v0_port": np.array([place.port for place in first], np.int32),
        }
        return Rows(np.array([0, len(rows)], np.int32), **columns)
