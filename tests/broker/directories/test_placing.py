"""KIP-858's nine catch-up cases and the cases that it leaves open: the whole table."""

from itertools import product

import pytest

from broker.directories.placements import A, B, C, uuid
from kcore.broker.directories.placing import ROWS, TABLE, Action, Assigned, Case, Current, Future, Row, case_of, decide
from kcore.metadata.table.directory_table import LOST_UUID, MIGRATING_UUID, UNASSIGNED_UUID
from kcore.types import Uuid

ONLINE = (A, B)
GONE = uuid(999)  # A directory whose disk is missing.
ASSIGN, COPY, PROMOTE = Action.ASSIGN, Action.COPY, Action.PROMOTE
SOMEWHERE, THERE, WITHHOLD = Action.CREATE_SOMEWHERE, Action.CREATE_THERE, Action.WITHHOLD


def actions(assigned: Uuid, current: Uuid | None, future: Uuid | None = None, *, offline: bool = False) -> list[Action]:
    return [*decide(case_of(assigned, ONLINE, current, future, has_offline=offline)).actions]


EITHER = pytest.mark.parametrize("offline", [False, True], ids=["all online", "some offline"])


@EITHER
@pytest.mark.covers("KIP-858 catch-up unassigned, exists")
def test_unassigned_and_there_its_directory_is_reported(offline: bool) -> None:
    assert actions(UNASSIGNED_UUID, A, offline=offline) == [ASSIGN]
    assert actions(UNASSIGNED_UUID, A, B, offline=offline) == [ASSIGN, COPY]


@EITHER
@pytest.mark.covers("KIP-858 catch-up unassigned, new")
def test_unassigned_and_new_it_is_created_and_reported(offline: bool) -> None:
    assert actions(UNASSIGNED_UUID, None, offline=offline) == [SOMEWHERE, ASSIGN]
    assert actions(UNASSIGNED_UUID, None, B, offline=offline) == [PROMOTE, ASSIGN]


@EITHER
@pytest.mark.covers("KIP-858 catch-up online, new")
def test_online_and_new_it_is_created_there(offline: bool) -> None:
    assert actions(A, None, offline=offline) == [THERE]
    assert actions(A, None, B, offline=offline) == [Action.DELETE_FUTURE, THERE]


@EITHER
@pytest.mark.covers("KIP-858 catch-up online, there")
def test_online_and_there_nothing_is_done(offline: bool) -> None:
    assert actions(A, A, offline=offline) == []


@EITHER
@pytest.mark.covers("KIP-858 catch-up online, there, with a future replica")
def test_online_and_there_with_a_future_replica_it_is_copied(offline: bool) -> None:
    assert actions(A, A, B, offline=offline) == [COPY]


@EITHER
@pytest.mark.covers("KIP-858 catch-up online, the future replica there")
def test_online_with_the_future_replica_there_that_replaces_the_current_one_once_caught_up(offline: bool) -> None:
    assert actions(A, B, A, offline=offline) == [Action.COPY_AND_REPLACE]


@EITHER
@pytest.mark.covers("KIP-858 catch-up online, elsewhere")
def test_online_and_elsewhere_its_directory_is_reported(offline: bool) -> None:
    assert actions(A, B, offline=offline) == [ASSIGN]
    assert [*decide(case_of(A, (A, B, C), B, C, has_offline=offline)).actions] == [ASSIGN, COPY]


@pytest.mark.parametrize("assigned", [GONE, LOST_UUID])
@pytest.mark.parametrize(("current", "future"), [(None, None), (A, None), (None, B), (A, B)])
@pytest.mark.covers("KIP-858 catch-up unknown, some offline")
def test_unknown_or_lost_with_some_offline_nothing_is_done_and_nothing_served(
    assigned: Uuid, current: Uuid | None, future: Uuid | None
) -> None:
    assert actions(assigned, current, future, offline=True) == [WITHHOLD]


@pytest.mark.parametrize("assigned", [GONE, LOST_UUID])
@pytest.mark.covers("KIP-858 catch-up unknown, none offline")
def test_unknown_or_lost_with_all_online_it_is_created_and_reported(assigned: Uuid) -> None:
    assert actions(assigned, None) == [SOMEWHERE, ASSIGN]
    assert actions(assigned, None, B) == [PROMOTE, ASSIGN]
    assert actions(assigned, A) == [ASSIGN]
    assert actions(assigned, A, B) == [ASSIGN, COPY]


@pytest.mark.covers("KIP-858 migration 7")
def test_migrating_what_is_here_is_reported_and_what_is_not_may_be_offline() -> None:
    assert actions(MIGRATING_UUID, A, offline=True) == [ASSIGN]
    assert actions(MIGRATING_UUID, A, B) == [ASSIGN, COPY]
    assert actions(MIGRATING_UUID, None, offline=True) == actions(MIGRATING_UUID, None, A, offline=True) == [WITHHOLD]
    assert actions(MIGRATING_UUID, None) == [SOMEWHERE, ASSIGN]
    assert actions(MIGRATING_UUID, None, B) == [PROMOTE, ASSIGN]


@pytest.mark.covers("C11")
@EITHER
def test_a_future_replica_whose_source_is_gone_becomes_the_current_one(offline: bool) -> None:
    """Nothing empty is made beside it in the same directory, into which it could never be renamed."""
    assert actions(A, None, A, offline=offline) == [PROMOTE]


@pytest.mark.covers("C12")
@pytest.mark.parametrize("assigned", [UNASSIGNED_UUID, A, GONE, LOST_UUID, MIGRATING_UUID])
def test_replicas_of_a_dead_directory_are_not_made_anew_elsewhere(assigned: Uuid) -> None:
    """KAFKA-16234; a topic that is created again has another id, of which this broker has nothing (KAFKA-16157)."""
    dead = case_of(assigned, ONLINE, None, None, has_offline=True, is_failed=True)
    assert decide(dead).actions in ((WITHHOLD,), (ASSIGN,))
    created_again = case_of(UNASSIGNED_UUID, ONLINE, None, None, has_offline=True)
    assert decide(created_again).actions == (SOMEWHERE, ASSIGN)


@pytest.mark.parametrize("assigned", [UNASSIGNED_UUID, A, MIGRATING_UUID])
def test_the_controller_learns_of_a_failed_replica_that_it_has_elsewhere(assigned: Uuid) -> None:
    """Otherwise it may let the replica lead: spec/AssignReplicasToDirs.tla, ControllerUpdatesLeadership."""
    assert decide(case_of(assigned, ONLINE, None, None, has_offline=True, is_failed=True)).actions == (ASSIGN,)


@pytest.mark.parametrize("assigned", [GONE, LOST_UUID])
def test_the_controller_knows_that_a_replica_in_an_unknown_directory_is_offline(assigned: Uuid) -> None:
    assert decide(case_of(assigned, ONLINE, None, None, has_offline=True, is_failed=True)).actions == (WITHHOLD,)


def can_be(case: Case) -> bool:
    """Two logs of a replica are in two directories; only an online directory can have one, or be beside another."""
    is_there = case.assigned is Assigned.ONLINE
    if not is_there and (case.current is Current.ASSIGNED or case.future is Future.ASSIGNED):
        return False
    if case.current is Current.FAILED:
        return case.has_offline
    return not (case.current is Current.ASSIGNED and case.future is Future.ASSIGNED)


def test_each_case_that_can_be_has_one_row_and_no_other_case_has_any() -> None:
    listed = [case for row in ROWS for case in row.cases()]
    assert len(listed) == len(TABLE)
    possible = {case for case in map(Case._make, product(Assigned, Current, Future, (False, True))) if can_be(case)}
    assert possible <= TABLE.keys()
    assert all(case.current is Current.FAILED for case in TABLE.keys() - possible)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.cites}: {' '.join(each.name for each in row.actions)}")
def test_what_a_row_says_can_be_done(row: Row) -> None:
    for case in row.cases():
        for action in row.actions:
            if action in (Action.PROMOTE, SOMEWHERE, THERE):
                assert case.current is Current.NONE
            if action in (Action.PROMOTE, COPY, Action.COPY_AND_REPLACE, Action.DELETE_FUTURE):
                assert case.future is not Future.NONE
            if action is THERE:
                assert case.assigned is Assigned.ONLINE
        if case.current is not Current.NONE:
            assert not {*row.actions} & {SOMEWHERE, THERE}


def test_two_logs_in_one_directory_are_no_case() -> None:
    with pytest.raises(AssertionError, match="no such case"):
        decide(case_of(A, ONLINE, A, A, has_offline=False))
