"""Small requests cost a broker little: repeated names, waiting fetches, sessions."""

from random import Random
from typing import Any

import pytest

from broker.cluster import TOPIC_ID, Cluster, led
from kcore.broker.replicas import fetch_sessions, fetching
from kcore.broker.replicas.describing import on_describe_producers
from kcore.broker.replicas.fetch_sessions import FetchSessionCache
from kcore.broker.replicas.fetching import on_fetch
from kcore.broker.replicas.offsets import on_list_offsets, repeated_in
from kcore.broker.replicas.outputs import SendInSteps
from kcore.broker.replicas.producers import Producers
from kcore.broker.replicas.producing import drop_repeated
from kcore.protocol_errors import Errors
from kcore.schema.fetch import FetchPartition, FetchRequest, FetchTopic
from kcore.schema.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kcore.schema.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kcore.schema.producers import DescribeProducersRequest, TopicRequest
from kcore.steps import finished
from kcore.wire.record_batch import scan_batches
from storage import building


def test_the_producers_of_a_repeated_partition_are_described_once() -> None:
    cluster = led()
    cluster.produce(1, b"v", producer=(7, 0, 0))
    topics = [TopicRequest(name="t", partition_indexes=[0, 0, 9, 0]), TopicRequest(name="t", partition_indexes=[0])]
    answer = on_describe_producers(cluster.brokers[1], DescribeProducersRequest(topics=topics), set())
    assert [[each.partition_index for each in topic.partitions] for topic in answer.topics] == [[0, 9]]
    assert len(answer.topics[0].partitions[0].active_producers) == 1


def test_a_partition_that_is_named_twice_is_refused_by_list_offsets(monkeypatch: pytest.MonkeyPatch) -> None:
    """As ReplicaManager.fetchOffset does: each look-up of a time may read a whole segment."""
    cluster, looks = led(), []
    cluster.produce(1, b"v")
    monkeypatch.setattr(cluster.log(1), "find_timestamp", lambda timestamp: looks.append(timestamp), raising=False)
    asked = ListOffsetsPartition(partition_index=0, timestamp=5)

    def codes(*names: str) -> list[int]:
        request = ListOffsetsRequest(
            replica_id=-1, topics=[ListOffsetsTopic(name=name, partitions=[asked]) for name in names]
        )
        answer = on_list_offsets(cluster.brokers[1], request, 7, finished(repeated_in(request)))
        return [each.error_code for topic in answer.topics for each in topic.partitions]

    assert codes("t", "t") == [Errors.INVALID_REQUEST] * 2 and not looks
    assert codes("t") == [Errors.NONE] and looks == [5]


def test_of_a_partition_that_is_named_again_the_last_records_are_appended() -> None:
    def data(index: int, records: bytes) -> PartitionProduceData:
        return PartitionProduceData(index=index, records=records)

    topics = [
        TopicProduceData(name="t", partition_data=[data(0, b"0")]),
        TopicProduceData(name="t", partition_data=[data(0, b"1"), data(1, b"2"), data(0, b"3")]),
        TopicProduceData(name="u", partition_data=[data(0, b"4")]),
        TopicProduceData(name="t", partition_data=[data(0, b"5")]),
    ]
    request = ProduceRequest(acks=1, timeout_ms=1, topic_data=topics)
    finished(drop_repeated(request))
    left = [(topic.name, each.index, each.records) for topic in request.topic_data for each in topic.partition_data]
    assert left == [("t", 1, b"2"), ("u", 0, b"4"), ("t", 0, b"5")]
    assert [topic.name for topic in request.topic_data] == ["t", "u", "t"], "the first has no partition left"


# Fetches that wait.


def test_records_that_arrive_while_a_fetch_is_read_in_steps_answer_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The fetch waits for records only after its last step, and would miss them."""
    monkeypatch.setattr(fetching, "PARTITIONS_A_STEP", 1)
    cluster = led()
    partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=10**6)
    topics = [FetchTopic(topic="t", topic_id=TOPIC_ID, partitions=[partition])]
    request = FetchRequest(max_wait_ms=60_000, min_bytes=1, max_bytes=10**6, topics=topics, forgotten_topics_data=[])
    steps = on_fetch(cluster.brokers[1], 99, request, 12, cluster.now_ms)
    next(steps)  # It has read the empty partition.
    cluster.produce(1, b"v")
    cluster.run()
    finished(steps)
    cluster.perform(1)
    assert cluster.answers[99].responses[0].partitions[0].records


@pytest.mark.parametrize("ends", ["records", "time-out"])
def test_a_large_fetch_that_waits_is_answered_in_steps(ends: str, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = led(brokers=1)
    waiting = wait(cluster, least=1)
    monkeypatch.setattr(cluster, "perform", lambda broker_id: None)
    monkeypatch.setattr(fetching, "PARTITIONS_A_STEP", 1)
    manager = cluster.brokers[1]
    if ends == "records":
        cluster.produce(1, b"v")
    manager.tick(cluster.now_ms + 60_000)
    [output] = [each for each in manager.take_outputs() if isinstance(each, SendInSteps)]
    assert output.request_id == waiting and not manager.fetching.by_id
    next(output.steps)  # It has read the partition, and makes the response in another step.
    [partition] = finished(output.steps).responses[0].partitions
    assert bool(partition.records) == (ends == "records")


def wait(cluster: Cluster, least: int, most: int = 10**6, offset: int = 0, **asked: int) -> int:
    """A consumer's fetch of everything from there on; its id. `asked`: other fields of the partition."""
    cluster.requests += 1
    fields = {"current_leader_epoch": -1, "partition_max_bytes": 10**6} | asked
    partition = FetchPartition(partition=0, fetch_offset=offset, **fields)
    topics = [FetchTopic(topic="t", topic_id=TOPIC_ID, partitions=[partition])]
    request = FetchRequest(max_wait_ms=60_000, min_bytes=least, max_bytes=most, topics=topics, forgotten_topics_data=[])
    finished(on_fetch(cluster.brokers[1], cluster.requests, request, 12, cluster.now_ms))
    cluster.perform(1)
    return cluster.requests


def test_a_fetch_that_waits_reads_each_record_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Thousands of fetches may wait, each for more records than will arrive."""
    cluster = led(brokers=1)
    cluster.produce(1, bytes(5_000))
    log, read = cluster.log(1), []
    reads = log.read

    def counted(*given: Any, **options: Any) -> bytes:
        found = reads(*given, **options)
        read.append(len(found))
        return found

    monkeypatch.setattr(log, "read", counted, raising=False)
    waiting = wait(cluster, least=10**6)
    for _ in range(20):
        cluster.produce(1, b"v")
    assert waiting not in cluster.answers
    assert sum(read) == log_bytes(cluster), "no record is read again for one that comes later"


def log_bytes(cluster: Cluster) -> int:
    return len(cluster.log(1).read(0, 10**9, 10**9, at_least_one=True))


def test_a_fetch_that_waits_is_answered_with_all_that_there_is() -> None:
    cluster = led(brokers=1)
    cluster.produce(1, b"first")
    size = log_bytes(cluster)
    waiting = wait(cluster, least=size + 1)
    assert waiting not in cluster.answers
    cluster.produce(1, b"2")  # Less than it waits for by itself.
    records = cluster.fetched(waiting).records
    assert scan_batches(records).base_offset.tolist() == [0, 1]


def test_a_fetch_waits_for_no_more_than_it_may_get() -> None:
    """As KafkaApis.handleFetchRequest does: without it the fetch would always wait for its time-out."""
    cluster = led(brokers=1)
    cluster.produce(1, bytes(500))
    assert wait(cluster, least=2**31 - 1, most=400) in cluster.answers


def test_a_fetch_that_waits_counts_no_more_of_a_partition_than_it_may_get_of_it() -> None:
    """As DelayedFetch.tryComplete; of a partition that had nothing the first batch counts, however large it is."""
    cluster = led(brokers=1)
    first = wait(cluster, least=1, partition_max_bytes=100)
    cluster.produce(1, bytes(300))
    assert first in cluster.answers
    waiting = wait(cluster, least=500, offset=1, partition_max_bytes=200)
    for _ in range(10):
        cluster.produce(1, b"v")
    assert log_bytes(cluster) > 1_000 and waiting not in cluster.answers


def test_a_fetch_of_an_older_epoch_that_waits_gets_what_comes() -> None:
    """Its last epoch is of what is before its offset: behind what was found since, it does not mean a divergence."""
    cluster = led(brokers=1)
    cluster.produce(1, b"first")
    begin, epoch = log_bytes(cluster), cluster.epoch
    cluster.elect(1)
    cluster.produce(1, b"second")
    size = log_bytes(cluster) - begin
    waiting = wait(cluster, least=size + 1, offset=1, last_fetched_epoch=epoch)
    assert waiting not in cluster.answers
    cluster.produce(1, b"third")
    assert scan_batches(cluster.fetched(waiting).records).base_offset.tolist() == [1, 2]


def test_a_fetch_waits_for_no_more_than_the_broker_gives() -> None:
    cluster = led(brokers=1, fetch_max_bytes=400)
    cluster.produce(1, bytes(500))
    assert wait(cluster, least=1_000) in cluster.answers


# Sessions.


def request_of(begin: int, end: int, session: tuple[int, int] = (0, 0), replica: int = -1) -> FetchRequest:
    partitions = [FetchPartition(partition=index) for index in range(begin, end)]
    topics = [FetchTopic(topic="t", partitions=partitions)] if partitions else []
    return FetchRequest(
        session_id=session[0], session_epoch=session[1], replica_id=replica, topics=topics, forgotten_topics_data=[]
    )


def opened(cache: FetchSessionCache, begin: int, end: int, replica: int = -1) -> int:
    context = cache.new_context(request_of(begin, end, replica=replica), 12)
    assert not isinstance(context, Errors)
    return finished(context.response([])).session_id


def test_a_consumers_session_has_so_many_partitions(monkeypatch: pytest.MonkeyPatch) -> None:
    """A request of fifty bytes reads all partitions."""
    monkeypatch.setattr(fetch_sessions, "MOST_OF_A_CONSUMER", 5)
    cache = FetchSessionCache(10, Random(1).randrange)
    assert opened(cache, 0, 6) == 0
    kept = opened(cache, 0, 5)
    assert kept and cache.new_context(request_of(5, 6, (kept, 1)), 12) is Errors.FETCH_SESSION_ID_NOT_FOUND
    kept = opened(cache, 0, 6, replica=2)
    assert kept, "a follower's may have more"
    assert not isinstance(cache.new_context(request_of(6, 7, (kept, 1), replica=2), 12), Errors), "and grow"


def test_a_session_takes_no_name_that_no_topic_can_have() -> None:
    cache = FetchSessionCache(10, Random(1).randrange)
    request = request_of(0, 1, (opened(cache, 0, 1), 1))
    request.topics[0].topic = "n" * 250
    assert cache.new_context(request, 12) is Errors.FETCH_SESSION_ID_NOT_FOUND and cache.num_partitions == 0


def test_sessions_of_consumers_leave_room_for_those_of_followers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch_sessions, "MOST_PARTITIONS", 10)
    cache = FetchSessionCache(10, Random(1).randrange)
    for begin in (0, 5):
        assert opened(cache, begin, begin + 5)
    assert opened(cache, 10, 15) == 0, "a consumer's does not displace others that are in use"
    assert opened(cache, 0, 6, replica=2) and (cache.num_partitions, cache.evictions) == (6, 2)
    assert opened(cache, 6, 12, replica=3) == 0, "nor does a follower's displace another follower's"
    cache.set_time(fetch_sessions.EVICTION_MS + 1)
    assert opened(cache, 0, 9), "one that nobody has used for long gives way"


def test_a_session_that_grows_does_not_displace_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch_sessions, "MOST_PARTITIONS", 10)
    cache = FetchSessionCache(10, Random(1).randrange)
    grows, other = (opened(cache, 0, 5, replica=replica) for replica in (2, 3))
    cache.set_time(fetch_sessions.EVICTION_MS + 1)
    assert not isinstance(cache.new_context(request_of(0, 1, (other, 1), replica=3), 12), Errors)
    assert cache.new_context(request_of(5, 6, (grows, 1), replica=2), 12) is Errors.FETCH_SESSION_ID_NOT_FOUND
    assert [*cache.sessions] == [other] and (cache.num_partitions, cache.evictions) == (5, 0)


# Producers.


def written(producers: Producers, producer_id: int, timestamp: int, offset: int) -> None:
    data = building.batch(offset, [b"v"], producer=(producer_id, 0, 0), time_ms=timestamp)
    producers.take(scan_batches(data), {})


def test_producers_that_are_silent_for_long_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    producers = Producers()
    for producer_id, timestamp in ((1, 1_000), (2, 2_000), (3, 3_000)):
        written(producers, producer_id, timestamp, producer_id)
    producers.by_id[1].transaction_offset = 1
    producers.expire(2_000)
    assert [*producers.by_id] == [1, 3], "a transaction is open, or it has written since"


def test_of_a_partitions_producers_those_that_wrote_last_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kcore.broker.replicas.producers.MOST_PRODUCERS", 3)
    producers = Producers()
    for offset, producer_id in enumerate((1, 2, 3, 1, 4)):
        written(producers, producer_id, 1_000, offset)
    assert [*producers.by_id] == [3, 1, 4]
    producers.by_id[3].transaction_offset = 2
    written(producers, 5, 1_000, 9)
    assert [*producers.by_id] == [3, 4, 5], "no open transaction is forgotten"
