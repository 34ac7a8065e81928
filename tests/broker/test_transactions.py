"""Transactions in partitions that kcore's brokers lead and follow: visible records, producer fencing (KIP-98, 890).

Producer 7 has epoch 0 unless a test says so; t-0 is led by broker 1, all three are in sync.
"""

from typing import Any

import pytest

from broker.cluster import KEY, Cluster, led
from kcore.broker.replicas.deleting import on_delete_records
from kcore.broker.replicas.describing import on_describe_producers
from kcore.broker.replicas.markers import on_write_txn_markers
from kcore.broker.replicas.transactions import EndMarker, encode_end_marker
from kcore.protocol_errors import ApiException, Errors
from kcore.schema.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kcore.schema.producers import DescribeProducersRequest, TopicRequest
from kcore.schema.topics import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from kcore.schema.transactions import WritableTxnMarker, WritableTxnMarkerTopic, WriteTxnMarkersRequest
from kcore.wire.record_batch import CONTROL, TRANSACTIONAL, scan_batches
from kcore.wire.records import decode_records
from storage import building

PRODUCER = (7, 0)


def write(
    cluster: Cluster, *values: bytes, sequence: int = 0, epoch: int = 0, to: int = 1, producer_id: int = 7
) -> int:
    """A batch of the transaction "x"; its coordinator has the partition in it."""
    request = cluster.produce(to, *values, producer=(producer_id, epoch, sequence), transaction="x")
    cluster.verify(to)
    return request


def committed(cluster: Cluster, to: int = 1, offset: int = 0) -> tuple[list[bytes], list[tuple[int, int]], int]:
    """The result of a read_committed fetch: values, aborted transactions, last stable offset."""
    data = cluster.fetch(to, offset, isolation_level=1)
    values = [
        record.value or b""
        for record in (decode_records(data.records) if data.records else ())
        if record.control_type is None
    ]
    return (
        values,
        [(each.producer_id, each.first_offset) for each in data.aborted_transactions],
        data.last_stable_offset,
    )


def latest(cluster: Cluster, isolation_level: int) -> int:
    request = ListOffsetsRequest(replica_id=-1, isolation_level=isolation_level)
    asked = ListOffsetsPartition(partition_index=0, timestamp=-1)
    request.topics = [ListOffsetsTopic(name="t", partitions=[asked])]
    offset: int = cluster.ask(1, request, 9).topics[0].partitions[0].offset
    return offset


def test_a_transaction_is_read_when_its_end_is_committed() -> None:
    cluster = led()
    assert cluster.code(cluster.produce(1, b"before", acks=1)) is Errors.NONE
    request = write(cluster, b"a", b"b")
    cluster.produce(1, b"beside", acks=1)
    cluster.run()
    assert cluster.code(request) is Errors.NONE
    assert committed(cluster) == ([b"before"], [], 1)
    assert cluster.values(1) == [b"before", b"a", b"b", b"beside"], "read_uncommitted"
    assert (latest(cluster, 0), latest(cluster, 1)) == (4, 1)
    marker = cluster.end(1, PRODUCER, commit=True)
    assert cluster.marked(marker) is None, "it is not on the others yet"
    assert committed(cluster)[2] == 1, "an end that may be cut off again decides nothing"
    cluster.run()
    assert cluster.marked(marker) is Errors.NONE
    assert committed(cluster) == ([b"before", b"a", b"b", b"beside"], [], 5)
    assert (latest(cluster, 0), latest(cluster, 1)) == (5, 5)


def test_readers_get_the_aborted_transactions() -> None:
    cluster = led()
    write(cluster, b"a")
    write(cluster, b"other", producer_id=8)
    cluster.end(1, PRODUCER, commit=False)
    cluster.end(1, (8, 0), commit=True)
    write(cluster, b"again", sequence=1)
    cluster.end(1, PRODUCER, commit=True)
    cluster.run()
    assert committed(cluster) == ([b"a", b"other", b"again"], [(7, 0)], 6)
    assert committed(cluster, offset=2) == ([b"again"], [(7, 0)], 6), "its end is among what is read"
    assert committed(cluster, offset=3) == ([b"again"], [], 6)
    assert cluster.fetch(1, 0).aborted_transactions is None, "read_uncommitted"


@pytest.mark.parametrize("version", [11, 12])
def test_followers_know_the_same_and_lead_on_with_it(version: int) -> None:
    cluster = led()
    write(cluster, b"a")
    cluster.end(1, PRODUCER, commit=False)
    write(cluster, b"b", sequence=1)
    cluster.run()
    consumer: dict[str, Any] = {"isolation_level": 1}
    if version == 12:
        assert cluster.fetch(2, 0, version=version, **consumer).last_stable_offset == 2, "a follower may be read"
    cluster.elect(2)
    cluster.run()
    assert committed(cluster, 2) == ([b"a"], [(7, 0)], 2)
    assert cluster.code(cluster.produce(2, b"c", producer=(7, 0, 2), transaction="x", acks=1)) is Errors.NONE
    assert cluster.verifications == [], "the transaction is open here"
    cluster.end(2, PRODUCER, commit=True)
    cluster.run()
    assert committed(cluster, 2) == ([b"a", b"b", b"c"], [(7, 0)], 5)
    assert [cluster.log(each).values for each in cluster.ids] == [cluster.log(2).values] * 3


def test_an_end_that_is_cut_off_never_was() -> None:
    cluster = led()
    write(cluster, b"a")
    cluster.run()
    cluster.paused = {2, 3}
    cluster.end(1, PRODUCER, commit=True)
    cluster.elect(2, [2, 3])
    cluster.paused = set()
    cluster.run()
    assert committed(cluster, 2) == ([], [], 0)
    cluster.end(2, PRODUCER, commit=False)
    cluster.run()
    assert committed(cluster, 2) == ([b"a"], [(7, 0)], 2)
    assert committed(cluster, 1) == ([b"a"], [(7, 0)], 2)


# Checks of producers.


def test_no_batch_is_appended_before_its_coordinator_has_the_partition() -> None:
    cluster = led()
    request = cluster.produce(1, b"a", producer=(7, 0, 0), transaction="x")
    [asked] = cluster.verifications
    assert (asked.transactional_id, asked.producer_id, asked.producer_epoch, asked.keys) == ("x", 7, 0, (KEY,))
    assert cluster.log(1).end_offset == 0
    cluster.verify(1)
    assert cluster.log(1).end_offset == 1
    cluster.run()
    assert cluster.code(request) is Errors.NONE


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (Errors.INVALID_TXN_STATE, Errors.INVALID_TXN_STATE),
        (Errors.TRANSACTION_ABORTABLE, Errors.TRANSACTION_ABORTABLE),
        (Errors.PRODUCER_FENCED, Errors.INVALID_PRODUCER_EPOCH),
        (Errors.CLUSTER_AUTHORIZATION_FAILED, Errors.INVALID_TXN_STATE),
        (Errors.NOT_COORDINATOR, Errors.NOT_ENOUGH_REPLICAS),
        (Errors.NETWORK_EXCEPTION, Errors.NOT_ENOUGH_REPLICAS),
        (Errors.INVALID_PRODUCER_ID_MAPPING, Errors.INVALID_PRODUCER_ID_MAPPING),
    ],
)
def test_what_the_coordinator_refuses_is_not_appended(error: Errors, expected: Errors) -> None:
    cluster = led()
    request = cluster.produce(1, b"a", producer=(7, 0, 0), transaction="x")
    cluster.verify(1, error)
    assert cluster.code(request) is expected and cluster.log(1).end_offset == 0


def test_an_unverified_batch_of_a_disconnected_client_is_not_appended() -> None:
    """It would take memory for as long as its coordinator does not answer; its producer will send it again."""
    cluster = led()
    request = cluster.produce(1, b"a", producer=(7, 0, 0), transaction="x")
    manager = cluster.brokers[1]
    manager.forget(request)
    assert not manager.verifying.by_id
    cluster.verify(1)
    assert cluster.log(1).end_offset == 0 and request not in cluster.answers
    again = cluster.produce(1, b"a", producer=(7, 0, 0), transaction="x")
    cluster.verify(1)
    cluster.run()
    assert cluster.code(again) is Errors.NONE


def test_an_answer_that_comes_after_the_end_is_void() -> None:
    """The transaction has ended since the coordinator's answer: its batch would begin one that never ends."""
    cluster = led()
    request = cluster.produce(1, b"late", producer=(7, 0, 0), transaction="x")
    cluster.end(1, PRODUCER, commit=False)
    cluster.verify(1)
    assert cluster.code(request) is Errors.INVALID_TXN_STATE
    cluster.run()
    assert cluster.log(1).end_offset == 1 and committed(cluster)[2] == 1


def test_a_later_batch_does_not_overtake_one_that_is_verified_still() -> None:
    cluster = led()
    cluster.produce(1, b"first", producer=(7, 0, 0), transaction="x")
    cluster.verify(1, Errors.NOT_COORDINATOR)
    second = cluster.produce(1, b"second", producer=(7, 0, 1), transaction="x")
    cluster.verify(1)
    assert cluster.code(second) is Errors.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert cluster.code(write(cluster, b"first")) is None and cluster.log(1).end_offset == 1


def test_a_coordinator_that_does_not_answer() -> None:
    cluster = led()
    request = cluster.produce(1, b"a", producer=(7, 0, 0), transaction="x")
    cluster.pass_time(9_999)
    assert cluster.code(request) is None
    cluster.pass_time(1)
    assert cluster.code(request) is Errors.NOT_ENOUGH_REPLICAS, "the producer tries again"
    cluster.verify(1)
    assert cluster.log(1).end_offset == 0, "an answer after that appends nothing"


def test_what_no_producer_of_kafka_sends() -> None:
    cluster = led()
    batch = building.batch(0, [b"a"], producer=(7, 0, 0), attributes=TRANSACTIONAL)
    assert cluster.code(cluster.produce(1, data=batch)) is Errors.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert cluster.verifications == [] and cluster.log(1).end_offset == 0
    write(cluster, b"a")
    outside = cluster.produce(1, b"b", producer=(7, 0, 1), acks=1)
    assert cluster.code(outside) is Errors.INVALID_TXN_STATE, "not in its transaction, which is open"
    assert cluster.code(cluster.produce(2, b"c", producer=(7, 0, 0), transaction="x")) is Errors.NOT_LEADER_OR_FOLLOWER


def test_a_repeated_batch_gets_the_offsets_of_the_first() -> None:
    cluster = led()
    write(cluster, b"a")
    again = cluster.produce(1, b"a", producer=(7, 0, 0), transaction="x", acks=1)
    assert cluster.response_to(again).base_offset == 0 and cluster.log(1).end_offset == 1


# Ends.


def test_ends_that_come_too_late_are_fenced() -> None:
    cluster = led()
    write(cluster, b"a", epoch=3)
    assert cluster.marked(cluster.end(1, (7, 2), commit=True)) is Errors.INVALID_PRODUCER_EPOCH
    cluster.end(1, (7, 4), commit=False, coordinator_epoch=5)
    assert cluster.code(write(cluster, b"b", sequence=1, epoch=3)) is Errors.INVALID_PRODUCER_EPOCH
    fenced = cluster.end(1, (7, 4), commit=False, coordinator_epoch=4)
    assert cluster.marked(fenced) is Errors.TRANSACTION_COORDINATOR_FENCED
    again = cluster.end(1, (7, 4), commit=False, coordinator_epoch=5)
    cluster.run()
    assert cluster.marked(again) is Errors.NONE, "its answer was lost: repeated, it is written again"
    assert committed(cluster)[1:] == ([(7, 0)], 3)


@pytest.mark.parametrize("producer", [(-1, 0), (-1, -1), (7, -1)])
def test_an_end_of_no_producer_is_refused_with_its_whole_request(producer: tuple[int, int]) -> None:
    """MemoryRecordsBuilder throws IllegalArgumentException; no part of such a request is appended."""
    cluster = led()
    write(cluster, b"a")
    topics = [WritableTxnMarkerTopic(name="t", partition_indexes=[0])]
    ends = [
        WritableTxnMarker(producer_id=each, producer_epoch=epoch, transaction_result=True, topics=topics)
        for each, epoch in (PRODUCER, producer)
    ]
    cluster.requests += 1
    request = WriteTxnMarkersRequest(markers=ends)
    on_write_txn_markers(cluster.brokers[1], cluster.requests, request, cluster.now_ms, building.TIME_MS)
    cluster.perform(1)
    response = cluster.answers[cluster.requests]
    codes = [each.error_code for marker in response.markers for each in marker.topics[0].partitions]
    assert codes == [Errors.UNKNOWN_SERVER_ERROR] * 2 and cluster.log(1).end_offset == 1


def test_ends_that_cannot_be_written_are_tried_again_by_the_coordinator() -> None:
    cluster = led(min_insync_replicas=2)
    assert cluster.marked(cluster.end(2, PRODUCER, commit=True)) is Errors.NOT_LEADER_OR_FOLLOWER
    cluster.paused = {2, 3}
    waiting = cluster.end(1, PRODUCER, commit=True)
    cluster.pass_time(30_000)
    assert cluster.marked(waiting) is Errors.REQUEST_TIMED_OUT
    cluster.elect(1, [1], 1)
    assert cluster.marked(cluster.end(1, PRODUCER, commit=True)) is Errors.NOT_ENOUGH_REPLICAS
    waiting = cluster.end(2, PRODUCER, commit=True)
    assert cluster.marked(waiting) is Errors.NOT_LEADER_OR_FOLLOWER
    cluster.log(1).fails = True
    cluster.elect(1, [1, 2, 3], 1)
    assert cluster.marked(cluster.end(1, PRODUCER, commit=True)) is Errors.KAFKA_STORAGE_ERROR
    cluster.stop_replica(2, delete=True)
    assert cluster.marked(cluster.end(2, PRODUCER, commit=True)) in (
        Errors.UNKNOWN_TOPIC_OR_PARTITION,
        Errors.NOT_LEADER_OR_FOLLOWER,
    )


@pytest.mark.parametrize(
    "broken",
    [
        building.batch(1, [b"value"], attributes=CONTROL | TRANSACTIONAL, key=b"k", producer=(7, 0, -1)),
        building.batch(1, [b"v"], attributes=CONTROL | TRANSACTIONAL, key=b"\0\0\0\1", producer=(7, 0, -1)),
        building.batch(1, [b"v" * 2000], attributes=CONTROL | TRANSACTIONAL, key=b"\0\0\0\1", producer=(7, 0, -1)),
    ],
    ids=["a key of one byte", "a value of one byte", "too large"],
)
def test_an_end_that_cannot_be_read_is_not_stored(broken: bytes) -> None:
    cluster = led()
    write(cluster, b"a")
    log = cluster.log(1)
    with pytest.raises(ApiException) as refused:
        log.append(broken, scan_batches(broken))
    assert refused.value.error is Errors.CORRUPT_MESSAGE
    assert log.end_offset == 1 and len(log.batches) == 1


def test_control_batches_that_end_nothing() -> None:
    """A control batch of another type, and one whose record was compacted."""
    cluster = led()
    write(cluster, b"a")
    log = cluster.log(1)
    other = building.batch(1, [b"v"], attributes=CONTROL | TRANSACTIONAL, key=b"\0\0\0\5", producer=(7, 0, -1))
    log.append(other, scan_batches(other))
    assert log.producers.by_id[7].transaction_offset == 0
    assert encode_end_marker(
        EndMarker(is_commit=True, coordinator_epoch=1), 7, 0, offset=2, leader_epoch=0, timestamp_ms=5
    ) == building.batch(
        2,
        [b"\0\0\0\0\0\1"],
        key=b"\0\0\0\1",
        time_ms=5,
        attributes=CONTROL | TRANSACTIONAL,
        producer=(7, 0, -1),
    )


# Administrators.


def test_producers_are_described() -> None:
    cluster = led()
    write(cluster, b"a", b"b")
    cluster.end(1, (8, 2), commit=True, coordinator_epoch=3)
    again = TopicRequest(name="t", partition_indexes=[9, 0])
    request = DescribeProducersRequest(topics=[TopicRequest(name="t", partition_indexes=[0, 9, 0]), again])
    [topic] = on_describe_producers(cluster.brokers[1], request, set()).topics
    response_to, unknown = topic.partitions
    assert unknown.error_code == Errors.UNKNOWN_TOPIC_OR_PARTITION
    first, second = response_to.active_producers
    assert (first.producer_id, first.producer_epoch, first.last_sequence, first.current_txn_start_offset) == (
        7,
        0,
        1,
        0,
    )
    assert (first.coordinator_epoch, first.last_timestamp) == (-1, building.TIME_MS)
    assert (second.producer_id, second.producer_epoch, second.last_sequence) == (8, 2, -1)
    assert (second.coordinator_epoch, second.current_txn_start_offset) == (3, -1)


def delete_records(cluster: Cluster, offset: int, to: int = 1, topic: str = "t") -> int:
    cluster.requests += 1
    partition = DeleteRecordsPartition(partition_index=0, offset=offset)
    request = DeleteRecordsRequest(topics=[DeleteRecordsTopic(name=topic, partitions=[partition])], timeout_ms=5_000)
    on_delete_records(cluster.brokers[to], cluster.requests, request, cluster.now_ms)
    cluster.perform(to)
    return cluster.requests


def deleted(cluster: Cluster, request: int) -> tuple[Errors, int] | None:
    if request not in cluster.answers:
        return None
    [response_to] = cluster.answers[request].topics[0].partitions
    return Errors(response_to.error_code), response_to.low_watermark


def test_records_are_deleted_on_all_replicas() -> None:
    cluster = led()
    cluster.produce(1, b"a", b"b", b"c")
    cluster.run()
    request = delete_records(cluster, 2)
    assert deleted(cluster, request) is None, "followers begin earlier"
    cluster.run()
    assert deleted(cluster, request) == (Errors.NONE, 2)
    assert [cluster.log(each).start_offset for each in cluster.ids] == [2, 2, 2]
    assert deleted(cluster, delete_records(cluster, 1)) == (Errors.NONE, 2)
    cluster.paused = {3}
    request = delete_records(cluster, -1)
    cluster.run()
    cluster.pass_time(5_000)
    assert deleted(cluster, request) == (Errors.REQUEST_TIMED_OUT, 2)
    request = delete_records(cluster, -1)
    assert deleted(cluster, request) is None
    cluster.update_metadata(live=[1, 2])
    assert deleted(cluster, request) == (Errors.NONE, 3), "who is dead is not waited for"


def test_records_that_cannot_be_deleted() -> None:
    cluster = led()
    cluster.produce(1, b"a", acks=1)
    assert deleted(cluster, delete_records(cluster, 1)) == (Errors.OFFSET_OUT_OF_RANGE, -1), "not committed"
    assert deleted(cluster, delete_records(cluster, -7)) == (Errors.OFFSET_OUT_OF_RANGE, -1)
    assert deleted(cluster, delete_records(cluster, 0, to=2)) == (Errors.NOT_LEADER_OR_FOLLOWER, -1)
    topic = "__consumer_offsets"
    assert deleted(cluster, delete_records(cluster, 0, topic=topic)) == (Errors.INVALID_TOPIC_EXCEPTION, -1)
    cluster.partition(1).settings.deletes = False
    assert deleted(cluster, delete_records(cluster, 0)) == (Errors.POLICY_VIOLATION, -1)
