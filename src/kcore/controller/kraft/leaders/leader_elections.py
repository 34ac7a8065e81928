"""ElectLeaders, and the periodic elections.

Source: ControllerApis.handleElectLeaders, ReplicationControlManager.electLeaders, maybeElectUncleanLeaders,
maybeBalancePartitionLeaders.
"""

from collections.abc import Generator, Sequence
from itertools import islice
from typing import Final, TypeAlias

import numpy as np

from kcore.constants import NO_BROKER_ROW
from kcore.controller.kraft.decision import AT_ONCE, Decision, Steps, pause_if_many
from kcore.controller.kraft.kraft_context import ControllerContext, RequestInfo
from kcore.controller.kraft.leaders.named import (
    in_runs,
    mark,
    named_too_often,
    places_of,
    rows_named,
    topic_rows_by_name,
)
from kcore.controller.kraft.periodic import MOST_ELECTIONS
from kcore.metadata.acl_codes import ALTER
from kcore.metadata.table.partition_table import PartitionTable
from kcore.node.authorization import refusal
from kcore.node.error_responses import in_version, refused
from kcore.protocol_errors import ApiException, Errors
from kcore.replication.bulk_elections import rows_not_led_by_first
from kcore.replication.kraft_changes import KraftSettings
from kcore.replication.kraft_events import leaderless_rows, leaders_elected
from kcore.replication.kraft_results import KraftElections
from kcore.schema.partitions import (
    ElectionType,
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
    TopicPartitions,
)
from kcore.steps import Work
from kcore.types import Bools, Int16s, Int32s

_ANSWERED_AT_ONCE: Final = 10 * AT_ONCE  # Partitions or topics in one part.
_Elected: TypeAlias = tuple[ElectLeadersResponse, list[KraftElections]]
_MESSAGES: Final[dict[int, str | None]] = {
    Errors.NONE: None,
    Errors.ELECTION_NOT_NEEDED: "Leader election not needed for topic partition.",
    Errors.PREFERRED_LEADER_NOT_AVAILABLE: "The preferred leader was not available.",
    Errors.ELIGIBLE_LEADERS_NOT_AVAILABLE: "Eligible topic partition leaders are not available.",
}


def on_elect_leaders(context: ControllerContext, request: ElectLeadersRequest, info: RequestInfo) -> Steps:
    """Elect leaders as an administrator requests, by bulk decisions.

    A request without a list of partitions means all partitions.
    """
    if not context.is_authorized(info, ALTER):
        return _all_refused(request, info, Errors.CLUSTER_AUTHORIZATION_FAILED, refusal(info, ALTER))
    if request.topic_partitions is not None and not request.topic_partitions:
        return Decision(ElectLeadersResponse())
    context.call_controller()
    if request.election_type not in [*ElectionType]:
        message = f"Unknown election type {request.election_type}"
        return _all_refused(request, info, Errors.INVALID_REQUEST, message)
    if request.topic_partitions is None:
        response, elected = yield from _elect_everywhere(context, request.election_type == ElectionType.UNCLEAN)
    else:
        response, elected = yield from _elect_these(
            context, request.topic_partitions, request.election_type == ElectionType.UNCLEAN
        )
    try:
        context.check_records(sum(map(len, elected)))
    except ApiException as error:
        return _all_refused(request, info, error.error, str(error))
    return Decision(response, elected, is_atomic=False)


def _all_refused(request: ElectLeadersRequest, info: RequestInfo, error: Errors, message: str) -> Decision:
    return Decision(in_version(refused(request, error, message), info.version))


# Source: ReplicationControlManager.electLeaders.


def _elect_these(
    context: ControllerContext, topics: Sequence[TopicPartitions], unclean: bool
) -> Generator[None, None, _Elected]:
    table = context.image.table
    topic_rows = topic_rows_by_name(table, [topic.topic for topic in topics])
    indexes = [index for topic in topics for index in topic.partitions]
    yield from pause_if_many(len(indexes))
    rows = rows_named(table, topic_rows, [len(topic.partitions) for topic in topics], indexes)
    yield from pause_if_many(len(indexes))
    errors = np.zeros(len(rows), np.int16)
    mark(errors, rows < 0, Errors.UNKNOWN_TOPIC_OR_PARTITION)
    mark(errors, ~_needed(table, rows, unclean), Errors.ELECTION_NOT_NEEDED)
    mark(errors, named_too_often(rows), Errors.ELECTION_NOT_NEEDED)  # Earlier entries elect.
    yield from pause_if_many(len(indexes))
    wanted = np.flatnonzero(errors == 0)
    settings, elected = context.kraft_settings(), []
    for places in in_runs(rows[wanted]):
        chosen = wanted[places]
        changes = leaders_elected(table, settings, rows[chosen], unclean=unclean)
        errors[chosen] = _failure(unclean)
        errors[chosen[places_of(changes, rows[chosen])]] = Errors.NONE
        elected += [changes] if len(changes) else []
    yield from pause_if_many(len(indexes))
    return (yield from _response(topics, topic_rows, indexes, errors)), elected


def _failure(unclean: bool) -> Errors:
    return Errors.ELIGIBLE_LEADERS_NOT_AVAILABLE if unclean else Errors.PREFERRED_LEADER_NOT_AVAILABLE


def _needed(table: PartitionTable, rows: Int32s, unclean: bool) -> Bools:
    if not len(table):
        return np.zeros(len(rows), np.bool_)
    leaders = table.leader__p[rows]
    needed: Bools = leaders == NO_BROKER_ROW if unclean else leaders != table.replicas__ps[rows, 0]
    return needed


def _response(
    topics: Sequence[TopicPartitions], topic_rows: Sequence[int], indexes: Sequence[int], errors: Int16s
) -> Generator[None, None, ElectLeadersResponse]:
    results, work = list[ReplicaElectionResult](), Work(_ANSWERED_AT_ONCE)
    entries = zip(indexes, errors.tolist(), strict=True)
    for topic, topic_row in zip(topics, topic_rows, strict=True):
        mine: list[PartitionResult] = []
        for index, error in islice(entries, len(topic.partitions)):
            is_unknown = error == Errors.UNKNOWN_TOPIC_OR_PARTITION
            message = _unknown(topic.topic, topic_row, index) if is_unknown else _MESSAGES[error]
            mine.append(PartitionResult(partition_id=index, error_code=error, error_message=message))
            yield from work.add()
        results.append(ReplicaElectionResult(topic=topic.topic, partition_result=mine))
        yield from work.add()
    return ElectLeadersResponse(replica_election_results=results)


def _unknown(topic: str, topic_row: int, index: int) -> str:
    return f"No such topic as {topic}" if topic_row < 0 else f"No such partition as {topic}-{index}"


def _elect_everywhere(context: ControllerContext, unclean: bool) -> Generator[None, None, _Elected]:
    """Elect leaders of all partitions that need one. The response has the table's order of topics, unlike Kafka's."""
    table, settings = context.image.table, context.kraft_settings()
    rows = leaderless_rows(table) if unclean else rows_not_led_by_first(table)
    found: dict[int, list[PartitionResult]] = {}
    elected: list[KraftElections] = []
    for begin in range(0, len(rows), _ANSWERED_AT_ONCE):
        part = rows[begin : begin + _ANSWERED_AT_ONCE]
        changes = leaders_elected(table, settings, part, unclean=unclean)
        elected += [changes] if len(changes) else []
        errors = np.full(len(part), _failure(unclean), np.int16)
        errors[places_of(changes, part)] = Errors.NONE
        columns = table.topic_row__p[part].tolist(), table.partition_index__p[part].tolist(), errors.tolist()
        for topic_row, index, error in zip(*columns, strict=True):
            result = PartitionResult(partition_id=index, error_code=error, error_message=_MESSAGES[error])
            found.setdefault(topic_row, []).append(result)
        yield from pause_if_many(len(part))
    results = list[ReplicaElectionResult]()
    for topic_row, name in enumerate(table.topics.names, 1):
        if name:
            results.append(ReplicaElectionResult(topic=name, partition_result=found.get(topic_row - 1, [])))
        if topic_row % _ANSWERED_AT_ONCE == 0:
            yield
    return ElectLeadersResponse(replica_election_results=results), elected


# Periodic elections.


def elect_unclean(context: ControllerContext, now_ms: int) -> Steps:
    """Make unclean elections for leaderless partitions whose topics allow these.

    If the decision has MOST_ELECTIONS records or more, there may be more elections to make. Source:
    maybeElectUncleanLeaders.
    """
    table, settings = context.image.table, context.kraft_settings()
    rows = leaderless_rows(table)
    return (yield from _several(table, settings, rows[settings.allows_unclean(table, rows)], unclean=True))


def balance_leaders(context: ControllerContext, now_ms: int) -> Steps:
    """Elect each preferred leader that does not lead its partition but can.

    If the decision has MOST_ELECTIONS records or more, there may be more elections to make. Source:
    maybeBalancePartitionLeaders.
    """
    table = context.image.table
    return (yield from _several(table, context.kraft_settings(), rows_not_led_by_first(table), unclean=False))


def _several(table: PartitionTable, settings: KraftSettings, rows: Int32s, *, unclean: bool) -> Steps:
    """Elect leaders of the partitions in `rows`, in order and in parts, until there are MOST_ELECTIONS records."""
    records: list[KraftElections] = []
    for start in range(0, len(rows), MOST_ELECTIONS):
        if start:
            yield
        changes = leaders_elected(table, settings, rows[start : start + MOST_ELECTIONS], unclean=unclean)
        records += [changes] if len(changes) else []
        if sum(map(len, records)) >= MOST_ELECTIONS:
            break
    return Decision(records=records, is_atomic=False)
