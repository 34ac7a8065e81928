"""A broker's half of the control protocol: a thin class that checks epochs and keeps what it is told. No sockets.

Source: KafkaApis and ReplicaManager of 3.9.1.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import TypeAlias, TypeVar

import numpy as np

from kcore.broker.notices import NoticeKind
from kcore.constants import EPOCH_DURING_DELETE, LEADER_DURING_DELETE, NO_EPOCH, RECOVERED, UNKNOWN_BROKER_EPOCH
from kcore.errors import TableError
from kcore.metadata.broker_table import BrokerTable
from kcore.metadata.merge import merge
from kcore.metadata.partition_table import PartitionTable
from kcore.metadata.topic_names import partition_error
from kcore.metadata.topics import TopicTable
from kcore.protocol_errors import Errors
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

T = TypeVar("T")
Key: TypeAlias = tuple[str, int]  # A partition: its topic's name and its index.

TOPIC_IDS_SINCE = 5  # LeaderAndIsr answers by topic id from this version on.


@dataclass(frozen=True, slots=True)
class Replica:
    """A partition that the broker holds, as the last accepted LeaderAndIsr had it. Brokers are ids."""

    topic_id: Uuid
    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    replicas: tuple[int, ...]
    partition_epoch: int
    stopped: bool = False  # By a StopReplica that left the log: neither leads nor follows until the next LeaderAndIsr.
    controller_epoch: int = -1  # Of the controller that decided so.
    leader_recovery_state: int = RECOVERED
    is_new: bool = field(default=False, compare=False)  # The controller has never had it on this broker before.


class Broker:
    """Takes LeaderAndIsr, UpdateMetadata and StopReplica, refuses stale ones, and keeps what they say.

    `table` is the cluster as UpdateMetadata told it, `replicas` what this broker holds, by (topic name, partition).
    """

    def __init__(self, broker_id: int, broker_epoch: int) -> None:
        """`broker_epoch`: of this incarnation, the czxid of its znode (KIP-380)."""
        self.broker_id = broker_id
        self.broker_epoch = broker_epoch
        self.controller_epoch = 0
        self.table = PartitionTable.from_arrays(
            np.empty((0, 0), np.int32), topics=TopicTable([]), topic_rows=[], brokers=BrokerTable.from_arrays([])
        )
        self.replicas: dict[Key, Replica] = {}

    def answer(self, message: type[Message], version: int, data: bytes | memoryview) -> bytes:
        """The encoded response to an encoded control request, neither with its header. DecodeError for other bytes."""
        return self.answer_columns(message, version, decode_columns(message, version, data))

    def answer_columns(self, message: type[Message], version: int, request: Columns) -> bytes:
        """As `answer`, for who has decoded the request."""
        if message is LeaderAndIsrRequest:
            return encode(self.on_leader_and_isr(request, version), version)
        if message is UpdateMetadataRequest:
            return encode(self.on_update_metadata(request), version)
        assert message is StopReplicaRequest, f"a broker is not sent {message.__name__}"
        return encode(self.on_stop_replica(request), version)

    def on_update_metadata(self, request: Columns) -> UpdateMetadataResponse:
        """Keep the new states and live brokers.

        INVALID_REQUEST for states that make no table: nothing of them is kept. INVALID_TOPIC_EXCEPTION if some topics
        have a name that no topic may have: all but these are kept.
        """
        refusal = self.refusal(request)
        if refusal is not Errors.NONE:
            return UpdateMetadataResponse(error_code=refusal)
        try:
            left_out = merge(self.table, request)
        except TableError as error:
            self.notice(
                NoticeKind.IMPOSSIBLE, f"UpdateMetadata of controller {request.controller_id} is refused: {error}"
            )
            return UpdateMetadataResponse(error_code=Errors.INVALID_REQUEST)
        if left_out:
            self._notice_partitions(request, [f"topic {name!r:.100}" for name in left_out])
            return UpdateMetadataResponse(error_code=Errors.INVALID_TOPIC_EXCEPTION)
        return UpdateMetadataResponse(error_code=Errors.NONE)

    def on_leader_and_isr(self, request: Columns, version: int) -> LeaderAndIsrResponse:
        """Become leader or follower of every partition whose leader epoch is new.

        A refusal is repeated for every partition (LeaderAndIsrRequest.getErrorResponse).
        """
        refusal = self.refusal(request)
        topics: dict[Uuid, list[LeaderAndIsrPartitionError]] = {}
        impossible: list[str] = []
        for name, partition, told in _told_replicas(request.topic_states):
            flaw = partition_error(name, partition)
            if flaw is not Errors.NONE:
                impossible.append(f"{name!r:.100}, partition {partition}")
            code = refusal or flaw or self.take((name, partition), told)
            error = LeaderAndIsrPartitionError(topic_name=name, partition_index=partition, error_code=code)
            topics.setdefault(told.topic_id, []).append(error)
        self._notice_partitions(request, impossible)
        if version < TOPIC_IDS_SINCE:
            errors = [error for of_topic in topics.values() for error in of_topic]
            return LeaderAndIsrResponse(error_code=refusal, partition_errors=errors)
        by_id = [LeaderAndIsrTopicError(topic_id=each, partition_errors=errors) for each, errors in topics.items()]
        return LeaderAndIsrResponse(error_code=refusal, topics=by_id)

    def on_stop_replica(self, request: Columns) -> StopReplicaResponse:
        """Stop replicas, unless a newer leader epoch is known (KAFKA-9539)."""
        refusal = self.refusal(request)
        if refusal is not Errors.NONE:
            return StopReplicaResponse(error_code=refusal)
        states = request.topic_states.partition_states
        # Before version 3 the request has one delete flag for all, and no epochs.
        deleted = (states.delete_partition | request.delete_partitions).tolist()
        told = zip(states.leader_epoch.tolist(), deleted, strict=True)
        errors, impossible = [], []
        for name, partition, (epoch, delete) in _named(request.topic_states, told):
            flaw = partition_error(name, partition)
            if flaw is not Errors.NONE:
                impossible.append(f"{name!r:.100}, partition {partition}")
            code = flaw or self.stop((name, partition), epoch, delete)
            errors.append(StopReplicaPartitionError(topic_name=name, partition_index=partition, error_code=code))
        self._notice_partitions(request, impossible)
        return StopReplicaResponse(partition_errors=errors)

    def refusal(self, request: Columns) -> Errors:
        """Why the whole request is refused; else its controller epoch is the newest known.

        A larger broker epoch is accepted: the controller may learn of a registration before the broker does.
        """
        epoch, who = request.broker_epoch, f"controller {request.controller_id}"
        what = f"{request.message.__name__.removesuffix('Request')} of {who}"
        if epoch != UNKNOWN_BROKER_EPOCH and epoch < self.broker_epoch:
            self.notice(
                NoticeKind.STALE, f"{what} is refused: it is for broker epoch {epoch}, this is {self.broker_epoch}"
            )
            return Errors.STALE_BROKER_EPOCH
        if request.controller_epoch < self.controller_epoch:
            told = f"it has controller epoch {request.controller_epoch}, and {self.controller_epoch} is known"
            self.notice(NoticeKind.STALE, f"{what} is refused: {told}")
            return Errors.STALE_CONTROLLER_EPOCH
        if request.controller_epoch > self.controller_epoch:
            rises = f"from {self.controller_epoch} to {request.controller_epoch}"
            self.notice(NoticeKind.CONTROLS, f"the controller epoch rises {rises}: {who} controls from now on")
        self.controller_epoch = request.controller_epoch
        return Errors.NONE

    def notice(self, kind: NoticeKind, text: str) -> None:
        """A line for the log, if somebody keeps one."""

    def _notice_partitions(self, request: Columns, impossible: list[str]) -> None:
        """That a request names what cannot be: the first few."""
        if impossible:
            name = request.message.__name__.removesuffix("Request")
            more = f" and {len(impossible) - 3} more" if len(impossible) > 3 else ""
            some = "; ".join(impossible[:3]) + more
            said = f"{name} of controller {request.controller_id} names what no topic can have: {some}"
            self.notice(NoticeKind.IMPOSSIBLE, said)

    def take(self, key: Key, told: Replica) -> Errors:
        """What a partition's state is answered with; if it is new, it holds from now on."""
        known = self.replicas.get(key)
        if known is not None:
            if ZERO_UUID not in (known.topic_id, told.topic_id) and known.topic_id != told.topic_id:
                return Errors.INCONSISTENT_TOPIC_ID
            if told.leader_epoch == known.leader_epoch and known.topic_id == ZERO_UUID != told.topic_id:
                return self.assign_topic_id(key, told.topic_id)  # An upgrade adds it (KAFKA-12332).
            if told.leader_epoch == known.leader_epoch and told.topic_id == ZERO_UUID != known.topic_id:
                # After a downgrade a follower has to fetch by name again (KAFKA-13132).
                return Errors.NONE if told.leader != self.broker_id else Errors.STALE_CONTROLLER_EPOCH
            if told.leader_epoch <= known.leader_epoch:
                return Errors.STALE_CONTROLLER_EPOCH  # Kafka's answer to an equal leader epoch, too.
        elif told.leader_epoch <= NO_EPOCH:
            return Errors.STALE_CONTROLLER_EPOCH
        if self.broker_id not in told.replicas:
            return Errors.UNKNOWN_TOPIC_OR_PARTITION
        # A log keeps its topic id when an older controller does not name one.
        topic_id = known.topic_id if known is not None and told.topic_id == ZERO_UUID else told.topic_id
        return self.become(key, replace(told, topic_id=topic_id))

    def become(self, key: Key, told: Replica) -> Errors:
        """Leader or follower, as told."""
        self.replicas[key] = told
        return Errors.NONE

    def assign_topic_id(self, key: Key, topic_id: Uuid) -> Errors:
        """To a replica that had none."""
        self.replicas[key] = replace(self.replicas[key], topic_id=topic_id)
        return Errors.NONE

    def stop(self, key: Key, leader_epoch: int, delete: bool) -> Errors:
        """What StopReplica of one partition is answered with; unless it is refused, the replica stops."""
        known = self.replicas.get(key)
        sentinels = (EPOCH_DURING_DELETE, NO_EPOCH)
        if known is not None and leader_epoch not in sentinels and leader_epoch < known.leader_epoch:
            return Errors.FENCED_LEADER_EPOCH
        return self.stopped(key, delete)

    def stopped(self, key: Key, delete: bool) -> Errors:
        """The replica neither leads nor follows any more; with `delete` nothing of it is left."""
        known = self.replicas.get(key)
        if known is not None and delete:
            del self.replicas[key]
        elif known is not None:
            self.replicas[key] = replace(known, stopped=True)
        return Errors.NONE


def _named(topics: Rows, values: Iterable[T]) -> Iterator[tuple[str, int, T]]:
    """(topic name, partition, value) of every partition; a value a partition."""
    states = topics.partition_states
    names = np.repeat(np.array(topics.topic_name.tolist(), object), np.diff(states.row_offsets))
    return zip(names.tolist(), states.partition_index.tolist(), values, strict=True)


def told_offline(topics: Rows) -> Iterator[tuple[Key, frozenset[int]]]:
    """The replicas of each partition of an UpdateMetadata that are offline, none for a topic that is being deleted."""
    states = topics.partition_states
    going = (states.leader == LEADER_DURING_DELETE).tolist()
    told = zip(states.offline_replicas, going, strict=True)
    offline = (frozenset[int]() if gone else frozenset(each.tolist()) for each, gone in told)
    for name, partition, ids in _named(topics, offline):
        yield (name, partition), ids


def _told_replicas(topics: Rows) -> Iterator[tuple[str, int, Replica]]:
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
