"""Queries of a partition table: partitions as objects, unhealthy ones, counts by broker, text."""

import numpy as np
import pytest

from kcore.constants import NO_LEADER
from kcore.errors import TableError
from kcore.measure.workloads.generate import generate, scramble
from kcore.metadata.table.broker_table import BrokerTable
from kcore.metadata.table.partition_table import PartitionTable
from kcore.metadata.table.topic_table import TopicTable


def small() -> PartitionTable:
    """Broker 4 is down: it leads a-0, a-1 has no leader, a-2 lacks a replica in its ISR, b-0 is healthy."""
    brokers = BrokerTable.from_arrays([1, 2, 3, 4], live=[True, True, True, False])
    return PartitionTable.from_arrays(
        [[4, 1], [1, 2], [2, 3], [3, 1]],
        isr=[[4, 1], [1, -1], [3, -1], [3, 1]],
        leaders=[4, -1, 3, 3],
        topics=TopicTable(["a", "b"]),
        topic_rows=[0, 0, 0, 1],
        brokers=brokers,
    )


def large() -> PartitionTable:
    """Mixed states, brokers that are down, moves, and free rows between the others."""
    table = generate(partitions=500, brokers=9, replication_factor=3, topics=25, seed=3)
    scramble(table, 4)
    for broker in (2, 5):
        table.brokers.set_gone(broker)
    table.remove_topic("topic-00007")
    rows = table.rows_of_topic("topic-00003")[:3]
    replicas = np.sort(table.brokers.ids[table.replicas__ps[rows]])
    others = [[next(b for b in range(9) if b not in each), *each] for each in replicas.tolist()]
    table.set_replicas(rows, others, adding={int(row): each[:1] for row, each in zip(rows, others, strict=True)})
    return table


def rows_where(table: PartitionTable, is_meant: object) -> list[int]:
    used = np.flatnonzero(table.topic_row__p >= 0).tolist()
    return [row for row in used if is_meant(table.state(row))]  # type: ignore[operator]


def test_iteration_gives_every_partition_once() -> None:
    table = large()
    assert list(table) == [table.state(row) for row in np.flatnonzero(table.topic_row__p >= 0).tolist()]
    assert len(list(table)) == table.partition_count < len(table)
    first, second = small().states([3, 0])
    assert (first.topic, first.partition, first.leader) == ("b", 0, 3)
    assert second.replicas == (4, 1)
    assert list(small().states([])) == []
    with pytest.raises(TableError, match="row 140 is free"):
        list(table.states([0, 140]))


def test_partitions_that_need_attention() -> None:
    table = small()
    assert table.offline().tolist() == [0, 1]
    assert table.under_replicated().tolist() == [1, 2]
    assert table.under_min_isr(2).tolist() == [1, 2]
    assert table.under_min_isr(3).tolist() == [1, 2]  # Two replicas cannot have three in sync.
    assert table.under_min_isr([1, 1, 2, 2]).tolist() == [2]
    assert table.at_min_isr(2).tolist() == [0, 3]
    assert table.not_led_by_preferred().tolist() == [1, 2]
    with pytest.raises(TableError, match="min_isr must be 1 or more"):
        table.under_min_isr(0)


def test_counts_by_broker() -> None:
    table = small()
    assert table.leaders_by_broker() == {1: 0, 2: 0, 3: 2, 4: 1}
    assert table.replicas_by_broker() == {1: 3, 2: 2, 3: 2, 4: 1}
    assert table.preferred_imbalance() == {1: 1.0, 2: 1.0, 3: 0.0, 4: 0.0}


def test_as_one_would_write_it_for_each_partition() -> None:
    table = large()
    live = set(table.brokers)
    assert table.offline().tolist() == rows_where(table, lambda p: p.leader not in live)
    assert table.under_replicated().tolist() == rows_where(
        table, lambda p: len(p.isr) < len(p.replicas) - len(p.adding)
    )
    assert table.under_min_isr(2).tolist() == rows_where(table, lambda p: len(p.isr) < 2)
    assert table.not_led_by_preferred().tolist() == rows_where(table, lambda p: p.leader != p.replicas[0])
    leaders = [p.leader for p in table]
    assert table.leaders_by_broker() == {broker: leaders.count(broker) for broker in range(9)}
    for broker, imbalance in table.preferred_imbalance().items():
        preferred = [p for p in table if p.replicas[0] == broker]
        assert imbalance == sum(p.leader != broker for p in preferred) / len(preferred)
    assert NO_LEADER in leaders


def test_an_empty_table_answers_too() -> None:
    table = PartitionTable.from_arrays(np.empty((0, 0), np.int32), topics=TopicTable([]), topic_rows=[])
    assert list(table) == table.offline().tolist() == table.under_replicated().tolist() == []
    assert table.not_led_by_preferred().tolist() == table.under_min_isr(1).tolist() == []
    assert table.preferred_imbalance() == {} == table.leaders_by_broker()
    assert repr(table) == "<PartitionTable: 0 partitions of 0 topics, 0 brokers, 0 live>"


def test_repr_has_counts_and_print_the_first_partitions() -> None:
    assert repr(small()) == (
        "<PartitionTable: 4 partitions of 2 topics, 4 brokers, 3 live, 2 under-replicated, 2 offline>"
    )
    head, *lines = str(small()).splitlines()
    assert head == repr(small())
    assert lines[0] == "partition  leader  replicas  isr  leader epoch  partition epoch"
    assert lines[1].split() == ["a-0", "4", "4,1", "4,1", "0", "0"]
    assert lines[2].split()[1] == "none"
    many = str(generate(partitions=1000, brokers=3, replication_factor=2, topics=1, seed=1))
    assert many.splitlines()[-1] == "... and 990 more" and len(many) < 2000
