"""The broker's side of the control protocol: refuses stale epochs, and passes new states to the replicas.

Source: KafkaApis and ReplicaManager of 3.9.1.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Final, NamedTuple, Protocol, TypeVar

import numpy as np

from kcore.broker.replicas.cluster_view import ClusterView, empty_table
from kcore.broker.replicas.outputs import NoticeKind
from kcore.broker.replicas.replica import Key, Replica
from kcore.constants import EPOCH_DURING_DELETE, LEADER_DURING_DELETE, NO_EPOCH, UNKNOWN_BROKER_EPOCH
from kcore.errors import TableError
from kcore.metadata.topic_names import partition_error
from kcore.metadata.zookeeper import znodes
from kcore.metadata.zookeeper.merge import merge
from kcore.metadata.zookeeper.znode_operations import Node
from kcore.protocol_errors import Errors, exception_of
from kcore.schema import (
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    StopReplicaRequest,
    StopReplicaResponse,
    UpdateMetadataRequest,
    UpdateMetadataResponse,
)
from kcore.schema.leader_and_isr import LeaderAndIsrPartitionError, LeaderAndIsrTopicError
from kcore.schema.stop_replica import StopReplicaPartitionError
from kcore.schema.structure import Message
from kcore.types import ZERO_UUID, Uuid
from kcore.wire.codec import encode
from kcore.wire.column_codec import decode_columns
from kcore.wire.columns import Columns, Rows


class KnownController(NamedTuple):
    """The controller's epoch and id as ZooKeeper has them."""

    epoch: int
    broker_id: int | None  # None if `/controller` does not exist or is unreadable.
    is_kraft: bool | None = None  # True if a KRaft controller that migrates the cluster owns the znode (KIP-866).


def controller_of(epoch: Node | None, controller: Node | None) -> KnownController:
    """Decodes the znodes `/controller_epoch` and `/controller`, which were read together."""
    try:
        known_epoch = NO_EPOCH if epoch is None else znodes.decode_controller_epoch(epoch.data)
    except TableError:
        known_epoch = NO_EPOCH
    try:
        found = None if controller is None else znodes.decode_controller(controller.data)
    except TableError:
        found = None
    if found is None:
        return KnownController(known_epoch, None)
    return KnownController(known_epoch, found.broker_id, found.kraft_controller_epoch not in (None, NO_EPOCH))


def sender_error(request: Columns, known: KnownController) -> Errors:
    """The error for a request whose sender is not the controller; NONE if it is.

    Kafka's brokers accept any controller epoch that is at least the last epoch. After a forged large epoch they refuse
    the real controller as stale for ever. Here a larger epoch is accepted only if `/controller_epoch` has it, as a
    controller writes its epoch to that znode before it sends requests.
    """
    if request.controller_epoch < known.epoch:
        return Errors.STALE_CONTROLLER_EPOCH  # Another controller was elected after the sender.
    if request.controller_epoch > known.epoch or known.broker_id not in (None, request.controller_id):
        return Errors.NOT_CONTROLLER  # Each epoch has only one controller.
    if known.is_kraft not in (None, bool(request.is_kraft_controller)):
        return Errors.NOT_CONTROLLER  # ZooKeeper has a controller of the other mode.
    return Errors.NONE


T = TypeVar("T")

CONTROL_REQUESTS: Final[dict[int, type[Message]]] = {
    each.api_key: each for each in (LeaderAndIsrRequest, StopReplicaRequest, UpdateMetadataRequest)
}
FULL: Final = 2  # AbstractControlRequest.Type: the request lists all replicas of the broker.
TOPIC_IDS_SINCE: Final = 5  # The first version of LeaderAndIsr whose response is by topic id.


class RequestHead(NamedTuple):
    """The fields of a control request that decide whether it is refused as a whole."""

    message: type[Message]
    controller_id: int
    controller_epoch: int
    broker_epoch: int
    is_kraft_controller: bool = False


class ControlledReplicas(Protocol):
    """The replicas that control requests change; `ReplicaManager` implements it."""

    broker_id: int
    broker_epoch: int  # The czxid of the znode of this incarnation (KIP-380).
    cluster: ClusterView

    def state(self, key: Key) -> Replica | None:
        """The last accepted state of the partition; None if the broker does not have it."""

    def topic_id_on_disk(self, key: Key) -> Uuid:
        """The topic id of the log on disk; ZERO_UUID without a log or an id. May raise KafkaStorageException."""

    def become(self, key: Key, received: Replica, now_ms: int) -> Errors:
        """Applies the received state: leads or follows the partition."""

    def assign_topic_id(self, key: Key, topic_id: Uuid) -> Errors:
        """Adds the topic id to a replica without one."""

    def stop(self, key: Key, delete: bool) -> Errors:
        """Stops leading or following; with `delete` also deletes the log."""

    def hold_only(self, keys: set[Key]) -> None:
        """Deletes all replicas except `keys`; other logs in the log directories become strays."""

    def cluster_changed(self) -> None:
        """Checks waiting requests after a change of `cluster`."""

    def notice(self, kind: NoticeKind, text: str) -> None:
        """Writes a line to the log."""


class ControlRequests:
    """Handles LeaderAndIsr, UpdateMetadata and StopReplica: refuses stale requests, and applies other requests."""

    def __init__(self, replicas: ControlledReplicas) -> None:
        self.broker_id = replicas.broker_id
        self.controller_epoch = 0
        self.received_leader_and_isr = False  # True after the first accepted LeaderAndIsr.
        self.is_kraft = False  # Whether a KRaft controller sent the last accepted request.
        # Returns the broker epoch in the metadata log while the broker migrates (KIP-866). None: refuse KRaft
        # controllers.
        self.kraft_broker_epoch: Callable[[], int] | None = None
        self._replicas = replicas

    def answer(self, message: type[Message], version: int, data: bytes | memoryview, now_ms: int = 0) -> bytes:
        """The encoded response to an encoded control request, without headers. Raises DecodeError for invalid bytes."""
        return self.answer_columns(message, version, decode_columns(message, version, data), now_ms)

    def answer_columns(
        self,
        message: type[Message],
        version: int,
        request: Columns,
        now_ms: int = 0,
        refused: Errors = Errors.NONE,
    ) -> bytes:
        """The encoded response to a decoded request; `refused`: the result of `sender_error`."""
        if message is LeaderAndIsrRequest:
            return encode(self.on_leader_and_isr(request, version, now_ms, refused), version)
        if message is UpdateMetadataRequest:
            return encode(self.on_update_metadata(request, refused), version)
        assert message is StopReplicaRequest, f"{message.__name__} is not a control request"
        return encode(self.on_stop_replica(request, refused), version)

    def on_update_metadata(self, request: Columns, refused: Errors = Errors.NONE) -> UpdateMetadataResponse:
        """Stores the new states and live brokers.

        Returns INVALID_REQUEST, and stores nothing, if the states are inconsistent. Returns INVALID_TOPIC_EXCEPTION if
        some topics have an invalid name; the other topics are stored.
        """
        refusal = refused or self.refusal(request)
        if refusal is not Errors.NONE:
            return UpdateMetadataResponse(error_code=refusal)
        cluster = self._replicas.cluster
        try:
            if request.is_kraft_controller and request.type == FULL:  # Partitions that are not listed are deleted.
                table = empty_table()
                left_out = merge(table, request)
                cluster.table = table
            else:
                left_out = merge(cluster.table, request)
        except TableError as error:
            self._replicas.notice(
                NoticeKind.IMPOSSIBLE, f"UpdateMetadata from controller {request.controller_id} is refused: {error}"
            )
            return UpdateMetadataResponse(error_code=Errors.INVALID_REQUEST)
        cluster.topics_changed()
        offline = request.topic_states.partition_states.offline_replicas
        if not left_out and (cluster.has_offline or len(offline.values)):
            cluster.set_offline(offline_replicas_of(request.topic_states))
        self._replicas.cluster_changed()
        if left_out:
            self._notice_partitions(request, [f"topic {name!r:.100}" for name in left_out])
            return UpdateMetadataResponse(error_code=Errors.INVALID_TOPIC_EXCEPTION)
        return UpdateMetadataResponse(error_code=Errors.NONE)

    def on_leader_and_isr(
        self, request: Columns, version: int, now_ms: int = 0, refused: Errors = Errors.NONE
    ) -> LeaderAndIsrResponse:
        """Leads or follows every partition whose leader epoch is new.

        If the request is refused, every partition gets the error (LeaderAndIsrRequest.getErrorResponse).
        """
        refusal = refused or self.refusal(request)
        topics: dict[Uuid, list[LeaderAndIsrPartitionError]] = {}
        impossible: list[str] = []
        states = [*_received_replicas(request.topic_states)]
        if refusal is Errors.NONE and request.type == FULL and request.is_kraft_controller:
            self._drop_topics_of_another_id(states)
        for name, partition, received in states:
            flaw = partition_error(name, partition)
            if flaw is not Errors.NONE:
                impossible.append(f"{name!r:.100}, partition {partition}")
            code = refusal or flaw or self._take((name, partition), received, now_ms, request.is_kraft_controller)
            error = LeaderAndIsrPartitionError(topic_name=name, partition_index=partition, error_code=code)
            topics.setdefault(received.topic_id, []).append(error)
        self._notice_partitions(request, impossible)
        if refusal is Errors.NONE:
            self.received_leader_and_isr = True
            if request.type == FULL:  # The article's INIT flag.
                self._replicas.hold_only({(name, partition) for name, partition, _ in states})
        if version < TOPIC_IDS_SINCE:
            errors = [error for of_topic in topics.values() for error in of_topic]
            return LeaderAndIsrResponse(error_code=refusal, partition_errors=errors)
        by_id = [LeaderAndIsrTopicError(topic_id=each, partition_errors=errors) for each, errors in topics.items()]
        return LeaderAndIsrResponse(error_code=refusal, topics=by_id)

    def _drop_topics_of_another_id(self, states: Iterable[tuple[str, int, Replica]]) -> None:
        """Deletes replicas whose topic was deleted and created again while the broker was offline (KAFKA-15605)."""
        for name, partition, received in states:
            if partition_error(name, partition) is not Errors.NONE:
                continue
            key = name, partition
            known = self._replicas.state(key)
            with suppress(exception_of(Errors.KAFKA_STORAGE_ERROR)):  # The same error occurs when the state is applied.
                topic_id = self._replicas.topic_id_on_disk(key) if known is None else known.topic_id
                if topic_id not in (ZERO_UUID, received.topic_id):
                    self._replicas.stop(key, delete=True)

    def on_stop_replica(self, request: Columns, refused: Errors = Errors.NONE) -> StopReplicaResponse:
        """Stops replicas, except those whose leader epoch is newer than the request's (KAFKA-9539)."""
        refusal = refused or self.refusal(request)
        if refusal is not Errors.NONE:
            return StopReplicaResponse(error_code=refusal)
        states = request.topic_states.partition_states
        # Before version 3 the request has one delete flag for all, and no epochs.
        deleted = (states.delete_partition | request.delete_partitions).tolist()
        received = zip(states.leader_epoch.tolist(), deleted, strict=True)
        errors, impossible = [], []
        for name, partition, (epoch, delete) in _named(request.topic_states, received):
            flaw = partition_error(name, partition)
            if flaw is not Errors.NONE:
                impossible.append(f"{name!r:.100}, partition {partition}")
            code = flaw or self._stop((name, partition), epoch, delete)
            errors.append(StopReplicaPartitionError(topic_name=name, partition_index=partition, error_code=code))
        self._notice_partitions(request, impossible)
        return StopReplicaResponse(partition_errors=errors)

    def refusal(self, request: Columns | RequestHead) -> Errors:
        """The error for the whole request, or NONE; for NONE, stores the request's controller and epoch.

        Accepts a larger broker epoch, as the controller may read the broker's registration before the broker does. A
        KRaft controller sends the broker epoch of the metadata log (ZkBrokerEpochManager).
        """
        epoch, sender = request.broker_epoch, f"controller {request.controller_id}"
        subject = f"{request.message.__name__.removesuffix('Request')} from {sender}"
        known = self._broker_epoch(request)
        if known is None:
            self._replicas.notice(NoticeKind.STALE, f"{subject} is refused: this broker does not migrate to KRaft")
            return Errors.NOT_CONTROLLER
        if epoch != UNKNOWN_BROKER_EPOCH and epoch < known:
            self._replicas.notice(
                NoticeKind.STALE, f"{subject} is refused: it is for broker epoch {epoch}, this broker has {known}"
            )
            return Errors.STALE_BROKER_EPOCH
        if request.controller_epoch < self.controller_epoch:
            received = f"its controller epoch {request.controller_epoch} is older than {self.controller_epoch}"
            self._replicas.notice(NoticeKind.STALE, f"{subject} is refused: {received}")
            return Errors.STALE_CONTROLLER_EPOCH
        if request.controller_epoch > self.controller_epoch:
            rises = f"from {self.controller_epoch} to {request.controller_epoch}"
            self._replicas.notice(
                NoticeKind.CONTROLS, f"the controller epoch rises {rises}: {sender} is the controller now"
            )
        self.controller_epoch, self.is_kraft = request.controller_epoch, bool(request.is_kraft_controller)
        self._replicas.cluster.controller_id = request.controller_id
        return Errors.NONE

    def _broker_epoch(self, request: Columns | RequestHead) -> int | None:
        """The least broker epoch that the request must have; None if this broker refuses KRaft controllers."""
        if not request.is_kraft_controller:
            return self._replicas.broker_epoch
        return None if self.kraft_broker_epoch is None else self.kraft_broker_epoch()

    def _notice_partitions(self, request: Columns, impossible: list[str]) -> None:
        """Logs the first few invalid topics or partitions of a request."""
        if impossible:
            name = request.message.__name__.removesuffix("Request")
            more = f" and {len(impossible) - 3} more" if len(impossible) > 3 else ""
            some = "; ".join(impossible[:3]) + more
            line = f"{name} from controller {request.controller_id} has invalid topics or partitions: {some}"
            self._replicas.notice(NoticeKind.IMPOSSIBLE, line)

    def _take(self, key: Key, received: Replica, now_ms: int, is_kraft: bool) -> Errors:
        """Applies a partition's state if it is new. Returns the error code of the response.

        A KRaft controller changes ISRs without a new leader epoch, so an equal leader epoch counts as new (KIP-866).
        """
        known = self._replicas.state(key)
        if known is None:
            try:
                topic_id = self._replicas.topic_id_on_disk(key)
            except exception_of(Errors.KAFKA_STORAGE_ERROR):
                return Errors.KAFKA_STORAGE_ERROR
            if ZERO_UUID not in (topic_id, received.topic_id) and topic_id != received.topic_id:
                return Errors.INCONSISTENT_TOPIC_ID
            if received.topic_id == ZERO_UUID:
                received = replace(received, topic_id=topic_id)
            if received.leader_epoch <= NO_EPOCH:
                return Errors.STALE_CONTROLLER_EPOCH
        else:
            if ZERO_UUID not in (known.topic_id, received.topic_id) and known.topic_id != received.topic_id:
                return Errors.INCONSISTENT_TOPIC_ID
            if received.leader_epoch == known.leader_epoch and known.topic_id == ZERO_UUID != received.topic_id:
                return self._replicas.assign_topic_id(key, received.topic_id)  # After an upgrade (KAFKA-12332).
            if received.leader_epoch == known.leader_epoch and received.topic_id == ZERO_UUID != known.topic_id:
                # After a downgrade a follower has to fetch by name again (KAFKA-13132).
                return Errors.NONE if received.leader != self.broker_id else Errors.STALE_CONTROLLER_EPOCH
            if received.leader_epoch < known.leader_epoch + (not is_kraft):
                return Errors.STALE_CONTROLLER_EPOCH  # As in Kafka, also for an equal leader epoch.
            if received.topic_id == ZERO_UUID:  # A log keeps its topic id if an older controller sends none.
                received = replace(received, topic_id=known.topic_id)
        if self.broker_id not in received.replicas:
            return Errors.UNKNOWN_TOPIC_OR_PARTITION
        return self._replicas.become(key, received, now_ms)

    def _stop(self, key: Key, leader_epoch: int, delete: bool) -> Errors:
        """Stops the replica unless its leader epoch is newer. Returns the error code of the response."""
        known = self._replicas.state(key)
        sentinels = (EPOCH_DURING_DELETE, NO_EPOCH)
        if known is not None and leader_epoch not in sentinels and leader_epoch < known.leader_epoch:
            return Errors.FENCED_LEADER_EPOCH
        return self._replicas.stop(key, delete)


def _named(topics: Rows, values: Iterable[T]) -> Iterator[tuple[str, int, T]]:
    """Tuples of topic name, partition and value; `values` has one value for each partition of `topics`."""
    states = topics.partition_states
    names = np.repeat(np.array(topics.topic_name.tolist(), object), np.diff(states.row_offsets))
    return zip(names.tolist(), states.partition_index.tolist(), values, strict=True)


def offline_replicas_of(topics: Rows) -> Iterator[tuple[Key, frozenset[int]]]:
    """The offline replicas of each partition in an UpdateMetadata; empty for a topic that is being deleted."""
    states = topics.partition_states
    deleted = (states.leader == LEADER_DURING_DELETE).tolist()
    received = zip(states.offline_replicas, deleted, strict=True)
    offline = (frozenset[int]() if is_deleted else frozenset(each.tolist()) for each, is_deleted in received)
    for name, partition, ids in _named(topics, offline):
        yield (name, partition), ids


def _received_replicas(topics: Rows) -> Iterator[tuple[str, int, Replica]]:
    states = topics.partition_states
    ids = [Uuid(each.tobytes()) for each in topics.topic_id]
    ids_of_rows = [each for each, count in zip(ids, np.diff(states.row_offsets), strict=True) for _ in range(count)]
    columns = (
        ids_of_rows,
        states.leader.tolist(),
        states.leader_epoch.tolist(),
        [tuple(isr.tolist()) for isr in states.isr],
        [tuple(replicas.tolist()) for replicas in states.replicas],
        states.partition_epoch.tolist(),
        [False] * len(ids_of_rows),
        states.controller_epoch.tolist(),
        states.leader_recovery_state.tolist(),
        states.is_new.tolist(),
    )
    return _named(topics, [Replica(*values) for values in zip(*columns, strict=True)])
