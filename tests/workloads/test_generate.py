"""Generated clusters: Kafka's placement, the same for the same seed, and mixed states."""

from collections import Counter

import numpy as np
import pytest

from kcore.errors import PlacementError, TableError
from kcore.measure.workloads.generate import generate, scramble
from kcore.metadata.table.column_list import PARTITION_COLUMNS
from kcore.metadata.table.partition_table import PartitionTable


def columns(table: PartitionTable) -> dict[str, list]:
    return {column.name: getattr(table, column.name).tolist() for column in PARTITION_COLUMNS}


def test_sizes() -> None:
    table = generate(1003, 12, 3, 10, seed=1)
    assert (len(table), len(table.brokers), len(table.topics)) == (1003, 12, 10)
    assert table.replicas__ps.shape == (1003, 3)
    assert [len(table.rows_of_topic(name)) for name in table.topics.names] == [101] * 3 + [100] * 7
    assert table.row_of("topic-00002", 100) == 302
    assert table.topics.names[9] == "topic-00009"
    assert table.partition_index__p[:102].tolist() == [*range(101), 0]


def test_a_healthy_cluster() -> None:
    table = generate(500, 10, 3, 5, seed=1)
    np.testing.assert_array_equal(table.isr__pi, table.replicas__ps)
    np.testing.assert_array_equal(table.leader__p, table.replicas__ps[:, 0])
    assert table.brokers.live.all()
    assert not table.brokers.shutting_down.any()
    assert (np.diff(table.brokers.epochs) > 0).all()
    assert (table.partition_epoch__p >= table.leader_epoch__p).all()
    assert len(set(table.leader_epoch__p.tolist())) > 5
    assert (table.controller_epoch__p > 0).all()
    assert len({endpoint.host for [endpoint] in table.brokers.endpoints}) == 10


def test_topic_ids_are_random_uuids() -> None:
    ids = generate(300, 3, 1, 300, seed=4).topics.ids
    assert len(set(ids)) == 300
    assert {each[6] >> 4 for each in ids} == {4}
    assert {each[8] >> 6 for each in ids} == {2}
    assert not any(str(each).startswith("-") for each in ids)


def test_the_seed_decides() -> None:
    first, again, other = (generate(400, 9, 3, 7, seed=seed) for seed in (3, 3, 4))
    assert columns(first) == columns(again)
    assert first.topics.ids == again.topics.ids
    assert first.topics.ids != other.topics.ids
    for name in ("replicas__ps", "leader_epoch__p", "partition_epoch__p"):
        assert columns(first)[name] != columns(other)[name], name


def placed_as_kafka_does(brokers: int, count: int, replicas: int, start: int, shift: int) -> list[list[int]]:
    """AdminUtils without racks: leaders go round from `start`; each round, followers sit one further away."""
    rows = []
    for partition in range(count):
        if partition and partition % brokers == 0:
            shift += 1
        first = (start + partition) % brokers
        followers = [(first + 1 + (shift + each) % (brokers - 1)) % brokers for each in range(replicas - 1)]
        rows.append([first, *followers])
    return rows


def test_every_topic_is_placed_as_kafka_does() -> None:
    table = generate(60, 6, 3, 4, seed=8)
    drawn = set()
    for name in table.topics.names:
        rows = table.replicas__ps[table.rows_of_topic(name)].tolist()
        start = rows[0][0]
        [shift] = [each for each in range(5) if placed_as_kafka_does(6, len(rows), 3, start, each) == rows]
        drawn.add((start, shift))
    assert len(drawn) > 1


@pytest.mark.parametrize("racks", [3, ["r-b", "r-a", "r-a", "r-c", "r-b", "r-a", "r-c", "r-b", "r-c"]])
def test_racks(racks: object) -> None:
    """One replica in every rack, and a fair share of leaders for each broker."""
    table = generate(900, 9, 3, 10, seed=2, racks=racks)
    names = np.array(table.brokers.racks)
    assert len(set(names)) == 3
    assert all(len(set(row)) == 3 for row in names[table.replicas__ps].tolist())
    leaders = Counter(table.leader__p.tolist())
    assert set(leaders.values()) == {100}


def test_one_broker() -> None:
    table = generate(5, 1, 1, 2, seed=0)
    assert table.replicas__ps.tolist() == [[0]] * 5


@pytest.mark.parametrize(
    ("sizes", "racks", "error", "fault"),
    [
        ((10, 0, 1, 1), None, TableError, "brokers must be from 1 to 32767, not 0"),
        ((10, 32_768, 1, 1), None, TableError, "brokers must be"),
        ((10, 3, 4, 1), None, PlacementError, "replication factor 4 is larger"),
        ((10, 3, 0, 1), None, TableError, "replication_factor must be"),
        ((10, 99, 33, 1), None, TableError, "replication_factor must be"),
        ((10, 3, 1, 0), None, TableError, "topics must be"),
        ((10, 3, 1, 11), None, TableError, "10 partitions are too few for 11 topics"),
        ((10, 3, 1, 1), 4, TableError, "racks must be from 1 to 3, not 4"),
        ((10, 3, 1, 1), 0, TableError, "racks must be"),
        ((10, 3, 1, 1), ["a"], PlacementError, "1 racks for 3 brokers"),
    ],
)
def test_sizes_that_make_no_cluster(sizes: tuple, racks: object, error: type[Exception], fault: str) -> None:
    with pytest.raises(error, match=fault):
        generate(*sizes, seed=1, racks=racks)


def test_mixed_states() -> None:
    table = generate(20_000, 20, 3, 200, seed=6)
    healthy = table.copy()
    scramble(table, seed=9)
    shares: Counter[str] = Counter()
    for row in range(len(table)):
        state = table.state(row)
        assert set(state.isr) <= set(state.replicas) and state.isr
        assert state.leader == -1 or state.leader in state.isr
        in_order = [broker for broker in state.replicas if broker in state.isr]
        shares["shrunk"] += len(state.isr) < 3
        shares["out of order"] += list(state.isr) != in_order
        shares["led by another"] += state.leader not in (in_order[0], -1)
        shares["leaderless"] += state.leader == -1
        assert state.leader != -1 or len(state.isr) == 1
    # By chance, some 38% of the shrunk fifth keep all members, and a sixth of the shuffled ISRs fall into order.
    for kind, low, high in [
        ("shrunk", 0.10, 0.22),
        ("out of order", 0.12, 0.20),
        ("led by another", 0.06, 0.11),
        ("leaderless", 0.006, 0.014),
    ]:
        assert low < shares[kind] / len(table) < high, kind
    np.testing.assert_array_equal(table.leader_epoch__p, healthy.leader_epoch__p + 1)
    np.testing.assert_array_equal(table.partition_epoch__p, healthy.partition_epoch__p + 1)
    np.testing.assert_array_equal(table.replicas__ps, healthy.replicas__ps)


def test_mixed_states_are_seeded() -> None:
    first, again, other = (generate(300, 5, 3, 3, seed=1) for _ in range(3))
    for table, seed in ((first, 1), (again, 1), (other, 2)):
        scramble(table, seed)
    assert columns(first) == columns(again)
    assert columns(first) != columns(other)


def test_free_rows_stay_free() -> None:
    table = generate(40, 5, 3, 4, seed=1)
    table.remove_topic("topic-00001")
    scramble(table, seed=1)
    assert (table.leader__p[10:20] == -1).all()
    assert (table.isr__pi[10:20] == -1).all()
