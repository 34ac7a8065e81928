"""The partition table: its construction, its changes, and its errors."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from kcore.errors import TableError
from kcore.metadata.table.arrays import padded
from kcore.metadata.table.broker_table import BrokerTable
from kcore.metadata.table.changes import PartitionChanges
from kcore.metadata.table.column_list import PARTITION_COLUMNS
from kcore.metadata.table.partition_table import PartitionState, PartitionTable
from kcore.metadata.table.topic_table import TopicTable
from kcore.types import ZERO_UUID, Uuid
from reference import broker_index as reference

NEW = PartitionState("topic", 0, (), (), -1, 0, 0, 0, 0, (), ())


def small() -> PartitionTable:
    """Brokers 10, 20, 30 and 40; partitions a-0, a-1, b-0."""
    return PartitionTable.from_arrays(
        [[10, 20, 30], [20, 30, 10], [40, 10, -1]],
        isr=[[10, 20, 30], [30, 20, -1], [40, -1, -1]],
        leaders=[10, 30, -1],
        leader_epochs=[5, 6, 7],
        partition_epochs=[50, 60, 70],
        controller_epochs=[1, 2, 3],
        leader_recovery_states=[0, 0, 1],
        topics=TopicTable(["a", "b"]),
        topic_rows=[0, 0, 1],
        adding={0: [30]},
        removing={0: [10, 20]},
    )


def changes(rows: list[int], leaders: list[int], isrs: list[list[int]], epoch: int = 8) -> PartitionChanges:
    count = len(rows)
    return PartitionChanges(
        rows=np.array(rows, np.int32),
        leaders=np.array(leaders, np.int32),
        isr_offsets=np.cumsum([0, *map(len, isrs)]).astype(np.int32),
        isr=np.array([each for isr in isrs for each in isr], np.int32),
        leader_epochs=np.full(count, epoch, np.int32),
        partition_epochs=np.full(count, epoch * 10, np.int32),
        recovery=np.zeros(count, np.int8),
    )


def index_of(table: PartitionTable) -> list[list[int]]:
    return [table.index.rows(row).tolist() for row in range(len(table.brokers))]


def test_from_arrays() -> None:
    table = small()
    assert len(table) == 3
    assert table.brokers.ids.tolist() == [10, 20, 30, 40]
    assert [table.state(row) for row in range(3)] == [
        PartitionState("a", 0, (10, 20, 30), (10, 20, 30), 10, 5, 50, 1, 0, (30,), (10, 20)),
        PartitionState("a", 1, (20, 30, 10), (30, 20), 30, 6, 60, 2, 0, (), ()),
        PartitionState("b", 0, (40, 10), (40,), -1, 7, 70, 3, 1, (), ()),
    ]
    assert index_of(table) == [[0, 1, 2], [0, 1], [0, 1], [2]]
    assert (table.adding, table.removing) == ({0: (2,)}, {0: (0, 1)})
    assert table.isr__pi.tolist() == [[0, 1, 2], [2, 1, -1], [3, -1, -1]]


def test_columns_are_those_of_the_list() -> None:
    table = small()
    for column in PARTITION_COLUMNS:
        array = getattr(table, column.name)
        assert (array.dtype, len(array), array.flags.c_contiguous) == (column.dtype, 3, True)


def test_defaults() -> None:
    table = PartitionTable.from_arrays([[7, 3], [3, -1]])
    assert table.brokers.ids.tolist() == [3, 7]
    assert table.brokers.live.all()
    assert table.state(0) == NEW._replace(replicas=(7, 3), isr=(7, 3), leader=7)
    assert table.state(1) == NEW._replace(partition=1, replicas=(3,), isr=(3,), leader=3)
    assert not np.shares_memory(table.isr__pi, table.replicas__ps)


def test_large_broker_ids() -> None:
    table = PartitionTable.from_arrays([[2_000_000_000, 3], [3, -1]])
    assert table.brokers.ids.tolist() == [3, 2_000_000_000]
    assert table.state(0).leader == 2_000_000_000


def test_partitions_are_numbered_within_their_topic() -> None:
    table = PartitionTable.from_arrays([[1]] * 5, topics=TopicTable(["a", "b"]), topic_rows=[1, 0, 1, 1, 0])
    assert table.partition_index__p.tolist() == [0, 0, 1, 2, 1]


def test_an_empty_table() -> None:
    table = PartitionTable.from_arrays(np.empty((0, 3), np.int32))
    assert (len(table), len(table.brokers), table.rows_of_topic("topic").tolist()) == (0, 0, [])
    assert len(PartitionTable.from_arrays(np.empty((0, 0), np.int32)).copy()) == 0
    table.brokers.register(4, 1)
    assert table.add_partitions("topic", [[4]]).tolist() == [0]
    assert index_of(table) == [[0]]


def test_an_isr_may_have_members_that_are_not_replicas() -> None:
    table = PartitionTable.from_arrays([[1, 2]], isr=[[3, 1]], brokers=BrokerTable.from_arrays([1, 2, 3]))
    assert table.state(0).isr == (3, 1)
    assert table.index.rows(2).tolist() == []


@pytest.mark.parametrize(
    ("arguments", "fault"),
    [
        ({"replicas": [1, 2]}, "replicas must be a 2-D array"),
        ({"replicas": [[1.0, 2.0]]}, "replicas must be a 2-D array"),
        ({"replicas": [[1, 1]]}, r"replicas of row 0 names a broker twice: \[1, 1\]"),
        ({"replicas": [[1, 2], [-1, 1]]}, r"replicas of row 1 has a hole before its last broker: \[-1, 1\]"),
        ({"replicas": [[1], [-1]]}, "partition row 1 has no replicas"),
        ({"replicas": [[]]}, "partition row 0 has no replicas"),
        ({"replicas": [[-2]]}, "-2"),
        ({"replicas": [list(range(33))]}, "replicas is 33 wide; at most 32 fit"),
        ({"replicas": [[1, 9]], "brokers": BrokerTable.from_arrays([1])}, "unknown broker 9"),
        ({"replicas": [[1]], "isr": [[2]]}, "unknown broker 2"),
        ({"replicas": [[1]], "isr": [[1], [1]]}, "isr__pi is 2 long, not 1"),
        ({"replicas": [[1]], "isr": [[1, 1]]}, "isr of row 0 names a broker twice"),
        ({"replicas": [[1]], "isr": [[-1, 1]]}, "isr of row 0 has a hole"),
        ({"replicas": [[1]], "isr": [1]}, "isr must be a 2-D array"),
        ({"replicas": [[1]], "leaders": [1, 1]}, "leader__p is 2 long, not 1"),
        ({"replicas": [[1]], "leaders": [[1]]}, "leader__p must be 1-D int16 in C order, not 2-D int16"),
        ({"replicas": [[1]], "leaders": [-2]}, "unknown broker -2"),
        ({"replicas": [[1]], "leader_epochs": [-2]}, "leader_epoch of row 0 is -2"),
        ({"replicas": [[1]], "partition_epochs": [-2]}, "partition_epoch of row 0 is -2"),
        ({"replicas": [[1]], "controller_epochs": [2**31]}, "controller_epochs has values outside"),
        ({"replicas": [[1]], "leader_epochs": [0.5]}, "leader_epochs must be integers"),
        ({"replicas": [[1]], "leader_recovery_states": [2]}, "leader recovery state of row 0 is 2"),
        ({"replicas": [[1]], "topics": TopicTable(["a", "b"])}, "there are 2 topics"),
        ({"replicas": [[1]], "topics": TopicTable([])}, "there are 0 topics"),
        ({"replicas": [[1]], "topic_rows": [1]}, "topic row of row 0 is 1"),
        ({"replicas": [[1]], "topic_rows": [-1]}, "topic row of row 0 is -1"),
        ({"replicas": [[1], [1]], "partition_indexes": [4, 4]}, "partition 4 of topic row 0 is given twice"),
        ({"replicas": [[1], [1]], "partition_indexes": [0, 0]}, "partition 0 of topic row 0 is given twice"),
        ({"replicas": [[1]], "partition_indexes": [-1]}, "partition index of row 0 is -1"),
        ({"replicas": [[1]], "adding": {1: [1]}}, "row 1 is not among the rows"),
        ({"replicas": [[1]], "removing": {0: [2]}}, "unknown broker 2"),
    ],
)
def test_what_from_arrays_refuses(arguments: dict, fault: str) -> None:
    with pytest.raises(TableError, match=fault):
        PartitionTable.from_arrays(**arguments)


def test_columns_of_another_dtype_are_refused() -> None:
    columns = {column.name: getattr(small(), column.name) for column in PARTITION_COLUMNS}
    columns["leader__p"] = columns["leader__p"].astype(np.int32)
    with pytest.raises(TableError, match="leader__p must be 1-D int16 in C order, not 1-D int32"):
        PartitionTable(columns, TopicTable(["a", "b"]), BrokerTable.from_arrays([10, 20, 30, 40]))


def test_the_arrays_given_stay_the_callers() -> None:
    epochs = np.array([4], np.int32)
    table = PartitionTable.from_arrays([[1]], leader_epochs=epochs)
    table.apply(changes([0], [1], [[1]]), check_epochs=False)
    assert epochs.tolist() == [4]


def test_apply() -> None:
    table = small()
    table.apply(changes([0, 2], [20, -1], [[30, 20], [10]]), controller_epoch=9, check_epochs=False)
    assert [table.state(row) for row in range(3)] == [
        PartitionState("a", 0, (10, 20, 30), (30, 20), 20, 8, 80, 9, 0, (30,), (10, 20)),
        PartitionState("a", 1, (20, 30, 10), (30, 20), 30, 6, 60, 2, 0, (), ()),
        PartitionState("b", 0, (40, 10), (10,), -1, 8, 80, 9, 0, (), ()),
    ]
    assert table.isr__pi.tolist() == [[2, 1, -1], [2, 1, -1], [0, -1, -1]]
    assert index_of(table) == [[0, 1, 2], [0, 1], [0, 1], [2]]


def test_apply_keeps_the_controller_epoch_if_none_is_given() -> None:
    table = small()
    table.apply(changes([1], [20], [[20]]), check_epochs=False)
    assert table.controller_epoch__p.tolist() == [1, 2, 3]


def test_apply_widens_the_isr() -> None:
    table = small()
    table.apply(changes([1], [20], [[40, 30, 20, 10]]), check_epochs=False)
    assert table.isr__pi.tolist() == [[0, 1, 2, -1], [3, 2, 1, 0], [3, -1, -1, -1]]
    assert table.isr__pi.flags.c_contiguous


def test_apply_of_nothing() -> None:
    table = small()
    table.apply(changes([], [], []), controller_epoch=9)
    assert table.controller_epoch__p.tolist() == [1, 2, 3]


@pytest.mark.parametrize(
    ("broken", "fault"),
    [
        ({"rows": [3]}, "rows of row 0 is 3"),
        ({"rows": [-1]}, "rows of row 0 is -1"),
        ({"rows": [0, 1]}, "leaders has shape"),
        ({"rows": [0.0]}, "rows must be integers"),
        ({"leaders": [11]}, "unknown broker 11"),
        ({"leaders": [-2]}, "unknown broker -2"),
        ({"isr": [10, 11]}, "unknown broker 11"),
        ({"isr": [10, 10]}, "isr of row 0 names a broker twice"),
        ({"isr": [-1, 10]}, "isr of row 0 has a hole"),
        ({"isr_offsets": [0, 1]}, "offsets must rise"),
        ({"isr_offsets": [1, 2]}, "offsets must rise"),
        ({"isr_offsets": [0, 3, 2]}, "offsets must rise"),
        ({"isr_offsets": []}, "offsets must rise"),
        ({"isr_offsets": [0, 1, 2]}, "2 ISRs for 1 rows"),
        ({"isr": range(33), "isr_offsets": [0, 33]}, "row 0 has 33 brokers; at most 32 fit"),
        ({"leader_epochs": [-2]}, "leader epoch of row 0 is -2"),
        ({"partition_epochs": [2**31]}, "partition epochs has values outside"),
        ({"recovery": [2]}, "recovery state of row 0 is 2"),
    ],
)
def test_apply_refuses_and_changes_nothing(broken: dict, fault: str) -> None:
    table = small()
    given = replace(changes([1], [20], [[10, 20]]), **{name: np.array(values) for name, values in broken.items()})
    with pytest.raises(TableError, match=fault):
        table.apply(given, controller_epoch=9, check_epochs=False)
    assert [table.state(row) for row in range(3)] == [small().state(row) for row in range(3)]


def test_apply_refuses_rows_out_of_order() -> None:
    for rows in ([1, 0], [1, 1]):
        with pytest.raises(TableError, match="rows must ascend"):
            small().apply(changes(rows, [10, 10], [[10], [10]]))


def test_apply_refuses_a_controller_epoch_that_does_not_fit() -> None:
    table = small()
    with pytest.raises(TableError, match="controller epoch"):
        table.apply(changes([0], [20], [[20]]), controller_epoch=2**31, check_epochs=False)
    assert table.state(0) == small().state(0)


def test_a_reassignment_step_by_step() -> None:
    """b-0 moves from 40, 10 to 20, 30: first all four, then the targets alone."""
    table = small()
    table.set_replicas([2], [[20, 30, 40, 10]], adding={2: [20, 30]}, removing={2: [40, 10]})
    assert table.state(2) == PartitionState("b", 0, (20, 30, 40, 10), (40,), -1, 7, 70, 3, 1, (20, 30), (40, 10))
    assert index_of(table) == [[0, 1, 2], [0, 1, 2], [0, 1, 2], [2]]
    assert table.state(0) == small().state(0)
    table.set_replicas([2], [[20, 30]])
    assert table.state(2) == PartitionState("b", 0, (20, 30), (40,), -1, 7, 70, 3, 1, (), ())
    assert index_of(table) == [[0, 1], [0, 1, 2], [0, 1, 2], []]
    assert table.adding.keys() == table.removing.keys() == {0}


@pytest.mark.parametrize(
    ("rows", "replicas", "moves", "fault"),
    [
        ([3], [[10]], {}, "rows of row 0 is 3"),
        ([1, 0], [[10], [10]], {}, "rows must ascend"),
        ([1], [[10], [20]], {}, "replicas of 2 partitions, not of 1"),
        ([1], [[11]], {}, "unknown broker 11"),
        ([1], [[-1]], {}, "has no replicas"),
        ([1], [[10, 10]], {}, "names a broker twice"),
        ([1], [[10]], {0: [10]}, "row 0 is not among the rows"),
    ],
)
def test_a_reassignment_refused_changes_nothing(rows: list, replicas: list, moves: dict, fault: str) -> None:
    table = small()
    with pytest.raises(TableError, match=fault):
        table.set_replicas(rows, replicas, adding=moves)
    assert [table.state(row) for row in range(3)] == [small().state(row) for row in range(3)]
    assert index_of(table) == index_of(small())


def test_topics_come_grow_and_go() -> None:
    table = small()
    topic_id = Uuid(bytes(range(16)))
    assert table.add_topic("c", [[30, 40], [40, 30]], topic_id=topic_id, controller_epoch=4).tolist() == [3, 4]
    assert table.topics.ids[table.topics.row("c")] == topic_id
    assert table.state(4) == PartitionState("c", 1, (40, 30), (40, 30), 40, 0, 0, 4, 0, (), ())
    assert table.add_partitions("a", [[40, 30, 20, 10]]).tolist() == [5]
    assert table.state(5) == NEW._replace(
        topic="a", partition=2, replicas=(40, 30, 20, 10), isr=(40, 30, 20, 10), leader=40
    )
    assert table.rows_of_topic("a").tolist() == [0, 1, 5]
    table.remove_topic("a")
    assert index_of(table) == [[2], [], [3, 4], [2, 3, 4]]
    assert (table.adding, table.removing) == ({}, {})
    for row in (0, 1, 5):
        assert table.replicas__ps[row].tolist() == table.isr__pi[row].tolist() == [-1] * 4
        assert table.topic_row__p[row] == table.leader__p[row] == -1
        with pytest.raises(TableError, match=f"row {row} is free"):
            table.state(row)
        with pytest.raises(TableError, match=f"row {row} is free"):
            table.apply(changes([row], [10], [[10]]))
    assert table.add_topic("d", [[10], [20]]).tolist() == [0, 1]
    assert table.add_topic("e", [[10], [20]]).tolist() == [6, 7]
    assert table.add_topic("f", [[30]]).tolist() == [5]
    assert index_of(table) == [[0, 2, 6], [1, 7], [3, 4, 5], [2, 3, 4]]


@pytest.mark.parametrize(
    ("act", "fault"),
    [
        (lambda table: table.add_topic("a", [[10]]), "topic 'a' exists"),
        (lambda table: table.add_topic("c", [[11]]), "unknown broker 11"),
        (lambda table: table.add_topic("c", np.empty((0, 2), np.int32)), "at least one"),
        (lambda table: table.add_topic("c", [10]), "2-D"),
        (lambda table: table.add_partitions("c", [[10]]), "unknown topic 'c'"),
        (lambda table: table.add_partitions("a", [[10, 10]]), "names a broker twice"),
        (lambda table: table.remove_topic("c"), "unknown topic 'c'"),
        (lambda table: table.remove_topics(["a", "c"]), "unknown topic 'c'"),
        (lambda table: table.rows_of_topic("c"), "unknown topic 'c'"),
        (lambda table: table.row_of("c", 0), "unknown topic 'c'"),
        (lambda table: table.row_of("a", 2), "unknown partition a-2"),
        (lambda table: table.row_of("a", -1), "unknown partition a--1"),
        (lambda table: table.state(3), "rows of row 0 is 3"),
    ],
)
def test_what_is_refused_of_topics(act: object, fault: str) -> None:
    table = small()
    with pytest.raises(TableError, match=fault):
        act(table)  # type: ignore[operator]
    assert (len(table), table.topics.names, index_of(table)) == (3, ["a", "b"], index_of(small()))


def test_a_copy_shares_nothing() -> None:
    table = small()
    twin = table.copy()
    twin.apply(changes([0], [20], [[20]]), controller_epoch=9, check_epochs=False)
    twin.set_replicas([2], [[20]])
    twin.remove_topic("a")
    twin.brokers.set_gone(10)
    assert [table.state(row) for row in range(3)] == [small().state(row) for row in range(3)]
    assert index_of(table) == index_of(small())
    assert table.brokers.live.all()
    assert twin.copy().add_topic("c", [[10], [10]]).tolist() == [0, 1]


def test_memory_is_counted_by_column() -> None:
    table = small()
    sizes = table.memory_bytes()
    assert sizes["replicas__ps"] == 3 * 3 * 2
    assert sizes["leader_epoch__p"] == 3 * 4
    assert sizes["index"] == table.index.nbytes
    assert sizes["total"] == sum(size for name, size in sizes.items() if name != "total")
    assert sizes.keys() == {column.name for column in PARTITION_COLUMNS} | {"index", "lookup", "total"}


def test_padded() -> None:
    assert padded(np.array([0, 2, 2, 3]), np.array([7, 8, 9])).tolist() == [[7, 8], [-1, -1], [9, -1]]
    assert padded(np.array([0]), np.array([], np.int32)).shape == (0, 0)


BROKERS = (3, 5, 8, 13)
Row = st.permutations(BROKERS).flatmap(lambda each: st.integers(1, 4).map(lambda count: tuple(each[:count])))
Rows = st.lists(Row, min_size=1, max_size=4)


def as_array(rows: list[tuple[int, ...]]) -> list[list[int]]:
    return [[*row, *[-1] * (4 - len(row))] for row in rows]


class TableMachine(RuleBasedStateMachine):
    """A table beside a dict of its expected contents, through every kind of change."""

    def __init__(self) -> None:
        super().__init__()
        self.table = PartitionTable.from_arrays(
            np.empty((0, 4), np.int32), topics=TopicTable([]), topic_rows=[], brokers=BrokerTable.from_arrays(BROKERS)
        )
        self.model: dict[tuple[str, int], PartitionState] = {}

    def add(self, topic: str, first: int, rows: list[tuple[int, ...]]) -> None:
        for partition, row in enumerate(rows, start=first):
            self.model[topic, partition] = PartitionState(topic, partition, row, row, row[0], 0, 0, 2, 0, (), ())

    @rule(topic=st.sampled_from("abcd"), rows=Rows)
    def add_topic_or_partitions(self, topic: str, rows: list[tuple[int, ...]]) -> None:
        known = sum(name == topic for name, _ in self.model)
        if known:
            self.table.add_partitions(topic, as_array(rows), controller_epoch=2)
        else:
            self.table.add_topic(topic, as_array(rows), controller_epoch=2)
        self.add(topic, known, rows)

    @precondition(lambda self: self.model)
    @rule(data=st.data())
    def remove_topics(self, data: st.DataObject) -> None:
        topics = data.draw(st.sets(st.sampled_from(sorted({name for name, _ in self.model})), max_size=3))
        self.table.remove_topics(topics)
        self.model = {key: state for key, state in self.model.items() if key[0] not in topics}

    def some(self, data: st.DataObject) -> dict[int, tuple[str, int]]:
        keys = data.draw(st.sets(st.sampled_from(sorted(self.model)), min_size=1, max_size=4))
        return dict(sorted((self.table.row_of(*key), key) for key in keys))

    @precondition(lambda self: self.model)
    @rule(data=st.data(), epoch=st.integers(0, 9))
    def apply(self, data: st.DataObject, epoch: int) -> None:
        some = self.some(data)
        isrs = [data.draw(Row) for _ in some]
        leaders = [data.draw(st.sampled_from((-1, *BROKERS))) for _ in some]
        self.table.apply(
            changes(list(some), leaders, [list(isr) for isr in isrs], epoch), controller_epoch=epoch, check_epochs=False
        )
        for key, leader, isr in zip(some.values(), leaders, isrs, strict=True):
            self.model[key] = self.model[key]._replace(
                leader=leader,
                isr=isr,
                leader_epoch=epoch,
                partition_epoch=10 * epoch,
                controller_epoch=epoch,
            )

    @precondition(lambda self: self.model)
    @rule(data=st.data(), moving=st.booleans())
    def reassign(self, data: st.DataObject, moving: bool) -> None:
        some = self.some(data)
        rows = [data.draw(Row) for _ in some]
        adding = {row: each[:1] for row, each in zip(some, rows, strict=True)} if moving else {}
        self.table.set_replicas(list(some), as_array(rows), adding=adding)
        for (row, key), replicas in zip(some.items(), rows, strict=True):
            self.model[key] = self.model[key]._replace(replicas=replicas, adding=adding.get(row, ()))

    @rule()
    def go_on_with_a_copy(self) -> None:
        self.table = self.table.copy()

    @invariant()
    def as_the_model(self) -> None:
        rows = {key: self.table.row_of(*key) for key in self.model}
        assert {key: self.table.state(row) for key, row in rows.items()} == self.model
        assert sorted(rows.values()) == np.flatnonzero(self.table.topic_row__p >= 0).tolist()
        replicas = {row: self.table.replicas__ps[row].tolist() for row in range(len(self.table))}
        for broker_row in range(len(BROKERS)):
            assert self.table.index.rows(broker_row).tolist() == reference.rows(replicas, broker_row)
        for topic in "abcd":
            known = [row for (name, _), row in sorted(rows.items()) if name == topic]
            assert not known or self.table.rows_of_topic(topic).tolist() == known


TestTableMachine = TableMachine.TestCase
TestTableMachine.settings = settings(max_examples=40, stateful_step_count=15, deadline=None)


def test_topic_ids_default_to_none() -> None:
    assert small().topics.ids == [ZERO_UUID] * 2
