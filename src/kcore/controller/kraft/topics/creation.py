"""CreateTopics (ControllerApis.createTopics, ReplicationControlManager.createTopics)."""

from collections.abc import Generator, Iterable, Iterator, Mapping
from itertools import product
from typing import Final

import numpy as np

from kcore.constants import METADATA_TOPIC
from kcore.controller.kraft.admin.config_changes import ConfigChanges
from kcore.controller.kraft.decision import AT_ONCE, Decision, Steps, Versioned, pause_if_many
from kcore.controller.kraft.kraft_context import MOST_RECORDS, ControllerContext, RequestInfo
from kcore.controller.kraft.topics.created import NewTopic, count_of, records_of
from kcore.controller.kraft.topics.placing import MOST_PARTITIONS, Placing
from kcore.controller.rules.mutation_quotas import CREATE_TOPICS_STRICT_FROM, MutationQuota
from kcore.java_hash import hash_map_ordering
from kcore.metadata.acl_codes import CREATE, DESCRIBE_CONFIGS, TOPIC
from kcore.metadata.topic_names import Collisions, may_collide, reason_invalid
from kcore.node.error_responses import message_of, refused
from kcore.node.kraft.effective_configs import EffectiveConfigs
from kcore.protocol_errors import ApiException, Errors
from kcore.schema.configs import ConfigResourceType, OpType
from kcore.schema.topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from kcore.types import Int32s

_CREATED_AT_ONCE: Final = AT_ONCE // 4  # Topics in one part; each needs placements.
_CHECKED_AT_ONCE: Final = 10 * AT_ONCE  # Partitions with explicit replicas that are checked in one part.
_FEW: Final = 10  # A name with more periods and underscores has too many spellings to look up.


def on_create_topics(context: ControllerContext, request: CreateTopicsRequest, info: RequestInfo) -> Steps:
    """Create topics. Needs CREATE of the cluster, or of each topic that is created."""
    names, repeated = distinct_names(each.name for each in request.topics)
    allowed = {*names} - {METADATA_TOPIC}
    permitted = allowed
    if not context.is_authorized(info, CREATE):
        permitted = yield from context.filter_by_authorized(info, CREATE, TOPIC, allowed)
    describable = yield from context.filter_by_authorized(info, DESCRIBE_CONFIGS, TOPIC, allowed)
    yield from pause_if_many(len(names))
    topics = [each for each in request.topics if each.name in permitted]
    if topics:
        context.call_controller()
    quota = context.mutation_quota(info, strict_from=CREATE_TOPICS_STRICT_FROM)
    creating = Creating(context, describable, quota, is_forwarded=info.is_forwarded)
    try:
        results = yield from creating.results(topics)
        context.check_records(count_of(creating.made))
    except ApiException as error:
        return Decision(refused(request, error.error, message_of(error)))
    for place, name in enumerate((yield from hash_map_ordering(repeated)), 1):
        if place % AT_ONCE == 0:
            yield
        results.append(_failed(name, Errors.INVALID_REQUEST, "Duplicate topic name."))
    for place, name in enumerate((yield from hash_map_ordering(names)) if len(permitted) < len(names) else (), 1):
        if place % AT_ONCE == 0:
            yield
        if name == METADATA_TOPIC:
            message = f"Creation of internal topic {METADATA_TOPIC} is prohibited."
            results.append(_failed(name, Errors.INVALID_REQUEST, message))
        elif name not in permitted:
            results.append(_failed(name, Errors.TOPIC_AUTHORIZATION_FAILED, "Authorization failed."))
    records = () if request.validate_only else (yield from records_of(context, creating.made))
    return Decision(CreateTopicsResponse(topics=results, throttle_time_ms=quota.throttle_time_ms), records)


def distinct_names(given: Iterable[str]) -> tuple[list[str], list[str]]:
    """The names that occur once, and the names that occur several times, both in the order of first occurrence."""
    counts: dict[str, int] = {}
    for name in given:
        counts[name] = counts.get(name, 0) + 1
    return [name for name, count in counts.items() if count == 1], [name for name, count in counts.items() if count > 1]


class Creating:
    """Decides the topics of one request; `made` has the created topics."""

    def __init__(
        self, context: ControllerContext, describable: set[str], quota: MutationQuota, *, is_forwarded: bool
    ) -> None:
        self._context = context
        self._quota = quota
        self._describable = describable
        self._effective = EffectiveConfigs(context.config.node, context.image)
        self._changes = ConfigChanges(context, is_forwarded=is_forwarded)
        self._placing = Placing(context)
        self._collisions, self._spellings = Collisions(context.image.topics.names), 0
        self.made: list[NewTopic] = []

    def results(self, topics: list[CreatableTopic]) -> Generator[None, None, list[CreatableTopicResult]]:
        """The result of each topic, in order.

        PolicyViolationException if the request would create too many partitions.
        """
        self._check_partitions(topics)
        yield from pause_if_many(len(topics))
        found: list[CreatableTopicResult] = []
        for place, topic in enumerate(topics, 1):
            if place % _CREATED_AT_ONCE == 0:
                yield
            try:
                self._check_name(topic.name)
                found.append((yield from self._created(topic)))
            except ApiException as error:
                found.append(_failed(topic.name, error.error, message_of(error)))
        return found

    def _check_partitions(self, topics: list[CreatableTopic]) -> None:
        """PolicyViolationException if the topics have too many partitions (validateTotalNumberOfPartitions)."""
        default = self._context.config.num_partitions
        counts = (
            len(each.assignments) or (default if each.num_partitions == -1 else max(each.num_partitions, 0))
            for each in topics
        )
        if sum(counts) > (MOST_RECORDS if self._context.has_record_limits else MOST_PARTITIONS):
            Errors.POLICY_VIOLATION.raise_for("Excessively large number of partitions per request.")

    def _check_name(self, name: str) -> None:
        """Raise if the name is invalid, exists, or collides with an existing name (validateNewTopicNames)."""
        known = self._context.image.topics
        if name in known:
            Errors.TOPIC_ALREADY_EXISTS.raise_for(f"Topic '{name}' already exists.")
        if (other := self._colliding(name)) is not None:
            Errors.INVALID_TOPIC_EXCEPTION.raise_for(f"Topic '{name}' collides with existing topic: {other}")
        if (reason := reason_invalid(name)) is not None:
            Errors.INVALID_TOPIC_EXCEPTION.raise_for(f"Topic name is invalid: {reason}")

    def _colliding(self, name: str) -> str | None:
        """An existing topic with the same name in metrics, or None. In metrics Kafka replaces periods by underscores.

        Looks up all spellings of the name, or uses an index of all topics if there are too many spellings.
        """
        if not may_collide(name):
            return None
        signs, topics = sum(sign in "._" for sign in name), self._context.image.topics
        self._spellings += 1 << min(signs, _FEW + 1)
        if signs > _FEW or self._spellings > max(len(topics), 1 << _FEW):
            return next(iter(self._collisions.of(name)), None)
        return next((each for each in _spellings(name, signs) if each in topics), None)

    def _created(self, topic: CreatableTopic) -> Generator[None, None, CreatableTopicResult]:
        configs, records = yield from self._configs(topic)
        replicas__ps = (yield from self._manual(topic)) if topic.assignments else self._placed(topic)
        self._quota.record(len(replicas__ps))
        topic_id = self._context.new_uuid()
        self.made.append(NewTopic(topic.name, topic_id, replicas__ps, configs=records))
        result = CreatableTopicResult(name=topic.name, topic_id=topic_id, error_message=None, configs=[])
        if topic.name in self._describable:
            result.configs = self._effective.created(configs)
            result.num_partitions, result.replication_factor = replicas__ps.shape
        else:
            result.topic_config_error_code = Errors.TOPIC_AUTHORIZATION_FAILED
        return result

    def _configs(self, topic: CreatableTopic) -> Generator[None, None, tuple[Mapping[str, str], list[Versioned]]]:
        """The topic's own settings and their records. Raises InvalidConfigurationException and others."""
        unset = [each.name for each in topic.configs if each.value is None]
        if unset:
            Errors.INVALID_CONFIG.raise_for(f"Null value not supported for topic configs: {','.join(unset)}")
        configs = {each.name: each.value for each in topic.configs if each.value is not None}
        if not configs:
            return configs, []
        operations = {name: (OpType.SET, value) for name, value in configs.items()}
        error, message, records = yield from self._changes.incremental(
            (ConfigResourceType.TOPIC, topic.name), operations, is_new=True
        )
        if error is not Errors.NONE:
            error.raise_for(message or "")
        return configs, [*(Versioned(each) for each in records), *self._changes.clear_elrs(records)]

    def _placed(self, topic: CreatableTopic) -> Int32s:
        partitions, factor = topic.num_partitions, topic.replication_factor
        if factor < -1 or factor == 0:
            Errors.INVALID_REPLICATION_FACTOR.raise_for(
                "Replication factor must be larger than 0, or -1 to use the default value."
            )
        if partitions < -1 or partitions == 0:
            Errors.INVALID_PARTITIONS.raise_for("Number of partitions was set to an invalid non-positive value.")
        config = self._context.config
        partitions = config.num_partitions if partitions == -1 else partitions
        factor = config.default_replication_factor if factor == -1 else factor
        return self._placing.placed_for_topic(partitions, factor)

    def _manual(self, topic: CreatableTopic) -> Generator[None, None, Int32s]:
        if topic.replication_factor != -1:
            Errors.INVALID_REQUEST.raise_for(
                "A manual partition assignment was specified, but replication factor was not set to -1."
            )
        if topic.num_partitions != -1:
            Errors.INVALID_REQUEST.raise_for(
                "A manual partition assignment was specified, but numPartitions was not set to -1."
            )
        replicas = yield from self._checked(topic.assignments)
        if any(partition not in replicas for partition in range(len(replicas))):
            Errors.INVALID_REPLICA_ASSIGNMENT.raise_for("partitions should be a consecutive 0-based integer sequence")
        yield from pause_if_many(len(replicas))
        return np.array([replicas[partition] for partition in range(len(replicas))], np.int32)

    def _checked(self, assignments: list[CreatableReplicaAssignment]) -> Generator[None, None, dict[int, list[int]]]:
        replicas: dict[int, list[int]] = {}
        factor = None
        for place, each in enumerate(assignments, 1):
            if place % _CHECKED_AT_ONCE == 0:
                yield
            if each.partition_index in replicas:
                Errors.INVALID_REPLICA_ASSIGNMENT.raise_for(
                    f"Found multiple manual partition assignments for partition {each.partition_index}"
                )
            self._placing.check_manual(each.partition_index, each.broker_ids, factor)
            factor = len(each.broker_ids)
            replicas[each.partition_index] = each.broker_ids
        return replicas


def _spellings(name: str, signs: int) -> Iterator[str]:
    """All names that have the same name in metrics: each period or underscore of the name may be either sign."""
    parts = name.replace(".", "_").split("_")
    for chosen in product("._", repeat=signs):
        yield "".join(part + sign for part, sign in zip(parts, (*chosen, ""), strict=True))


def _failed(name: str, error: Errors, message: str | None) -> CreatableTopicResult:
    return CreatableTopicResult(name=name, error_code=error, error_message=message, configs=[])
