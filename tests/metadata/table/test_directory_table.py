"""Log directories: their rows, their owners, and which replicas are online (DirectoryId.isOnline)."""

from itertools import product
from typing import Any

import numpy as np

from kcore.metadata.image.recorder import Recorder
from kcore.metadata.table.broker_registration import BrokerRegistration
from kcore.metadata.table.broker_table import BrokerTable
from kcore.metadata.table.directory_table import (
    LOST,
    LOST_UUID,
    MIGRATING,
    MIGRATING_UUID,
    UNASSIGNED,
    UNASSIGNED_UUID,
    DirectoryTable,
)
from kcore.types import Uuid

A, B, C = (Uuid(bytes([k] * 16)) for k in (7, 8, 9))


def test_reserved_ids_have_the_first_rows() -> None:
    table = DirectoryTable()
    assert (len(table), table.uuids) == (3, [MIGRATING_UUID, UNASSIGNED_UUID, LOST_UUID])
    assert table.name([LOST_UUID, A, MIGRATING_UUID, B, UNASSIGNED_UUID, A]) == (LOST, 3, MIGRATING, 4, UNASSIGNED, 3)
    assert [table.row(each) for each in (A, B, C)] == [3, 4, -1]
    assert table.name([C, A, C]) == (5, 3, 5)


def test_many_directories_and_none_again() -> None:
    table = DirectoryTable()
    uuids = [Uuid(k.to_bytes(16)) for k in range(100, 600)]
    assert table.name(uuids) == tuple(range(3, 503))
    table.set_owner([10, 500], 7)
    twin = table.copy()
    table.truncate(20)
    assert (len(table), table.row(uuids[16]), table.row(uuids[17])) == (20, 19, -1)
    assert table.owner__d.tolist() == [-1] * 10 + [7] + [-1] * 9
    assert (len(twin), int(twin.owner__d[500])) == (503, 7)
    assert table.name(uuids[17:18]) == (20,) and table.owner__d[20] == -1


def test_new_directories_are_named_in_one_step_and_taken_back_so() -> None:
    """Each by itself would cost the loop ten times as much."""
    table, taken_back = DirectoryTable(), list[tuple[Any, ...]]()

    class Kept(Recorder):
        def undo(self, undo: Any, *arguments: Any) -> None:
            taken_back.append(arguments)

    table.recorder = Kept()
    uuids = [Uuid(k.to_bytes(16)) for k in range(100, 1100)]
    assert table.name([A, *uuids, A, uuids[5]]) == (3, *range(4, 1004), 3, 9)
    assert taken_back == [(3,)]
    assert [table.row(each) for each in uuids] == [*range(4, 1004)] and table.owner__d.tolist() == [-1] * 1004
    assert table.name([B, A]) == (1004, 3) and taken_back == [(3,), (1004,)]


def is_online(directory: Uuid, listed: tuple[Uuid, ...]) -> bool:
    """DirectoryId.isOnline, line by line."""
    if directory in (UNASSIGNED_UUID, MIGRATING_UUID):
        return True
    if directory == LOST_UUID:
        return False
    return not listed or directory in listed


def test_which_replicas_are_online() -> None:
    brokers = BrokerTable.from_arrays([1, 2, 3])
    listed = {1: (A, B), 2: (), 3: (C,)}
    for broker_id, directories in listed.items():
        brokers.put(BrokerRegistration(broker_id, 5, directories=directories))
    table = brokers.directory_table
    for broker_id, directory in product((1, 2, 3), (MIGRATING_UUID, UNASSIGNED_UUID, LOST_UUID, A, B, C)):
        [found] = table.online(
            np.array([brokers.row(broker_id)], np.int16),
            np.array(table.name([directory]), np.int32),
            brokers.lists_directories__b,
        )
        assert found == is_online(directory, listed[broker_id]), (broker_id, directory)
    nobody = table.online(np.array([-1], np.int16), np.array([0], np.int32), brokers.lists_directories__b)
    assert nobody.tolist() == [False]


def test_a_directory_is_the_brokers_that_lists_it_now() -> None:
    brokers = BrokerTable.from_arrays([1, 2])

    def owner() -> list[int]:
        table = brokers.directory_table
        return [int(table.owner__d[table.row(each)]) for each in (A, B)]

    brokers.put(BrokerRegistration(1, 5, directories=(A, B)))
    assert (owner(), brokers.lists_directories__b.tolist()) == ([0, 0], [True, False])
    brokers.put(BrokerRegistration(1, 6, directories=(B, UNASSIGNED_UUID)))  # Kafka refuses reserved ones before.
    assert (owner(), brokers.directory_table.owner__d[UNASSIGNED]) == ([-1, 0], -1)
    brokers.put(BrokerRegistration(2, 7, directories=(A,)))
    brokers.unregister(1)
    assert (owner(), brokers.lists_directories__b.tolist()) == ([1, -1], [False, True])
    brokers.put(BrokerRegistration(1, 8, directories=(A,)))  # Two brokers list one directory: the first one loses it,
    brokers.put(BrokerRegistration(2, 9, directories=(B,)))
    assert owner() == [0, 1]  # and its unregistration does not take it from the second.
