"""Bugs of Kafka around the ISR and commits that kcore must not have (B4, B8, B9, KAFKA-12686)."""

from typing import Any

import pytest

from broker.cluster import Cluster, led
from kcore.broker.replicas.replica import Role
from kcore.constants import UNKNOWN_BROKER_EPOCH
from kcore.protocol_errors import Errors
from kcore.schema.fetch import ReplicaState


def joining() -> Cluster:
    """Broker 3 has everything; the controller has been asked to take it in, and has not answered."""
    cluster = led()
    cluster.elect(1, [1, 2])
    cluster.follow(3, 2)
    cluster.alter_partition(1)
    return cluster


def lagging() -> tuple[Cluster, list[int]]:
    """Broker 3 has stood still for so long that the controller is asked to take it out; two consumers wait."""
    cluster = led()
    cluster.paused = {3}
    cluster.produce(1, b"a", acks=1)
    waiting = []
    for _ in range(2):
        cluster.fetch(1, 0, wait_ms=100_000)
        waiting.append(cluster.requests)
    while not cluster.brokers[1].isr_changes:
        cluster.pass_time(1_000)
        cluster.follow(2)
    cluster.alter_partition(1)
    return cluster, waiting


@pytest.mark.covers("B4")
def test_a_commit_by_an_isr_answer_answers_all_who_wait() -> None:
    """KAFKA-13254: the thread that did so held the partition's lock, and waited for another's."""
    cluster, waiting = lagging()
    assert not any(map(cluster.fetched, waiting))
    cluster.answer_isr(1, isr=[1, 2], partition_epoch=cluster.partition_epoch + 1)
    assert cluster.log(1).high_watermark == 1
    assert all(cluster.fetched(each).records for each in waiting)


@pytest.mark.covers("B4")
def test_each_waiting_fetch_is_answered_once_though_answering_one_ends_the_leadership() -> None:
    """The commit answers a consumer, whose read finds the disk broken, which answers all consumers."""
    cluster, waiting = lagging()
    cluster.log(1).fails = True
    cluster.answer_isr(1, isr=[1, 2], partition_epoch=cluster.partition_epoch + 1)
    assert [cluster.fetched(each).error_code for each in waiting] == [Errors.KAFKA_STORAGE_ERROR] * 2
    assert cluster.partition(1).role is Role.OFFLINE and len(cluster.failed_logs) == 1


@pytest.mark.covers("B4")
def test_each_waiting_fetch_is_answered_once_when_its_time_is_up_and_the_disk_fails() -> None:
    cluster, waiting = lagging()
    cluster.log(1).fails = True
    cluster.pass_time(100_000)
    assert [cluster.fetched(each).error_code for each in waiting] == [Errors.KAFKA_STORAGE_ERROR] * 2


def fetch_of_3(cluster: Cluster, offset: int, broker_epoch: int) -> Any:
    replica = ReplicaState(replica_id=3, replica_epoch=broker_epoch)
    return cluster.fetch(1, offset, version=17, replica_state=replica)


def members(cluster: Cluster) -> dict[int, int]:
    """The proposed ISR with its broker epochs."""
    [asked] = cluster.alter_partition(1).topics[0].partitions
    return {each.broker_id: each.broker_epoch for each in asked.new_isr_with_epochs}


def came_back_empty() -> Cluster:
    """Broker 3 was in sync, died, lost its disk, and has begun to fetch anew."""
    cluster = led()
    cluster.produce(1, b"a")
    cluster.run()
    cluster.elect(1, [1, 2])
    assert fetch_of_3(cluster, 0, 900).error_code == Errors.NONE
    return cluster


@pytest.mark.covers("B8")
def test_a_fetch_of_an_earlier_incarnation_does_not_extend_the_isr() -> None:
    """KAFKA-15221: it was looked at before the newer one's and noted after it."""
    cluster = came_back_empty()
    assert fetch_of_3(cluster, 1, 800).error_code == Errors.NOT_LEADER_OR_FOLLOWER
    assert not cluster.brokers[1].isr_changes and cluster.partition(1).followers[3].end_offset == 0
    assert fetch_of_3(cluster, 1, 900).error_code == Errors.NONE
    assert members(cluster) == {1: UNKNOWN_BROKER_EPOCH, 2: UNKNOWN_BROKER_EPOCH, 3: 900}


@pytest.mark.covers("B7", "B8")
def test_an_alter_partition_request_has_the_epoch_of_the_caught_up_incarnation() -> None:
    """KIP-903: of the one that fetched, even if the next one has fetched before the request leaves."""
    cluster = came_back_empty()
    assert fetch_of_3(cluster, 1, 900).error_code == Errors.NONE
    assert fetch_of_3(cluster, 0, 950).error_code == Errors.NONE
    assert members(cluster)[3] == 900, "the controller knows of 950, and refuses it"


def test_a_fetch_without_an_epoch_is_always_accepted() -> None:
    cluster = came_back_empty()
    assert fetch_of_3(cluster, 1, UNKNOWN_BROKER_EPOCH).error_code == Errors.NONE
    assert members(cluster)[3] == UNKNOWN_BROKER_EPOCH


def test_a_new_leader_knows_of_no_incarnation_yet() -> None:
    cluster = came_back_empty()
    cluster.elect(2, [1, 2])
    cluster.elect(1, [1, 2])
    assert fetch_of_3(cluster, 1, 800).error_code == Errors.NONE


@pytest.mark.covers("B9")
def test_a_broker_that_shuts_down_holds_no_commit_back() -> None:
    """KAFKA-15021: it is out of the ISR, has stopped to fetch, and lives; it had everything a moment ago."""
    cluster = led()
    cluster.produce(1, b"a")
    cluster.run()
    cluster.elect(1, [1, 2], 1, 2)
    assert cluster.stop_replica(3, delete=False) == Errors.NONE
    request = cluster.produce(1, b"b")
    cluster.follow(2, 2)
    assert cluster.code(request) is Errors.NONE


@pytest.mark.covers("B9")
def test_a_broker_that_is_gone_holds_no_commit_back() -> None:
    cluster = joining()
    cluster.answer_isr(1, Errors.INELIGIBLE_REPLICA)
    cluster.update_metadata([1, 2])
    request = cluster.produce(1, b"a")
    cluster.follow(2, 2)
    assert cluster.code(request) is Errors.NONE


def test_one_that_has_nearly_everything_is_waited_for() -> None:
    """Without waiting for it, it might never catch up with a busy leader."""
    cluster = joining()
    cluster.answer_isr(1, Errors.INELIGIBLE_REPLICA)
    request = cluster.produce(1, b"a")
    cluster.follow(2, 2)
    assert cluster.code(request) is None
    cluster.pass_time(1)
    cluster.follow(3, 2)
    assert cluster.code(request) is Errors.NONE


def test_one_who_may_be_in_holds_the_commit_back_however_far_it_is() -> None:
    """KIP-497: until the controller answers, commits need the joining member, too."""
    cluster = joining()
    for _ in range(40):
        cluster.pass_time(1_000)
        cluster.follow(2)
    request = cluster.produce(1, b"a")
    cluster.follow(2, 2)
    assert cluster.partition(1).pending is not None
    assert cluster.code(request) is None and cluster.log(1).high_watermark == 0
    cluster.follow(3, 2)
    assert cluster.code(request) is Errors.NONE


@pytest.mark.covers("B1")
@pytest.mark.parametrize("isr", [[1], [1, 2]])
def test_an_answer_to_an_isr_change_that_is_not_in_flight_any_more_changes_nothing(isr: list[int]) -> None:
    """KAFKA-12686: a LeaderAndIsr ended it, and the answer has the epochs of what the LeaderAndIsr said."""
    cluster = joining()
    cluster.elect(1, isr)
    before = cluster.partition(1).received
    cluster.answer_isr(1, isr=[1, 2, 3])
    assert cluster.partition(1).received == before
    assert cluster.partition(1).pending is None


@pytest.mark.covers("B1")
def test_an_isr_change_that_is_not_in_flight_any_more_is_not_asked_again() -> None:
    """An error that is retried, unless a LeaderAndIsr came in between."""
    cluster = joining()
    cluster.elect(1, [1, 2])
    cluster.answer_isr(1, Errors.UNKNOWN_SERVER_ERROR)
    assert not cluster.brokers[1].isr_changes
    cluster.follow(3)
    assert members(cluster).keys() == {1, 2, 3}, "its next fetch asks, with the new epochs"
