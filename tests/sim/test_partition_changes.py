"""Kafka's rules for one change of a partition, and for the fenced members of an ISR (I5, I9)."""

from dataclasses import replace

import pytest

from kcore.sim.cluster.committed_cluster import Broker, Partition
from kcore.sim.cluster.fenced_members import FencedMembers
from kcore.sim.cluster.partition_changes import leads_as_it_joins, wrong_eligible, wrong_replicas
from kcore.types import Uuid

ID = Uuid(bytes([7] * 16))
KEY = (ID, 0)
LED_BY_1 = Partition((1, 2, 3), (ID,) * 3, (1, 2, 3), (), (), (), (), 1, 0, 1, 1)


def broker(*, fenced: bool) -> Broker:
    return Broker(10, ID, fenced=fenced, in_controlled_shutdown=False, directories=(ID,))


class Members:
    """Brokers 1 to 3, of which some are fenced; `allowed` names the fenced members that an ISR may have."""

    def __init__(self, *, has_elr: bool = False) -> None:
        self._brokers: dict[int, Broker] = {}
        self._members = FencedMembers(self._brokers, has_elr=has_elr)

    def allowed(self, fenced: set[int], **changes: object) -> set[int]:
        """The allowed members after a batch that leaves these brokers fenced, and the partition so changed."""
        self._brokers.update({each: broker(fenced=each in fenced) for each in (1, 2, 3)})
        return {*self._members.allowed(KEY, replace(LED_BY_1, **changes))}  # type: ignore[arg-type]


def test_a_fenced_broker_leaves_an_isr_with_another_member() -> None:
    assert Members().allowed({2}, isr=(1, 2)) == set()


def test_a_fenced_broker_leaves_a_leaderless_isr_with_another_member() -> None:
    """Its other member may be unable to lead because of its directory."""
    assert Members().allowed({2}, isr=(1, 2), leader=-1) == set()


def test_the_last_member_stays_without_elr() -> None:
    assert Members().allowed({2}, isr=(2,), leader=-1) == {2}
    assert Members(has_elr=True).allowed({2}, isr=(2,), leader=-1) == set()


def test_members_that_are_fenced_at_once_stay_until_they_leave_or_return() -> None:
    members = Members()
    assert members.allowed({1, 2}, isr=(1, 2), leader=-1) == {1, 2}
    assert members.allowed({2}, isr=(1, 2), leader=1) == {2}, "broker 1 has returned and leads"
    assert members.allowed(set(), isr=(1, 2), leader=1) == set()
    assert members.allowed({2}, isr=(1, 2), leader=1) == set(), "broker 2 is fenced again, alone"


def test_members_that_are_fenced_one_after_the_other_do_not_stay() -> None:
    members = Members()
    assert members.allowed({1, 2}, isr=(1, 2), leader=-1) == {1, 2}
    assert members.allowed({2}, isr=(1, 2), leader=-1) == {2}, "broker 1 has returned and cannot lead"
    assert members.allowed({1, 2}, isr=(1, 2), leader=-1) == {2}, "broker 1 must leave: broker 2 is a member"


@pytest.mark.parametrize("isr", ((1,), (2,)))
def test_a_canceled_reassignment_may_leave_its_first_replica_fenced(isr: tuple[int, ...]) -> None:
    """PartitionReassignmentRevert adds it without a look at its state."""
    members = Members(has_elr=True)
    assert members.allowed(set(), isr=(3,), adding=(3,), leader=3) == set()
    reverted = members.allowed({1, 2, 3}, replicas=(1, 2), isr=isr, leader=-1)
    assert reverted == {1}.intersection(isr)


MOVING = replace(LED_BY_1, replicas=(3, 4, 1, 2), isr=(1, 2), removing=(1, 2), adding=(3, 4))
MOVED = replace(LED_BY_1, replicas=(3, 4), isr=(3, 4), removing=(), adding=(), leader=3)


@pytest.mark.parametrize(
    ("before", "after", "cannot_lead", "is_allowed"),
    [
        (MOVING, MOVED, 0, True),
        (MOVING, replace(MOVED, leader=4), 0, False),  # Replica 3 comes first.
        (MOVING, replace(MOVED, leader=4), 3, True),  # Replica 3 cannot lead.
        (MOVING, replace(MOVED, adding=(4,)), 0, False),  # The reassignment goes on.
        (MOVING, replace(MOVED, isr=(3,)), 0, False),  # Replica 4 has not joined.
        (MOVING, replace(MOVED, replicas=(4, 3), leader=4), 0, False),  # The replicas have another order.
        (MOVING, replace(MOVED, replicas=(3, 4, 2)), 0, False),  # Replica 2 does not go.
        (replace(MOVING, leader=5), MOVED, 0, False),  # The old leader is no removing replica: it must stay.
        (replace(MOVING, removing=(2,)), replace(MOVED, replicas=(3, 4, 1)), 0, False),  # The old leader, 1, must stay.
        (replace(MOVING, removing=(), adding=()), replace(MOVED, replicas=(3, 4, 1, 2)), 0, False),
    ],
)
def test_a_leader_joins_only_as_it_completes_a_reassignment_in_which_the_old_one_goes(
    before: Partition, after: Partition, cannot_lead: int, is_allowed: bool
) -> None:
    assert leads_as_it_joins(before, after, lambda each: each != cannot_lead) is is_allowed


def test_replicas_go_only_when_a_reassignment_ends() -> None:
    assert wrong_replicas(MOVING, MOVED) is None
    assert wrong_replicas(MOVING, MOVING) is None
    gone = wrong_replicas(MOVING, replace(MOVING, replicas=(3, 4, 1), removing=(1,)))
    assert gone == "replicas [2] go before the reassignment ends"


@pytest.mark.parametrize(
    ("before", "after", "min_isr", "text"),
    [
        (MOVING, replace(MOVED, isr=(3,), elr=(1, 2)), 2, None),  # Removed replicas, and the ISR is small.
        (MOVING, replace(MOVED, elr=(1,)), 2, "removed replicas [1] are in the ELR, and the ISR has 2 members of 2"),
        (MOVING, replace(MOVED, isr=(3,), elr=(5,)), 2, "brokers [5] join the ELR, and were neither in the ISR nor"),
        (MOVING, replace(MOVED, isr=(3,), elr=(4,)), 2, "brokers [4] join the ELR"),
        (replace(MOVING, isr=(), elr=(1, 3), leader=-1), replace(MOVED, isr=(3,), elr=(1,)), 1, None),  # From the ELR.
        (LED_BY_1, replace(LED_BY_1, isr=(1,), elr=(2, 3)), 2, None),
        (replace(LED_BY_1, replicas=(1,), isr=(1,), elr=(2,)), replace(LED_BY_1, replicas=(1,), elr=(2,)), 2, None),
    ],
)
def test_the_elr_has_members_of_the_last_isr_and_elr(
    before: Partition, after: Partition, min_isr: int, text: str | None
) -> None:
    """It may have a removed replica only if the ISR is smaller than min.insync.replicas."""
    found = wrong_eligible(before, after, min_isr)
    assert found is None if text is None else found is not None and found.startswith(text)
