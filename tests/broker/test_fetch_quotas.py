"""The quotas of consumers at the core of a broker: empty responses, their sizes, and fetch sessions (KIP-227)."""

from collections.abc import Callable
from typing import Any

import pytest

from broker.cluster import TOPIC_ID, Cluster, led
from kcore.broker.replicas import fetching
from kcore.broker.replicas.fetching import on_fetch, size_of
from kcore.protocol_errors import Errors
from kcore.schema.fetch import FetchPartition, FetchRequest, FetchTopic
from kcore.steps import Steps, finished

VALUE = b"v" * 1_000
VERSION = 12


class Quota:
    """The quotas of a consumer, whose throttle time the test sets."""

    def __init__(self, time_ms: int = 0, most_bytes: float = 1e9) -> None:
        self.time_ms, self.most_bytes = time_ms, most_bytes
        self.sizes: list[int] = []

    def throttle_time_ms(self, size: Callable[[], Steps[int]]) -> Steps[int]:
        self.sizes.append((yield from size()))
        return self.time_ms


def full() -> Cluster:
    """Broker 1 leads with three records."""
    cluster = led()
    for _ in range(3):
        cluster.produce(1, VALUE)
        cluster.run(2)
    return cluster


def fetch(cluster: Cluster, quota: Quota, offset: int = 0, *, session: tuple[int, int] = (0, -1), **given: Any) -> Any:
    """The response; None while the fetch waits. `session`: its id and epoch."""
    cluster.requests += 1
    partition = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=100_000)
    request = FetchRequest(topics=[FetchTopic(topic="t", topic_id=TOPIC_ID, partitions=[partition])], **given)
    request.session_id, request.session_epoch = session
    request.forgotten_topics_data = []
    finished(on_fetch(cluster.brokers[1], cluster.requests, request, VERSION, cluster.now_ms, quota=quota))
    cluster.perform(1)
    return cluster.answers.get(cluster.requests)


def test_a_consumer_within_its_quotas_gets_records_of_the_counted_size() -> None:
    cluster, quota = full(), Quota()
    response = fetch(cluster, quota)
    assert len(response.responses[0].partitions[0].records) > 3 * len(VALUE)
    assert quota.sizes == [finished(size_of(response, VERSION))]
    assert response.throttle_time_ms == 0


def test_a_throttled_consumer_gets_an_empty_response() -> None:
    cluster, quota = full(), Quota(time_ms=70)
    response = fetch(cluster, quota)
    assert (response.throttle_time_ms, response.responses, response.session_id) == (70, [], 0)
    assert quota.sizes[0] > 3 * len(VALUE), "the size of the records that it does not get"


def test_a_throttled_full_fetch_opens_no_session() -> None:
    cluster = full()
    response = fetch(cluster, Quota(time_ms=70), session=(0, 0))
    assert (response.error_code, response.session_id) == (Errors.NONE, 0)
    assert not cluster.brokers[1].sessions.sessions.keys() - followers(cluster)


def test_a_throttled_fetch_leaves_its_session_as_it_was() -> None:
    cluster, quota = full(), Quota()
    session_id = fetch(cluster, quota, session=(0, 0)).session_id
    quota.time_ms = 70
    response = fetch(cluster, quota, session=(session_id, 1))
    assert (response.throttle_time_ms, response.session_id, response.responses) == (70, session_id, [])
    quota.time_ms = 0
    response = fetch(cluster, quota, session=(session_id, 2))
    assert len(response.responses[0].partitions[0].records) > 3 * len(VALUE)
    assert quota.sizes[1] == quota.sizes[2] == finished(size_of(response, VERSION))


def test_the_size_of_an_incremental_response_has_its_changes_only() -> None:
    cluster, quota = full(), Quota()
    session_id = fetch(cluster, quota, offset=3, session=(0, 0), max_wait_ms=0).session_id
    response = fetch(cluster, quota, offset=3, session=(session_id, 1), max_wait_ms=0)
    assert response.responses == []
    assert quota.sizes[1] == finished(size_of(response, VERSION)) < quota.sizes[0]


@pytest.mark.parametrize("time_ms", [0, 70])
def test_a_superseded_fetch_of_a_session_fails(time_ms: int) -> None:
    cluster, quota = full(), Quota()
    session_id = fetch(cluster, quota, offset=3, session=(0, 0), max_wait_ms=0).session_id
    quota.time_ms = time_ms
    assert fetch(cluster, quota, offset=3, session=(session_id, 1), max_wait_ms=100, min_bytes=1) is None
    waiting = cluster.requests
    fetch(cluster, Quota(), offset=3, session=(session_id, 2), max_wait_ms=0)
    cluster.pass_time(100)
    response = cluster.answers[waiting]
    assert (response.error_code, response.throttle_time_ms) == (Errors.INVALID_FETCH_SESSION_EPOCH, time_ms)
    assert quota.sizes[-1] == finished(size_of(response, VERSION))


def test_a_response_has_no_more_bytes_than_a_window_of_the_quota() -> None:
    """More bytes would always be throttled (maxValueInQuotaWindow); the first batch is sent whole."""
    cluster = full()
    for most, records in ((1.5, 1), (2_500.0, 2), (float("inf"), 3)):
        response = fetch(cluster, Quota(most_bytes=most), max_wait_ms=0)
        found = len(response.responses[0].partitions[0].records)
        assert records * len(VALUE) < found < (records + 1) * len(VALUE)


def test_a_fetch_waits_for_no_more_bytes_than_the_quota_allows() -> None:
    cluster = full()
    assert fetch(cluster, Quota(most_bytes=500.0), max_wait_ms=100, min_bytes=50_000) is not None
    assert fetch(cluster, Quota(), max_wait_ms=100, min_bytes=50_000) is None


def test_a_waiting_fetch_is_counted_when_it_is_answered() -> None:
    cluster, quota = full(), Quota(time_ms=70)
    assert fetch(cluster, quota, offset=3, max_wait_ms=10_000, min_bytes=1) is None
    assert quota.sizes == []
    waiting = cluster.requests
    cluster.produce(1, VALUE)
    cluster.run(2)
    assert (cluster.answers[waiting].throttle_time_ms, cluster.answers[waiting].responses) == (70, [])
    assert quota.sizes[0] > len(VALUE)


def test_a_response_is_counted_in_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """A turn of the event loop looks at a part of the partitions that a throttled consumer or a follower fetches."""
    cluster = full()
    response = fetch(cluster, Quota())
    topic = response.responses[0]
    topic.partitions = topic.partitions * 3
    before = finished(size_of(response, VERSION))
    monkeypatch.setattr(fetching, "PARTITIONS_A_STEP", 2)
    assert len([*size_of(response, VERSION)]) == 1
    assert finished(size_of(response, VERSION)) == before


def followers(cluster: Cluster) -> set[int]:
    """The ids of the sessions of brokers 2 and 3 at broker 1."""
    return {key for key, session in cluster.brokers[1].sessions.sessions.items() if session.is_privileged}
