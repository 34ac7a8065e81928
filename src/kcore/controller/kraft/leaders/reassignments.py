"""AlterPartitionReassignments (KIP-455, KIP-860), which begins or cancels reassignments; ListPartitionReassignments.

Source: ControllerApis.handleAlterPartitionReassignments, ReplicationControlManager.alterPartitionReassignments.
"""

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from itertools import count, islice
from typing import Final, NamedTuple, Self, TypeAlias

import numpy as np

from kcore.constants import MAX_REPLICAS, NO_BROKER_ROW
from kcore.controller.kraft.decision import AT_ONCE, Decision, Steps, pause_if_many
from kcore.controller.kraft.departures import EARLIER_MOVES
from kcore.controller.kraft.kraft_context import MOST_RECORDS, ControllerContext, RequestInfo
from kcore.controller.kraft.leaders.named import (
    MOST_RUNS,
    in_runs,
    named_too_often,
    places_of,
    rows_named,
    topic_rows_by_name,
)
from kcore.controller.kraft.topics.placing import Assignable
from kcore.metadata.acl_codes import ALTER, DESCRIBE
from kcore.metadata.table.arrays import padded
from kcore.metadata.table.broker_table import BrokerTable
from kcore.metadata.table.partition_table import PartitionTable
from kcore.node.authorization import refusal
from kcore.node.error_responses import refused
from kcore.protocol_errors import Errors
from kcore.replication.kraft_moves import reassignments_begun, reassignments_cancelled
from kcore.replication.kraft_results import KraftElections
from kcore.schema.partitions import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    ListPartitionReassignmentsTopics,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
    ReassignablePartition,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from kcore.steps import Work
from kcore.types import Int16s, Int32s, Int64s

_CANCELS, _BEGINS = 0, 1
_DECIDED_AT_ONCE: Final = 10 * AT_ONCE  # Partitions in one part of the decision.
_CHECKED_AT_ONCE: Final = 10 * AT_ONCE  # Partitions in one part of the checks or of the response.


@dataclass(frozen=True, slots=True)
class _RequestedReassignments:
    """The request as columns, with one entry per partition in the request's order."""

    topics: list[str]  # The name of each partition's topic.
    partitions: list[ReassignablePartition]
    topic_is_known: list[bool]
    rows: Int32s  # -1 for an unknown partition
    allows_other_size: bool  # True if the replication factor may change.

    @classmethod
    def of(cls, table: PartitionTable, request: AlterPartitionReassignmentsRequest) -> Generator[None, None, Self]:
        """The columns of the request."""
        sizes = [len(topic.partitions) for topic in request.topics]
        topic_rows = topic_rows_by_name(table, [topic.name for topic in request.topics])
        partitions = [partition for topic in request.topics for partition in topic.partitions]
        yield from pause_if_many(len(partitions))
        rows = rows_named(table, topic_rows, sizes, [each.partition_index for each in partitions])
        yield from pause_if_many(len(partitions))
        return cls(
            topics=[topic.name for topic in request.topics for _ in topic.partitions],
            partitions=partitions,
            topic_is_known=np.repeat(np.array(topic_rows, np.int32) >= 0, sizes).tolist(),
            rows=rows,
            allows_other_size=request.allow_replication_factor_change,
        )


class _Problem(NamedTuple):
    """Why a partition is not reassigned."""

    error: Errors
    message: str | None = None


_NOTHING_MOVES: Final = _Problem(Errors.NO_REASSIGNMENT_IN_PROGRESS)
_ALL_ADDED: Final = _Problem(
    Errors.INVALID_REPLICA_ASSIGNMENT, "Invalid replica assignment: addingReplicas contains all replicas."
)
_TOO_OFTEN: Final = _Problem(Errors.INVALID_REQUEST, f"The request names the partition more than {MOST_RUNS} times.")
_FINE: Final = _Problem(Errors.NONE)
_OVER_LIMIT: Final = _Problem(Errors.UNKNOWN_SERVER_ERROR)


def on_alter_partition_reassignments(
    context: ControllerContext, request: AlterPartitionReassignmentsRequest, info: RequestInfo
) -> Steps:
    """Begin or cancel reassignments, in one bulk decision or in several that follow the request's order."""
    if not context.is_authorized(info, ALTER):
        return Decision(refused(request, Errors.CLUSTER_AUTHORIZATION_FAILED, refusal(info, ALTER)))
    if not request.topics:
        return Decision(AlterPartitionReassignmentsResponse())
    context.call_controller()
    table = context.image.table
    requested = yield from _RequestedReassignments.of(table, request)
    yield from pause_if_many(len(requested.rows))
    problems = yield from _problems(context, requested)
    decided = yield from _decided(context, requested, problems)
    if context.has_record_limits and sum(len(changes) for _, changes in decided) > MOST_RECORDS:
        changed = np.concatenate([places[places_of(changes, requested.rows[places])] for places, changes in decided])
        problems |= dict.fromkeys(changed[MOST_RECORDS:].tolist(), _OVER_LIMIT)
        decided = yield from _decided(context, requested, problems)
    yield from pause_if_many(len(requested.rows))
    response = AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=request.allow_replication_factor_change,
        error_message=None,
        responses=(yield from _responses(request, problems)),
    )
    records = [changes for _, changes in decided if len(changes)]
    return Decision(response, records, is_atomic=context.version.transactions_supported)


def _responses(
    request: AlterPartitionReassignmentsRequest, problems: dict[int, _Problem]
) -> Generator[None, None, list[ReassignableTopicResponse]]:
    """The items of the response. `problems`: the problem of each refused partition, by place in the request."""
    places, found, work = count(), list[ReassignableTopicResponse](), Work(_CHECKED_AT_ONCE)
    for topic in request.topics:
        partitions = []
        for partition in topic.partitions:
            error, message = problems.get(next(places), _FINE)
            partitions.append(
                ReassignablePartitionResponse(
                    partition_index=partition.partition_index, error_code=error, error_message=message
                )
            )
            yield from work.add()
        found.append(ReassignableTopicResponse(name=topic.name, partitions=partitions))
        yield from work.add()
    return found


# Reasons for refusals.


def _problems(
    context: ControllerContext, requested: _RequestedReassignments
) -> Generator[None, None, dict[int, _Problem]]:
    """The problem of each invalid entry, by place in the request."""
    table = context.image.table
    problems: dict[int, _Problem] = {}
    assignable, too_often = Assignable(context), named_too_often(requested.rows).tolist()
    for place, (partition, row) in enumerate(zip(requested.partitions, requested.rows.tolist(), strict=True)):
        if place % _CHECKED_AT_ONCE == _CHECKED_AT_ONCE - 1:
            yield
        if row < 0:
            problem: _Problem | None = _unknown(requested, place)
        elif too_often[place]:
            problem = _TOO_OFTEN
        elif partition.replicas is None:
            problem = None if row in table.adding or row in table.removing else _NOTHING_MOVES
        else:
            problem = _problem_of_target(table, row, partition.replicas, assignable)
            if problem is None and not requested.allows_other_size:
                problem = _problem_of_size(table, row, len(partition.replicas))
        if problem is not None:
            problems[place] = problem
    return problems


def _unknown(requested: _RequestedReassignments, place: int) -> _Problem:
    topic, index = requested.topics[place], requested.partitions[place].partition_index
    if requested.topic_is_known[place]:
        return _Problem(Errors.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find partition {topic}:{index}.")
    return _Problem(Errors.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find a topic named {topic}.")


def _problem_of_target(
    table: PartitionTable, row: int, replicas: Sequence[int], assignable: Assignable
) -> _Problem | None:
    """The problem if replicas are too many or not on distinct registered brokers; otherwise None.

    Source: validateManualPartitionAssignment.
    """
    if not replicas:
        return _wrong_target("includes an empty replica list.")
    if (reason := assignable.reason_not(replicas)) is not None:
        return _wrong_target(reason)
    if len(replicas) + table.replicas__ps.shape[1] > MAX_REPLICAS:
        together = len({*replicas, *table.state(row).replicas})
        if together > MAX_REPLICAS:
            return _wrong_target(f"and the present one have {together} replicas together, more than {MAX_REPLICAS}.")
    return None


def _wrong_target(reason: str) -> _Problem:
    return _Problem(Errors.INVALID_REPLICA_ASSIGNMENT, f"The manual partition assignment {reason}")


def _problem_of_size(table: PartitionTable, row: int, size: int) -> _Problem | None:
    """The problem if the replication factor changes; otherwise None (validatePartitionReplicationFactorUnchanged)."""
    present = table.replica_count(row) - len(table.removing.get(row, ()))
    if size == present:
        return None
    message = f"The replication factor is changed from {present} to {size}"
    return _Problem(Errors.INVALID_REPLICATION_FACTOR, message)


# The decision.


def _decided(
    context: ControllerContext, requested: _RequestedReassignments, problems: dict[int, _Problem]
) -> Generator[None, None, list[tuple[Int64s, KraftElections]]]:
    """The bulk decisions: places in the request, and the changes of the partitions at these places.

    Adds a problem for each reassignment that cannot be cancelled.
    """
    table, settings = context.image.table, context.kraft_settings()
    keeps_earlier = EARLIER_MOVES in context.config.kafka_way
    sound = np.ones(len(requested.rows), np.bool_)
    sound[list(problems)] = False
    wanted = np.flatnonzero(sound)
    kinds = np.array([_CANCELS if each.replicas is None else _BEGINS for each in requested.partitions], np.int16)
    decided = []
    runs = in_runs(requested.rows[wanted], kinds[wanted])
    for run in (part for each in runs for part in np.split(each, range(_DECIDED_AT_ONCE, len(each), _DECIDED_AT_ONCE))):
        yield from pause_if_many(len(run))
        places = wanted[run]
        rows = requested.rows[places]
        if kinds[places[0]] == _BEGINS:
            targets = _broker_rows(
                table.brokers, [requested.partitions[place].replicas or [] for place in places.tolist()]
            )
            begun = reassignments_begun(table, settings, rows, targets, keeps_earlier=keeps_earlier)
            decided.append((places, begun))
        else:
            cancelled = reassignments_cancelled(table, settings, rows)
            decided.append((places, cancelled.changes))
            for place in places[np.isin(rows, cancelled.refused)].tolist():
                problems[place] = _not_cancelled(table, requested, place)
    return decided


def _broker_rows(brokers: BrokerTable, targets: Sequence[Sequence[int]]) -> Int16s:
    """The lists of broker ids as lists of broker rows, padded to one width."""
    offsets = np.zeros(len(targets) + 1, np.int32)
    np.cumsum([len(each) for each in targets], out=offsets[1:])
    return brokers.rows(padded(offsets, np.array([broker for each in targets for broker in each], np.int32)))


def _not_cancelled(table: PartitionTable, requested: _RequestedReassignments, place: int) -> _Problem:
    """The problem of a reassignment that cannot be cancelled.

    Source: PartitionReassignmentRevert, cancelPartitionReassignment.
    """
    row = int(requested.rows[place])
    if {*table.replicas__ps[row].tolist()} - {NO_BROKER_ROW} <= {*table.adding.get(row, ())}:
        return _ALL_ADDED
    message = (
        f"Unable to revert partition assignment for {requested.topics[place]}:"
        f"{requested.partitions[place].partition_index} because it would require an unclean leader election."
    )
    return _Problem(Errors.INVALID_REPLICA_ASSIGNMENT, message)


_LISTED_AT_ONCE: Final = 4 * AT_ONCE  # Reassignments in one part of the list.
_Found: TypeAlias = Generator[None, None, list[OngoingTopicReassignment]]


def on_list_partition_reassignments(
    context: ControllerContext, request: ListPartitionReassignmentsRequest, info: RequestInfo
) -> Steps:
    """The reassignments of the named partitions, or all reassignments if the request names no topics.

    The cost grows with the named partitions, or with all partitions that are being reassigned.
    """
    if not context.is_authorized(info, DESCRIBE):
        return Decision(refused(request, Errors.CLUSTER_AUTHORIZATION_FAILED, refusal(info, DESCRIBE)))
    table = context.image.table
    topics = yield from (_all_moving(table) if request.topics is None else _these(table, request.topics))
    return Decision(ListPartitionReassignmentsResponse(error_message=None, topics=topics))


def _all_moving(table: PartitionTable) -> _Found:
    """All reassignments by topic, in the order in which the table lists them."""
    rows = np.fromiter(dict.fromkeys((*table.adding, *table.removing)), np.int32)
    by_topic: dict[int, list[OngoingPartitionReassignment]] = {}
    ongoing = yield from _ongoing(table, rows)
    for topic_row, moving in zip(table.topic_row__p[rows].tolist(), ongoing, strict=True):
        by_topic.setdefault(topic_row, []).append(moving)
    names = table.topics.names
    return [OngoingTopicReassignment(name=names[row], partitions=each) for row, each in by_topic.items()]


def _these(table: PartitionTable, topics: Sequence[ListPartitionReassignmentsTopics]) -> _Found:
    topic_rows = topic_rows_by_name(table, [each.name for each in topics])
    sizes = [len(each.partition_indexes) for each in topics]
    yield from pause_if_many(len(topics))
    rows = rows_named(table, topic_rows, sizes, [index for each in topics for index in each.partition_indexes])
    is_moving = [row in table.adding or row in table.removing for row in rows.tolist()]
    yield from pause_if_many(len(rows))
    ongoing, flags = iter((yield from _ongoing(table, rows[is_moving]))), iter(is_moving)
    found: list[OngoingTopicReassignment] = []
    work = Work(_CHECKED_AT_ONCE)
    for topic, size in zip(topics, sizes, strict=True):
        yield from work.add(1 + size)
        if partitions := list(islice(ongoing, sum(islice(flags, size)))):
            found.append(OngoingTopicReassignment(name=topic.name, partitions=partitions))
    return found


def _ongoing(table: PartitionTable, rows: Int32s) -> Generator[None, None, list[OngoingPartitionReassignment]]:
    ids = np.append(table.brokers.ids, np.int32(NO_BROKER_ROW)).tolist()
    found: list[OngoingPartitionReassignment] = []
    for begin in range(0, len(rows), _LISTED_AT_ONCE):
        part = rows[begin : begin + _LISTED_AT_ONCE]
        columns = part.tolist(), table.partition_index__p[part].tolist(), table.replicas__ps[part].tolist()
        found += [
            OngoingPartitionReassignment(
                partition_index=index,
                replicas=[ids[each] for each in replicas if each != NO_BROKER_ROW],
                adding_replicas=[ids[each] for each in table.adding.get(row, ())],
                removing_replicas=[ids[each] for each in table.removing.get(row, ())],
            )
            for row, index, replicas in zip(*columns, strict=True)
        ]
        yield from pause_if_many(len(part))
    return found
