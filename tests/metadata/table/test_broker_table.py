"""Brokers by row: looking ids up, and what is refused."""

from typing import Any

import numpy as np
import pytest

from kcore.constants import MAX_BROKERS
from kcore.errors import TableError
from kcore.metadata.table.broker_registration import BrokerRegistration
from kcore.metadata.table.broker_table import BrokerTable, Endpoint
from kcore.metadata.table.topic_table import TopicTable
from kcore.types import ZERO_UUID, Uuid

PLAINTEXT = Endpoint(9092, "host", "PLAINTEXT", 0)


@pytest.mark.parametrize("ids", [[3, 0, 7], [2_000_000_000, 5, 1_048_576], [1_048_575, 2], [42], []])
def test_rows_of_ids(ids: list[int]) -> None:
    table = BrokerTable.from_arrays(np.array(ids, np.int64))
    assert len(table) == len(ids)
    assert [table.row(each) for each in ids] == list(range(len(ids)))
    assert table.rows([*ids, -1]).tolist() == [*range(len(ids)), -1]
    assert table.rows(np.array([ids, ids], np.int64)).tolist() == [list(range(len(ids)))] * 2
    assert all(each in table for each in ids)
    for unknown in (1, 4, 2_000_000_001, -2, 2**31 - 1):
        assert unknown not in table
        with pytest.raises(TableError, match=f"unknown broker {unknown}"):
            table.row(unknown)
        with pytest.raises(TableError, match=f"unknown broker {unknown}"):
            table.rows([*ids, unknown])
    with pytest.raises(TableError, match="unknown broker -1"):
        table.row(-1)


def test_rows_of_many_ids() -> None:
    """More than one chunk, and an unknown broker at the very end."""
    ids = np.arange(600_000) % 1000 * 3
    table = BrokerTable.from_arrays(np.arange(1000) * 3)
    np.testing.assert_array_equal(table.rows(ids), ids // 3)
    ids[-1] = 4
    with pytest.raises(TableError, match="unknown broker 4"):
        table.rows(ids)


def test_what_is_known_of_brokers() -> None:
    plain = BrokerTable.from_arrays([4, 2])
    assert (plain.live.tolist(), plain.shutting_down.tolist()) == ([True, True], [False, False])
    assert (plain.epochs.tolist(), plain.racks, plain.endpoints) == ([-1, -1], [None, None], [(), ()])
    table = BrokerTable.from_arrays(
        [4, 2],
        live=[True, False],
        shutting_down=[True, False],
        epochs=[2**40, -1],
        racks=["a", None],
        endpoints=[[PLAINTEXT], []],
    )
    assert (table.live.tolist(), table.shutting_down.tolist()) == ([True, False], [True, False])
    assert (table.epochs.tolist(), table.racks) == ([2**40, -1], ["a", None])
    assert table.endpoints == [(PLAINTEXT,), ()]
    assert (table.ids.dtype, table.epochs.dtype, table.rows([2]).dtype) == (np.int32, np.int64, np.int16)


def test_a_table_does_not_share_what_it_was_made_from() -> None:
    live = np.array([True])
    table = BrokerTable.from_arrays([1], live=live)
    twin = table.copy()
    table.set_gone(1)
    table.set_endpoints(1, [PLAINTEXT])
    assert live[0] and twin.live[0] and twin.endpoints == [()]


@pytest.mark.parametrize(
    ("arguments", "fault"),
    [
        ({"ids": [1, 1]}, "broker id 1 is given twice"),
        ({"ids": [3, -1]}, "broker id -1 is negative"),
        ({"ids": [2**31]}, "outside"),
        ({"ids": [1.5]}, "integers"),
        ({"ids": [[1, 2]]}, "shape"),
        ({"ids": range(MAX_BROKERS + 1)}, "at most 32767 fit"),
        ({"ids": [1], "live": [True, True]}, "live must be 1 booleans"),
        ({"ids": [1], "shutting_down": [0]}, "shutting_down must be 1 booleans"),
        ({"ids": [1], "epochs": [1, 2]}, "shape"),
        ({"ids": [1], "racks": []}, "0 racks"),
        ({"ids": [1], "endpoints": [[], []]}, "2 lists of endpoints"),
    ],
)
def test_what_is_refused(arguments: dict, fault: str) -> None:
    with pytest.raises(TableError, match=fault):
        BrokerTable.from_arrays(**arguments)


def test_the_largest_table() -> None:
    table = BrokerTable.from_arrays(np.arange(MAX_BROKERS))
    assert table.row(MAX_BROKERS - 1) == table.rows([MAX_BROKERS - 1])[0] == MAX_BROKERS - 1


def test_ids_that_are_not_integers() -> None:
    with pytest.raises(TableError, match="broker ids must be integers"):
        BrokerTable.from_arrays([1]).rows([1.0])


def test_register() -> None:
    table = BrokerTable.from_arrays([5, 1], live=[True, False], shutting_down=[True, True], epochs=[10, -1])
    assert table.register(1, 30, rack="r", endpoints=[PLAINTEXT]) == 1
    assert table.register(9, 40) == 2
    assert table.ids.tolist() == [5, 1, 9]
    assert table.live.tolist() == [True, True, True]
    assert table.shutting_down.tolist() == [True, False, False]
    assert table.epochs.tolist() == [10, 30, 40]
    assert table.racks == [None, "r", None]
    assert table.endpoints == [(), (PLAINTEXT,), ()]
    assert table.rows([9, 1, 5]).tolist() == [2, 1, 0]
    with pytest.raises(TableError, match="negative"):
        table.register(-3, 1)
    assert len(table) == 3


def registration(broker_id: int, **fields: Any) -> BrokerRegistration:
    return BrokerRegistration(broker_id, 40, Uuid(bytes([broker_id] * 16)), **fields)


def test_a_registration_comes_back_as_it_was_put() -> None:
    table = BrokerTable.from_arrays([5])
    whole = registration(
        7,
        listeners=(PLAINTEXT,),
        supported_features={"metadata.version": (1, 21)},
        rack="r",
        fenced=True,
        in_controlled_shutdown=True,
        is_migrating_zk_broker=True,
        directories=(Uuid(bytes([3] * 16)),),
        cordoned_directories=(Uuid(bytes([4] * 16)),),
    )
    assert table.put(whole) == 1
    assert table[7] == whole and list(table) == [5, 7]
    assert (table.live.tolist(), table.fenced__b.tolist()) == ([True, False], [False, True])
    table.put(registration(7, cordoned_directories=()))
    assert table[7] == registration(7, cordoned_directories=()) and table.live.tolist() == [True, True]
    table.set_fenced(7, True)
    assert table[7].fenced and not table.live[1]


def test_brokers_that_are_only_named_and_brokers_that_are_forgotten() -> None:
    table = BrokerTable.from_arrays([])
    assert [table.name(each) for each in (9, 3, 9)] == [0, 1, 0]
    table.put(registration(3, rack="r", listeners=(PLAINTEXT,), directories=(Uuid(bytes([3] * 16)),), fenced=False))
    twin = table.copy()
    table.unregister(3)
    for broker_id in (3, 9):
        with pytest.raises(TableError, match=f"broker {broker_id} is not registered"):
            table[broker_id]
    assert 3 in table and list(table) == [] and table.row(3) == 1
    assert (table.registered__b.any(), table.live.any(), table.epochs.tolist()) == (False, False, [-1, -1])
    assert (table.racks, table.endpoints, table.directories) == ([None] * 2, [()] * 2, [()] * 2)
    assert list(twin) == [3] and twin[3].rack == "r"
    table.set_fenced(3, False)
    assert not table.live.any()


def test_many_brokers_come_one_by_one() -> None:
    table = BrokerTable.from_arrays([])
    ids = [*range(0, 3000, 3), 2_000_000_000, 1 << 20, (1 << 20) - 1]
    for broker_id in ids:
        table.register(broker_id, broker_id)
    assert table.ids.tolist() == ids and table.rows(ids).tolist() == list(range(len(ids)))
    assert table.epochs.tolist() == ids and table.live.all() and len(table.live) == len(ids)
    with pytest.raises(TableError, match="unknown broker 1"):
        table.rows([0, 1])
    full = BrokerTable.from_arrays(np.arange(MAX_BROKERS))
    with pytest.raises(TableError, match="at most 32767 fit"):
        full.name(MAX_BROKERS)


def test_columns_cannot_be_written_by_readers() -> None:
    table = BrokerTable.from_arrays([1])
    for name in ("ids", "live", "epochs", "registered__b", "fenced__b", "in_controlled_shutdown__b", "shutting_down"):
        with pytest.raises(ValueError, match="read-only"):
            getattr(table, name)[0] = 1


def test_topics() -> None:
    topics = TopicTable(["a", "b"], [Uuid(bytes([1] * 16)), ZERO_UUID])
    assert (topics.row("b"), len(topics), "a" in topics, "c" in topics) == (1, 2, True, False)
    twin = topics.copy()
    assert topics.remove("a") == 0
    assert "a" not in topics and topics.names == ["", "b"] and topics.ids == [ZERO_UUID] * 2
    assert twin.names == ["a", "b"]
    assert topics.add("c", Uuid(bytes([2] * 16))) == 0
    assert topics.add("d") == 2
    assert topics.names == ["c", "b", "d"]
    one, two, three = (Uuid(bytes([k] * 16)) for k in (1, 2, 3))
    assert [topics.row_of_id(each) for each in (one, two, ZERO_UUID)] == [None, 0, None]
    assert twin.row_of_id(one) == 0
    topics.set_id("c", three)
    topics.set_id("b", two)
    assert [topics.row_of_id(each) for each in (two, three)] == [1, 0]
    topics.set_id("b", ZERO_UUID)
    assert [topics.row_of_id(each) for each in (two, ZERO_UUID)] == [None, None]
    for act, fault in [
        (lambda: topics.row("a"), "unknown topic 'a'"),
        (lambda: topics.remove("a"), "unknown topic 'a'"),
        (lambda: topics.add("b"), "topic 'b' exists"),
        (lambda: topics.add(""), "needs a name"),
        (lambda: TopicTable(["x", "y", "x"]), "topic 'x' is given twice"),
        (lambda: TopicTable(["x"], []), "1 topics, 0 topic ids"),
    ]:
        with pytest.raises(TableError, match=fault):
            act()
