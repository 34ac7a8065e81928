"""Requests that name 50,000 partitions: one decision in bulk, and an answer for each partition in their order."""

from typing import Any

import numpy as np
import pytest

from controller.kraft.broker_clusters import ask, uuid
from controller.kraft.contexts import at_once
from kcore.controller.kraft.decision import AT_ONCE, Decision, encoded
from kcore.controller.kraft.departures import RECORD_LIMITS
from kcore.controller.kraft.kraft_context import ControllerContext, RequestInfo
from kcore.controller.kraft.leaders.directories import DECIDED_AT_ONCE
from kcore.controller.kraft.leaders.isrs import on_alter_partition
from kcore.controller.kraft.leaders.leader_elections import balance_leaders, elect_unclean
from kcore.controller.kraft.periodic import MOST_ELECTIONS
from kcore.metadata.image.image import ClusterImage
from kcore.metadata.image.replay import replay
from kcore.metadata.metadata_version import FEATURE_NAME
from kcore.metadata.table.broker_registration import BrokerRegistration
from kcore.metadata.table.broker_table import BrokerTable
from kcore.metadata.table.partition_table import PartitionTable
from kcore.metadata.table.topic_table import TopicTable
from kcore.protocol_errors import Errors
from kcore.replication.java_random import JavaRandom
from kcore.schema.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionRequestPartitionData,
    AlterPartitionRequestTopicData,
    BrokerState,
)
from kcore.schema.log_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsRequestDirectoryData,
    AssignReplicasToDirsRequestPartitionData,
    AssignReplicasToDirsRequestTopicData,
)
from kcore.schema.metadata_records_settings import FeatureLevelRecord
from kcore.schema.partitions import (
    AlterPartitionReassignmentsRequest,
    ElectLeadersRequest,
    ListPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
    TopicPartitions,
)
from kcore.wire.records import decode_records
from kraft_configs import controller_config

COUNT, TOPICS, BROKERS = 50_000, 50, 6
PARTS = COUNT // (10 * AT_ONCE)  # In which so many are decided.
A_TOPIC = COUNT // TOPICS
LEVEL = 29  # 4.3-IV0


def a_context(count: int = COUNT, level: int = LEVEL, leader: int | None = 1, **settings: Any) -> ControllerContext:
    """Three replicas a partition, on brokers 0 to 5 in turn; the leader is the replica in place `leader`, or none."""
    brokers = BrokerTable.from_arrays(range(BROKERS))
    for each in range(BROKERS):
        brokers.put(BrokerRegistration(each, 100 + each, directories=(uuid(1000 + each),)))
    replicas = (np.arange(count)[:, None] + np.arange(3)) % BROKERS
    table = PartitionTable.from_arrays(
        replicas,
        topics=TopicTable([f"t{k}" for k in range(TOPICS)], [uuid(k + 1) for k in range(TOPICS)]),
        topic_rows=np.repeat(np.arange(TOPICS), count // TOPICS),
        brokers=brokers,
        leaders=np.full(count, -1) if leader is None else replicas[:, leader],
        isr=replicas if leader is not None else np.full((count, 1), -1),
        directories=np.ones((count, 3), np.int32) if level >= LEVEL else None,
    )
    config = controller_config(node_id=1, cluster_id="cluster", **settings)
    context = ControllerContext(config, ClusterImage(table), JavaRandom(1), lambda: uuid(1))
    context.image.apply(FeatureLevelRecord(name=FEATURE_NAME, feature_level=level))
    return context


def record_count(context: ControllerContext, decision: Decision) -> int:
    """How many records the log gets."""
    return sum(map(len, encoded(context.image, decision.records, context.version)))


def replay_decided(context: ControllerContext, decision: Decision) -> None:
    """The records take effect as the log's do."""
    for part in list(encoded(context.image, decision.records, context.version)):
        for batch in part.batches(context.next_offset, epoch=1, timestamp=0):
            replay(context.image, decode_records(bytes(batch)))


def everything() -> list[TopicPartitions]:
    return [TopicPartitions(topic=f"t{k}", partitions=list(range(A_TOPIC))) for k in range(TOPICS)]


def moves() -> AlterPartitionReassignmentsRequest:
    topics = [
        ReassignableTopic(
            name=f"t{k}",
            partitions=[
                ReassignablePartition(partition_index=p, replicas=[(k * A_TOPIC + p + s) % BROKERS for s in (2, 3, 4)])
                for p in range(A_TOPIC)
            ],
        )
        for k in range(TOPICS)
    ]
    return AlterPartitionReassignmentsRequest(topics=topics)


@pytest.mark.parametrize("topics", [everything(), None], ids=["named", "all"])
def test_leaders_of_50000_partitions_are_elected_in_one_decision(topics: list[TopicPartitions] | None) -> None:
    context = a_context()
    decision = ask(context, ElectLeadersRequest(topic_partitions=topics), version=2)
    assert len(decision.records) == (PARTS if topics is None else 1) and record_count(context, decision) == COUNT
    response: Any = decision.response
    codes = [each.error_code for topic in response.replica_election_results for each in topic.partition_result]
    assert codes == [Errors.NONE] * COUNT


def test_an_election_in_any_order_is_one_decision() -> None:
    context = a_context()
    order = np.random.default_rng(7).permutation(COUNT).tolist()
    topics = [TopicPartitions(topic=f"t{row // A_TOPIC}", partitions=[row % A_TOPIC]) for row in order]
    decision = ask(context, ElectLeadersRequest(topic_partitions=topics), version=2)
    assert len(decision.records) == 1 and record_count(context, decision) == COUNT


def test_50000_partitions_move_and_are_listed() -> None:
    context = a_context()
    decision = ask(context, moves(), version=1)
    assert len(decision.records) == PARTS and record_count(context, decision) == COUNT
    response: Any = decision.response
    assert {each.error_code for topic in response.responses for each in topic.partitions} == {Errors.NONE}
    replay_decided(context, decision)
    listed: Any = ask(context, ListPartitionReassignmentsRequest(topics=None), version=0).response
    assert sum(len(topic.partitions) for topic in listed.topics) == COUNT
    cancels = moves()
    for topic in cancels.topics:
        for each in topic.partitions:
            each.replicas = None
    decision = ask(context, cancels, version=1)
    assert len(decision.records) == PARTS and record_count(context, decision) == COUNT


def test_moves_are_one_transaction_where_the_level_has_any() -> None:
    assert ask(a_context(), moves(), version=1).is_atomic
    before_3_6 = a_context(level=9)
    decision = ask(before_3_6, moves(), version=1)
    assert not decision.is_atomic and record_count(before_3_6, decision) == COUNT


def test_isrs_of_all_that_a_broker_leads_change_in_one_decision() -> None:
    context = a_context()
    topics: dict[int, list[AlterPartitionRequestPartitionData]] = {}
    rows = [row for row in range(COUNT) if (row + 1) % BROKERS == 1]
    for row in rows:
        members = [BrokerState(broker_id=1, broker_epoch=101), BrokerState(broker_id=0, broker_epoch=100)]
        asked = AlterPartitionRequestPartitionData(
            partition_index=row % A_TOPIC, leader_epoch=0, partition_epoch=0, new_isr_with_epochs=members
        )
        topics.setdefault(row // A_TOPIC, []).append(asked)
    request = AlterPartitionRequest(
        broker_id=1,
        broker_epoch=101,
        topics=[AlterPartitionRequestTopicData(topic_id=uuid(k + 1), partitions=each) for k, each in topics.items()],
    )
    parts = sum(1 for _ in on_alter_partition(context, request, RequestInfo(3, 0)))
    assert parts == 2 * (len(rows) // AT_ONCE) + 2, "columns, then the decision, then the response"
    decision = ask(context, request, version=3)
    assert len(decision.records) == 1 and record_count(context, decision) == len(rows)
    response: Any = decision.response
    answers = [each for topic in response.topics for each in topic.partitions]
    assert [each.isr for each in answers] == [[1, 0]] * len(rows)
    assert {(each.leader_id, each.partition_epoch, each.leader_epoch) for each in answers} == {(1, 1, 0)}


def test_all_replicas_of_a_broker_get_their_directory_in_parts() -> None:
    context = a_context()
    topics: dict[int, list[AssignReplicasToDirsRequestPartitionData]] = {}
    rows = [row for row in range(COUNT) if (1 - row) % BROKERS < 3]
    for row in rows:
        asked = AssignReplicasToDirsRequestPartitionData(partition_index=row % A_TOPIC)
        topics.setdefault(row // A_TOPIC, []).append(asked)
    directory = AssignReplicasToDirsRequestDirectoryData(
        id=uuid(1001),
        topics=[
            AssignReplicasToDirsRequestTopicData(topic_id=uuid(k + 1), partitions=each) for k, each in topics.items()
        ],
    )
    request = AssignReplicasToDirsRequest(broker_id=1, broker_epoch=101, directories=[directory])
    parts = -(-len(rows) // DECIDED_AT_ONCE)
    decision = ask(context, request, version=0)
    assert len(decision.records) == parts > 1 and record_count(context, decision) == len(rows)
    directory.id = uuid(77)  # Nobody has registered it: the replicas are offline there.
    decision = ask(context, request, version=0)
    assert len(decision.records) == 2 * parts and record_count(context, decision) == 2 * len(rows)


def test_kafkas_way_refuses_an_election_of_more_than_10000_records_as_a_whole() -> None:
    context = a_context(kafka_way=frozenset({RECORD_LIMITS}))
    decision = ask(context, ElectLeadersRequest(topic_partitions=everything()), version=2)
    response: Any = decision.response
    assert (response.error_code, decision.records) == (Errors.POLICY_VIOLATION, ())
    results = [each for topic in response.replica_election_results for each in topic.partition_result]
    assert {each.error_code for each in results} == {Errors.POLICY_VIOLATION}
    first = ElectLeadersRequest(topic_partitions=everything()[:10])
    assert record_count(context, ask(context, first, version=2)) == 10_000


def test_kafkas_way_begins_the_first_10000_moves() -> None:
    context = a_context(kafka_way=frozenset({RECORD_LIMITS}))
    decision = ask(context, moves(), version=1)
    assert record_count(context, decision) == 10_000
    response: Any = decision.response
    codes = [each.error_code for topic in response.responses for each in topic.partitions]
    assert codes == [Errors.NONE] * 10_000 + [Errors.UNKNOWN_SERVER_ERROR] * (COUNT - 10_000)


@pytest.mark.parametrize("task", [balance_leaders, elect_unclean])
def test_periodic_elections_are_held_in_parts(task: Any) -> None:
    allowed = {"unclean.leader.election.enable": "true"}
    count = MOST_ELECTIONS * 2 + 5_000
    context = a_context(count, leader=1 if task is balance_leaders else None, static_configs=allowed)
    held = []
    while (decision := at_once(task(context, 0))).records:
        held.append(record_count(context, decision))
        replay_decided(context, decision)
    assert held == [MOST_ELECTIONS, MOST_ELECTIONS, 5_000]
    assert (context.image.table.leader__p == context.image.table.replicas__ps[:, 0]).all()


def test_no_unclean_leader_is_looked_for_where_topics_do_not_allow_it() -> None:
    assert not at_once(elect_unclean(a_context(1_000, leader=None), 0)).records
