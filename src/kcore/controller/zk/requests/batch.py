"""Collects the control requests of one event: at most one of each kind for a broker, UpdateMetadata first.

Source: ControllerBrokerRequestBatch of 3.9.1, which may send a broker several requests of a kind.
"""

from collections.abc import Collection, Iterator, Mapping
from itertools import chain
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from kcore.constants import UNKNOWN_BROKER_EPOCH
from kcore.controller.zk.decision import Decision
from kcore.controller.zk.requests.control_request import ControlRequest, RequestGroup
from kcore.controller.zk.requests.live_brokers import BrokerPlaces, LiveLeaders, live_brokers_of
from kcore.controller.zk.requests.states import (
    ReplicaAvailability,
    TopicStates,
    distinct,
    leader_and_isr_states,
    of_topics,
    update_metadata_states,
)
from kcore.controller.zk.requests.versions import RequestVersions
from kcore.metadata.table.broker_registration import LiveBroker
from kcore.metadata.table.partition_table import NO_TOPIC, PartitionTable
from kcore.schema import LeaderAndIsrRequest, StopReplicaRequest, UpdateMetadataRequest
from kcore.schema.structure import Message
from kcore.types import Bools, Int16s, Int32s
from kcore.wire.columns import Columns

NO_TYPE: Final = np.zeros(1, np.int8)  # Neither incremental nor full: only KRaft controllers set it (KIP-866).
# The most partitions of an UpdateMetadata, about 20 MB: a broker's socket accepts 100 MB (linkedin PR 519). Larger ones
# are split here; LeaderAndIsr and StopReplica are split when they are sent (`outbox.py`).
MAX_PARTITIONS: Final = 200_000


class RequestBatch:
    """Collects pairs of broker and partition rows; `requests()` then builds the requests from the table.

    The `add_...` methods take arrays of pairs, or one broker or partition row for all pairs. Brokers that are not live
    are sent nothing.
    """

    def __init__(
        self,
        controller_id: int,
        controller_epoch: int,
        table: PartitionTable,
        versions: RequestVersions,
        *,
        listed: LiveBroker | None = None,
        inter_broker_listener: str | None = None,
        topics_to_be_deleted: Collection[str] = (),
        topics_with_deletion_started: Collection[str] = (),
        offline_dirs: Mapping[int, Collection[int]] | None = None,
        places: BrokerPlaces | None = None,
        max_partitions: int = MAX_PARTITIONS,
    ) -> None:
        """`listed`: the controller, which UpdateMetadata lists as a broker. `offline_dirs`: partitions by broker id.

        `places`: the cached endpoints of the brokers.
        """
        self._head = {
            "controller_id": np.array([controller_id], np.int32),
            "controller_epoch": np.array([controller_epoch], np.int32),
            "broker_epoch": np.array([UNKNOWN_BROKER_EPOCH]),  # The fan-out writes each broker's own epoch.
            "is_kraft_controller": np.zeros(1, np.bool_),
        }
        self._table, self._versions, self._listed = table, versions, listed
        self._listener, self._max = inter_broker_listener, max_partitions
        self._places = places or BrokerPlaces()
        # Topics that LeaderAndIsr omits, because a broker would create their deleted replicas again.
        self._ended = topics_with_deletion_started
        self._situation = ReplicaAvailability(table, topics_to_be_deleted, offline_dirs or {})
        # LeaderAndIsr: broker rows, partition rows, is_new.
        self._orders: list[tuple[Int16s, Int32s, Bools]] = []
        # UpdateMetadata: a mask of broker rows, partition rows.
        self._shown: list[tuple[Bools, Int32s]] = []
        # StopReplica: broker rows, partition rows, leader epochs, delete_partition.
        self._stops: list[tuple[Int16s, Int32s, Int32s, Bools]] = []

    def add_leader_and_isr(self, broker_rows: npt.ArrayLike, rows: npt.ArrayLike, is_new: npt.ArrayLike) -> None:
        """Adds LeaderAndIsr for replicas, and UpdateMetadata with the same partitions for all live brokers."""
        self.order(broker_rows, rows, is_new)
        self.add_update_metadata(np.flatnonzero(self._table.brokers.live), rows)

    def order(self, broker_rows: npt.ArrayLike, rows: npt.ArrayLike, is_new: npt.ArrayLike = False) -> None:
        """Adds LeaderAndIsr for replicas, without UpdateMetadata."""
        brokers, partitions, new = np.broadcast_arrays(np.atleast_1d(broker_rows), rows, is_new)
        if partitions.size:
            self._orders.append((brokers.astype(np.int16), partitions.astype(np.int32), new.astype(np.bool_)))

    def add_to_replicas(self, rows: Int32s, *, is_new: bool = False) -> None:
        """Adds LeaderAndIsr for all live replicas of these partitions, and UpdateMetadata."""
        replicas = self._table.replicas__ps[rows]
        chosen = replicas >= 0
        self.add_leader_and_isr(replicas[chosen], np.repeat(rows, chosen.sum(axis=1)), is_new)

    def add_update_metadata(self, broker_rows: npt.ArrayLike, rows: npt.ArrayLike = ()) -> None:
        """Adds UpdateMetadata for each of these brokers; without partitions it has only the list of live brokers."""
        chosen = np.zeros(len(self._table.brokers), np.bool_)
        chosen[np.asarray(broker_rows, np.int64)] = True
        self._shown.append((chosen & self._table.brokers.live, np.atleast_1d(np.asarray(rows, np.int32))))

    def add_stop_replica(
        self, broker_rows: npt.ArrayLike, rows: npt.ArrayLike, epochs: npt.ArrayLike, delete: npt.ArrayLike
    ) -> None:
        """Adds StopReplica with the partitions' leader epochs; with -2 for topics being deleted."""
        brokers, partitions, known, deleted = np.broadcast_arrays(np.atleast_1d(broker_rows), rows, epochs, delete)
        if partitions.size:
            partitions = partitions.astype(np.int32)
            shown = self._situation.stop_epochs(partitions, known.astype(np.int32))
            self._stops.append((brokers.astype(np.int16), partitions, shown, deleted.astype(np.bool_)))

    def requests(self) -> list[ControlRequest]:
        """All requests; UpdateMetadata first, so that brokers know the leaders in LeaderAndIsr (KAFKA-4443)."""
        return [*chain.from_iterable(self.requests_by_kind())]

    def requests_by_kind(self) -> Iterator[list[ControlRequest]]:
        """All requests, those of each kind together; builds a kind when it is the next one."""
        for kind in (self._update_metadata, self._leader_and_isr, self._stop_replica):
            yield [*kind()]

    def _update_metadata(self) -> Iterator[ControlRequest]:
        """One request for each group of brokers that are sent the same partitions."""
        live_brokers = live_brokers_of(self._table.brokers, self._places, self._listed)
        for shown, broker_rows in self._shown_alike():
            rows = distinct(np.concatenate([self._shown[k][1] for k in shown]))
            rows = rows[self._table.leader_epoch__p[rows] >= 0]
            rows = rows[np.argsort(self._table.topic_row__p[rows], kind="stable")]
            for begin in range(0, max(len(rows), 1), self._max):
                part = rows[begin : begin + self._max]
                columns = update_metadata_states(self._table, part, self._situation)
                states = TopicStates(self._table, part, np.array([0, len(part)], np.int32), columns)
                fields = {"topic_states": states.of(0, 1), "live_brokers": live_brokers}
                version = self._versions.update_metadata
                yield self._request(UpdateMetadataRequest, version, broker_rows, fields)

    def _shown_alike(self) -> list[tuple[tuple[int, ...], Int16s]]:
        """Groups of brokers that are sent the same: the indexes in `_shown`, and the broker rows."""
        if not any(chosen.any() for chosen, _ in self._shown):
            return []
        chosen__sb = np.stack([chosen for chosen, _ in self._shown])
        patterns, owners = np.unique(chosen__sb, axis=1, return_inverse=True)
        groups = [
            (tuple(np.flatnonzero(pattern).tolist()), np.flatnonzero(owners.ravel() == k).astype(np.int16))
            for k, pattern in enumerate(patterns.T)
            if pattern.any()
        ]
        return sorted(groups, key=lambda group: group[0])

    def _leader_and_isr(self) -> Iterator[ControlRequest]:
        """A request for each broker, with each partition once; is_new is set if any call set it."""
        table = self._table
        if not self._orders:
            return
        broker_rows, rows, is_new = (np.concatenate(each) for each in zip(*self._orders, strict=True))
        wanted = table.brokers.live[broker_rows] & (table.leader_epoch__p[rows] >= 0)
        wanted &= ~of_topics(table, rows, self._ended)
        broker_rows, rows, is_new = broker_rows[wanted], rows[wanted], is_new[wanted]
        order = np.lexsort((~is_new, rows, table.topic_row__p[rows], broker_rows))
        broker_rows, rows, is_new = broker_rows[order], rows[order], is_new[order]
        once = (np.diff(broker_rows, prepend=-1) != 0) | (np.diff(rows, prepend=-1) != 0)
        broker_rows, rows, is_new = broker_rows[once], rows[once], is_new[once]
        begins = np.append(np.flatnonzero(np.diff(broker_rows, prepend=-1)), len(rows))
        columns = leader_and_isr_states(table, rows) | {"is_new": is_new}
        if not self._versions.leader_recovery_supported:
            del columns["leader_recovery_state"]
        states = TopicStates(table, rows, begins, columns)
        receivers = broker_rows[begins[:-1]]
        leaders = LiveLeaders(
            table.brokers, receivers, broker_rows, table.leader__p[rows], self._places, self._listener
        )

        def fields(begin: int, end: int) -> dict[str, Any]:
            head = {name: np.repeat(value, end - begin) for name, value in (self._head | {"type": NO_TYPE}).items()}
            return head | {"topic_states": states.of(begin, end), "live_leaders": leaders.of(begin, end)}

        brokers, version = table.brokers, self._versions.leader_and_isr
        receiver_ids, epochs = brokers.ids[receivers], brokers.epochs[receivers]
        yield from RequestGroup(LeaderAndIsrRequest, version, receiver_ids, epochs, begins, fields).requests()

    def _stop_replica(self) -> Iterator[ControlRequest]:
        """A request for each broker; two before version 3, where the delete flag is for the whole request."""
        if not self._stops:
            return
        broker_rows, rows, epochs, delete = (np.concatenate(each) for each in zip(*self._stops, strict=True))
        order = np.lexsort((~delete, rows, self._table.topic_row__p[rows], broker_rows))
        broker_rows, rows, epochs, delete = broker_rows[order], rows[order], epochs[order], delete[order]
        once = (np.diff(broker_rows, prepend=-1) != 0) | (np.diff(rows, prepend=-1) != 0)
        once &= self._table.brokers.live[broker_rows]
        for broker_row in distinct(broker_rows[once].astype(np.int32)).tolist():
            own = once & (broker_rows == broker_row)
            for chosen in [own] if self._versions.stop_replica >= 3 else [own & delete, own & ~delete]:
                if chosen.any():
                    yield self._stop(broker_row, rows[chosen], epochs[chosen], delete[chosen])

    def _stop(self, broker_row: int, rows: Int32s, epochs: Int32s, delete: Bools) -> ControlRequest:
        columns: dict[str, Any] = {"partition_index": self._table.partition_index__p[rows]}
        fields: dict[str, Any] = {}
        if self._versions.stop_replica >= 3:  # KAFKA-9539, KIP-570
            columns |= {"leader_epoch": epochs, "delete_partition": delete}
        else:
            fields["delete_partitions"] = delete[:1]
        states = TopicStates(self._table, rows, np.array([0, len(rows)], np.int32), columns, with_ids=False)
        fields["topic_states"] = states.of(0, 1)
        return self._request(StopReplicaRequest, self._versions.stop_replica, np.array([broker_row], np.int16), fields)

    def _request(
        self, message: type[Message], version: int, broker_rows: Int16s, fields: dict[str, Any]
    ) -> ControlRequest:
        brokers = self._table.brokers
        columns = Columns.of_columns(message, self._head | fields, None)
        return ControlRequest(message, version, brokers.ids[broker_rows], brokers.epochs[broker_rows], columns)


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
    """The partitions whose state changed, or which have a replica that went online or offline, as in Kafka."""
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
