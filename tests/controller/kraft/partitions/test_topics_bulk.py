"""Many topics and partitions in one request, and numbers that no request should have."""

import numpy as np
import pytest

from controller.kraft.broker_clusters import a_cluster, ask, take_effect
from controller.kraft.contexts import notice_of
from kcore.controller.kraft.decision import Decision, encoded
from kcore.controller.kraft.departures import KAFKA_WAY, RECORD_LIMITS
from kcore.controller.kraft.kraft_context import ControllerContext
from kcore.controller.kraft.topics.growth import replication_factor
from kcore.metadata.image.replay import replay
from kcore.metadata.table.partition_values import PartitionCreations
from kcore.protocol_errors import Errors
from kcore.schema.partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from kcore.schema.topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from kcore.wire.metadata_frames import decode_metadata_record
from kcore.wire.records import decode_records

MANY = 50_000


def a_topic(name: str = "a", partitions: int = 1, factor: int = 1, **configs: str) -> CreatableTopic:
    """To be placed by the controller; `_` stands for a period in the names of settings."""
    return CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=factor,
        assignments=[],
        configs=[CreatableTopicConfig(name=each.replace("_", "."), value=value) for each, value in configs.items()],
    )


def create(context: ControllerContext, *topics: CreatableTopic) -> Decision:
    """CreateTopics; nothing takes effect."""
    return ask(context, CreateTopicsRequest(topics=list(topics)), version=7)


def results(decision: Decision) -> list[tuple[int, str | None]]:
    """Error codes and messages."""
    response = decision.response
    if isinstance(response, CreateTopicsResponse):
        return [(each.error_code, each.error_message) for each in response.topics]
    if isinstance(response, CreatePartitionsResponse):
        return [(each.error_code, each.error_message) for each in response.results]
    assert isinstance(response, DeleteTopicsResponse)
    return [(each.error_code, each.error_message) for each in response.responses]


def written(context: ControllerContext, decision: Decision) -> ControllerContext:
    """The records take effect, by way of their bytes."""
    for part in encoded(context.image, decision.records, context.version):
        for batch in part.batches(context.next_offset, epoch=1, timestamp=0):
            replay(context.image, decode_records(bytes(batch)))
        context.image.end_offset += len(part)
    return context


def grow(context: ControllerContext, name: str, count: int, assignments: list[list[int]] | None = None) -> Decision:
    """CreatePartitions of one topic."""
    given = None if assignments is None else [CreatePartitionsAssignment(broker_ids=each) for each in assignments]
    topic = CreatePartitionsTopic(name=name, count=count, assignments=given)
    return ask(context, CreatePartitionsRequest(topics=[topic]), version=3)


def test_a_topic_of_50_000_partitions_is_one_decision() -> None:
    context = a_cluster()
    decision = create(context, a_topic("big", MANY, 3))
    assert results(decision) == [(0, None)]
    (created,) = decision.records
    assert isinstance(created, PartitionCreations)
    table = written(context, decision).image.table
    assert table.partition_count == MANY
    row = table.row_of("big", MANY - 1)
    assert sorted(table.state(row).replicas) == [1, 2, 3] == sorted(table.state(row).isr)
    counts = np.bincount(table.replicas__ps[table.rows_of_topic("big"), 0])
    assert counts.max() - counts.min() <= 1  # Leaders are spread evenly.


def test_the_log_has_one_line_for_the_topics_of_a_request() -> None:
    context = a_cluster()
    created = create(context, a_topic("a", 2), a_topic("b", 3))
    assert notice_of(context.image, created, None).lines == ["topics a, b created with 5 partitions"]
    grown = grow(written(context, created), "a", 6)
    assert notice_of(context.image, grown, None).lines == ["topic a extended by 4 partitions"]


def test_topics_with_settings_stand_between_those_without_in_the_requests_order() -> None:
    context = a_cluster()
    names = ["a", "b", "c", "d"]
    topics = [a_topic(name, 2, 1, **({"min_insync_replicas": "2"} if name in "bd" else {})) for name in names]
    decision = create(context, *topics)
    (values,) = encoded(context.image, decision.records, context.version)
    kinds = "".join(type(decode_metadata_record(each)[0]).__name__[0] for each in values)
    assert kinds == "TPP" + "TCPP" + "TPP" + "TCPP"  # TopicRecord, ConfigRecord, PartitionRecord.
    image = written(context, decision).image
    assert [image.topics.row(name) for name in names] == [0, 1, 2, 3]
    assert image.table.partition_count == 8
    assert sorted(name for _, name in image.configs) == ["b", "d"]


def test_topics_of_one_request_are_placed_as_those_of_several_are() -> None:
    together, apart = a_cluster(range(1, 8)), a_cluster(range(1, 8))
    topics = [a_topic(f"t{number}", 20, 3) for number in range(5)]
    written(together, create(together, *topics))
    for each in topics:
        written(apart, create(apart, each))
    assert together.image.table.replicas__ps.tolist() == apart.image.table.replicas__ps.tolist()
    assert together.random.state == apart.random.state


def test_partitions_are_placed_by_hand_in_any_order() -> None:
    context = a_cluster()
    by_hand = a_topic("a", -1, -1)
    by_hand.assignments = [
        CreatableReplicaAssignment(partition_index=index, broker_ids=[1 + index % 3]) for index in reversed(range(MANY))
    ]
    decision = create(context, by_hand)
    assert results(decision) == [(0, None)]
    table = written(context, decision).image.table
    assert table.state(table.row_of("a", 4)).replicas == (2,)


def test_50_000_partitions_are_added_in_one_request() -> None:
    context = a_cluster()
    written(context, create(context, a_topic("a", 1, 2)))
    decision = grow(context, "a", MANY + 1)
    assert results(decision) == [(0, None)]
    assert written(context, decision).image.table.partition_count == MANY + 1


@pytest.mark.long
def test_20_000_topics_are_deleted_in_one_request() -> None:
    context = a_cluster()
    written(context, create(context, *(a_topic(f"t{number}") for number in range(20_000))))
    states = [DeleteTopicState(name=f"t{number}") for number in range(20_000)]
    decision = ask(context, DeleteTopicsRequest(topics=states), version=6)
    assert {*results(decision)} == {(0, None)}
    take_effect(context, decision)
    assert context.image.topics.count == 0


def test_kafkas_way_is_to_refuse_more_than_10_000() -> None:
    context = a_cluster(kafka_way=KAFKA_WAY, release="4.3.1")
    assert RECORD_LIMITS in KAFKA_WAY
    excessive = [(Errors.POLICY_VIOLATION, "Excessively large number of partitions per request.")]
    assert results(create(context, a_topic("a", 10_001))) == excessive
    too_large = [(Errors.POLICY_VIOLATION, "Unable to perform excessively large batch operation.")]
    assert results(create(context, a_topic("a", 10_000))) == too_large  # One record more, for the topic.
    assert results(create(context, a_topic("a", 9_999))) == [(0, None)]
    written(context, create(context, a_topic("a", 1)))
    assert results(grow(context, "a", 10_002)) == [(Errors.UNKNOWN_SERVER_ERROR, None)]


@pytest.mark.parametrize("count", [10_000_001, 2**31 - 1])
def test_a_number_of_partitions_that_fits_no_process_is_refused_before_anything_is_placed(count: int) -> None:
    context = a_cluster()
    before = context.random.state
    assert results(create(context, a_topic("a", count)))[0][0] == Errors.POLICY_VIOLATION
    assert context.random.state == before
    written(context, create(context, a_topic("a", 1)))
    assert results(grow(context, "a", count + 1 if count < 2**31 - 1 else count))[0][0] == Errors.POLICY_VIOLATION


def test_more_replicas_than_a_partition_can_have_are_refused() -> None:
    context = a_cluster(range(1, 41))
    code, message = results(create(context, a_topic("a", 1, 33)))[0]
    assert code == Errors.INVALID_REPLICATION_FACTOR
    assert message is not None and "33" in message
    by_hand = a_topic("a", -1, -1)
    by_hand.assignments = [CreatableReplicaAssignment(partition_index=0, broker_ids=list(range(1, 41)))]
    assert results(create(context, by_hand))[0][0] == Errors.INVALID_REPLICA_ASSIGNMENT
    assert results(create(context, a_topic("a", 1, 32))) == [(0, None)]


def test_a_broker_that_leaves_gets_no_first_replica_even_if_it_said_so_to_another_leader() -> None:
    context = a_cluster()
    context.image.brokers.set_shutting_down(1)  # Its heartbeats say nothing of it yet, as after a failover.
    refused = Errors.INVALID_REPLICATION_FACTOR
    found = {results(create(context, a_topic("a", 1, 1)))[0][0] for _ in range(20)}
    assert found == {0, refused}  # Placed on broker 1, the partition would have no leader.


@pytest.mark.parametrize("name", ["a.b.c", "a_b_c", "a.b_c"])
def test_a_name_that_collides_is_refused_however_many_periods_it_has(name: str) -> None:
    context = a_cluster()
    written(context, create(context, a_topic("a_b.c"), a_topic("._" * 20)))
    message = f"Topic '{name}' collides with existing topic: a_b.c"
    assert results(create(context, a_topic(name))) == [(Errors.INVALID_TOPIC_EXCEPTION, message)]
    assert results(create(context, a_topic("__" * 20)))[0][0] == Errors.INVALID_TOPIC_EXCEPTION


def test_many_names_that_may_collide_are_looked_up_in_an_index() -> None:
    """Each of them has a thousand spellings, and is one of them of the topics that are there, or of none."""
    context = a_cluster()
    written(context, create(context, *(a_topic(f"a.a.a.a.a.a.a.a.a.t{each}") for each in range(500))))
    found = results(create(context, *(a_topic(f"a_a.a_a.a_a.a_a.a.t{each}") for each in range(1_000))))
    assert [error for error, _ in found] == [Errors.INVALID_TOPIC_EXCEPTION] * 500 + [Errors.NONE] * 500
    assert found[7][1] == "Topic 'a_a.a_a.a_a.a_a.a.t7' collides with existing topic: a.a.a.a.a.a.a.a.a.t7"


def test_what_is_only_validated_is_not_written() -> None:
    context = a_cluster()
    decision = ask(context, CreateTopicsRequest(topics=[a_topic("a", 5, 3)], validate_only=True), version=7)
    assert results(decision) == [(0, None)]
    assert not decision.records


@pytest.mark.parametrize(("partitions", "first"), [(1, 0), (2, 0), (3, 2), (8, 5), (13, 0), (50, 34)])
def test_which_partition_says_how_many_replicas_a_topic_has(partitions: int, first: int) -> None:
    """The first that a TimelineHashMap of 4.3.1 lists, of those with the numbers from 0 on."""
    context = a_cluster()
    by_hand = a_topic("a", -1, -1)
    by_hand.assignments = [
        CreatableReplicaAssignment(partition_index=index, broker_ids=[1, 2]) for index in range(partitions)
    ]
    table = written(context, create(context, by_hand)).image.table
    table.set_replicas([table.row_of("a", first)], [[1, 2, 3]])
    assert replication_factor(table, table.topics.row("a"), partitions) == 3


def grown_together(counts: dict[str, int], **settings: object) -> tuple[list[tuple[int, str | None]], int]:
    """Errors of CreatePartitions in topics a and b of one partition each, and the number of records."""
    context = a_cluster(**settings)
    written(context, create(context, a_topic("a"), a_topic("b")))
    topics = [CreatePartitionsTopic(name=name, count=count, assignments=None) for name, count in counts.items()]
    decision = ask(context, CreatePartitionsRequest(topics=topics), version=3)
    assert isinstance(decision.response, CreatePartitionsResponse)
    errors = [(each.error_code, each.error_message) for each in decision.response.results]
    return errors, sum(map(len, decision.records))


def test_too_many_new_partitions_refuse_the_whole_request_from_4_4_on() -> None:
    """Topics that the request does not grow, or that are unknown, do not count."""
    message = "Excessively large number of additional partitions per request."
    refused = [(Errors.POLICY_VIOLATION, message)] * 2, 0
    ways = {"release": "4.4.0", "kafka_way": KAFKA_WAY}
    assert grown_together({"a": 5_002, "b": 5_001}, **ways) == refused
    assert grown_together({"a": 5_001, "b": 5_001}, **ways) == ([(0, None)] * 2, 10_000)
    errors, records = grown_together({"a": 10_001, "b": -1, "missing": 9}, **ways)
    assert (records, {code for code, _ in errors}) == (10_000, {0, 37, 3})
    assert grown_together({"a": 5_002, "b": 5_001}, release="4.4.0") == ([(0, None)] * 2, 10_001)
    errors, records = grown_together({"a": 5_002, "b": 5_001}, release="4.3.1", kafka_way=KAFKA_WAY)
    assert sorted(code for code, _ in errors) == [-1, 0] and records
