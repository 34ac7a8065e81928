"""Handles the ISR changes of leaders: AlterPartition (KIP-497), and the notifications of leaders from before 2.7.

Source: KafkaController.processAlterPartition and processIsrChangeNotification of 3.9.1.
"""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np

from kcore.constants import MAX_REPLICAS, NO_BROKER_ROW, RECOVERED, RECOVERING, UNKNOWN_BROKER_EPOCH
from kcore.controller.zk.decision import Decision
from kcore.controller.zk.effects import Steps
from kcore.controller.zk.events import IsrChangeNotification, RequestEvent
from kcore.controller.zk.leaders.requested_elections import known_rows
from kcore.controller.zk.state_changes import carry_out
from kcore.controller.zk.topics import reassignment
from kcore.controller.zk.zk_context import ControllerContext
from kcore.controller.zk.znode_reading import read_states
from kcore.errors import TableError
from kcore.metadata.table.arrays import padded
from kcore.metadata.table.changes import UnwrittenChanges
from kcore.metadata.table.partition_table import PartitionTable
from kcore.metadata.zookeeper import znodes
from kcore.metadata.zookeeper.znode_operations import Delete, Node
from kcore.node.zk.znode_steps import read_children, read_nodes, write_nodes
from kcore.protocol_errors import Errors
from kcore.schema import AlterPartitionRequest, AlterPartitionResponse
from kcore.schema.alter_partition import (
    AlterPartitionRequestPartitionData,
    AlterPartitionRequestTopicData,
    AlterPartitionResponsePartitionData,
    AlterPartitionResponseTopicData,
)
from kcore.schema.structure import Message
from kcore.types import Bools, Int8s, Int32s, Int64s

TOPIC_IDS_SINCE: Final = 2  # KIP-841; from this version on the error for ineligible members is INELIGIBLE_REPLICA.
BROKER_EPOCHS_SINCE: Final = 3  # KIP-903
NO_ROW, NO_TOPIC = -1, -2
TO_BE_WRITTEN: Final = -2  # Not an error code: the request is valid and changes the state.


AlterPartitionReceived: TypeAlias = RequestEvent[AlterPartitionRequest]


class IsrRequest(NamedTuple):
    """The ISRs that a leader requests for c existing partitions, each once, by ascending row."""

    rows: Int32s
    leader_epochs: Int32s
    partition_epochs: Int32s
    recovery: Int8s
    isr_offsets: Int32s  # c + 1; an invalid requested ISR is stored as empty.
    isr: Int32s  # broker ids
    isr_epochs: Int64s  # the members' broker epochs, -1 unknown


def on_alter_partition(context: ControllerContext, event: AlterPartitionReceived) -> Steps[Message | None]:
    """Writes the states, responds to the leader, and sends all brokers UpdateMetadata; LeaderAndIsr is not needed."""
    table = context.table
    error = _sender_error(table, event.request)
    if error is not Errors.NONE:
        return event.refused(error)
    rows = _rows(table, event)
    request = _isr_request(event, rows)
    why = f"AlterPartition of broker {event.request.broker_id}"
    decision = yield from carry_out(context, lambda: _decide(table, event, request), why, "detail")
    errors = _judge(table, event, request)
    errors[errors == TO_BE_WRITTEN] = Errors.INVALID_UPDATE_VERSION  # Other nodes wrote first in every attempt.
    yield from context.answer(event.request_id, _response(table, event, rows, request, errors))
    batch = context.batch()
    if len(decision.changes):
        batch.add_update_metadata(np.flatnonzero(table.brokers.live), decision.changes.rows)
    yield from context.send(batch)
    yield from reassignment.complete(context, request.rows[errors == Errors.NONE])
    return None


def _sender_error(table: PartitionTable, request: AlterPartitionRequest) -> Errors:
    """STALE_BROKER_EPOCH if the sender is not live, or is another incarnation of the broker; otherwise NONE."""
    brokers = table.brokers
    if request.broker_id not in brokers or not brokers.live[row := brokers.row(request.broker_id)]:
        return Errors.STALE_BROKER_EPOCH
    return Errors.NONE if brokers.epochs[row] == request.broker_epoch else Errors.STALE_BROKER_EPOCH


def _partitions(request: AlterPartitionRequest) -> list[AlterPartitionRequestPartitionData]:
    return [partition for topic in request.topics for partition in topic.partitions]


def _rows(table: PartitionTable, event: AlterPartitionReceived) -> Int32s:
    """The row of each requested partition; NO_ROW if it is unknown or has no state, NO_TOPIC for an unknown id."""
    topics = event.request.topics
    topic_rows = [_topic_row(table, topic, event.version) for topic in topics]
    rows = np.repeat(np.array(topic_rows, np.int32), [len(topic.partitions) for topic in topics])
    indexes = np.array([each.partition_index for each in _partitions(event.request)], np.int32)
    known = rows >= 0
    found = table.rows_of(rows[known], indexes[known])
    found[found >= 0] = np.where(table.leader_epoch__p[found[found >= 0]] >= 0, found[found >= 0], NO_ROW)
    rows[known] = found
    return rows


def _topic_row(table: PartitionTable, topic: AlterPartitionRequestTopicData, version: int) -> int:
    if version >= TOPIC_IDS_SINCE:
        row = table.topics.row_of_id(topic.topic_id)
        return NO_TOPIC if row is None else row
    return table.topics.row(topic.topic_name) if topic.topic_name in table.topics else NO_ROW


def _isr_request(event: AlterPartitionReceived, rows: Int32s) -> IsrRequest:
    ordered = sorted(dict(zip(rows.tolist(), _partitions(event.request), strict=True)).items())
    ordered = [(row, partition) for row, partition in ordered if row >= 0]
    isrs = [_isr(each, event.version) for _, each in ordered]
    members = [member for isr in isrs for member in isr]
    return IsrRequest(
        np.array([row for row, _ in ordered], np.int32),
        np.array([each.leader_epoch for _, each in ordered], np.int32),
        np.array([each.partition_epoch for _, each in ordered], np.int32),
        np.array([each.leader_recovery_state for _, each in ordered], np.int8),
        np.cumsum([0, *map(len, isrs)], dtype=np.int32),
        np.array([broker for broker, _ in members], np.int32),
        np.array([epoch for _, epoch in members], np.int64),
    )


def _isr(partition: AlterPartitionRequestPartitionData, version: int) -> list[tuple[int, int]]:
    """The members and their broker epochs; empty if a member is named twice, or if there are too many."""
    if version >= BROKER_EPOCHS_SINCE:
        members = [(each.broker_id, each.broker_epoch) for each in partition.new_isr_with_epochs]
    else:
        members = [(each, UNKNOWN_BROKER_EPOCH) for each in partition.new_isr]
    distinct_members = {broker for broker, _ in members}
    return members if len(distinct_members) == len(members) <= MAX_REPLICAS else []


def _decide(table: PartitionTable, event: AlterPartitionReceived, request: IsrRequest) -> Decision:
    chosen = _judge(table, event, request) == TO_BE_WRITTEN
    rows = request.rows[chosen]
    sizes = np.diff(request.isr_offsets)
    changes = UnwrittenChanges(
        rows=rows,
        leaders=np.full(len(rows), event.request.broker_id, np.int32),
        isr_offsets=np.append(np.int32(0), np.cumsum(sizes[chosen], dtype=np.int32)),
        isr=request.isr[np.repeat(chosen, sizes)],
        leader_epochs=table.leader_epoch__p[rows],
        partition_epochs=table.partition_epoch__p[rows],
        recovery=request.recovery[chosen],
    )
    return Decision(changes)


def _judge(table: PartitionTable, event: AlterPartitionReceived, request: IsrRequest) -> Int32s:
    """An error code a partition, by checks in Kafka's order; NONE without a change, TO_BE_WRITTEN for a valid one."""
    rows, brokers = request.rows, table.brokers
    leader_epochs, partition_epochs = table.leader_epoch__p[rows], table.partition_epoch__p[rows]
    recovery, sizes = table.leader_recovery_state__p[rows], np.diff(request.isr_offsets)
    is_leader = table.leader__p[rows] == brokers.row(event.request.broker_id)
    unchanged = is_leader & (request.recovery == recovery) & _same_isr(table, request)
    ineligible = Errors.INELIGIBLE_REPLICA if event.version >= TOPIC_IDS_SINCE else Errors.OPERATION_NOT_ATTEMPTED
    rules = [
        # The leader has higher epochs than this controller: there is a later controller.
        (
            (request.partition_epochs > partition_epochs) | (request.leader_epochs > leader_epochs),
            Errors.NOT_CONTROLLER,
        ),
        (request.leader_epochs < leader_epochs, Errors.FENCED_LEADER_EPOCH),
        # Checked before the partition epoch: a leader that lost a response sends the request again (KAFKA-14144).
        (unchanged, Errors.NONE),
        (request.partition_epochs < partition_epochs, Errors.INVALID_UPDATE_VERSION),
        (~is_leader | (sizes == 0), Errors.INVALID_REQUEST),
        # A leader that recovers from an unclean election is the only ISR member until it is RECOVERED (KIP-704).
        ((request.recovery == RECOVERING) & (sizes > 1), Errors.INVALID_REQUEST),
        ((request.recovery == RECOVERING) & (recovery == RECOVERED), Errors.INVALID_REQUEST),
        (_has_ineligible(table, request), ineligible),
    ]
    codes = np.select([mask for mask, _ in rules], [int(error) for _, error in rules], TO_BE_WRITTEN)
    return codes.astype(np.int32)


def _same_isr(table: PartitionTable, request: IsrRequest) -> Bools:
    """True where the table already has this ISR in the same order."""
    known = table.isr__pi[request.rows]
    known_ids = np.where(known >= 0, table.brokers.ids[known], NO_BROKER_ROW) if len(table.brokers) else known
    wanted = padded(request.isr_offsets, request.isr)
    width = max(known_ids.shape[1], wanted.shape[1])
    wide = [np.pad(each, ((0, 0), (0, width - each.shape[1])), constant_values=-1) for each in (known_ids, wanted)]
    same: Bools = (wide[0] == wide[1]).all(axis=1)
    return same


def _has_ineligible(table: PartitionTable, request: IsrRequest) -> Bools:
    """True where a member is not live or shuts down (KIP-841), or is another incarnation (KIP-903)."""
    brokers = table.brokers
    may_join = {
        int(brokers.ids[row]): int(brokers.epochs[row]) for row in np.flatnonzero(brokers.live & ~brokers.shutting_down)
    }
    members = zip(request.isr.tolist(), request.isr_epochs.tolist(), strict=True)
    bad = np.array(
        [
            epoch not in (UNKNOWN_BROKER_EPOCH, may_join.get(broker)) or broker not in may_join
            for broker, epoch in members
        ],
        np.bool_,
    )
    has_bad = np.zeros(len(request.rows), np.bool_)
    has_bad[np.repeat(np.arange(len(request.rows)), np.diff(request.isr_offsets))[bad]] = True
    return has_bad


def _response(
    table: PartitionTable, event: AlterPartitionReceived, rows: Int32s, request: IsrRequest, errors: Int32s
) -> AlterPartitionResponse:
    answers = {row: _answer(error) for row, error in zip(request.rows.tolist(), errors.tolist(), strict=True)}
    well = request.rows[errors == Errors.NONE]
    answers |= zip(well.tolist(), _states(table, well), strict=True)
    answers |= {NO_ROW: _answer(Errors.UNKNOWN_TOPIC_OR_PARTITION), NO_TOPIC: _answer(Errors.UNKNOWN_TOPIC_ID)}
    row_of, topics = iter(rows.tolist()), []
    for topic in event.request.topics:
        partitions = [
            AlterPartitionResponsePartitionData(partition_index=each.partition_index, **answers[next(row_of)])
            for each in topic.partitions
        ]
        topics.append(
            AlterPartitionResponseTopicData(topic_name=topic.topic_name, topic_id=topic.topic_id, partitions=partitions)
        )
    return AlterPartitionResponse(topics=topics)


def _answer(
    error: int,
    leader: int = 0,
    leader_epoch: int = 0,
    isr: Sequence[int] = (),
    recovery: int = 0,
    partition_epoch: int = 0,
) -> dict[str, Any]:
    """The fields of a partition's response, without the partition index."""
    return {
        "error_code": error,
        "leader_id": leader,
        "leader_epoch": leader_epoch,
        "isr": isr,
        "leader_recovery_state": recovery,
        "partition_epoch": partition_epoch,
    }


def _states(table: PartitionTable, rows: Int32s) -> Iterator[dict[str, Any]]:
    """The responses for partitions without an error: their present states."""
    ids = np.append(table.brokers.ids, np.int32(NO_BROKER_ROW))
    leaders, isrs = ids[table.leader__p[rows]].tolist(), ids[table.isr__pi[rows]].tolist()
    columns = table.leader_epoch__p, table.leader_recovery_state__p, table.partition_epoch__p
    for leader, isr, epoch, recovery, version in zip(
        leaders, isrs, *(column[rows].tolist() for column in columns), strict=True
    ):
        members = [member for member in isr if member != NO_BROKER_ROW]
        yield _answer(Errors.NONE, leader, epoch, members, recovery, version)


def on_isr_change_notification(context: ControllerContext, event: IsrChangeNotification) -> Steps[None]:
    """Reads notifications, then states; updates all brokers, then deletes the notifications (KAFKA-5879)."""
    parent = znodes.ISR_CHANGE_NOTIFICATION
    children = yield from read_children(parent, watch=True)
    if not children:
        return
    paths = [f"{parent}/{child}" for child in children]
    notes = yield from read_nodes(paths)
    rows = _named_rows(context.table, [(path, note) for path, note in zip(paths, notes, strict=True) if note])
    states = yield from read_states(context, rows)
    context.table.apply(states.changes, controller_epoch=states.controller_epochs, check_epochs=False)
    batch = context.batch()
    batch.add_update_metadata(np.flatnonzero(context.table.brokers.live), states.changes.rows)
    yield from context.send(batch)
    yield from reassignment.complete(context, states.changes.rows)
    yield from write_nodes([Delete(path) for path in paths])


def _named_rows(table: PartitionTable, notes: list[tuple[str, Node]]) -> Int32s:
    """The existing partitions that the notifications name; an unreadable notification names none, as in Kafka."""
    named: set[znodes.TopicPartition] = set()
    for path, note in notes:
        with suppress(TableError):
            named.update(znodes.decode_isr_change(path, note.data))
    return known_rows(table, named)
