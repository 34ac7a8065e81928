"""CreateTopics and DeleteTopics: the controller checks them, writes to ZooKeeper, and handles the change at once.

If several checks fail, the response has the error of Kafka's first failing check. Source: KafkaApis,
ZkAdminManager and AdminZkClient of 3.9.1.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterator
from typing import Final, NamedTuple

from kcore.constants import METADATA_TOPIC
from kcore.controller.rules import new_replicas
from kcore.controller.rules.mutation_quotas import (
    CREATE_TOPICS_STRICT_FROM,
    DELETE_TOPICS_STRICT_FROM,
    MutationQuota,
)
from kcore.controller.rules.new_replicas import Replicas
from kcore.controller.zk.admin.fit_brokers import FitBrokers
from kcore.controller.zk.admin.quotas import message_of, quota_of
from kcore.controller.zk.effects import Steps
from kcore.controller.zk.events import RequestEvent, TopicChange
from kcore.controller.zk.topics import deletion, topic_changes
from kcore.controller.zk.topics.deletion_progress import AwaitedDeletion
from kcore.controller.zk.topics.new_partitions import NO_ROOM, check_znode_holds
from kcore.controller.zk.zk_context import ControllerContext
from kcore.metadata.table.partition_state import ReplicaAssignment
from kcore.metadata.table.partition_table import PartitionTable
from kcore.metadata.topic_names import Collisions, reason_invalid, validate_topic_name
from kcore.metadata.zookeeper import znodes
from kcore.metadata.zookeeper.znode_operations import Create, Node, Operation, OperationResult, SetData
from kcore.metadata.zookeeper.znodes import TopicAssignment
from kcore.node.topic_configs import TOPIC_CONFIGS, source_of
from kcore.node.zk.admin.configs import SETTINGS_AT_ONCE, first_unknown_or_all, validate_topic_configs
from kcore.node.zk.inter_broker_protocol import at_least
from kcore.node.zk.znode_steps import pause_after, pause_if_many, paused, read_nodes, write_nodes
from kcore.protocol_errors import ApiException, Errors
from kcore.schema import CreateTopicsRequest, CreateTopicsResponse, DeleteTopicsRequest, DeleteTopicsResponse
from kcore.schema.structure import Message
from kcore.schema.topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    DeletableTopicResult,
    DeleteTopicState,
)
from kcore.steps import Work
from kcore.types import ZERO_UUID, Uuid

NAMED_AT_ONCE: Final = 500  # Topics of one part that checks only names: a topic takes up to 5 us.
TOPICS_AT_ONCE: Final = 50  # Topics of one part of a creation: a topic takes up to 0.2 ms.
PARTITIONS_AT_ONCE: Final = 1_000  # Partitions of new topics that one part places or encodes: each takes some 2 us.
UNSET: Final = -1  # NO_NUM_PARTITIONS, NO_REPLICATION_FACTOR
DELETED_AT_ONCE: Final = 500  # Topics of one part of a DeleteTopics: a topic takes some 2 us.
TOPIC_DELETION_DISABLED_SINCE: Final = 3  # The first version of DeleteTopics with this error code.


class NewTopic(NamedTuple):
    """A topic that passed all checks."""

    replicas: Replicas
    configs: dict[str, str]  # The settings in the request.
    values: dict[str, str]  # All settings, defaults included.
    has_config_znode: bool


def on_create_topics(context: ControllerContext, event: RequestEvent[CreateTopicsRequest]) -> Steps[Message | None]:
    """Creates the valid topics in one batch; the response is sent once their partitions have leaders."""
    request = event.request
    times = Counter(topic.name for topic in request.topics)
    results, requested = list[CreatableTopicResult](), list[tuple[CreatableTopic, CreatableTopicResult]]()
    for place, topic in enumerate(request.topics, 1):
        yield from pause_after(place, NAMED_AT_ONCE)
        result = CreatableTopicResult(name=topic.name, error_message=None)
        results.append(result)
        if not _refused_by_name(result, times):
            requested.append((topic, result))
    quota = yield from quota_of(context, event, strict_from=CREATE_TOPICS_STRICT_FROM)
    made = yield from _checked(context, requested, None if request.validate_only else quota)
    if not request.validate_only:
        yield from _make(context, made, {result.name: result for _, result in requested})
    for place, (topic, result) in enumerate(requested, 1):
        yield from pause_after(place, TOPICS_AT_ONCE)
        if result.error_code == Errors.NONE:
            _describe(result, made[topic.name])

    def response(leaderless: Collection[str]) -> CreateTopicsResponse:
        for _, result in requested:
            if result.name in leaderless:
                # The topic is created nevertheless.
                result.error_code, result.error_message = Errors.REQUEST_TIMED_OUT, None
                result.num_partitions, result.replication_factor, result.configs = UNSET, UNSET, []
        return CreateTopicsResponse(topics=results, throttle_time_ms=quota.throttle_time_at(context.now_ms))

    begun = [] if request.validate_only else [each.name for _, each in requested if each.error_code == Errors.NONE]
    return context.answer_when_led(event.request_id, begun, request.timeout_ms, response)


def _refused_by_name(result: CreatableTopicResult, times: Counter[str]) -> bool:
    """Sets the error of a name that KafkaApis.handleCreateTopicsRequest refuses; returns whether it did."""
    message = None
    if result.name == METADATA_TOPIC:
        message = f"Creation of internal topic {METADATA_TOPIC} is prohibited."
    elif times[result.name] > 1:
        message = "Found multiple entries for this topic."
    if message:
        result.error_code, result.error_message = Errors.INVALID_REQUEST, message
    return message is not None


def _checked(
    context: ControllerContext,
    requested: list[tuple[CreatableTopic, CreatableTopicResult]],
    quota: MutationQuota | None,
) -> Steps[dict[str, NewTopic]]:
    """The valid topics, by name; `quota` counts their partitions. Sets the errors in the results of invalid topics."""
    readable, paths = list[str](), list[str]()
    for place, (topic, _) in enumerate(requested, 1):
        yield from pause_after(place, NAMED_AT_ONCE)
        name = topic.name
        if reason_invalid(name) is None:
            readable.append(name)
            paths += [znodes.topic_path(name), znodes.delete_topic_path(name), _config_path(name)]
    found = (yield from read_nodes(paths)) if readable else []
    nodes = {name: found[3 * k : 3 * k + 3] for k, name in enumerate(readable)}
    yield from pause_if_many(len(readable), NAMED_AT_ONCE)
    made: dict[str, NewTopic] = {}
    shared, work = _Shared(context), Work(PARTITIONS_AT_ONCE)
    for place, (topic, result) in enumerate(requested, 1):
        yield from pause_after(place, TOPICS_AT_ONCE)
        try:
            new = yield from _new_topic(context, topic, nodes.get(topic.name, [None] * 3), shared)
            if quota is not None:
                quota.record(len(new.replicas))
            made[topic.name] = new
            yield from paused(work.add(len(new.replicas)))
            shared.topics.add(topic.name)
        except ApiException as error:
            result.error_code, result.error_message = error.error, message_of(error)
    return made


def _config_path(topic: str) -> str:
    return znodes.config_path("topics", topic)


class _Shared:
    """Data that the checks of all topics in a request share."""

    def __init__(self, context: ControllerContext) -> None:
        self.topics = Collisions(context.table.topics.names)
        self.brokers = FitBrokers(context)


def _new_topic(
    context: ControllerContext, topic: CreatableTopic, nodes: list[Node | None], shared: _Shared
) -> Steps[NewTopic]:
    """Checks one topic (ZkAdminManager.createTopics).

    `nodes`: the znodes of the topic, of the request to delete it, and of its settings.
    """
    yield from pause_if_many(len(topic.configs), SETTINGS_AT_ONCE)
    name, known, config = topic.name, context.table.topics, context.config
    if name in known and name not in context.topics_to_be_deleted:
        Errors.TOPIC_ALREADY_EXISTS.raise_for(f"Topic '{name}' already exists.")
    if unset := [each.name for each in topic.configs if each.value is None]:
        Errors.INVALID_CONFIG.raise_for(f"Null value not supported for topic configs: {','.join(unset)}")
    if topic.assignments and (topic.num_partitions, topic.replication_factor) != (UNSET, UNSET):
        Errors.INVALID_REQUEST.raise_for(
            "Both numPartitions or replicationFactor and replicasAssignments were set. "
            "Both cannot be used at the same time."
        )
    if topic.assignments:
        replicas = {each.partition_index: tuple(each.broker_ids) for each in topic.assignments}
    else:
        partitions = config.num_partitions if topic.num_partitions == UNSET else topic.num_partitions
        check_znode_holds(partitions)
        replicas = new_replicas.placed(
            shared.brokers.of_topic(name),
            partitions,
            config.default_replication_factor if topic.replication_factor == UNSET else topic.replication_factor,
            seed=int.from_bytes(context.new_uuid()[:6], "big"),
        )
    validate_topic_name(name)
    if nodes[1] is not None:
        Errors.TOPIC_ALREADY_EXISTS.raise_for(f"Topic '{name}' is marked for deletion.")
    if nodes[0] is not None:
        Errors.TOPIC_ALREADY_EXISTS.raise_for(f"Topic '{name}' already exists.")
    if others := shared.topics.of(name):
        Errors.INVALID_TOPIC_EXCEPTION.raise_for(f"Topic '{name}' collides with existing topics: {', '.join(others)}")
    new_replicas.check_manual(replicas, len(topic.assignments) or len(replicas))
    new_replicas.check_fit(name, replicas.values(), context.unfit_for(name))
    configs = {each.name: each.value or "" for each in topic.configs}
    values = validate_topic_configs((yield from first_unknown_or_all(configs)))
    return NewTopic(replicas, configs, values, nodes[2] is not None)


def _make(
    context: ControllerContext, made: dict[str, NewTopic], results: dict[str, CreatableTopicResult]
) -> Steps[None]:
    """Writes a topic's settings before the topic, so that every reader finds them; then handles the new topics."""
    operations: list[Operation] = []
    work = Work(PARTITIONS_AT_ONCE)
    for place, (name, topic) in enumerate(made.items(), 1):
        yield from pause_after(place, TOPICS_AT_ONCE)
        yield from paused(work.add(len(topic.replicas)))
        path, data = _config_path(name), znodes.encode_config(topic.configs)
        operations.append(SetData(path, data) if topic.has_config_znode else Create(path, data))
        topic_id = context.new_uuid() if at_least(context.config.inter_broker_protocol, "2.8-IV0") else None
        assignment = {index: ReplicaAssignment(each) for index, each in sorted(topic.replicas.items())}
        operations.append(Create(znodes.topic_path(name), znodes.encode_topic(TopicAssignment(topic_id, assignment))))
    outcomes = (yield from write_nodes(operations)) if operations else []
    for name, outcome in zip(made, outcomes[1::2], strict=True):
        if outcome is OperationResult.TOO_LARGE:
            results[name].error_code, results[name].error_message = Errors.INVALID_PARTITIONS, NO_ROOM
        elif outcome is not OperationResult.DONE:
            results[name].error_code = Errors.TOPIC_ALREADY_EXISTS
            results[name].error_message = f"Topic '{name}' already exists."
    if OperationResult.DONE in outcomes[1::2]:
        yield from topic_changes.on_topic_change(context, TopicChange())
    for name in made:
        if results[name].error_code == Errors.NONE and name in context.table.topics:
            results[name].topic_id = context.table.topics.ids[context.table.topics.row(name)]


def _describe(result: CreatableTopicResult, topic: NewTopic) -> None:
    """Puts the topic's partitions, replication factor and settings into the response (KIP-525)."""
    result.num_partitions, result.replication_factor = len(topic.replicas), len(topic.replicas[0])
    result.configs = [
        CreatableTopicConfigs(
            name=name, value=topic.values[name], read_only=False, config_source=source_of(name, topic.configs)
        )
        for name in TOPIC_CONFIGS
    ]


def on_delete_topics(context: ControllerContext, event: RequestEvent[DeleteTopicsRequest]) -> Steps[Message | None]:
    """Writes and begins the deletions; the response is sent when the topics are deleted, or at the time-out."""
    request = event.request
    if not context.config.delete_topic_enable:
        is_known = event.version >= TOPIC_DELETION_DISABLED_SINCE
        return (yield from _refused(request, Errors.TOPIC_DELETION_DISABLED if is_known else Errors.INVALID_REQUEST))
    if any(each.name is not None and each.topic_id != ZERO_UUID for each in request.topics):
        return (yield from _refused(request, Errors.INVALID_REQUEST))
    results = yield from _results(request, lambda each: _resolved(context.table, each))
    quota = yield from quota_of(context, event, strict_from=DELETE_TOPICS_STRICT_FROM)
    names = yield from _counted(context, results, quota)
    if names:
        yield from write_nodes([Create(znodes.delete_topic_path(name)) for name in sorted(names)])
    response = DeleteTopicsResponse(responses=results)
    awaited = AwaitedDeletion(context.now_ms + request.timeout_ms, {*names}, quota, response)
    if not names or request.timeout_ms <= 0:
        yield from context.answer(event.request_id, deletion.timed_out(awaited, context.now_ms))
    else:
        context.deletion.awaited[event.request_id] = awaited
    yield from deletion.enqueue(context, names)
    return None


def _results(
    request: DeleteTopicsRequest, result_of: Callable[[DeleteTopicState], DeletableTopicResult]
) -> Steps[list[DeletableTopicResult]]:
    """The result of each topic in the request, in parts."""
    named: Iterator[DeleteTopicState] = (DeleteTopicState(name=name) for name in request.topic_names)
    results = []
    for place, each in enumerate(request.topics or named, 1):
        yield from pause_after(place, DELETED_AT_ONCE)
        results.append(result_of(each))
    return results


def _refused(request: DeleteTopicsRequest, error: Errors) -> Steps[DeleteTopicsResponse]:
    """The response with the error for each topic, whose name and id it repeats."""
    results = yield from _results(
        request, lambda each: DeletableTopicResult(name=each.name, topic_id=each.topic_id, error_code=error)
    )
    return DeleteTopicsResponse(responses=results)


def _counted(context: ControllerContext, results: list[DeletableTopicResult], quota: MutationQuota) -> Steps[set[str]]:
    """The topics to delete. `quota` counts their partitions once; topics over the quota get an error."""
    refusals: dict[str, Errors] = {}
    for place, result in enumerate(results, 1):
        yield from pause_after(place, DELETED_AT_ONCE)
        name = str(result.name)
        if result.error_code == Errors.NONE and name not in refusals:
            is_begun = not quota.is_limited or name in context.deletion.started
            try:
                quota.record(0 if is_begun else len(context.table.rows_of_topic(name)))
                refusals[name] = Errors.NONE
            except ApiException as refusal:
                refusals[name] = refusal.error
        if result.error_code == Errors.NONE:
            result.error_code = refusals[name]
    return {name for name, error in refusals.items() if error == Errors.NONE}


def _resolved(table: PartitionTable, requested: DeleteTopicState) -> DeletableTopicResult:
    """The result for a requested topic, by its id or name, with an error if it is unknown."""
    result = DeletableTopicResult(name=requested.name, topic_id=requested.topic_id)
    if requested.topic_id != ZERO_UUID:
        row = table.topics.row_of_id(Uuid(requested.topic_id))
        result.name = None if row is None else table.topics.names[row]
        result.error_code = Errors.UNKNOWN_TOPIC_ID if row is None else Errors.NONE
    elif requested.name is None or requested.name not in table.topics:
        result.error_code = Errors.UNKNOWN_TOPIC_OR_PARTITION
    return result
