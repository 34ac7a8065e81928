"""Leaders commit the records that all in-sync replicas have; followers get the leader's log."""

import pytest

from broker.cluster import KEY, TOPIC_ID, Cluster, led
from broker.memory_log import MemoryLog, MemoryLogs
from kcore.broker.replicas.appending import append_as_follower
from kcore.broker.replicas.replica import Role
from kcore.protocol_errors import Errors, exception_of
from kcore.types import Uuid
from storage import building


@pytest.mark.covers("article 1", "article 2", "article F.5", "article becomeLeader 4")
def test_a_commit_waits_for_all_in_sync() -> None:
    cluster = led()
    request = cluster.produce(1, b"a", b"b")
    assert cluster.code(request) is None and cluster.values(1) == []
    cluster.follow(2, 2)
    assert cluster.code(request) is None, "broker 3 has it not"
    cluster.follow(3, 2)
    assert cluster.code(request) is Errors.NONE and cluster.response_to(request).base_offset == 0
    assert cluster.values(1) == [b"a", b"b"]
    cluster.run()
    assert [cluster.log(each).values for each in cluster.ids] == [[b"a", b"b"]] * 3
    assert [cluster.log(each).high_watermark for each in cluster.ids] == [2] * 3


@pytest.mark.parametrize("acks", [0, 1])
def test_other_acks_do_not_wait(acks: int) -> None:
    cluster = led()
    assert cluster.code(cluster.produce(1, b"a", acks=acks)) is Errors.NONE
    assert cluster.log(1).high_watermark == 0


@pytest.mark.covers("article becomeLeader 3")
def test_what_is_refused() -> None:
    cluster = led()
    assert cluster.code(cluster.produce(1, b"a", acks=2)) is Errors.INVALID_REQUIRED_ACKS
    assert cluster.code(cluster.produce(2, b"a")) is Errors.NOT_LEADER_OR_FOLLOWER
    broken = bytearray(building.batch(0))
    broken[-1] ^= 1
    assert cluster.code(cluster.produce(1, data=bytes(broken))) is Errors.CORRUPT_MESSAGE
    assert cluster.code(cluster.produce(1, data=building.batch(0) * 2)) is Errors.INVALID_RECORD
    assert cluster.code(cluster.produce(1, data=building.batch(0, attributes=0x20))) is Errors.INVALID_RECORD
    assert cluster.code(cluster.produce(1, b"x" * 2_000_000)) is Errors.MESSAGE_TOO_LARGE
    assert cluster.log(1).end_offset == 0


def test_a_produce_that_takes_too_long() -> None:
    cluster = led()
    cluster.paused = {2, 3}
    request = cluster.produce(1, b"a")
    cluster.pass_time(9_999)
    assert cluster.code(request) is None
    cluster.pass_time(1)
    assert cluster.code(request) is Errors.REQUEST_TIMED_OUT


@pytest.mark.covers("B12")
def test_min_insync_replicas() -> None:
    """B12: commits below the minimum ISR would break the promise to producers."""
    cluster = led(min_insync_replicas=2)
    request = cluster.produce(1, b"a")
    cluster.elect(1, [1])
    assert cluster.code(request) is None and cluster.log(1).high_watermark == 0
    assert cluster.code(cluster.produce(1, b"b")) is Errors.NOT_ENOUGH_REPLICAS
    assert cluster.code(cluster.produce(1, b"c", acks=1)) is Errors.NONE
    cluster.run()
    assert sorted(cluster.isr) == [1, 2, 3] and cluster.code(request) is Errors.NONE
    assert cluster.values(1) == [b"a", b"c"]


def test_committed_but_too_few_are_left() -> None:
    cluster = led(min_insync_replicas=2)
    request = cluster.produce(1, b"a")
    cluster.follow(2, 2)
    leader = cluster.partition(1)
    leader.settings.min_insync_replicas = 1
    cluster.elect(1, [1, 2])
    assert cluster.code(request) is Errors.NONE


@pytest.mark.covers("B3", "article 9.1", "article maybe_change_ISR 1", "article maybe_change_ISR 2")
def test_who_lags_leaves_the_isr_and_comes_back() -> None:
    cluster = led()
    cluster.paused = {3}
    request = cluster.produce(1, b"a")
    for _ in range(40):
        cluster.pass_time(1_000)
        cluster.follow(2, 2)
        cluster.settle_isr()
        assert (3 in cluster.isr) == (cluster.log(1).high_watermark == 0), "B3: a smaller ISR commits more"
    assert sorted(cluster.isr) == [1, 2] and cluster.code(request) is Errors.REQUEST_TIMED_OUT
    cluster.paused.clear()
    cluster.run()
    assert sorted(cluster.isr) == [1, 2, 3]


def test_an_idle_follower_stays_in_sync_as_long_as_it_fetches() -> None:
    cluster = led()
    for _ in range(100):
        cluster.pass_time(500)
        cluster.follow(2)
        cluster.follow(3)
        assert not cluster.brokers[1].isr_changes


def test_a_slow_follower_of_a_busy_leader_is_in_sync() -> None:
    """It never has all records, but each fetch has all records of the fetch before."""
    cluster = led()
    for _ in range(100):
        cluster.produce(1, b"a", acks=1)
        cluster.follow(2)
        cluster.follow(3)
        cluster.pass_time(500)
        assert not cluster.brokers[1].isr_changes
    assert cluster.log(1).high_watermark > 90


@pytest.mark.covers("article maybe_change_ISR 1")
def test_lag_in_data_as_the_article_has_it() -> None:
    cluster = led(replica_lag_max_offsets=5)
    cluster.paused = {3}
    for _ in range(6):
        cluster.produce(1, b"a", acks=1)
        cluster.follow(2, 2)
    cluster.pass_time(10)
    assert [member.broker_id for member in cluster.alter_partition(1).topics[0].partitions[0].new_isr_with_epochs] == [
        *(1, 2)
    ]


def test_one_who_may_be_in_holds_the_commit_back() -> None:
    """The maximal ISR: the controller may have taken 3 in already."""
    cluster = led()
    cluster.elect(1, [1, 2])
    cluster.follow(3, 2)
    assert cluster.partition(1).maximal_isr == (1, 2, 3) and cluster.partition(1).isr == (1, 2)
    request = cluster.produce(1, b"a")
    cluster.follow(2, 2)
    assert cluster.code(request) is None
    cluster.follow(3, 2)
    assert cluster.code(request) is Errors.NONE


def test_a_refused_expansion_is_taken_back() -> None:
    cluster = led()
    cluster.elect(1, [1, 2])
    cluster.follow(3, 2)
    assert cluster.alter_partition(1).topics[0].partitions[0].partition_epoch == cluster.partition_epoch
    cluster.answer_isr(1, Errors.INELIGIBLE_REPLICA)
    assert cluster.partition(1).pending is None and cluster.partition(1).maximal_isr == (1, 2)
    cluster.follow(3)
    assert len(cluster.brokers[1].isr_changes) == 1, "its next fetch asks again"


@pytest.mark.covers("article maybe_change_ISR 4")
@pytest.mark.parametrize("error", [Errors.FENCED_LEADER_EPOCH, Errors.INVALID_UPDATE_VERSION, Errors.INVALID_REQUEST])
def test_the_controller_knows_better(error: Errors) -> None:
    cluster = led()
    cluster.elect(1, [1, 2])
    cluster.follow(3, 2)
    cluster.alter_partition(1)
    cluster.answer_isr(1, error)
    cluster.follow(3, 2)
    assert not cluster.brokers[1].isr_changes and cluster.partition(1).pending is not None
    cluster.elect(1, [1, 2, 3])
    assert cluster.partition(1).pending is None and cluster.partition(1).isr == (1, 2, 3)


def test_other_errors_are_asked_again() -> None:
    cluster = led()
    cluster.elect(1, [1, 2])
    cluster.follow(3, 2)
    cluster.alter_partition(1)
    cluster.answer_isr(1, Errors.UNKNOWN_SERVER_ERROR)
    assert cluster.brokers[1].isr_changes.wait_ms(cluster.now_ms) == 0
    cluster.settle_isr()
    assert sorted(cluster.isr) == [1, 2, 3]


@pytest.mark.covers("B1")
def test_an_answer_that_a_leader_and_isr_overtook() -> None:
    """B1: it neither drops nor revives what holds since."""
    cluster = led()
    cluster.elect(1, [1, 2])
    cluster.follow(3, 2)
    cluster.alter_partition(1)
    cluster.elect(1, [1])
    cluster.answer_isr(1, isr=[1, 2, 3], partition_epoch=cluster.partition_epoch + 5, leader_epoch=cluster.epoch)
    assert cluster.partition(1).isr == (1,)
    cluster.run()
    assert sorted(cluster.isr) == [1, 2, 3] and cluster.partition(1).isr == tuple(cluster.isr)


@pytest.mark.covers("B2")
def test_an_answer_with_the_same_partition_epoch_ends_the_flight() -> None:
    """B2: the controller had that ISR already."""
    cluster = led()
    cluster.elect(1, [1, 2])
    cluster.follow(3, 2)
    cluster.alter_partition(1)
    cluster.answer_isr(1, isr=[1, 2, 3])
    assert cluster.partition(1).pending is None and cluster.partition(1).isr == (1, 2, 3)


@pytest.mark.covers("B5")
def test_a_lost_answer_is_asked_again_with_the_same_epoch() -> None:
    """B5"""
    cluster = led()
    cluster.elect(1, [1, 2])
    cluster.follow(3, 2)
    first = cluster.alter_partition(1)
    cluster.brokers[1].on_alter_partition(None, cluster.now_ms)
    assert cluster.brokers[1].isr_changes.wait_ms(cluster.now_ms) == 50
    assert cluster.alter_partition(1) == first


@pytest.mark.covers("article F offsets")
def test_reads_between_the_high_watermark_and_the_end() -> None:
    """003.7, after a leader change too."""
    cluster = led()
    cluster.produce(1, b"a")
    cluster.run()
    cluster.produce(1, b"b", acks=1)
    for offset, error, found in [(0, 0, True), (1, 0, False), (2, 0, False), (3, 1, False), (-1, 1, False)]:
        data = cluster.fetch(1, offset)
        assert (data.error_code, bool(data.records)) == (error, found)
    cluster.follow(2, 2)
    assert cluster.log(2).end_offset == 2 and cluster.log(2).high_watermark == 1
    cluster.elect(2, [2, 3])
    for offset, error in [(1, 0), (2, 0), (3, 1)]:
        data = cluster.fetch(2, offset)
        assert (data.error_code, data.records, data.high_watermark) == (error, b"", -1 if error else 1)


def test_a_consumer_waits_for_a_commit_and_a_follower_for_an_append() -> None:
    cluster = led()
    cluster.fetch(1, 0, wait_ms=500)
    waits = cluster.requests
    assert cluster.fetched(waits) is None
    cluster.produce(1, b"a")
    assert cluster.fetched(waits) is None
    cluster.follow(2, 2)
    cluster.follow(3, 2)
    assert cluster.fetched(waits).records
    cluster.fetch(1, 1, wait_ms=500)
    waits = cluster.requests
    cluster.pass_time(500)
    assert cluster.fetched(waits).records == b"" and cluster.fetched(waits).error_code == 0
    cluster.fetch(1, 1, wait_ms=500, version=12, replica_id=2)
    waits = cluster.requests
    cluster.produce(1, b"b", acks=1)
    assert cluster.fetched(waits).records


def test_a_consumer_may_read_from_a_follower() -> None:
    cluster = led()
    cluster.produce(1, b"a")
    cluster.run()
    assert cluster.fetch(2, 0, version=11).records
    assert cluster.fetch(2, 0, version=10).error_code == Errors.NOT_LEADER_OR_FOLLOWER


def test_leader_epochs_of_a_fetch() -> None:
    cluster = led()
    assert cluster.fetch(1, 0, epoch=cluster.epoch).error_code == 0
    assert cluster.fetch(1, 0, epoch=cluster.epoch - 1).error_code == Errors.FENCED_LEADER_EPOCH
    assert cluster.fetch(1, 0, epoch=cluster.epoch + 1).error_code == Errors.UNKNOWN_LEADER_EPOCH
    assert cluster.fetch(1, 0, replica_id=7).error_code == Errors.NOT_LEADER_OR_FOLLOWER


@pytest.mark.covers("article F two leaders")
def test_a_zombie_leader_commits_nothing() -> None:
    """003.8: its followers fetch from another, its change of the ISR fails on the epoch."""
    cluster = led()
    cluster.produce(1, b"a")
    cluster.run()
    cluster.paused = {1}
    cluster.elect(2, [2, 3], 2, 3)
    zombie = cluster.produce(1, b"zombie")
    cluster.run()
    committed = cluster.produce(2, b"b")
    cluster.run()
    assert cluster.code(committed) is Errors.NONE and cluster.code(zombie) is None
    cluster.paused.clear()
    for _ in range(9):
        cluster.pass_time(5_000)
        cluster.run(1)
    assert cluster.code(zombie) is Errors.REQUEST_TIMED_OUT
    assert cluster.log(1).high_watermark == 1 and sorted(cluster.isr) == [2, 3]
    cluster.leader_and_isr(1)
    cluster.run()
    assert sorted(cluster.isr) == [1, 2, 3]
    assert [cluster.log(each).values for each in cluster.ids] == [[b"a", b"b"]] * 3


@pytest.mark.covers("article 9.2", "article F.6", "article becomeFollower 4", "article becomeFollower 5")
@pytest.mark.covers("article C.2.2", "article C.2.3")
@pytest.mark.parametrize("protocol", ["3.9", "2.8", "2.6", "0.11"])
def test_a_tail_that_was_not_committed_is_cut(protocol: str) -> None:
    cluster = led(inter_broker_protocol=protocol)
    cluster.produce(1, b"a")
    cluster.run()
    cluster.produce(1, b"lost 1", acks=1)
    cluster.produce(1, b"lost 2", acks=1)
    cluster.elect(2, [2, 3])
    assert cluster.code(cluster.produce(2, b"b", b"c", b"d")) is None
    cluster.run(8)
    assert [cluster.log(each).values for each in cluster.ids] == [[b"a", b"b", b"c", b"d"]] * 3
    assert len({tuple(cluster.log(each).epochs.entries) for each in cluster.ids}) == 1


def test_a_leader_without_the_data_of_its_followers() -> None:
    """An unclean election: followers truncate their logs to the leader's."""
    cluster = led()
    cluster.paused = {3}
    for value in (b"a", b"b", b"c"):
        cluster.produce(1, value, acks=1)
    cluster.paused.clear()
    cluster.follow(2, 2)
    cluster.elect(3, [3])
    cluster.run(8)
    assert [cluster.log(each).end_offset for each in cluster.ids] == [0, 0, 0]
    cluster.produce(3, b"d")
    cluster.run(8)
    assert [cluster.log(each).values for each in cluster.ids] == [[b"d"]] * 3


def test_a_follower_whose_next_offset_the_leader_has_deleted() -> None:
    cluster = led()
    cluster.log(1).truncate_fully_and_start_at(50)
    cluster.elect(1, [1])
    cluster.produce(1, b"late")
    cluster.run(8)
    assert [cluster.log(each).start_offset for each in cluster.ids] == [50] * 3
    assert [cluster.log(each).values for each in cluster.ids] == [[b"late"]] * 3


@pytest.mark.parametrize("protocol", ["3.9", "2.6"])
def test_a_follower_whose_leaders_log_starts_in_the_middle_of_a_batch(protocol: str) -> None:
    cluster = led(inter_broker_protocol=protocol)
    cluster.produce(1, b"a", b"b", b"c")
    cluster.produce(1, b"d")
    cluster.run()
    cluster.partition(1).delete_records(2)
    cluster.logs[3] = MemoryLogs()  # A new disk.
    cluster.start(3)
    cluster.elect(1)
    cluster.run(10)
    log = cluster.log(3)
    assert (log.start_offset, log.end_offset, log.high_watermark) == (2, 4, 4)
    assert log.values == [b"a", b"b", b"c", b"d"], "the batch is whole"
    assert sorted(cluster.isr) == [1, 2, 3]


@pytest.mark.parametrize(("first", "count", "start"), [(-1, 3, 0), (1, 1, 2), (3, 2, 2)])
def test_other_batches_do_not_move_an_empty_log(first: int, count: int, start: int) -> None:
    """Offsets below 0, a batch that ends below the log's start, and one behind it, which may come after a gap."""
    log = MemoryLog()
    log.truncate_fully_and_start_at(start)
    if first > start:
        append_as_follower(log, building.batch(first, [b"v"] * count))
        assert (log.start_offset, log.end_offset) == (start, first + count)
        return
    with pytest.raises(exception_of(Errors.CORRUPT_MESSAGE)):
        append_as_follower(log, building.batch(first, [b"v"] * count))
    assert (log.start_offset, log.end_offset) == (start, start)


def test_sequences() -> None:
    cluster = led()
    first = cluster.produce(1, b"a", b"b", producer=(7, 0, 0), acks=1)
    again = cluster.produce(1, b"a", b"b", producer=(7, 0, 0), acks=1)
    assert (
        cluster.response_to(first).base_offset == cluster.response_to(again).base_offset == 0
        and cluster.log(1).end_offset == 2
    )
    assert cluster.response_to(again).log_append_time_ms >= 0, (
        "a duplicate's is the batch's largest timestamp, as in Kafka"
    )
    gap = cluster.produce(1, b"d", producer=(7, 0, 3), acks=1)
    assert cluster.code(gap) is Errors.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert cluster.code(cluster.produce(1, b"c", producer=(7, 0, 2), acks=1)) is Errors.NONE
    assert cluster.code(cluster.produce(1, b"e", producer=(7, 1, 1), acks=1)) is Errors.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert cluster.code(cluster.produce(1, b"e", producer=(7, 1, 0), acks=1)) is Errors.NONE
    assert cluster.code(cluster.produce(1, b"f", producer=(7, 0, 3), acks=1)) is Errors.INVALID_PRODUCER_EPOCH
    cluster.run()
    cluster.elect(2)
    repeated = cluster.produce(2, b"e", producer=(7, 1, 0))
    cluster.run()
    assert cluster.response_to(repeated).base_offset == 3 and cluster.log(2).end_offset == 4, (
        "the new leader knows, too"
    )


def test_epochs_and_ids_below_minus_one() -> None:
    """ProducerAppendInfo of 3.9.1: -1 is the epoch of a producer that nothing is known of; ids below -1 are none."""
    cluster = led()
    assert cluster.code(cluster.produce(1, b"a", producer=(7, -2, 0), acks=1)) is Errors.INVALID_PRODUCER_EPOCH
    assert cluster.code(cluster.produce(1, b"before", acks=1)) is Errors.NONE  # A new log takes 0 alone.
    assert cluster.code(cluster.produce(1, b"a", producer=(7, -1, 5), acks=1)) is Errors.NONE
    assert cluster.code(cluster.produce(1, b"b", producer=(7, 4, 99), acks=1)) is Errors.NONE
    assert cluster.code(cluster.produce(1, b"c", producer=(7, 4, 5), acks=1)) is Errors.OUT_OF_ORDER_SEQUENCE_NUMBER
    for _ in range(2):
        assert cluster.code(cluster.produce(1, b"d", producer=(-2, 0, 3), acks=1)) is Errors.NONE
    assert cluster.log(1).producers.by_id.keys() == {7} and cluster.log(1).end_offset == 5


def test_a_follower_of_a_broker_that_is_not_alive_waits_for_metadata() -> None:
    cluster = Cluster()
    cluster.update_metadata([2, 3])
    assert cluster.leader_and_isr(2) == [0]
    assert not cluster.brokers[2].fetchers and cluster.partition(2).role is Role.STARTED
    cluster.update_metadata()
    assert cluster.leader_and_isr(2) == [0], "the same leader epoch is still applied"
    assert cluster.partition(2).role is Role.FOLLOWER and cluster.follow(2) == 1


@pytest.mark.covers("article E.4")
def test_a_log_of_another_topic_of_that_name() -> None:
    cluster = led()
    cluster.start(2)
    cluster.elect(1)
    cluster.start(2)
    cluster.update_metadata()
    assert cluster.leader_and_isr(2, topic_id=Uuid(b"u" * 16)) == [Errors.INCONSISTENT_TOPIC_ID]
    assert cluster.leader_and_isr(2, topic_id=TOPIC_ID) == [0]


@pytest.mark.covers("article stopReplica 2.1", "article stopReplica 2.3")
def test_stop_replica() -> None:
    cluster = led()
    assert cluster.stop_replica(2, delete=False, epoch=cluster.epoch - 1) == Errors.FENCED_LEADER_EPOCH
    assert cluster.stop_replica(2, delete=False) == 0
    assert cluster.follow(2) == 0 and cluster.partition(2).role is Role.STOPPED
    cluster.produce(1, b"a", acks=1)
    cluster.elect(1)
    cluster.run()
    assert cluster.log(2).values == [b"a"], "the next LeaderAndIsr starts it again"
    assert cluster.stop_replica(2, delete=True) == 0
    assert not cluster.logs[2].by_key and KEY not in cluster.brokers[2].partitions
    assert cluster.fetch(2, 0).error_code == Errors.NOT_LEADER_OR_FOLLOWER


@pytest.mark.covers("article becomeFollower 2", "article becomeFollower 3")
def test_waiting_requests_are_answered_at_the_end_of_the_leadership() -> None:
    cluster = led()
    produced = cluster.produce(1, b"a")
    cluster.fetch(1, 1, wait_ms=500, version=10)
    cluster.elect(2)
    assert cluster.code(produced) is Errors.NOT_LEADER_OR_FOLLOWER
    assert cluster.fetched(cluster.requests).error_code == Errors.NOT_LEADER_OR_FOLLOWER


@pytest.mark.covers("article C.3", "article E.4", "article D.3")
def test_a_full_request_removes_strays() -> None:
    cluster = led()
    cluster.logs[2].hold(("stray", 3), Uuid(b"s" * 16), is_new=True)
    cluster.epoch += 1
    cluster.leader_and_isr(2, type_=1)
    assert ("stray", 3) in cluster.logs[2].by_key
    cluster.epoch += 1
    cluster.leader_and_isr(2, type_=2)
    assert [*cluster.logs[2].by_key] == [KEY]
    assert cluster.logs[2].strays == [("stray", 3)], "kept under another name"


@pytest.mark.covers("article 9.2", "article E.3.1", "article E.3.3")
def test_a_replica_that_comes_back_with_its_log() -> None:
    cluster = led()
    cluster.produce(1, b"a")
    cluster.run()
    cluster.start(3)
    cluster.elect(1, [1, 2])
    cluster.produce(1, b"b")
    cluster.run()
    assert cluster.log(3).values == [b"a", b"b"] and sorted(cluster.isr) == [1, 2, 3]
