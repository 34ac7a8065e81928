"""Requests about leaders, ISRs, reassignments and directories as strangers may send them, and what is then decided."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest

import kcore
from controller.kraft.broker_clusters import a_cluster, a_topic, ask, error_of, put, take_effect, uuid
from kcore.controller.kraft.decision import Decision, encoded
from kcore.controller.kraft.departures import EARLIER_MOVES
from kcore.controller.kraft.kraft_context import ControllerContext
from kcore.controller.kraft.leaders.named import MOST_RUNS, in_runs
from kcore.protocol_errors import Errors
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
from kcore.schema.metadata_records_brokers import RegisterBrokerRecord
from kcore.schema.partitions import (
    AlterPartitionReassignmentsRequest,
    ElectLeadersRequest,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
    ReassignablePartition,
    ReassignableTopic,
    TopicPartitions,
)
from kcore.schema.structure import Message
from kcore.types import Uuid
from kcore.wire.metadata_frames import decode_metadata_record

TOPIC, TOPIC_ID = "topic-1", uuid(5001)
EPOCH = 0  # The epoch of broker 1, which registered first.


def records(context: ControllerContext, decision: Decision) -> list[Any]:
    """As the log gets them."""
    parts = encoded(context.image, decision.records, context.version)
    return [decode_metadata_record(value)[0] for part in parts for value in part]


def an_isr(
    members: Sequence[int], topic: Uuid = TOPIC_ID, times: int = 1, epochs: Sequence[int] = (), **given: Any
) -> AlterPartitionRequest:
    """The request of broker 1, which leads partition 0 of the first topic."""
    states = [BrokerState(broker_id=each) for each in members]
    for state, epoch in zip(states, epochs, strict=False):
        state.broker_epoch = epoch
    fields = {"partition_index": 0, "leader_epoch": 0, "partition_epoch": 0, "new_isr_with_epochs": states}
    partitions = [AlterPartitionRequestPartitionData(**(fields | given)) for _ in range(times)]
    return AlterPartitionRequest(
        broker_id=1, broker_epoch=EPOCH, topics=[AlterPartitionRequestTopicData(topic_id=topic, partitions=partitions)]
    )


def a_move(*targets: list[int] | None, topic: str = TOPIC, **given: Any) -> AlterPartitionReassignmentsRequest:
    """The request to move partitions 0, 1 ..."""
    partitions = [ReassignablePartition(partition_index=k, replicas=each) for k, each in enumerate(targets)]
    return AlterPartitionReassignmentsRequest(topics=[ReassignableTopic(name=topic, partitions=partitions)], **given)


def a_place(directory: Uuid, indexes: Sequence[int] = (0,), topic: Uuid = TOPIC_ID) -> AssignReplicasToDirsRequest:
    """The request that assigns broker 1's replicas."""
    partitions = [AssignReplicasToDirsRequestPartitionData(partition_index=each) for each in indexes]
    topics = [AssignReplicasToDirsRequestTopicData(topic_id=topic, partitions=partitions)]
    directories = [AssignReplicasToDirsRequestDirectoryData(id=directory, topics=topics)]
    return AssignReplicasToDirsRequest(broker_id=1, broker_epoch=EPOCH, directories=directories)


def an_election(*indexes: int, topic: str = TOPIC, **given: Any) -> ElectLeadersRequest:
    return ElectLeadersRequest(topic_partitions=[TopicPartitions(topic=topic, partitions=list(indexes))], **given)


def a_list(*indexes: int, topic: str = TOPIC) -> ListPartitionReassignmentsRequest:
    topics = [ListPartitionReassignmentsTopics(name=topic, partition_indexes=list(indexes))]
    return ListPartitionReassignmentsRequest(topics=topics)


def codes_of(decision: Decision) -> list[Errors]:
    """The errors of the partitions, in the response's order."""
    return [*_codes(decision.response)]


def _codes(node: Any) -> Iterator[Errors]:
    if hasattr(node, "partition_index") or hasattr(node, "partition_id"):
        yield Errors(node.error_code)
        return
    for each in node if isinstance(node, list) else getattr(node, "__match_args__", ()):
        yield from _codes(each if isinstance(node, list) else getattr(node, each))


# A cluster without what the request names.

STRANGERS: list[tuple[Message, int, Errors]] = [
    (an_isr([1]), 3, Errors.UNKNOWN_TOPIC_ID),
    (an_election(0, -1, 7), 2, Errors.UNKNOWN_TOPIC_OR_PARTITION),
    (a_move([1, 2], None), 1, Errors.UNKNOWN_TOPIC_OR_PARTITION),
    (a_place(uuid(1001)), 0, Errors.UNKNOWN_TOPIC_ID),
]


@pytest.mark.parametrize(("request_", "version", "error"), STRANGERS)
def test_a_cluster_without_partitions_answers(request_: Message, version: int, error: Errors) -> None:
    decision = ask(a_cluster(), request_, version=version)
    assert not decision.records and {*codes_of(decision)} == {error}


def test_nothing_moves_in_a_cluster_without_partitions() -> None:
    for asked in (a_list(0, 1), ListPartitionReassignmentsRequest(topics=None)):
        response: Any = ask(a_cluster(), asked, version=0).response
        assert response.topics == [] and response.error_message is None


@pytest.mark.parametrize("index", [-1, 1, 2**31 - 1])
def test_partitions_that_there_are_not(index: int) -> None:
    context = a_cluster()
    a_topic(context, 1, [1, 2, 3])
    assert codes_of(ask(context, an_election(index), version=2)) == [Errors.UNKNOWN_TOPIC_OR_PARTITION]
    asked = ask(context, an_isr([1], partition_index=index), version=3)
    assert codes_of(asked) == [Errors.UNKNOWN_TOPIC_OR_PARTITION]
    assert codes_of(ask(context, a_place(uuid(1001), [index]), version=0)) == [Errors.UNKNOWN_TOPIC_OR_PARTITION]


# ISRs.


@pytest.mark.parametrize(
    "members",
    [[], [2, 3], [1, 1], [1, 2, 2], [1, 4], [1, -1], [1, 2, 3, 1], [1, 2**31 - 1], list(range(1, 100_000))],
)
def test_an_isr_has_replicas_alone_each_once_and_the_leader(members: list[int]) -> None:
    context = a_cluster((1, 2, 3, 4))
    a_topic(context, 1, [1, 2, 3])
    decision = ask(context, an_isr(members), version=3)
    assert codes_of(decision) == [Errors.INVALID_REQUEST] and not decision.records


def test_an_isr_keeps_the_order_that_the_leader_gives() -> None:
    context = a_cluster()
    a_topic(context, 1, [1, 2, 3])
    decision = ask(context, an_isr([3, 1, 2]), version=3)
    response: Any = decision.response
    assert response.topics[0].partitions[0].isr == [3, 1, 2]
    assert [each.isr for each in records(context, decision)] == [[3, 1, 2]]


def test_an_isr_takes_no_other_incarnation_of_a_broker() -> None:
    context = a_cluster()
    a_topic(context, 1, [1, 2, 3])
    epochs = [context.image.brokers[each].epoch for each in (1, 2)]
    assert codes_of(ask(context, an_isr([1, 2], epochs=epochs), version=3)) == [Errors.NONE]
    other = ask(context, an_isr([1, 2], epochs=[epochs[0], epochs[1] + 1]), version=3)
    assert codes_of(other) == [Errors.INELIGIBLE_REPLICA] and not other.records


def test_a_leader_recovery_state_that_there_is_not_refuses_the_request_and_writes_nothing() -> None:
    context = a_cluster()
    a_topic(context, 2, [1, 2, 3])
    request = an_isr([1, 2])
    request.topics[0].partitions += an_isr([1], partition_index=1, leader_recovery_state=7).topics[0].partitions
    assert error_of(ask(context, request, version=3)) is Errors.INVALID_REQUEST
    # An earlier check that fails gives the error, as in Kafka, which does not check the recovery state then.
    stale = an_isr([1], leader_recovery_state=7, leader_epoch=-1)
    assert codes_of(ask(context, stale, version=3)) == [Errors.FENCED_LEADER_EPOCH]


# Partitions that are named again and again.


def test_a_partition_named_again_is_decided_again_but_not_without_end() -> None:
    context = a_cluster()
    a_topic(context, 2, [1, 2, 3], isr=[2, 1, 3])
    decision = ask(context, an_election(*[0] * 1_000, 1), version=2)
    assert len(records(context, decision)) == MOST_RUNS + 1
    expected = [Errors.NONE] * MOST_RUNS + [Errors.ELECTION_NOT_NEEDED] * (1_000 - MOST_RUNS) + [Errors.NONE]
    assert codes_of(decision) == expected
    moves = a_move(*[[2, 3, 1]] * 1_000)
    for each in moves.topics[0].partitions:
        each.partition_index = 0
    decision = ask(context, moves, version=1)
    assert len(records(context, decision)) == MOST_RUNS
    assert codes_of(decision)[MOST_RUNS:] == [Errors.INVALID_REQUEST] * (1_000 - MOST_RUNS)
    a_topic(context, 1, [1, 2, 3], number=2)
    decision = ask(context, an_isr([1, 2], uuid(5002), times=1_000), version=3)
    assert len(records(context, decision)) == MOST_RUNS
    decision = ask(context, a_place(uuid(1001), [0] * 1_000), version=0)
    assert codes_of(decision)[MOST_RUNS:] == [Errors.INVALID_REQUEST] * (1_000 - MOST_RUNS)


def test_records_come_in_the_requests_order() -> None:
    context = a_cluster()
    a_topic(context, 9, [1, 2, 3], isr=[2, 1, 3])
    order = [3, 1, 8, 0, 5]
    decision = ask(context, an_election(*order), version=2)
    assert [each.partition_id for each in records(context, decision)] == order


def test_runs_ascend_and_keep_the_order_where_few_suffice() -> None:
    rows = np.array([4, 5, 9, 2, 2, 3], np.int32)
    assert [rows[run].tolist() for run in in_runs(rows)] == [[4, 5, 9], [2], [2, 3]]
    kinds = np.array([0, 1, 1, 1, 0, 0], np.int16)
    assert [rows[run].tolist() for run in in_runs(rows, kinds)] == [[4], [5, 9], [2], [2, 3]]


def test_many_runs_become_few() -> None:
    rows = np.arange(10_000, dtype=np.int32)[::-1].copy()
    rows[7_000:7_003] = 3  # Named once more each time.
    runs = [rows[run] for run in in_runs(rows)]
    assert len(runs) == 4 and all((run[1:] > run[:-1]).all() for run in runs)
    assert np.array_equal(np.sort(np.concatenate(runs)), np.sort(rows))
    kinds = np.arange(10_000, dtype=np.int16) % 2
    for run in in_runs(rows, kinds):
        assert len({*kinds[run].tolist()}) == 1


# Reassignments.


def problem(context: ControllerContext, request: AlterPartitionReassignmentsRequest) -> tuple[Errors, str]:
    """The error of the first partition; nothing is written."""
    decision = ask(context, request, version=1)
    response: Any = decision.response
    assert not decision.records
    first = response.responses[0].partitions[0]
    return Errors(first.error_code), first.error_message


def test_a_partition_has_32_replicas_at_the_most_while_it_moves() -> None:
    context = a_cluster(range(1, 41))
    a_topic(context, 1, [1, 2, 3])
    error, message = problem(context, a_move(list(range(4, 34))))
    assert error is Errors.INVALID_REPLICA_ASSIGNMENT and "33 replicas together" in message
    assert problem(context, a_move(list(range(1, 41))))[0] is Errors.INVALID_REPLICA_ASSIGNMENT
    assert len(records(context, ask(context, a_move(list(range(4, 33))), version=1))) == 1


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ([], "includes an empty replica list."),
        ([1, 9], "includes broker 9, but no such broker is registered."),
        ([-1, 1], "includes broker -1, but no such broker is registered."),
        ([2, 1, 2], "includes the broker 2 more than once."),
        ([9] * 100_000, "includes broker 9, but no such broker is registered."),
    ],
)
def test_a_move_goes_to_registered_brokers_each_once(target: list[int], message: str) -> None:
    context = a_cluster()
    a_topic(context, 1, [1, 2, 3])
    expected = (Errors.INVALID_REPLICA_ASSIGNMENT, f"The manual partition assignment {message}")
    assert problem(context, a_move(target)) == expected


def test_a_move_that_would_leave_nobody_in_sync_is_not_cancelled() -> None:
    context = a_cluster((1, 2, 3, 4))
    a_topic(context, 1, [1, 2])
    take_effect(context, ask(context, a_move([3, 4]), version=1))
    state = context.image.partition(TOPIC, 0)
    assert (state.adding_replicas, state.removing_replicas) == ((3, 4), (1, 2))
    row = context.image.table.row_of(TOPIC, 0)
    context.image.table.write_row(row, {"isr__pi": [context.image.brokers.row(3)]})
    expected = (
        Errors.INVALID_REPLICA_ASSIGNMENT,
        "Unable to revert partition assignment for topic-1:0 because it would require an unclean leader election.",
    )
    assert problem(context, a_move(None)) == expected


@pytest.mark.parametrize(
    ("target", "kept", "forgotten"),
    [
        # In Kafka's way broker 3 is waited for in an ISR without it: the move never ends.
        ([2, 1], ([2, 1, 3], [3], [3]), ([2, 1], [], [])),
        # In Kafka's way the replica on broker 1 goes in the end, though it is asked for.
        ([3, 2, 1], ([3, 2, 1], [3], [1]), ([3, 2, 1], [3], [])),
        # Broker 3 is still added, besides broker 4; in Kafka's way it stays where the move is cancelled.
        ([3, 4], ([3, 4, 1, 2], [4], [1, 2]), ([3, 4, 1, 2], [3, 4], [1, 2])),
    ],
)
def test_a_move_forgets_the_one_that_it_replaces(target: list[int], kept: Any, forgotten: Any) -> None:
    """From brokers 1 and 2 to 3 and 2, which replicas of broker 3 have not reached yet."""
    for way, expected in ((frozenset({EARLIER_MOVES}), kept), (frozenset[str](), forgotten)):
        context = a_cluster((1, 2, 3, 4), kafka_way=way)
        a_topic(context, 1, [1, 2])
        take_effect(context, ask(context, a_move([3, 2]), version=1))
        take_effect(context, ask(context, a_move(target), version=1))
        state = context.image.partition(TOPIC, 0)
        assert ([*state.replicas], [*state.adding_replicas], [*state.removing_replicas]) == expected


# Directories.


def test_a_directory_that_nobody_registered_is_taken_and_its_name_is_no_state() -> None:
    context = a_cluster()
    a_topic(context, 2, [1, 2, 3])
    image = context.image
    image.keep_journal()
    image.begin(image.end_offset)
    before, begin = image.copy(), image.end_offset
    decision = ask(context, a_place(uuid(77), [0, 1]), version=0)
    assert image == before
    first, _, third, _ = records(context, decision)
    assert first.directories == [uuid(77), uuid(1002), uuid(1003)] and first.isr is None
    assert third.isr == [2, 3] and third.leader == 2  # Offline there: out of the ISR.
    take_effect(context, decision)
    image.revert_to(begin)
    assert image == before
    again = ask(context, a_place(uuid(78), [0]), version=0)
    assert records(context, again)[0].directories == [uuid(78), uuid(1002), uuid(1003)]


def test_a_directory_without_a_sound_partition_is_not_named() -> None:
    context = a_cluster()
    a_topic(context, 1, [2, 3])
    count = len(context.image.directories)
    assert codes_of(ask(context, a_place(uuid(77)), version=0)) == [Errors.NOT_LEADER_OR_FOLLOWER]
    assert len(context.image.directories) == count


# Permissions.


@pytest.mark.parametrize(
    ("request_", "version", "partitions"),
    [
        (an_isr([1]), 3, 0),
        (an_election(0, 1), 2, 2),
        (an_election(0, 1), 0, 2),
        (a_move([1], [2]), 1, 2),
        (a_place(uuid(1001)), 0, 0),
    ],
)
def test_who_is_not_authorized_is_refused(request_: Message, version: int, partitions: int) -> None:
    context = a_cluster(has_authorizer=True)
    a_topic(context, 2, [1, 2, 3], isr=[1])
    decision = ask(context, request_, version=version)
    refused = Errors.CLUSTER_AUTHORIZATION_FAILED
    response: Any = decision.response
    assert not decision.records and codes_of(decision) == [refused] * partitions
    # Version 0 of ElectLeaders has no error at the top, and cannot be written with one.
    assert response.error_code == (refused if (partitions, version) != (2, 0) else Errors.NONE)
    kcore.to_json(response, version)


def test_who_may_not_describe_the_cluster_learns_nothing_of_its_moves() -> None:
    context = a_cluster(has_authorizer=True)
    a_topic(context, 2, [1, 2, 3])
    response: Any = ask(context, a_list(0, 1), version=0).response
    assert response.error_code == Errors.CLUSTER_AUTHORIZATION_FAILED
    assert [each.replicas for each in response.topics[0].partitions] == [[], []]


def test_a_broker_that_is_another_incarnation_alters_nothing() -> None:
    context = a_cluster()
    a_topic(context, 1, [1, 2, 3])
    put(context, RegisterBrokerRecord(broker_id=1, incarnation_id=uuid(9), broker_epoch=500, fenced=False))
    assert error_of(ask(context, an_isr([1]), version=3)) is Errors.STALE_BROKER_EPOCH
    assert error_of(ask(context, a_place(uuid(1001)), version=0)) is Errors.STALE_BROKER_EPOCH
