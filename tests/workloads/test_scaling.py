"""A scaled cluster has the distributions of the original: topic sizes, factors, racks, leaders, ISRs, live brokers."""

from collections import Counter

import numpy as np
import pytest

from cases import DATA
from kcore.errors import TableError
from kcore.measure.workloads.generate import generate, scramble
from kcore.measure.workloads.scaling import scaled
from kcore.metadata.table.partition_table import PartitionTable

DUMP = (DATA / "samples" / "zk39-scenario" / "2-broker3-killed.zk.txt").read_text()
CLUSTER = PartitionTable.from_zookeeper_dump(DUMP)


def uneven(seed: int = 1) -> PartitionTable:
    """A cluster with three racks, topics of many sizes and two replication factors, a history, and a lost broker."""
    table = generate(600, 9, 3, 6, seed, racks=3)
    for topic, size in enumerate([1, 2, 5, 20, 40, 80]):
        table.add_topic(f"other-{topic}", [[(each + slot * 4) % 9 for slot in range(2)] for each in range(size)])
    scramble(table, seed)
    table.brokers.set_gone(4)
    table.remove_topic("topic-00003")  # Its rows are free.
    return table


def shares(values: list[object]) -> dict[object, float]:
    return {key: count / len(values) for key, count in Counter(values).items()}


def distributions(table: PartitionTable) -> dict[str, dict[object, float]]:
    """The share of partitions or brokers by each property."""
    states = [*table]
    rack_of = dict(zip(table.brokers.ids.tolist(), table.brokers.racks, strict=True))
    sizes = Counter(state.topic for state in states)
    return {
        "topic size": shares([sizes[state.topic] for state in states]),
        "replication factor": shares([len(state.replicas) for state in states]),
        "racks of replicas": shares([tuple(rack_of[each] for each in state.replicas) for state in states]),
        "leader": shares([(*state.replicas, -1).index(state.leader) for state in states]),
        "rack of leader": shares([rack_of.get(state.leader) for state in states]),
        "isr": shares([tuple(state.replicas.index(each) for each in state.isr) for state in states]),
        "epochs": shares([(state.leader_epoch, state.partition_epoch) for state in states]),
        "live": shares(table.brokers.live.tolist()),
        "racks": shares(list(table.brokers.racks)),
    }


@pytest.mark.parametrize(("copies", "brokers"), [(1, 9), (3, 9), (2, 18), (5, 27)])
def test_whole_copies_have_exactly_the_same_distributions(copies: int, brokers: int) -> None:
    table = uneven()
    more = scaled(table, copies * table.partition_count, brokers, seed=1)
    assert (more.partition_count, len(more.brokers)) == (copies * table.partition_count, brokers)
    assert more.topics.count == copies * table.topics.count
    before, after = distributions(table), distributions(more)
    for name in before:
        assert after[name] == pytest.approx(before[name]), name


@pytest.mark.parametrize("partitions", [6_000, 6_001, 10_123])
def test_other_sizes_have_nearly_the_same_distributions(partitions: int) -> None:
    table = uneven()
    more = scaled(table, partitions, 10, seed=3)
    assert more.partition_count == len(more) == partitions
    before, after = distributions(table), distributions(more)
    for name in before.keys() - {"live", "racks"}:
        keys = before[name].keys() | after[name].keys()
        distance = sum(abs(before[name].get(key, 0) - after[name].get(key, 0)) for key in keys) / 2
        assert distance < 0.1, name


@pytest.mark.parametrize("partitions", [1, 7, 100, 300])
def test_fewer_partitions_are_whole_topics_and_at_most_one_part(partitions: int) -> None:
    table = uneven()
    sizes = Counter(state.topic for state in table)
    drawn = []
    for seed in range(4):
        fewer = scaled(table, partitions, 9, seed)
        found = Counter(state.topic for state in fewer)
        assert sum(found.values()) == partitions and sum(found[name] != sizes[name] for name in found) <= 1
        for state in fewer:
            assert state == table.state(table.row_of(state.topic, state.partition))
        drawn.append(sorted(found.items()))
    assert drawn[0] != drawn[1] or drawn[1] != drawn[2] or drawn[2] != drawn[3]


def test_the_seed_decides() -> None:
    table = uneven()
    assert [*scaled(table, 777, 11, 5)] == [*scaled(table, 777, 11, 5)] != [*scaled(table, 777, 11, 6)]


def test_at_its_own_size_a_cluster_is_copied() -> None:
    copy = scaled(CLUSTER, 4, 3, 1)
    assert copy is not CLUSTER and [*copy] == [*CLUSTER]


def test_new_brokers_and_topics() -> None:
    more = scaled(CLUSTER, 10, 7, 1)
    assert more.brokers.ids.tolist() == [1, 2, 3, 4, 5, 6, 7]
    assert more.brokers.live.tolist() == [True, True, False, True, True, False, True]
    assert len(set(more.topics.names)) == len(set(more.topics.ids)) == more.topics.count
    replicas = np.sort(more.replicas__ps, axis=1)
    assert ((replicas[:, 1:] != replicas[:, :-1]) | (replicas[:, 1:] < 0)).all()


def test_fewer_brokers_than_the_cluster_has() -> None:
    with pytest.raises(TableError, match="the cluster has 3 brokers: 2 are too few"):
        scaled(CLUSTER, 4, 2, 1)
