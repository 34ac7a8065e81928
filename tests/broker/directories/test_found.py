"""The choice among several logs of one replica at a broker's start."""

import pytest

from broker.directories.placements import A, B, C, p, uuid
from kcore.broker.directories.found import FoundLog, FoundReplica, settle_found
from kcore.broker.directories.outputs import DeleteFuture, DropSource
from kcore.metadata.table.directory_table import LOST_UUID, UNASSIGNED_UUID
from kcore.types import Uuid

P = p(0)


def found(assigned: Uuid, current: tuple[Uuid, ...] = (), future: tuple[Uuid, ...] = ()) -> FoundReplica:
    logs = [FoundLog(each, is_future=False) for each in current] + [FoundLog(each, is_future=True) for each in future]
    return settle_found(P, logs[::-1], assigned)


@pytest.mark.parametrize("assigned", [A, B, C, uuid(999), LOST_UUID, UNASSIGNED_UUID])
def test_one_log_or_a_current_and_a_future_one_are_what_they_are(assigned: Uuid) -> None:
    assert found(assigned) == FoundReplica(None, None)
    assert found(assigned, current=(A,)) == FoundReplica(A, None)
    assert found(assigned, current=(A,), future=(B,)) == FoundReplica(A, B)


@pytest.mark.covers("C11")
def test_a_move_whose_source_is_gone_leaves_its_future_replica() -> None:
    assert found(B, future=(B,)) == FoundReplica(None, B)


def test_of_two_current_replicas_the_one_counts_that_the_controller_knows() -> None:
    """A crash between the two renamings of a promotion, or the source's disk failed then, and is back."""
    assert found(B, current=(A, B)) == FoundReplica(B, None, (DropSource(P, A),))
    assert found(A, current=(A, B, C)) == FoundReplica(A, None, (DropSource(P, B), DropSource(P, C)))


@pytest.mark.parametrize("assigned", [C, uuid(999), LOST_UUID, UNASSIGNED_UUID])
def test_two_current_replicas_that_the_controller_does_not_know_stop_the_broker(assigned: Uuid) -> None:
    refused = found(assigned, current=(A, B)).refused
    assert (
        refused is not None
        and str(A) in refused
        and str(B) in refused
        and "delete all of the replicas but one" in refused
    )


def test_a_future_replica_beside_a_current_one_in_its_directory_is_needless() -> None:
    assert found(A, current=(A,), future=(A,)) == FoundReplica(A, None, (DeleteFuture(P, A),))


def test_of_several_future_replicas_the_one_counts_that_the_controller_knows() -> None:
    assert found(C, current=(A,), future=(B, C)) == FoundReplica(A, C, (DeleteFuture(P, B),))
    assert found(A, current=(A,), future=(B, C)) == FoundReplica(A, None, (DeleteFuture(P, B), DeleteFuture(P, C)))
    assert found(C, future=(B, C)) == FoundReplica(None, C, (DeleteFuture(P, B),))
    assert found(A, future=(B, C)).refused is not None
