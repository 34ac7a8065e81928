"""DeleteTopics (ControllerApis.deleteTopics, ReplicationControlManager.deleteTopics)."""

from collections import Counter
from collections.abc import Generator, Iterable
from typing import Final

from kcore.controller.kraft.decision import AT_ONCE, Decision, Steps, Versioned, pause_if_many
from kcore.controller.kraft.kraft_context import MOST_RECORDS, ControllerContext, RequestInfo
from kcore.controller.kraft.topics.creation import distinct_names
from kcore.controller.rules.mutation_quotas import DELETE_TOPICS_STRICT_FROM, MutationQuota
from kcore.metadata.acl_codes import DELETE, DESCRIBE, TOPIC
from kcore.node.error_responses import DEFAULT_MESSAGES, refusing
from kcore.protocol_errors import ApiException, Errors
from kcore.schema.metadata_records_topics import RemoveTopicRecord
from kcore.schema.topics import DeletableTopicResult, DeleteTopicsRequest, DeleteTopicsResponse
from kcore.types import ZERO_UUID, Uuid

_FIRST_WITH_ITS_ERROR: Final = 3  # The first version of the request that knows TOPIC_DELETION_DISABLED.


def on_delete_topics(context: ControllerContext, request: DeleteTopicsRequest, info: RequestInfo) -> Steps:
    """Delete topics by name or id. A principal that may not describe a topic cannot find out whether it exists."""
    if context.config.node.static_configs.get("delete.topic.enable", "true").lower() == "false":
        is_known = info.version >= _FIRST_WITH_ITS_ERROR
        error = Errors.TOPIC_DELETION_DISABLED if is_known else Errors.INVALID_REQUEST
        named = "topics" if request.topics else "topic_names"  # A version has one of both lists.
        return Decision((yield from refusing(request, named, "responses", error)))
    deleting = Deleting(context, info)
    yield from deleting.name(request)
    if deleting.found:
        context.call_controller()
    quota = context.mutation_quota(info, strict_from=DELETE_TOPICS_STRICT_FROM)
    records = yield from deleting.records(quota)
    return Decision(DeleteTopicsResponse(responses=deleting.results, throttle_time_ms=quota.throttle_time_ms), records)


class Deleting:
    """Decides the topics of one request. The order of `results` does not reveal whether a topic exists."""

    def __init__(self, context: ControllerContext, info: RequestInfo) -> None:
        self._context, self._info = context, info
        self.results: list[DeletableTopicResult] = []
        self.found: dict[Uuid, str] = {}  # The topics to delete.

    def _add(self, name: str | None, topic_id: Uuid, error: Errors, message: str | None = None) -> None:
        message = message or DEFAULT_MESSAGES.get(error)
        self.results.append(DeletableTopicResult(name=name, topic_id=topic_id, error_code=error, error_message=message))

    def name(self, request: DeleteTopicsRequest) -> Generator[None, None, None]:
        """Put the topics that the principal may delete into `found`, and the errors of the others into `results`."""
        given_names, given_ids = list(request.topic_names), []
        for place, each in enumerate(request.topics, 1):
            if place % AT_ONCE == 0:
                yield
            if each.name is not None and each.topic_id != ZERO_UUID:
                wrong = "You may not specify both topic name and topic id."
                self._add(each.name, each.topic_id, Errors.INVALID_REQUEST, wrong)
            elif each.name is not None:
                given_names.append(each.name)
            elif each.topic_id != ZERO_UUID:
                given_ids.append(each.topic_id)
            else:
                self._add(None, ZERO_UUID, Errors.INVALID_REQUEST, "Neither topic name nor id were specified.")
        names, repeated = distinct_names(given_names)
        for place, name in enumerate(repeated, 1):
            if place % AT_ONCE == 0:
                yield
            self._add(name, ZERO_UUID, Errors.INVALID_REQUEST, "Duplicate topic name.")
        counts = Counter(given_ids)
        yield from pause_if_many(len(counts))
        repeated_ids = {topic_id for topic_id, count in counts.items() if count > 1}
        for place, topic_id in enumerate(repeated_ids, 1):
            if place % AT_ONCE == 0:
                yield
            self._add(None, topic_id, Errors.INVALID_REQUEST, "Duplicate topic id.")
        by_id = yield from self._known([topic_id for topic_id in counts if topic_id not in repeated_ids])
        describable, deletable = yield from self._permitted({*names, *by_id.values()})
        yield from self._find_by_id(by_id, describable, deletable)
        for start in range(0, len(names), AT_ONCE):
            if start:
                yield
            self._find_by_name(names[start : start + AT_ONCE], describable, deletable, repeated_ids)

    def _known(self, ids: Iterable[Uuid]) -> Generator[None, None, dict[Uuid, str]]:
        topics, known = self._context.image.topics, {}
        for place, topic_id in enumerate(ids, 1):
            if place % AT_ONCE == 0:
                yield
            if (row := topics.row_of_id(topic_id)) is None:
                self._add(None, topic_id, Errors.UNKNOWN_TOPIC_ID)
            else:
                known[topic_id] = topics.names[row]
        return known

    def _permitted(self, names: set[str]) -> Generator[None, None, tuple[set[str], set[str]]]:
        """The names that the principal may describe, and the names that it may delete."""
        context, info = self._context, self._info
        if context.is_authorized(info, DELETE):
            return names, names
        describable = yield from context.filter_by_authorized(info, DESCRIBE, TOPIC, names)
        return describable, (yield from context.filter_by_authorized(info, DELETE, TOPIC, names))

    def _find_by_id(
        self, by_id: dict[Uuid, str], describable: set[str], deletable: set[str]
    ) -> Generator[None, None, None]:
        for place, (topic_id, name) in enumerate(by_id.items(), 1):
            if place % AT_ONCE == 0:
                yield
            if name in deletable:
                self.found[topic_id] = name
            else:
                shown = name if name in describable else None
                self._add(shown, topic_id, Errors.TOPIC_AUTHORIZATION_FAILED)

    def _find_by_name(
        self, names: list[str], describable: set[str], deletable: set[str], repeated_ids: set[Uuid]
    ) -> None:
        topics = self._context.image.topics
        for name in names:
            if name not in describable:
                self._add(name, ZERO_UUID, Errors.TOPIC_AUTHORIZATION_FAILED)
            elif name not in topics:
                self._add(name, ZERO_UUID, Errors.UNKNOWN_TOPIC_OR_PARTITION)
            elif name not in deletable:
                self._add(name, ZERO_UUID, Errors.TOPIC_AUTHORIZATION_FAILED)
            elif (topic_id := topics.ids[topics.row(name)]) in repeated_ids or topic_id in self.found:
                repeated_ids.add(topic_id)
                self.found.pop(topic_id, None)
                wrong = "The provided topic name maps to an ID that was already supplied."
                self._add(name, topic_id, Errors.INVALID_REQUEST, wrong)
            else:
                self.found[topic_id] = name

    def records(self, quota: MutationQuota) -> Generator[None, None, list[Versioned]]:
        """The records of the deleted topics; also adds their results."""
        most = MOST_RECORDS if self._context.has_record_limits else len(self.found)
        table, records = self._context.image.table, list[Versioned]()
        for place, (topic_id, name) in enumerate(self.found.items()):
            if place % AT_ONCE == AT_ONCE - 1:
                yield
            error = Errors.NONE if len(records) < most else Errors.UNKNOWN_SERVER_ERROR
            try:
                quota.record(len(table.rows_of_topic(name)) if quota.is_limited else 0)
            except ApiException as refusal:
                error = refusal.error
            if error is Errors.NONE:
                records.append(Versioned(RemoveTopicRecord(topic_id=topic_id)))
            self.results.append(
                DeletableTopicResult(name=name, topic_id=topic_id, error_code=error, error_message=None)
            )
        return records
