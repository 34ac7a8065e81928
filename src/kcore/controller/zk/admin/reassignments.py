"""AlterPartitionReassignments and ListPartitionReassignments (KIP-455; KafkaController of 3.9.1)."""

from kcore.constants import MAX_REPLICAS
from kcore.controller.rules.replica_assignments import (
    assignments_of,
    is_being_reassigned,
    isrs_of,
    origin_replicas,
    reassign_to,
)
from kcore.controller.zk.effects import Steps
from kcore.controller.zk.events import RequestEvent
from kcore.controller.zk.leaders.requested_elections import NO_PARTITION, ApiError
from kcore.controller.zk.topics import reassignment
from kcore.controller.zk.zk_context import ControllerContext
from kcore.metadata.table.partition_state import ReplicaAssignment
from kcore.metadata.table.partition_table import PartitionTable
from kcore.metadata.zookeeper.znodes import TopicPartition
from kcore.protocol_errors import Errors
from kcore.schema import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from kcore.schema.partitions import (
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from kcore.schema.structure import Message

NO_ERROR: ApiError = (Errors.NONE, None)


def on_alter_partition_reassignments(
    context: ControllerContext, event: RequestEvent[AlterPartitionReassignmentsRequest]
) -> Steps[Message]:
    """Begins, replaces or (without replicas) cancels reassignments; responds once they have begun."""
    table, brokers = context.table, context.table.brokers
    results: dict[TopicPartition, ApiError] = {}
    moves: dict[int, ReplicaAssignment] = {}
    names: dict[int, TopicPartition] = {}
    targets = [(topic.name, each.partition_index, each.replicas) for topic in event.request.topics
             for each in topic.partitions]  # fmt: skip
    rows = [reassignment.movable_row(context, (topic, index)) for topic, index, _ in targets]
    there = [row for row in rows if row is not None]
    before, isrs = assignments_of(table, there), isrs_of(table, there)
    live = brokers.ids[brokers.live & ~brokers.shutting_down].tolist()
    unfit_for = {topic.name: context.unfit_for(topic.name) for topic in event.request.topics}
    for (topic, index, replicas), row in zip(targets, rows, strict=True):
        known = ReplicaAssignment(()) if row is None else before[row]
        name = topic, index
        results[name] = error = _refusal(live, known, replicas, unfit_for[topic], exists=row is not None)
        if row is not None and error == NO_ERROR:
            move = reassign_to(known, origin_replicas(known) if replicas is None else replicas)
            if reassignment.keeps_data(isrs[row], move):
                moves[row], names[row] = move, name
            else:
                moves.pop(row, None)
                names.pop(row, None)
                results[name] = (
                    Errors.INVALID_REPLICA_ASSIGNMENT,
                    "The reassignment would delete every in-sync replica.",
                )
    wanted = set(names.values())
    yield from reassignment.strike_out(context, lambda partition, _: partition in wanted)
    lost = yield from reassignment.begin(context, dict(sorted(moves.items())))
    results |= {names[row]: (Errors.UNKNOWN_SERVER_ERROR, None) for row in lost}
    return _response(results)


def _refusal(
    live: list[int], known: ReplicaAssignment, target: list[int] | None, unfit: set[int], *, exists: bool
) -> ApiError:
    """The error if `target` is invalid or adds `unfit` brokers (validateReplicas, maybeBuildReassignment)."""
    invalid = Errors.INVALID_REPLICA_ASSIGNMENT
    if target is None:
        return NO_ERROR if is_being_reassigned(known) else (Errors.NO_REASSIGNMENT_IN_PROGRESS, None)
    if not target:
        return invalid, "Empty replica list specified in partition reassignment."
    if len({*target}) != len(target):
        return invalid, f"Duplicate replica ids in partition reassignment replica list: {target}"
    if min(target) < 0:
        return invalid, f"Invalid broker id in replica list: {target}"
    move = reassign_to(known, target)
    if not {*move.adding_replicas} <= {*live}:
        return invalid, (
            "Replica assignment has brokers that are not alive. "
            f"Replica list: {list(move.adding_replicas)}, live broker list: {live}"
        )
    if wrong := {*move.adding_replicas} & unfit:
        return (
            invalid,
            f"Brokers {sorted(wrong)} are no coordinators: they must not have replicas of an internal topic.",
        )
    if len(move.replicas) > MAX_REPLICAS:
        return (
            invalid,
            f"A partition has at most {MAX_REPLICAS} replicas, including those that are being added or removed.",
        )
    return NO_ERROR if exists else NO_PARTITION


def _response(results: dict[TopicPartition, ApiError]) -> AlterPartitionReassignmentsResponse:
    topics: dict[str, list[ReassignablePartitionResponse]] = {}
    for (topic, index), (error, message) in results.items():
        answer = ReassignablePartitionResponse(partition_index=index, error_code=error, error_message=message)
        topics.setdefault(topic, []).append(answer)
    responses = [ReassignableTopicResponse(name=topic, partitions=answers) for topic, answers in topics.items()]
    return AlterPartitionReassignmentsResponse(responses=responses)


def on_list_partition_reassignments(
    context: ControllerContext, event: RequestEvent[ListPartitionReassignmentsRequest]
) -> Steps[Message]:
    """The reassignments in progress, of the requested partitions or of all."""
    yield from ()
    table = context.table
    rows = sorted(table.adding.keys() | table.removing.keys())
    if event.request.topics is not None:
        wanted = {(topic.name, index) for topic in event.request.topics for index in topic.partition_indexes}
        rows = [row for row in rows if _name(table, row) in wanted]
    moves = assignments_of(table, rows)
    topics: dict[str, list[OngoingPartitionReassignment]] = {}
    for row in rows:
        topic, index = _name(table, row)
        move = moves[row]
        topics.setdefault(topic, []).append(
            OngoingPartitionReassignment(
                partition_index=index,
                replicas=list(move.replicas),
                adding_replicas=list(move.adding_replicas),
                removing_replicas=list(move.removing_replicas),
            )
        )
    answer = [OngoingTopicReassignment(name=topic, partitions=moves) for topic, moves in topics.items()]
    return ListPartitionReassignmentsResponse(topics=answer)


def _name(table: PartitionTable, row: int) -> TopicPartition:
    return table.topics.names[table.topic_row__p[row]], int(table.partition_index__p[row])
