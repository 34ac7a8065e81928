"""Which brokers may get new partitions, and the first state of partitions."""

from typing import Any

import numpy as np
import pytest

from kcore.errors import PlacementError, TableError
from kcore.metadata.table.broker_registration import BrokerRegistration
from kcore.metadata.table.broker_table import BrokerTable
from kcore.replication.java_random import JavaRandom
from kcore.replication.kraft_placement import new_partitions, usable_brokers
from kcore.replication.levels import level_of
from kcore.replication.placement import place, place_striped
from kcore.types import Uuid

FIRST, SECOND = Uuid(b"\1" * 16), Uuid(b"\2" * 16)
NEWEST = level_of("4.3.1")


def brokers_of(**states: dict[str, Any]) -> BrokerTable:
    """Brokers b1, b2 ... as ids 1, 2 ..., registered in those states."""
    brokers = BrokerTable.from_arrays([])
    for name, state in states.items():
        brokers.put(BrokerRegistration(int(name[1:]), 1, **state))
    return brokers


def test_who_is_usable() -> None:
    brokers = brokers_of(
        b1={"rack": "a"},
        b2={"fenced": True},
        b3={"in_controlled_shutdown": True},
        b4={"in_controlled_shutdown": True, "fenced": True},
    )
    brokers.name(9)  # Only named as a replica.
    usable = usable_brokers(brokers, NEWEST)
    assert (usable.ids.tolist(), usable.racks, usable.fenced.tolist()) == ([1, 2, 4], ["a", None, None], [0, 1, 1])
    assert usable_brokers(brokers, NEWEST, shutting_down=[1, 4]).ids.tolist() == [2, 3]


def test_brokers_whose_directories_are_all_cordoned_get_nothing() -> None:
    """KIP-1066, in 4.3.1 alone."""
    brokers = brokers_of(
        b1={"directories": (FIRST, SECOND), "cordoned_directories": (SECOND, FIRST)},
        b2={"directories": (FIRST, SECOND), "cordoned_directories": (FIRST,)},
        b3={"directories": (FIRST,), "cordoned_directories": None},
        b4={"directories": (), "cordoned_directories": (FIRST,)},
        b5={"directories": (FIRST,), "cordoned_directories": ()},
    )
    assert usable_brokers(brokers, NEWEST).ids.tolist() == [2, 3, 4, 5]
    for older in ("4.1.2", "3.9-IV0@3.9.1"):
        assert usable_brokers(brokers, level_of(older)).ids.tolist() == [1, 2, 3, 4, 5]


def test_brokers_come_in_the_order_of_a_hash_map() -> None:
    brokers = brokers_of(b33={}, b16={}, b1={}, b17={})
    assert usable_brokers(brokers, NEWEST).ids.tolist() == [16, 1, 17, 33]


def test_placements_go_on_where_the_last_one_ended() -> None:
    random = JavaRandom(5)
    usable = usable_brokers(brokers_of(b1={}, b2={}, b3={}, b4={}), NEWEST)
    first, second = (place_striped(*usable, 10, 2, random).tolist() for _ in range(2))
    assert first == place("striped", [1, 2, 3, 4], 10, 2, seed=5).tolist()
    assert second != first
    after = random.state
    with pytest.raises(PlacementError, match="factor 5 is larger than the 4 available"):
        place_striped(*usable, 1, 5, random)
    assert random.state != after, "Kafka draws before it looks whether there are enough brokers"


def test_there_is_no_broker() -> None:
    with pytest.raises(PlacementError, match="all 0 brokers are fenced"):
        place_striped(*usable_brokers(brokers_of(), NEWEST), 1, 1, JavaRandom(0))


def test_how_new_partitions_begin() -> None:
    brokers = brokers_of(
        b1={"directories": (FIRST,)},
        b2={"fenced": True},
        b3={"in_controlled_shutdown": True},
        b4={"directories": (SECOND, Uuid(b"\3" * 16))},
    )
    row = brokers.directory_table.row(FIRST)
    replicas = np.array([[2, 4, 1], [3, 1, -1], [4, 1, 2]], np.int32)
    begun = new_partitions(brokers, NEWEST, replicas)
    assert begun.isr__pi.tolist() == [[4, 1, -1], [1, -1, -1], [4, 1, -1]]
    assert begun.leaders.tolist() == [4, 1, 4]
    assert begun.directories__ps.tolist() == [[0, 1, row], [0, row, 0], [1, row, 0]]
    assert new_partitions(brokers, level_of("3.6-IV2"), replicas).directories__ps.tolist() == [[0] * 3] * 3
    with pytest.raises(PlacementError, match="new partition 1 would have no leader"):
        new_partitions(brokers, NEWEST, np.array([[1, 2], [2, 3]], np.int32))
    with pytest.raises(TableError, match="unknown broker 8"):
        new_partitions(brokers, NEWEST, np.array([[8]], np.int32))
