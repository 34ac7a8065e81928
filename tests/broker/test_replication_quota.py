"""Replication throttles (KIP-73): the rate, the leader's and the follower's side, and the settings of the limits."""

from typing import Any

import pytest

from broker.cluster import KEY, TOPIC_ID, Cluster, led
from kcore.broker.replicas import fetching
from kcore.broker.replicas.broker_config import BrokerConfig
from kcore.broker.replicas.fetching import on_fetch, size_of
from kcore.broker.replicas.partition import TopicSettings
from kcore.broker.replicas.replication_quota import (
    ALL_REPLICAS,
    ALTER_LOG_DIRS_RATE,
    FOLLOWER_RATE,
    LEADER_RATE,
    ReplicationQuota,
    ReplicationQuotas,
)
from kcore.node.zk.admin.broker_configs import THROTTLES
from kcore.schema.fetch import (
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from kcore.steps import finished
from kcore.wire.codec import encode

VALUE = b"v" * 1_000
BACKOFF_MS = 1_000


def test_only_listed_replicas_are_throttled() -> None:
    """The first and third case of Kafka's ReplicationQuotaManagerTest."""
    listed = {"topic1": frozenset({1, 2, 3}), "MyTopic": ALL_REPLICAS}
    quota = ReplicationQuota(lambda topic: listed.get(topic, ()))
    assert [quota.is_throttled(("topic1", index)) for index in (1, 2, 3, 4)] == [True, True, True, False]
    assert quota.is_throttled(("MyTopic", 0)) and not quota.is_throttled(("MyOtherTopic", 0))


def test_the_limit_is_exceeded_until_time_has_passed() -> None:
    """The numbers of Kafka's ReplicationQuotaManagerTest: ten windows of a second, 100 bytes a second."""
    quota = ReplicationQuota(lambda topic: (), windows=10)
    quota.limit = 100
    assert not quota.is_exceeded, "the first window begins with the first question"
    quota.set_time(1_500)
    for size, is_exceeded in ((1, False), (149, False), (1, True)):
        quota.record(size)
        assert quota.is_exceeded is is_exceeded
    assert quota.rate == 151 / 1.5
    quota.set_time(2_000)
    assert (quota.rate, quota.is_exceeded) == (151 / 2, False)
    quota.set_time(2_500)
    quota.record(99)
    assert (quota.rate, quota.is_exceeded) == (100, False)
    quota.record(1)
    assert (quota.rate, quota.is_exceeded) == (251 / 2.5, True)
    quota.set_time(4_500)
    assert (quota.rate, quota.is_exceeded) == (251 / 4.5, False)
    assert quota.bytes == 251


def test_without_a_limit_nothing_is_exceeded() -> None:
    quota = ReplicationQuota(lambda topic: ALL_REPLICAS)
    quota.record(1 << 40)
    assert not quota.is_exceeded
    quota.limit = 0
    assert quota.is_exceeded, "a changed limit counts what was recorded before"


def test_time_does_not_go_back() -> None:
    quota = ReplicationQuota(lambda topic: ALL_REPLICAS)
    quota.set_time(5_000)
    quota.record(10)
    quota.set_time(0)
    assert quota.rate == 10


def test_a_brokers_own_limit_goes_before_the_default() -> None:
    quotas = ReplicationQuotas(BrokerConfig(1), {})

    def limits() -> list[float | None]:
        return [each.limit for each in (quotas.leader, quotas.follower, quotas.alter_log_dirs)]

    quotas.set_limits(
        {LEADER_RATE: "10"}, {LEADER_RATE: "20", FOLLOWER_RATE: "30", ALTER_LOG_DIRS_RATE: str(2**63 - 1)}
    )
    assert limits() == [10, 30, 2.0**63]
    quotas.set_limits({}, {LEADER_RATE: "20"})
    assert limits() == [20, None, None]
    quotas.set_limits({LEADER_RATE: "-1", FOLLOWER_RATE: "many", ALTER_LOG_DIRS_RATE: ""}, {})
    assert limits() == [None, None, None]
    assert {LEADER_RATE, FOLLOWER_RATE, ALTER_LOG_DIRS_RATE} == {*THROTTLES}


def test_windows_are_settings() -> None:
    config = BrokerConfig(1, replication_quota_window_num=2, alter_log_dirs_replication_quota_window_size_seconds=5)
    quotas = ReplicationQuotas(config, {})
    for each in (quotas.leader, quotas.follower, quotas.alter_log_dirs):
        each.record(1_000)
    assert [quotas.leader.rate, quotas.follower.rate, quotas.alter_log_dirs.rate] == [1_000, 1_000, 200]
    quotas.set_time(2_000)
    assert [quotas.leader.rate, quotas.follower.rate, quotas.alter_log_dirs.rate] == [0, 0, 200]


@pytest.mark.parametrize("version", [4, 11, 12, 13, 17])
@pytest.mark.parametrize("length", [0, 1, 126, 127, 128, 16_382, 16_383, 16_384])
def test_the_size_of_a_response_is_what_is_encoded(version: int, length: int) -> None:
    data = PartitionData(partition_index=1, error_code=0, high_watermark=7, aborted_transactions=None)
    data.records = b"r" * length
    topic = FetchableTopicResponse(topic="t" if version < 13 else "", topic_id=TOPIC_ID, partitions=[data])
    response = FetchResponse(responses=[topic])
    assert finished(size_of(response, version)) == 4 + len(encode(response, version))
    assert data.records == b"r" * length


def throttled(cluster: Cluster, side: str, limit: float | None = 1.0) -> None:
    """Throttles t-0 at all brokers."""
    for broker in cluster.brokers.values():
        settings = TopicSettings(**{f"{side}_throttled": frozenset({KEY[1]})})
        broker.set_settings("t", settings, cluster.now_ms)
        getattr(broker.quotas, side).limit = limit


def behind(side: str, limit: float | None = 1.0, **settings: Any) -> Cluster:
    """Broker 1 leads with one record, broker 2 is in sync, broker 3 is out of the ISR and has no record."""
    cluster = led(**settings)
    cluster.paused = {3}
    cluster.elect(1, [1, 2])
    throttled(cluster, side, limit)
    cluster.produce(1, VALUE)
    cluster.run(2)
    assert (cluster.log(2).end_offset, cluster.log(3).end_offset) == (1, 0)
    return cluster


def test_a_leader_sends_no_records_to_a_follower_out_of_sync_above_its_limit() -> None:
    cluster = behind("leader")
    leader = cluster.brokers[1]
    assert leader.quotas.leader.bytes > len(VALUE), "the bytes of members of the ISR count"
    assert leader.quotas.leader.is_exceeded
    cluster.follow(3, 4)
    assert cluster.log(3).end_offset == 0
    assert leader.partitions[KEY].followers[3].end_offset == 0, "the fetch itself is recorded"
    cluster.produce(1, VALUE)
    cluster.follow(2)
    assert cluster.log(2).end_offset == 2, "a member of the ISR is never throttled"
    leader.quotas.leader.limit = None
    cluster.follow(3)
    assert cluster.log(3).end_offset == 2


def test_a_waiting_fetch_of_a_throttled_follower_is_not_answered_by_new_records() -> None:
    cluster = behind("leader")
    asked: dict[str, Any] = {"replica_id": 3, "wait_ms": 500}
    assert cluster.fetch(1, 0, **asked) is None
    request = cluster.requests
    cluster.produce(1, VALUE, acks=1)
    assert cluster.fetched(request) is None
    cluster.pass_time(500)
    assert cluster.fetched(request).records == b""
    assert cluster.fetch(1, 0, replica_id=2, wait_ms=500).records, "a member of the ISR"
    cluster.brokers[1].quotas.leader.limit = 1e9
    assert cluster.fetch(1, 0, **asked).records


def test_a_leader_counts_the_response_of_throttled_partitions_only() -> None:
    cluster = behind("leader", limit=None)
    quota = cluster.brokers[1].quotas.leader
    for version in (11, 12, 13):
        before = quota.bytes
        cluster.fetch(1, 0, version=version, replica_id=2)
        response = cluster.answers[cluster.requests]
        assert quota.bytes - before == finished(size_of(response, version)) > len(VALUE)
        cluster.fetch(1, 0, version=version)
        assert quota.bytes - before == finished(size_of(response, version)), "a consumer does not count"
    cluster.brokers[1].set_settings("t", TopicSettings(leader_throttled=frozenset({1})), cluster.now_ms)
    before = quota.bytes
    cluster.fetch(1, 0, replica_id=2)
    assert quota.bytes == before


def test_throttled_partitions_are_counted_in_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetching, "PARTITIONS_A_STEP", 1)
    cluster = behind("leader", limit=None)
    topics = [FetchTopic(topic="t", topic_id=TOPIC_ID, partitions=[FetchPartition(partition_max_bytes=10**6)])]
    request = FetchRequest(replica_id=2, max_bytes=10**6, topics=topics, forgotten_topics_data=[])
    assert len([*on_fetch(cluster.brokers[1], 99, request, 12, cluster.now_ms)]) == 3, "read, found and counted"


def test_a_follower_out_of_sync_does_not_fetch_above_its_limit() -> None:
    cluster = behind("follower", limit=None, replica_fetch_max_bytes=1_500)
    for _ in range(5):
        cluster.produce(1, VALUE)
        cluster.run(2)
    quota, fetcher = cluster.brokers[3].quotas.follower, cluster.brokers[3].fetchers[1]
    assert (quota.bytes, fetcher.states[KEY].lag) == (0, None)
    quota.limit = 1.0
    cluster.follow(3)
    assert len(VALUE) < quota.bytes < 2 * len(VALUE)
    assert (cluster.log(3).end_offset, fetcher.states[KEY].lag) == (1, 5)
    assert cluster.follow(3) == 0
    assert fetcher.wait_ms(cluster.now_ms) == BACKOFF_MS, "as AbstractFetcherThread.maybeFetch waits"
    cluster.pass_time(BACKOFF_MS)
    assert cluster.follow(3) == 0, "1,000 bytes in two seconds are too many"
    cluster.pass_time(12_000)
    assert cluster.follow(3) == 1
    assert (cluster.log(3).end_offset, fetcher.states[KEY].lag) == (2, 4)


def test_a_follower_in_sync_fetches_above_its_limit() -> None:
    cluster = led()
    throttled(cluster, "follower")
    for _ in range(3):
        cluster.produce(1, VALUE)
        cluster.run(2)
    follower = cluster.brokers[2]
    assert follower.quotas.follower.is_exceeded and follower.fetchers[1].states[KEY].lag == 0
    assert follower.quotas.follower.bytes > 3 * len(VALUE)
    assert cluster.log(2).end_offset == 3


def test_other_partitions_of_a_leader_are_fetched_while_one_is_throttled() -> None:
    cluster = behind("follower")
    quota, fetcher = cluster.brokers[3].quotas.follower, cluster.brokers[3].fetchers[1]
    quota.record(1_000)
    fetcher.add(("u", 0), TOPIC_ID, 1, cluster.log(3))
    fetcher.states[KEY].lag = 5
    asked = fetcher.next_request(cluster.now_ms)
    assert asked is not None
    assert [topic.topic for topic in asked.request.topics] == ["u"]  # type: ignore[attr-defined]
    assert fetcher.states[KEY].delayed_until_ms == 0, "the next request looks again"
