"""AlterPartition: leaders change the ISRs of their partitions, which may complete a reassignment (KIP-497, KIP-903).

Source: ControllerApis.handleAlterPartitionRequest, ReplicationControlManager.alterPartition.
"""

from collections.abc import Generator
from dataclasses import dataclass
from itertools import islice
from typing import Final, Self

import numpy as np

from kcore.constants import NO_BROKER_ROW, RECOVERED, RECOVERING
from kcore.controller.kraft.decision import AT_ONCE, Decision, Steps, pause_if_many
from kcore.controller.kraft.departures import RECOVERY_STATE
from kcore.controller.kraft.kafka_way.faults import fail_as_kafka
from kcore.controller.kraft.kraft_context import ControllerContext, RequestInfo
from kcore.controller.kraft.leaders.named import (
    in_runs,
    is_current_epoch,
    mark,
    named_too_often,
    places_of,
    rows_named,
    topic_rows_by_id,
    topic_rows_by_name,
)
from kcore.metadata.acl_codes import CLUSTER_ACTION
from kcore.metadata.table.broker_table import BrokerTable
from kcore.metadata.table.partition_table import PartitionTable
from kcore.protocol_errors import Errors
from kcore.replication.kraft_events import isrs_altered
from kcore.replication.kraft_results import ChangedFields, KraftElections
from kcore.schema.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionRequestPartitionData,
    AlterPartitionResponse,
    AlterPartitionResponsePartitionData,
    AlterPartitionResponseTopicData,
)
from kcore.types import Bools, Int8s, Int16s, Int32s, Int64s

_TOPIC_IDS: Final = 2  # From this version on the request names topics by id.
_BROKER_EPOCHS: Final = 3  # From this version on the request has the broker epoch of each ISR member.


def on_alter_partition(context: ControllerContext, request: AlterPartitionRequest, info: RequestInfo) -> Steps:
    """Change ISRs as their leader requests. A partition that fails a check gets an error.

    The other partitions change by bulk decisions. The columns of the request and the response are made in parts.
    """
    if not context.is_authorized(info, CLUSTER_ACTION):
        return Decision(AlterPartitionResponse(error_code=Errors.CLUSTER_AUTHORIZATION_FAILED))
    if not request.topics:
        return Decision(AlterPartitionResponse())
    context.call_controller()
    table = context.image.table
    if not is_current_epoch(table.brokers, request.broker_id, request.broker_epoch):
        return Decision(AlterPartitionResponse(error_code=Errors.STALE_BROKER_EPOCH))
    requested = yield from _RequestedIsrs.of(table, request, info.version)
    yield from pause_if_many(len(requested.rows))
    if _checked(table, requested, request.broker_id, info.version):
        fail_as_kafka(context.config, RECOVERY_STATE, "an unknown leader recovery state")
        return Decision(AlterPartitionResponse(error_code=Errors.INVALID_REQUEST))
    settings, answers = context.kraft_settings(), _Answers(requested.errors)
    wanted, records = np.flatnonzero(requested.errors == 0), []
    for run in in_runs(requested.rows[wanted]):
        places = wanted[run]
        chosen = requested.rows[places], requested.isr__ri[places], requested.recovery[places]
        changes = isrs_altered(table, settings, *chosen)
        records += [changes] if len(changes) else []
        answers.add(table, requested.rows, places, changes)
        answers.report_new_leaders(requested.rows, places, changes, request.broker_id, info.version)
    yield from pause_if_many(len(requested.rows))
    response = yield from _response(request, requested, answers)
    return Decision(response, records, is_atomic=False)


@dataclass(slots=True)
class _RequestedIsrs:
    """The request as columns with one row (r) per partition. The members (m) of all new ISRs are concatenated."""

    indexes: list[int]
    rows: Int32s  # -1 for an unknown partition
    leader_epochs: Int32s
    partition_epochs: Int32s
    recovery: Int8s
    sizes: Int32s  # The number of members of the new ISR.
    owners: Int64s  # m, the row (r) of the member's partition, ascending
    member_ids: Int32s  # m
    member_epochs: Int64s  # m, -1 if the leader does not know the epoch
    errors: Int16s
    isr__ri: Int16s  # Broker rows, padded; set by the checks for partitions without an error.

    @classmethod
    def of(cls, table: PartitionTable, request: AlterPartitionRequest, version: int) -> Generator[None, None, Self]:
        """The columns of the request, with the errors of unknown topics."""
        if by_id := version >= _TOPIC_IDS:
            topic_rows = topic_rows_by_id(table, [topic.topic_id for topic in request.topics])
        else:
            topic_rows = topic_rows_by_name(table, [topic.topic_name for topic in request.topics])
        counts = [len(topic.partitions) for topic in request.topics]
        partitions = [partition for topic in request.topics for partition in topic.partitions]
        indexes = [partition.partition_index for partition in partitions]
        members = list[tuple[list[int], list[int]]]()
        for first in range(0, len(partitions), AT_ONCE):
            part = partitions[first : first + AT_ONCE]
            members += [_members(partition, version) for partition in part]
            yield from pause_if_many(len(part))
        sizes = np.array([len(ids) for ids, _ in members], np.int32)
        requested = cls(
            indexes=indexes,
            rows=rows_named(table, topic_rows, counts, indexes),
            leader_epochs=np.array([each.leader_epoch for each in partitions], np.int32),
            partition_epochs=np.array([each.partition_epoch for each in partitions], np.int32),
            recovery=np.array([each.leader_recovery_state for each in partitions], np.int8),
            sizes=sizes,
            owners=np.repeat(np.arange(len(sizes)), sizes),
            member_ids=np.array([each for ids, _ in members for each in ids], np.int32),
            member_epochs=np.array([each for _, epochs in members for each in epochs], np.int64),
            errors=np.zeros(len(sizes), np.int16),
            isr__ri=np.empty((0, 0), np.int16),
        )
        unknown_topic = np.repeat(np.array(topic_rows, np.int32) < 0, counts)
        mark(requested.errors, unknown_topic, Errors.UNKNOWN_TOPIC_ID if by_id else Errors.UNKNOWN_TOPIC_OR_PARTITION)
        return requested


def _members(partition: AlterPartitionRequestPartitionData, version: int) -> tuple[list[int], list[int]]:
    """Ids and epochs of the new ISR's members."""
    if version < _BROKER_EPOCHS:
        return partition.new_isr, [-1] * len(partition.new_isr)
    states = partition.new_isr_with_epochs
    return [state.broker_id for state in states], [state.broker_epoch for state in states]


# Source: ReplicationControlManager.validateAlterPartitionData.


def _checked(table: PartitionTable, requested: _RequestedIsrs, broker_id: int, version: int) -> bool:
    """Set the error of every partition that must not change, and the new ISRs of the others as broker rows.

    Returns True if a partition has an unknown leader recovery state.
    """
    rows, errors, broker_row = requested.rows, requested.errors, table.brokers.row(broker_id)
    mark(errors, rows < 0, Errors.UNKNOWN_TOPIC_OR_PARTITION)
    if errors.all():
        return False
    mark(errors, named_too_often(rows), Errors.INVALID_REQUEST)
    leader_epochs, partition_epochs = table.leader_epoch__p[rows], table.partition_epoch__p[rows]
    mark(errors, requested.leader_epochs > leader_epochs, Errors.NOT_CONTROLLER)
    mark(errors, requested.partition_epochs > partition_epochs, Errors.NOT_CONTROLLER)
    mark(errors, requested.leader_epochs < leader_epochs, Errors.FENCED_LEADER_EPOCH)
    mark(errors, table.leader__p[rows] != broker_row, Errors.INVALID_REQUEST)
    mark(errors, requested.partition_epochs < partition_epochs, Errors.INVALID_UPDATE_VERSION)
    _check_members(table, requested, broker_row)
    if ((errors == 0) & (requested.recovery != RECOVERED) & (requested.recovery != RECOVERING)).any():
        return True
    recovers = requested.recovery == RECOVERING
    mark(errors, recovers & (requested.sizes > 1), Errors.INVALID_REQUEST)
    mark(errors, recovers & (table.leader_recovery_state__p[rows] == RECOVERED), Errors.INVALID_REQUEST)
    ineligible = Errors.INELIGIBLE_REPLICA if version >= _TOPIC_IDS else Errors.OPERATION_NOT_ATTEMPTED
    mark(errors, _has_ineligible(table.brokers, requested), ineligible)
    return False


def _check_members(table: PartitionTable, requested: _RequestedIsrs, leader_row: int) -> None:
    """Check that a new ISR has only replicas, each once, and the leader (Replicas.validateIsr)."""
    width = table.replicas__ps.shape[1]
    mark(requested.errors, requested.sizes > width, Errors.INVALID_REQUEST)
    requested.isr__ri = np.full((len(requested.rows), max(width, 1)), NO_BROKER_ROW, np.int16)
    # Leaves out the members of ISRs with an error: such an ISR may have more members than isr__ri has columns.
    kept = requested.errors[requested.owners] == 0
    owners, ids = requested.owners[kept], requested.member_ids[kept]
    requested.owners, requested.member_ids, requested.member_epochs = owners, ids, requested.member_epochs[kept]
    replicas = table.replicas__ps[requested.rows[owners]]
    replica_ids = np.append(table.brokers.ids, np.int32(NO_BROKER_ROW))[replicas]
    is_member = (replica_ids == ids[:, None]) & (replicas != NO_BROKER_ROW)
    slots = is_member.argmax(axis=1) if len(owners) else np.empty(0, np.int64)
    is_replica = is_member.any(axis=1)
    mark(requested.errors, _any_by_owner(requested, ~is_replica), Errors.INVALID_REQUEST)
    is_named = np.zeros((len(requested.rows), max(width, 1)), np.bool_)
    is_named[owners[is_replica], slots[is_replica]] = True
    mark(requested.errors, is_named.sum(axis=1) < requested.sizes, Errors.INVALID_REQUEST)
    begins = np.searchsorted(owners, owners)
    requested.isr__ri[owners, np.arange(len(owners)) - begins] = replicas[np.arange(len(owners)), slots]
    mark(requested.errors, (requested.isr__ri != leader_row).all(axis=1), Errors.INVALID_REQUEST)


def _has_ineligible(brokers: BrokerTable, requested: _RequestedIsrs) -> Bools:
    """True for each partition whose new ISR has a member that is not active or is registered with another epoch."""
    sound = requested.errors[requested.owners] == 0
    places = np.arange(len(requested.owners)) - np.searchsorted(requested.owners, requested.owners)
    rows = requested.isr__ri[requested.owners, places]
    active = brokers.live & ~brokers.in_controlled_shutdown__b
    is_other = (requested.member_epochs != -1) & (requested.member_epochs != brokers.epochs[rows])
    return _any_by_owner(requested, sound & (~active[rows] | is_other))


def _any_by_owner(requested: _RequestedIsrs, of_members: Bools) -> Bools:
    found = np.zeros(len(requested.rows), np.bool_)
    found[requested.owners[of_members]] = True
    return found


# The response.


class _Answers:
    """The state of each partition after the decision, by place in the request; unset for partitions with an error."""

    def __init__(self, errors: Int16s) -> None:
        self.errors = errors
        self.numbers = np.zeros((4, len(errors)), np.int64)  # Leader id, leader epoch, recovery state, partition epoch.
        self.isrs: list[list[int]] = [[]] * len(errors)

    def add(self, table: PartitionTable, rows: Int32s, places: Int64s, changes: KraftElections) -> None:
        """Set the state of the partitions at `places`: the changed values, or the table's values if unchanged."""
        is_changed = np.zeros(len(places), np.bool_)
        is_changed[places_of(changes, rows[places])] = True
        same, other = places[~is_changed], places[is_changed]
        ids = np.append(table.brokers.ids, np.int32(NO_BROKER_ROW))
        stays = rows[same]
        states = table.leader_epoch__p, table.leader_recovery_state__p, table.partition_epoch__p
        self.numbers[:, same] = [ids[table.leader__p[stays]], *(each[stays] for each in states)]
        after = changes.leaders, changes.leader_epochs, changes.recovery, changes.partition_epochs
        self.numbers[:, other] = after
        for place, members in zip(same.tolist(), ids[table.isr__pi[stays]].tolist(), strict=True):
            self.isrs[place] = [member for member in members if member != NO_BROKER_ROW]
        offsets, members = changes.isr_offsets.tolist(), changes.isr.tolist()
        for k, place in enumerate(other.tolist()):
            self.isrs[place] = members[offsets[k] : offsets[k + 1]]

    def report_new_leaders(
        self, rows: Int32s, places: Int64s, changes: KraftElections, broker_id: int, version: int
    ) -> None:
        """Set the error of each partition whose new ISR completed a reassignment and made another broker the leader."""
        is_other = ((changes.fields & ChangedFields.LEADER) != 0) & (changes.leaders != broker_id)
        error = Errors.NEW_LEADER_ELECTED if version >= _TOPIC_IDS else Errors.FENCED_LEADER_EPOCH
        self.errors[places[places_of(changes, rows[places])][is_other]] = error


def _response(
    request: AlterPartitionRequest, requested: _RequestedIsrs, answers: _Answers
) -> Generator[None, None, AlterPartitionResponse]:
    columns = zip(requested.indexes, answers.errors.tolist(), answers.isrs, *answers.numbers.tolist(), strict=True)
    results = (
        AlterPartitionResponsePartitionData(
            partition_index=index,
            leader_id=leader,
            leader_epoch=leader_epoch,
            isr=isr,
            leader_recovery_state=recovery,
            partition_epoch=partition_epoch,
        )
        if error == 0
        else AlterPartitionResponsePartitionData(partition_index=index, error_code=error)
        for index, error, isr, leader, leader_epoch, recovery, partition_epoch in columns
    )
    topics, since_pause = list[AlterPartitionResponseTopicData](), 0
    for topic in request.topics:
        partitions = list[AlterPartitionResponsePartitionData]()
        for first in range(0, len(topic.partitions), AT_ONCE):
            count = min(AT_ONCE, len(topic.partitions) - first)
            partitions += islice(results, count)
            since_pause += count
            if since_pause >= AT_ONCE:
                yield
                since_pause = 0
        topics.append(
            AlterPartitionResponseTopicData(topic_name=topic.topic_name, topic_id=topic.topic_id, partitions=partitions)
        )
    return AlterPartitionResponse(topics=topics)
