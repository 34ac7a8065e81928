"""CreatePartitions: adds partitions to topics (KIP-195; ZkAdminManager.createPartitions of 3.9.1)."""

from collections import Counter
from collections.abc import Collection, Iterable
from typing import NamedTuple

from kcore.controller.rules import new_replicas
from kcore.controller.rules.mutation_quotas import CREATE_PARTITIONS_STRICT_FROM, MutationQuota
from kcore.controller.rules.new_replicas import Replicas
from kcore.controller.rules.replica_assignments import is_being_reassigned
from kcore.controller.zk.admin.fit_brokers import FitBrokers
from kcore.controller.zk.admin.quotas import message_of, quota_of
from kcore.controller.zk.admin.topics import NAMED_AT_ONCE, PARTITIONS_AT_ONCE, TOPICS_AT_ONCE
from kcore.controller.zk.effects import Steps
from kcore.controller.zk.events import RequestEvent
from kcore.controller.zk.topics import topic_changes
from kcore.controller.zk.topics.new_partitions import NO_ROOM, check_znode_holds
from kcore.controller.zk.zk_context import ControllerContext
from kcore.errors import TableError
from kcore.metadata.table.partition_state import ReplicaAssignment
from kcore.metadata.zookeeper import znodes
from kcore.metadata.zookeeper.znode_operations import Node, Operation, OperationResult, SetData
from kcore.metadata.zookeeper.znodes import TopicAssignment
from kcore.node.zk.znode_steps import pause_after, pause_if_many, paused, read_nodes, write_nodes
from kcore.protocol_errors import ApiException, Errors
from kcore.schema import CreatePartitionsRequest, CreatePartitionsResponse
from kcore.schema.partitions import CreatePartitionsTopic, CreatePartitionsTopicResult
from kcore.schema.structure import Message
from kcore.steps import Work


class Growth(NamedTuple):
    """A valid growth of a topic."""

    assignment: TopicAssignment  # With the new partitions.
    added: int  # The number of new partitions.
    version: int  # The present version of the topic's znode.


def on_create_partitions(
    context: ControllerContext, event: RequestEvent[CreatePartitionsRequest]
) -> Steps[Message | None]:
    """Grows the valid topics; the response is sent once their partitions have leaders."""
    request = event.request
    results = dict[str, CreatePartitionsTopicResult]()
    for place, topic in enumerate(request.topics, 1):
        yield from pause_after(place, NAMED_AT_ONCE)
        results[topic.name] = CreatePartitionsTopicResult(name=topic.name)
    nodes = yield from _present(context, results)
    quota = yield from quota_of(context, event, strict_from=CREATE_PARTITIONS_STRICT_FROM)
    growths = yield from _checked(context, request, results, nodes, None if request.validate_only else quota)
    if not request.validate_only:
        yield from _grow(context, growths, results)

    def response(leaderless: Collection[str]) -> CreatePartitionsResponse:
        for name in leaderless:
            results[name].error_code = Errors.REQUEST_TIMED_OUT
        throttle_time_ms = quota.throttle_time_at(context.now_ms)
        return CreatePartitionsResponse(results=[*results.values()], throttle_time_ms=throttle_time_ms)

    begun = [] if request.validate_only else [name for name in growths if results[name].error_code == Errors.NONE]
    return context.answer_when_led(event.request_id, begun, request.timeout_ms, response)


def _present(context: ControllerContext, names: Iterable[str]) -> Steps[dict[str, Node | None]]:
    """The znodes of the topics that the controller has, by name."""
    known = [name for name in names if name in context.table.topics]
    yield from pause_if_many(len(known), NAMED_AT_ONCE)
    nodes = yield from read_nodes([znodes.topic_path(name) for name in known])
    return dict(zip(known, nodes, strict=True))


def _checked(
    context: ControllerContext,
    request: CreatePartitionsRequest,
    results: dict[str, CreatePartitionsTopicResult],
    nodes: dict[str, Node | None],
    quota: MutationQuota | None,
) -> Steps[dict[str, Growth]]:
    """The valid growths, by topic; `quota` counts their partitions. Sets the errors in the results of the others."""
    times = Counter(topic.name for topic in request.topics)
    growths, brokers, work = dict[str, Growth](), FitBrokers(context), Work(PARTITIONS_AT_ONCE)
    for place, topic in enumerate(request.topics, 1):
        yield from pause_after(place, TOPICS_AT_ONCE)
        try:
            growth = _growth(context, topic, times[topic.name], nodes.get(topic.name), brokers)
            if quota is not None:
                quota.record(growth.added)
            growths[topic.name] = growth
            yield from paused(work.add(len(growth.assignment.partitions)))
        except ApiException as error:
            results[topic.name].error_code, results[topic.name].error_message = error.error, message_of(error)
    return growths


def _growth(
    context: ControllerContext, topic: CreatePartitionsTopic, times: int, node: Node | None, brokers: FitBrokers
) -> Growth:
    if times > 1:
        Errors.INVALID_REQUEST.raise_for("Duplicate topic in request.")
    if topic.name in context.topics_to_be_deleted:
        Errors.INVALID_TOPIC_EXCEPTION.raise_for("The topic is queued for deletion.")
    if node is None:
        raise _failure(Errors.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{topic.name}' does not exist.")
    try:
        assignment = znodes.decode_topic(topic.name, node.data)
    except TableError as error:
        raise _failure(Errors.UNKNOWN_SERVER_ERROR, str(error)) from error
    if any(map(is_being_reassigned, assignment.partitions.values())):
        Errors.REASSIGNMENT_IN_PROGRESS.raise_for(
            f"A partition reassignment is in progress for the topic '{topic.name}'."
        )
    if not assignment.partitions:
        raise _failure(Errors.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{topic.name}' does not exist.")
    added = {index: ReplicaAssignment(each) for index, each in _added(context, topic, assignment, brokers).items()}
    return Growth(assignment._replace(partitions=assignment.partitions | added), len(added), node.version)


def _failure(error: Errors, message: str) -> ApiException:
    assert error.exception is not None
    return error.exception(message)


def _added(
    context: ControllerContext, topic: CreatePartitionsTopic, assignment: TopicAssignment, brokers: FitBrokers
) -> Replicas:
    """The replicas of the new partitions, by partition index."""
    before, racks = len(assignment.partitions), brokers.of_topic(topic.name)
    if topic.count < before:
        Errors.INVALID_PARTITIONS.raise_for(
            f"Topic currently has {before} partitions, which is higher than the requested {topic.count}."
        )
    if topic.count == before:
        Errors.INVALID_PARTITIONS.raise_for(f"Topic already has {before} partitions.")
    existing = {index: each.replicas for index, each in assignment.partitions.items()}
    if 0 not in existing:
        Errors.UNKNOWN_SERVER_ERROR.raise_for(f"Partition 0 of topic '{topic.name}' is missing.")
    if topic.assignments is None:
        check_znode_holds(topic.count - before)
        return new_replicas.placed_after(racks, existing, topic.count - before)
    wanted = [tuple(each.broker_ids) for each in topic.assignments]
    new_replicas.check_fit(topic.name, wanted, context.not_coordinating & context.unfit_for(topic.name))
    if unknown := {broker for each in wanted for broker in each} - racks.keys():
        Errors.INVALID_REPLICA_ASSIGNMENT.raise_for(
            f"Unknown broker(s) in replica assignment: {', '.join(map(str, sorted(unknown)))}."
        )
    if len(wanted) != topic.count - before:
        Errors.INVALID_REPLICA_ASSIGNMENT.raise_for(
            f"Increasing the number of partitions by {topic.count - before} but {len(wanted)} assignments provided."
        )
    replicas = dict(enumerate(wanted, start=before))
    new_replicas.check_manual_growth(len(existing[0]), replicas)
    return replicas


def _grow(
    context: ControllerContext, growths: dict[str, Growth], results: dict[str, CreatePartitionsTopicResult]
) -> Steps[None]:
    operations, work = list[Operation](), Work(PARTITIONS_AT_ONCE)
    for place, (name, growth) in enumerate(growths.items(), 1):
        yield from pause_after(place, TOPICS_AT_ONCE)
        yield from paused(work.add(len(growth.assignment.partitions)))
        operations.append(SetData(znodes.topic_path(name), znodes.encode_topic(growth.assignment), growth.version))
    outcomes = yield from write_nodes(operations)
    for name, outcome in zip(growths, outcomes, strict=True):
        if outcome is OperationResult.DONE:
            yield from topic_changes.take_modified(context, [name])
        elif outcome is OperationResult.TOO_LARGE:
            results[name].error_code, results[name].error_message = Errors.INVALID_PARTITIONS, NO_ROOM
        else:
            results[name].error_code = Errors.UNKNOWN_SERVER_ERROR
            results[name].error_message = f"Another node changed the assignment of topic '{name}' meanwhile; try again."
