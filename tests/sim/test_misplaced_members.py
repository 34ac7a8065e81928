"""Which members of an ISR may be in a directory that their broker has not registered (I12)."""

from dataclasses import replace

import pytest

from kcore.metadata.table.directory_table import LOST_UUID
from kcore.sim.cluster.committed_cluster import Broker, Partition
from kcore.sim.cluster.misplaced_members import MisplacedMembers
from kcore.types import Uuid

OLD, OTHER, NEW = (Uuid(bytes([number] * 16)) for number in (7, 8, 9))
KEY = (OLD, 0)
LED_BY_2 = Partition((1, 2), (OLD, OTHER), (2,), (), (), (), (), 2, 0, 1, 1)
BOTH = (2, 1)


def with_new_disk() -> tuple[MisplacedMembers, dict[int, Broker]]:
    """Broker 1 has registered after its only disk was replaced; broker 2 has the directory of its replica."""
    brokers = {
        1: Broker(20, OLD, fenced=False, in_controlled_shutdown=False, directories=(NEW,)),
        2: Broker(10, OTHER, fenced=False, in_controlled_shutdown=False, directories=(OTHER,)),
    }
    members = MisplacedMembers(brokers)
    for broker_id, broker in brokers.items():
        members.on_registered(broker_id, broker)
    return members, brokers


@pytest.mark.parametrize("directory", (OLD, LOST_UUID))
def test_a_follower_may_join_before_its_new_directory_is_assigned(directory: Uuid) -> None:
    members, _ = with_new_disk()
    led = replace(LED_BY_2, directories=(directory, OTHER))
    assert members.allowed(KEY, led) == set()
    joined = replace(led, isr=BOTH)
    assert members.allowed(KEY, joined) == {1}
    assert members.allowed(KEY, joined) == {1}, "until the assignment is committed"
    assert members.allowed(KEY, replace(joined, directories=(NEW, OTHER))) == set()
    assert members.allowed(KEY, joined) == set(), "a member is not moved back"


def test_a_member_may_not_stay_when_its_directory_goes_offline() -> None:
    members, brokers = with_new_disk()
    assert members.allowed(KEY, replace(LED_BY_2, directories=(NEW, OTHER), isr=BOTH)) == set()
    brokers[1] = replace(brokers[1], directories=(OLD,))
    assert members.allowed(KEY, replace(LED_BY_2, directories=(NEW, OTHER), isr=BOTH)) == set()


def test_a_broker_may_not_join_with_a_directory_that_it_has_lost() -> None:
    members, brokers = with_new_disk()
    brokers[1] = replace(brokers[1], directories=(OLD,))
    led = replace(LED_BY_2, directories=(NEW, OTHER))
    assert members.allowed(KEY, led) == members.allowed(KEY, replace(led, isr=BOTH)) == set()


def test_a_member_of_an_earlier_incarnation_may_not_stay() -> None:
    members, brokers = with_new_disk()
    members.on_registered(1, replace(brokers[1], directories=(OLD,)))
    assert members.allowed(KEY, replace(LED_BY_2, isr=BOTH)) == set()
    members.on_registered(1, brokers[1])
    assert members.allowed(KEY, replace(LED_BY_2, isr=BOTH)) == set()


def test_an_isr_without_a_leader_stays_and_none_of_its_misplaced_members_leads() -> None:
    members, _ = with_new_disk()
    assert members.allowed(KEY, replace(LED_BY_2, isr=BOTH, leader=-1)) == {1}
    assert members.allowed(KEY, replace(LED_BY_2, isr=BOTH)) == {1}
    assert members.allowed(KEY, replace(LED_BY_2, isr=BOTH, leader=1)) == set()
