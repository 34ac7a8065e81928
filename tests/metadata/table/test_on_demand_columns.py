"""The columns that a table adds on demand: log directories and eligible leader replicas."""

import numpy as np
import pytest

from kcore.errors import TableError
from kcore.metadata.table import partition_columns
from kcore.metadata.table.arrays import grown
from kcore.metadata.table.broker_table import BrokerTable
from kcore.metadata.table.column_list import ALL_COLUMNS
from kcore.metadata.table.directory_table import MIGRATING_UUID, UNASSIGNED_UUID
from kcore.metadata.table.partition_table import PartitionTable
from kcore.types import Uuid


def with_directories() -> PartitionTable:
    """Two partitions in the directories of their brokers, one of them without an ISR."""
    brokers = BrokerTable.from_arrays([10, 20, 30])
    brokers.directory_table.name([Uuid(bytes([k] * 16)) for k in (1, 2, 3)])
    return PartitionTable.from_arrays(
        [[10, 20, 30], [20, 30, -1]],
        brokers=brokers,
        directories=[[3, 4, 5], [4, 1, 0]],
        elr=[[-1, -1], [30, 20]],
        last_known_elr=[[10], [-1]],
    )


def test_directories_and_eligible_leader_replicas() -> None:
    table = with_directories()
    one, two, three = (Uuid(bytes([k] * 16)) for k in (1, 2, 3))
    assert table.registration(0).directories == (one, two, three)
    assert table.registration(1).directories == (two, UNASSIGNED_UUID)
    assert (table.registration(0).elr, table.registration(1).elr) == ((), (30, 20))
    assert (table.registration(0).last_known_elr, table.registration(1).last_known_elr) == ((10,), ())
    plain = PartitionTable.from_arrays([[1, 2, 3]])
    assert plain.directories__ps is plain.elr__pi is plain.last_known_elr__pi is None
    assert plain.registration(0).directories == (MIGRATING_UUID,) * 3 and plain.registration(0).elr == ()
    assert {"directories__ps", "elr__pi"} <= table.memory_bytes().keys()
    assert table.copy().registration(1) == table.registration(1)


def test_replicas_that_stay_keep_their_directories() -> None:
    table = with_directories()
    table.set_replicas([0], [[30, 10, 20]])
    assert table.directories__ps is not None and table.directories__ps[0].tolist() == [5, 3, 4]
    table.brokers.name(40)
    table.set_replicas([0], [[40, 20, 30, 10]])
    assert table.directories__ps.tolist() == [[0, 4, 5, 3], [4, 1, 0, 0]]
    table.set_replicas([0], [[10, -1]])
    assert table.directories__ps.tolist() == [[3, 0, 0, 0], [4, 1, 0, 0]]
    table.remove_topic("topic")
    assert not table.directories__ps.any() and (table.elr__pi == -1).all()
    table.add_topic("next", [[10, 20]])
    assert table.registration(0).directories == (MIGRATING_UUID,) * 2 and table.registration(0).elr == ()


@pytest.mark.parametrize(
    ("arguments", "fault"),
    [
        ({"directories": [[6, 0, 0], [0, 0, 0]]}, "directories of row 0 are"),
        ({"directories": [[-1, 0, 0], [0, 0, 0]]}, "directories of row 0 are"),
        ({"directories": [[0, 0, 0], [0, 0, 1]]}, "directories of row 1 are"),
        ({"directories": [[0, 0], [0, 0]]}, "directories has shape"),
        ({"elr": [[10, 10], [-1, -1]]}, "elr of row 0 names a broker twice"),
        ({"last_known_elr": [[40], [-1]]}, "unknown broker 40"),
        ({"elr": [[10]]}, "elr__pi is 1 long, not 2"),
    ],
)
def test_directories_and_elrs_that_are_refused(arguments: dict, fault: str) -> None:
    brokers = BrokerTable.from_arrays([10, 20, 30])
    brokers.directory_table.name([Uuid(bytes([k] * 16)) for k in (1, 2, 3)])
    with pytest.raises(TableError, match=fault):
        PartitionTable.from_arrays([[10, 20, 30], [20, 30, -1]], brokers=brokers, **arguments)


def test_columns_cannot_be_written_by_readers() -> None:
    table = with_directories()
    for name in ALL_COLUMNS:
        with pytest.raises(ValueError, match="read-only"):
            getattr(table, name)[0] = 1


def test_rows_that_come_are_free_whatever_memory_held(monkeypatch: pytest.MonkeyPatch) -> None:
    def dirty(array: np.ndarray, length: int) -> np.ndarray:
        room = grown(array, length)
        room[len(array) :] = 77
        return room

    monkeypatch.setattr(partition_columns, "grown", dirty)
    table = PartitionTable.from_arrays([[0, 1]], elr=[[1]], directories=[[0, 0]])
    nobody = np.empty((0, 2), np.int16)
    for partition in range(1, 200):
        offered = table.offer_rows(partition % 40)  # Sometimes more than there is room for.
        for name, array in table.columns_in_use().items():
            assert (array[offered] == ALL_COLUMNS[name].nothing).all(), (name, partition)
        table.settle_rows(offered, 0, offered[:0], nobody)
        row = table.new_row(0, partition)
        held = {name: array[row] for name, array in table.columns_in_use().items()}
        assert (held.pop("topic_row__p"), held.pop("partition_index__p")) == (0, partition)
        assert all((each == ALL_COLUMNS[name].nothing).all() for name, each in held.items()), partition
