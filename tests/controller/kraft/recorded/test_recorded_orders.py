"""Facts from recorded stories of real controllers: orders of hash tables, and what Kafka does of a refused request."""

import pytest

from controller.kraft.broker_clusters import (
    BEGIN_MS,
    SESSION_MS,
    a_cluster,
    a_topic,
    ask,
    changes_of,
    look,
    records_of,
    take_effect,
)
from controller.kraft.contexts import fenced_now
from kcore.controller.kraft.brokers.heartbeats import ContactTable
from kcore.controller.kraft.departures import (
    FENCES_AFTER_A_PAUSE,
    FENCES_ONE_BY_ONE,
    KAFKA_WAY,
    REFUSED_PARTITIONS_STAY,
)
from kcore.metadata.table.partition_values import PartitionCreations
from kcore.protocol_errors import Errors
from kcore.schema.metadata_records_brokers import BrokerRegistrationChangeRecord
from kcore.schema.partitions import CreatePartitionsRequest, CreatePartitionsTopic


def order_of(table: ContactTable) -> list[tuple[int, int]]:
    found = []
    while (first := table.remove_first(1)) is not None:
        found.append(first)
    return found


@pytest.mark.parametrize(
    ("release", "fenced"),
    [
        ("4.3.1", [(5, 21), (4, 19)]),
        ("4.1.2", [(4, 19), (0, 11), (1, 13), (3, 17)]),
        ("4.1.2", [(104, 71), (7, 104), (100, 11), (102, 15), (103, 17), (105, 21)]),
    ],
)
def test_sessions_end_in_the_order_of_kafkas_table(release: str, fenced: list[tuple[int, int]]) -> None:
    """As real controllers fenced them: an incarnation has another hash code in 4.1.2 than in 4.3.1."""
    for given in (fenced, sorted(fenced)):
        table = ContactTable(release)
        for broker_id, epoch in given:
            table.put(broker_id, epoch, 0)
        assert order_of(table) == fenced


def test_the_table_grows_with_incarnations_and_never_shrinks() -> None:
    """A real 4.3.1 controller fenced these in this order once 12 incarnations had sent a heartbeat."""
    fenced = [(101, 14), (3, 53), (102, 57), (7, 61)]
    table = ContactTable("4.3.1")
    for number in range(8):
        table.put(77, 1000 + number, 5)
    for broker_id, epoch in fenced:
        table.put(broker_id, epoch, 0)
    assert order_of(table) == fenced
    small = ContactTable("4.3.1")
    for broker_id, epoch in fenced:
        small.put(broker_id, epoch, 0)
    assert order_of(small) == [*fenced[1:], fenced[0]]


def test_after_a_failover_sessions_begin_in_the_order_of_kafkas_table_of_brokers() -> None:
    """As a real controller did: brokers 4@18 and 3@17 share a bucket, and 4 came first."""
    context = a_cluster((1, 2, 3, 4, 7), release="3.9.1", level=21, kafka_way=KAFKA_WAY)
    context.activate(BEGIN_MS)
    fenced = []
    while (decision := look(context, BEGIN_MS + SESSION_MS + 1)) is not None:
        take_effect(context, decision, BEGIN_MS + SESSION_MS + 1)
        [record] = records_of(decision)
        assert isinstance(record, BrokerRegistrationChangeRecord)
        fenced.append(record.broker_id)
    assert fenced == [2, 7, 4, 1, 3], "all sent heartbeats at the same time"


@pytest.mark.parametrize(("way", "stay"), [(frozenset(), 0), (frozenset({REFUSED_PARTITIONS_STAY}), 1)])
def test_partitions_of_a_refused_topic_are_created_in_kafkas_way_alone(way: frozenset[str], stay: int) -> None:
    """Broker 2 told another leader that it shuts down: of two new partitions, one on each broker, one has no leader."""
    context = a_cluster((1, 2), kafka_way=way)
    a_topic(context, 1, [1])
    context.image.brokers.set_shutting_down(2)
    for _ in range(20):  # Until the dice begin with the broker that may lead.
        dice = context.random.state
        request = CreatePartitionsRequest(
            topics=[CreatePartitionsTopic(name="topic-1", count=3, assignments=None)], timeout_ms=1000
        )
        decision = ask(context, request, version=3)
        [result] = decision.response.results  # type: ignore[union-attr]
        assert result.error_code in (Errors.INVALID_REPLICATION_FACTOR, Errors.NONE)
        made = [each for each in decision.records if isinstance(each, PartitionCreations)]
        if result.error_code and (made or not way):
            break
        assert dice != context.random.state, "another try"
    assert result.error_code == Errors.INVALID_REPLICATION_FACTOR
    assert sum(len(each.partitions) for each in made) == stay


def test_after_a_pause_nobody_is_fenced_but_in_kafkas_way() -> None:
    for names in ((), (FENCES_AFTER_A_PAUSE,), (FENCES_AFTER_A_PAUSE, FENCES_ONE_BY_ONE)):
        way = frozenset[str](names)
        context = a_cluster((1,), kafka_way=way)
        decision = fenced_now(context, BEGIN_MS + 2 * SESSION_MS)
        assert (decision is not None) == bool(way)
        assert decision is None or not changes_of(decision)
