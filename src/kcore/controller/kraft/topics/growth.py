"""CreatePartitions (ControllerApis.createPartitions, ReplicationControlManager.createPartitions)."""

from collections.abc import Iterable
from typing import Final

import numpy as np

from kcore.controller.kraft.decision import AT_ONCE, Decision, Steps, pause_if_many
from kcore.controller.kraft.departures import REFUSED_PARTITIONS_STAY
from kcore.controller.kraft.kraft_context import MOST_RECORDS, ControllerContext, RequestInfo
from kcore.controller.kraft.topics.created import NewTopic, records_of
from kcore.controller.kraft.topics.creation import distinct_names
from kcore.controller.kraft.topics.placing import MOST_PARTITIONS, LeaderlessError, Placing
from kcore.controller.rules.mutation_quotas import CREATE_PARTITIONS_STRICT_FROM, MutationQuota
from kcore.java_hash import FIBONACCI, hash_map_ordering
from kcore.metadata.acl_codes import ALTER, TOPIC
from kcore.metadata.table.partition_table import PartitionTable
from kcore.node.error_responses import message_of, refused
from kcore.protocol_errors import ApiException, Errors
from kcore.schema.partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)
from kcore.types import Int32s

_GROWN_AT_ONCE: Final = AT_ONCE // 2  # Topics in one part; each needs placements.


def on_create_partitions(context: ControllerContext, request: CreatePartitionsRequest, info: RequestInfo) -> Steps:
    """Add partitions to topics. Needs ALTER of each topic; one refused topic does not stop the others."""
    topics = {each.name: each for each in request.topics}
    yield from pause_if_many(len(topics))
    names, repeated = distinct_names(each.name for each in request.topics)
    permitted = yield from context.filter_by_authorized(info, ALTER, TOPIC, names)
    if permitted:
        context.call_controller()
    yield from pause_if_many(len(names))
    results = []
    for place, name in enumerate((yield from hash_map_ordering(repeated)), 1):
        if place % AT_ONCE == 0:
            yield
        results.append(_result(name, Errors.INVALID_REQUEST, "Duplicate topic name."))
    several = set(repeated)
    listed = [name for name in (yield from hash_map_ordering(topics)) if name not in several]
    yield from pause_if_many(len(listed))
    for place, name in enumerate((name for name in listed if name not in permitted), 1):
        if place % AT_ONCE == 0:
            yield
        results.append(_result(name, Errors.TOPIC_AUTHORIZATION_FAILED))
    quota = context.mutation_quota(info, strict_from=CREATE_PARTITIONS_STRICT_FROM)
    growing = Growing(context, quota)
    if growing.are_too_many(topics[name] for name in listed if name in permitted):
        message = "Excessively large number of additional partitions per request."
        return Decision(refused(request, Errors.POLICY_VIOLATION, message))
    for place, name in enumerate((name for name in listed if name in permitted), 1):
        if place % _GROWN_AT_ONCE == 0:
            yield
        results.append(growing.result(topics[name]))
    records = () if request.validate_only else (yield from records_of(context, growing.made))
    return Decision(CreatePartitionsResponse(results=results, throttle_time_ms=quota.throttle_time_ms), records)


class Growing:
    """Decides the topics of one request; `made` has the topics that get new partitions."""

    def __init__(self, context: ControllerContext, quota: MutationQuota) -> None:
        self._context = context
        self._quota = quota
        self._placing = Placing(context)
        self.made: list[NewTopic] = []
        self._partitions = 0  # The number of new partitions so far.

    def are_too_many(self, topics: Iterable[CreatePartitionsTopic]) -> bool:
        """True if the topics would get so many partitions that the release refuses the whole request.

        Source: ReplicationControlManager.validateTotalNumberOfPartitions.
        """
        context, table = self._context, self._context.image.table
        if not context.config.node.rules.counts_new_partitions_first:
            return False
        known = (each for each in topics if each.name in table.topics)
        more = sum(max(each.count - len(table.rows_of_topic(each.name)), 0) for each in known)
        return more > (MOST_RECORDS if context.has_record_limits else MOST_PARTITIONS)

    def result(self, topic: CreatePartitionsTopic) -> CreatePartitionsTopicResult:
        """The result of one topic."""
        try:
            self._grow(topic)
        except ApiException as error:
            return _result(topic.name, error.error, message_of(error))
        return _result(topic.name, Errors.NONE)

    def _grow(self, topic: CreatePartitionsTopic) -> None:
        table, name = self._context.image.table, topic.name
        if name not in table.topics:
            Errors.UNKNOWN_TOPIC_OR_PARTITION.raise_for()
        row = table.topics.row(name)
        count = len(table.rows_of_topic(name))
        if topic.count == count:
            Errors.INVALID_PARTITIONS.raise_for(f"Topic already has {count} partition(s).")
        if topic.count < count:
            Errors.INVALID_PARTITIONS.raise_for(
                f"The topic {name} currently has {count} partition(s); {topic.count} would not be an increase."
            )
        more = topic.count - count
        if topic.assignments is not None and len(topic.assignments) != more:
            Errors.INVALID_REPLICA_ASSIGNMENT.raise_for(
                f"Attempted to add {more} additional partition(s), but only {len(topic.assignments)} assignment(s) "
                "were specified."
            )
        self._check_count(more)
        self._quota.record(more)
        factor, topic_id = replication_factor(table, row, count), table.topics.ids[row]
        try:
            replicas__ps = self._placed(topic, more, count, factor)
        except LeaderlessError as error:
            if REFUSED_PARTITIONS_STAY in self._context.config.kafka_way and len(error.before):
                self.made.append(NewTopic(name, topic_id, error.before, count, is_new=False))
            raise
        self.made.append(NewTopic(name, topic_id, replicas__ps, count, is_new=False))
        self._partitions += more

    def _placed(self, topic: CreatePartitionsTopic, more: int, first: int, factor: int) -> Int32s:
        if topic.assignments is None:
            return self._placing.placed(more, factor)
        return self._manual(topic.assignments, first, factor)

    def _check_count(self, more: int) -> None:
        """Raise if the request would create too many partitions. The error of Kafka's own limit has no message."""
        count = self._partitions + more
        if count > MOST_RECORDS and self._context.has_record_limits:
            Errors.UNKNOWN_SERVER_ERROR.raise_for()
        if count > MOST_PARTITIONS:
            Errors.POLICY_VIOLATION.raise_for("Excessively large number of partitions per request.")

    def _manual(self, assignments: list[CreatePartitionsAssignment], first: int, factor: int) -> Int32s:
        for partition, each in enumerate(assignments, first):
            self._placing.check_manual(partition, each.broker_ids, factor)
        return np.array([each.broker_ids for each in assignments], np.int32)


def replication_factor(table: PartitionTable, topic_row: int, partitions: int) -> int:
    """The replica count of the partition that Kafka's hash table lists first: 0, or a higher one in the same slot."""
    numbers = np.arange(partitions, dtype=np.uint64)
    slots = 2
    while partitions * 0.75 > slots:
        slots *= 2
    in_first_slot = numbers[(numbers * np.uint64(FIBONACCI)) >> np.uint64(65 - slots.bit_length()) == 0]
    return table.replica_count(table.row_at(topic_row, int(in_first_slot[-1])))


def _result(name: str, error: Errors, message: str | None = None) -> CreatePartitionsTopicResult:
    return CreatePartitionsTopicResult(name=name, error_code=error, error_message=message)
