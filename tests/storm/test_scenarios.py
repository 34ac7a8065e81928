"""Scenarios, as far as they need no controller."""

import numpy as np
import pytest

from kcore.errors import TargetError
from kcore.measure.hollow.isr import lacking
from kcore.measure.storm.kraft.kraft_storm import Sizes
from kcore.measure.storm.kraft.scenarios import ALL, BREAKS_CONTROLLER, LIMITS, NEEDS_OWN_QUORUM
from kcore.measure.storm.kraft.scenarios.directories import lost_of
from kcore.measure.storm.kraft.scenarios.limits import one_too_many
from kcore.measure.storm.kraft.scenarios.topics import MOST_RECORDS, check, requests_for
from kcore.measure.storm.moves import replaced
from kcore.metadata.table.broker_table import BrokerTable
from kcore.metadata.table.partition_table import PartitionTable
from kcore.protocol_errors import Errors
from kcore.types import Uuid


def test_every_scenario_says_what_it_does() -> None:
    assert ALL.keys() >= NEEDS_OWN_QUORUM and LIMITS.keys() >= BREAKS_CONTROLLER
    for scenario in ALL.values():
        assert scenario.__doc__ and scenario.__doc__.endswith((".", ".\n    "))


@pytest.mark.parametrize("topics", [[("a", 1)], [("a", 9_899)], [("a", 9_898), ("b", 1)], [("t", 100)] * 250])
def test_create_requests_hold_all_topics_in_order_and_few_enough_records(topics: list[tuple[str, int]]) -> None:
    requests = requests_for(topics, 3)
    records = [sum(1 + topic.num_partitions for topic in request.topics) for request in requests]
    assert max(records) <= MOST_RECORDS
    assert [(topic.name, topic.num_partitions) for each in requests for topic in each.topics] == topics
    assert all(topic.replication_factor == 3 for request in requests for topic in request.topics)
    # No request has room for the first topic of the next.
    firsts = [1 + request.topics[0].num_partitions for request in requests[1:]]
    assert all(count + first > MOST_RECORDS for count, first in zip(records, firsts, strict=False))


def test_no_topics_need_no_request() -> None:
    assert requests_for([], 3) == []


def test_a_replica_is_replaced_in_its_place_by_each_of_the_others_in_turn() -> None:
    found = [replaced([1, 2, 3], 2, [1, 2, 3, 4, 5], turn) for turn in range(3)]
    assert found == [[1, 4, 3], [1, 5, 3], [1, 4, 3]]


def test_a_replica_of_all_brokers_cannot_be_replaced() -> None:
    with pytest.raises(TargetError, match=r"no broker is left to move a partition with replicas \[1, 2\] to"):
        replaced([1, 2], 1, [1, 2], 0)


def test_error_codes_are_named_unless_they_are_fine() -> None:
    check("Request", [0, 36], {Errors.TOPIC_ALREADY_EXISTS})
    with pytest.raises(TargetError, match="Request was refused: POLICY_VIOLATION, TOPIC_ALREADY_EXISTS"):
        check("Request", [0, 36, 44])


def a_table(leaders: list[int], isrs: list[list[int]]) -> PartitionTable:
    replicas = np.array([[10, 20, 30]] * len(leaders))
    isr = np.array([[*each, *[-1] * (3 - len(each))] for each in isrs])
    ids = np.array([10, 20, 30, 40])
    return PartitionTable.from_arrays(
        replicas, isr=isr, leaders=np.array(leaders), brokers=BrokerTable.from_arrays(ids)
    )


def test_lacking_are_partitions_with_a_leader_whose_isr_lacks_a_replica_of_those_brokers() -> None:
    table = a_table([10, 10, -1, 20], [[10, 20, 30], [10, 30], [], [20]])
    assert lacking(table, [10, 20, 30]).tolist() == [1, 3]
    assert lacking(table, [20]).tolist() == [1]
    assert lacking(table, [10]).tolist() == [3]
    assert lacking(table, [40]).tolist() == []


def test_one_too_many_tells_what_was_answered_and_done_and_where_there_is_no_limit() -> None:
    answers = [(0, None)] * 10_000 + [(-1, None)]
    text = one_too_many("topics in one request", answers, 10_000, "deleted")
    assert text == "10,001 topics in one request: 10,000 x done, 1 x UNKNOWN_SERVER_ERROR; 10,000 are deleted"
    whole = one_too_many("topics in one request", [(44, "Too many.")], 0, "deleted")
    assert whole == "10,001 topics in one request: POLICY_VIOLATION (Too many.); 0 are deleted"
    none = one_too_many("topics in one request", [(0, None)] * 10_001, 10_001, "deleted")
    assert none.endswith("10,001 x done; 10,001 are deleted: this controller does not have the limit")


@pytest.mark.parametrize(
    ("sizes", "count"),
    [
        (Sizes(), 500),
        (Sizes(lost_share=1.0), 1_000),
        (Sizes(lost_share=0.0001), 1),
        (Sizes(lost_replicas=100), 100),
        (Sizes(lost_replicas=1_001), 1_000),
    ],
)
def test_the_directory_to_be_lost_holds_the_share_or_the_number_from_all_over_the_replicas(
    sizes: Sizes, count: int
) -> None:
    partitions = [(Uuid(bytes(16)), index) for index in range(1_000)]
    lost = lost_of(partitions, sizes)
    assert len(set(lost)) == len(lost) == count and sorted(lost) == lost
    assert lost[-1][1] >= 1_000 - 1_000 // count
