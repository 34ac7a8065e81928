"""Elections that a client requests, and elections that move leaders back to their preferred replicas.

Source: KafkaController.processReplicaLeaderElection and checkAndTriggerAutoLeaderRebalance of 3.9.1 (KIP-460).
"""

from collections.abc import Collection, Mapping
from typing import Final, TypeAlias

import numpy as np

from kcore.constants import NO_LEADER
from kcore.controller.zk.decision import Decision
from kcore.controller.zk.effects import Steps
from kcore.controller.zk.events import (
    AutoPreferredReplicaLeaderElection,
    PreferredElection,
    RequestEvent,
    ZkReplicaLeaderElection,
)
from kcore.controller.zk.log_lines import counted
from kcore.controller.zk.requests.states import distinct
from kcore.controller.zk.state_changes import carry_out
from kcore.controller.zk.zk_context import ControllerContext
from kcore.errors import TableError
from kcore.metadata.table.partition_table import NO_TOPIC, PartitionTable
from kcore.metadata.zookeeper import znodes
from kcore.metadata.zookeeper.znode_operations import Delete
from kcore.metadata.zookeeper.znodes import TopicPartition
from kcore.node.zk.notices import TextNotice
from kcore.node.zk.znode_steps import log_notice, read_node, write_nodes
from kcore.protocol_errors import Errors
from kcore.schema import ElectLeadersRequest, ElectLeadersResponse
from kcore.schema.partitions import ElectionType, PartitionResult, ReplicaElectionResult
from kcore.schema.structure import Message
from kcore.types import Bools, Int32s

ApiError: TypeAlias = tuple[Errors, str | None]
NO_PARTITION: Final = (Errors.UNKNOWN_TOPIC_OR_PARTITION, "The partition does not exist.")
BEING_DELETED: Final = (Errors.INVALID_TOPIC_EXCEPTION, "The topic is being deleted")
FAILURES: Final[Mapping[int, tuple[Errors, str]]] = {
    ElectionType.PREFERRED: (Errors.PREFERRED_LEADER_NOT_AVAILABLE, "PreferredReplicaPartitionLeaderElectionStrategy"),
    ElectionType.UNCLEAN: (Errors.ELIGIBLE_LEADERS_NOT_AVAILABLE, "OfflinePartitionLeaderElectionStrategy(true)"),
}


def on_elect_leaders(context: ControllerContext, event: RequestEvent[ElectLeadersRequest]) -> Steps[Message]:
    """Elects leaders of the named partitions, or of all. For all, the response omits partitions that need none.

    All partitions are those in a broker's metadata cache, which KafkaApis uses: they have a state, and their topic is
    not being deleted.
    """
    request, table = event.request, context.table
    if request.election_type not in FAILURES:
        return ElectLeadersResponse(error_code=Errors.INVALID_REQUEST)
    results: dict[TopicPartition, ApiError] = {}
    if request.topic_partitions is None:
        rows = np.flatnonzero((table.topic_row__p != NO_TOPIC) & (table.leader_epoch__p >= 0)).astype(np.int32)
        rows = rows[~context.decisions.situation().being_deleted(rows)]
    else:
        named = [(topic.topic, index) for topic in request.topic_partitions for index in topic.partitions]
        results = dict.fromkeys(named, NO_PARTITION)
        rows = known_rows(table, named)
    being_deleted = context.decisions.situation().being_deleted(rows)
    needed = ~being_deleted & _is_needed(table, rows, request.election_type)
    elected = yield from _elected(context, rows[needed], request.election_type, "requested by a client")
    if request.topic_partitions is not None:
        results |= dict.fromkeys(_names(table, rows[~being_deleted & ~needed]), (Errors.ELECTION_NOT_NEEDED, None))
    results |= dict.fromkeys(_names(table, rows[being_deleted]), BEING_DELETED)
    error, strategy = FAILURES[request.election_type]
    for row, name in zip(rows[needed].tolist(), _names(table, rows[needed]), strict=True):
        message = f"Failed to elect leader for partition {name[0]}-{name[1]} under strategy {strategy}"
        results[name] = (Errors.NONE, None) if row in elected else (error, message)
    return _response(results)


def known_rows(table: PartitionTable, named: Collection[TopicPartition]) -> Int32s:
    """The rows of the named partitions that exist, ascending."""
    known = [(table.topics.row(topic), index) for topic, index in named if topic in table.topics]
    rows = table.rows_of(
        np.array([topic for topic, _ in known], np.int32), np.array([index for _, index in known], np.int32)
    )
    return distinct(rows[rows >= 0])


def _is_needed(table: PartitionTable, rows: Int32s, election_type: int) -> Bools:
    leaders, brokers = table.leader__p[rows], table.brokers
    if not len(rows):
        return np.empty(0, np.bool_)  # An empty table has no first column of replicas.
    if election_type == ElectionType.PREFERRED:
        elsewhere: Bools = leaders != table.replicas__ps[rows, 0]
        return elsewhere
    online = np.append(brokers.live & ~brokers.shutting_down, False)  # Row -1, the last item, is no broker.
    nowhere: Bools = ~online[leaders]
    return nowhere


def _elected(context: ControllerContext, rows: Int32s, election_type: int, by: str) -> Steps[set[int]]:
    """Elects, sends the changes to brokers, and returns the rows with a new leader."""

    def decide() -> Decision:
        decisions = context.decisions
        if election_type == ElectionType.PREFERRED:
            return decisions.on_preferred_election(PreferredElection(rows))
        before, decisions.unclean = decisions.unclean, True
        try:
            return decisions.on_offline_partitions(rows)
        finally:
            decisions.unclean = before

    if not len(rows):
        return set()
    kind = "preferred" if election_type == ElectionType.PREFERRED else "unclean"
    why = f"{kind} election of {counted(len(rows), 'partition')}, {by}"
    decision = yield from carry_out(context, decide, why)
    if not len(decision.changes):
        yield from log_notice(TextNotice(f"{why}: no replica can be elected", request="ElectLeaders"))
    yield from context.send_decision(decision)
    return {*decision.changes.rows[decision.changes.leaders != NO_LEADER].tolist()}


def _names(table: PartitionTable, rows: Int32s) -> list[TopicPartition]:
    names = table.topics.names
    topic_rows, indexes = table.topic_row__p[rows].tolist(), table.partition_index__p[rows].tolist()
    return [(names[topic_row], index) for topic_row, index in zip(topic_rows, indexes, strict=True)]


def _response(results: dict[TopicPartition, ApiError]) -> ElectLeadersResponse:
    topics: dict[str, list[PartitionResult]] = {}
    for (topic, index), (error, message) in results.items():
        result = PartitionResult(partition_id=index, error_code=error, error_message=message)
        topics.setdefault(topic, []).append(result)
    answers = [ReplicaElectionResult(topic=topic, partition_result=each) for topic, each in topics.items()]
    return ElectLeadersResponse(replica_election_results=answers)


def resume(context: ControllerContext) -> Steps[None]:
    """After a failover: continues the election that was requested in ZooKeeper."""
    yield from on_zk_replica_leader_election(context, ZkReplicaLeaderElection())


def on_zk_replica_leader_election(context: ControllerContext, event: ZkReplicaLeaderElection) -> Steps[None]:
    """Elects the partitions in `/admin/preferred_replica_election`, and then deletes the znode."""
    path = znodes.PREFERRED_REPLICA_ELECTION
    while (node := (yield from read_node(path, watch=True))) is not None:
        try:
            named = znodes.decode_preferred_replica_election(node.data)
        except TableError:
            named = []  # Kafka treats an unreadable znode as empty.
        rows = known_rows(context.table, named)
        yield from _elected(
            context,
            rows[_is_needed(context.table, rows, ElectionType.PREFERRED)],
            ElectionType.PREFERRED,
            f"requested in {path}",
        )
        yield from write_nodes([Delete(path)])


def on_auto_preferred_election(context: ControllerContext, event: AutoPreferredReplicaLeaderElection) -> Steps[None]:
    """Elects preferred leaders for brokers that lead too few of the partitions that prefer them."""
    table = context.table
    rows = np.flatnonzero(table.topic_row__p != NO_TOPIC).astype(np.int32)
    rows = rows[~context.decisions.situation().being_deleted(rows)]
    if not len(rows):
        return  # An empty table has no first column of replicas.
    first = table.replicas__ps[rows, 0]
    elsewhere = (table.leader__p[rows] != first) & (table.leader_epoch__p[rows] >= 0)
    # Count for all brokers at once; a map of all partitions for each broker is slow (KAFKA-10794).
    preferring, missing = (np.bincount(first[chosen], minlength=len(table.brokers)) for chosen in (..., elsewhere))
    percentage = context.config.leader_imbalance_per_broker_percentage
    imbalanced = missing * 100 > preferring * percentage
    yield from _elected(
        context, rows[elsewhere & imbalanced[first]], ElectionType.PREFERRED, "for brokers that lead too few"
    )
