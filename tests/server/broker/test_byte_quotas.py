"""Quotas on bytes at brokers, over real sockets: producer_byte_rate and consumer_byte_rate; both modes.

The brokers' clocks stand still, so that a quota of N bytes a second lets 10 * N bytes through, and no more.
"""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from kcore import schema as s
from kcore.metadata.acl_codes import CLUSTER_ACTION, READ, TOPIC, WRITE
from kcore.metadata.zookeeper import znodes
from kcore.net.connection import Connection
from kcore.node.rate_quotas import CONSUMER_BYTE_RATE, PRODUCER_BYTE_RATE, REQUEST_PERCENTAGE
from kcore.protocol_errors import Errors
from kcore.schema.headers import RequestHeader
from kcore.schema.quotas import AlterClientQuotasRequest, AlterClientQuotasRequestEntryData, EntityData, OpData
from kcore.server.kraft_broker.kraft_broker_server import KraftBrokerServer
from kcore.wire.codec import encode
from net.authority import Authority
from net.loops import story, until
from server.broker.test_broker_listeners import create, fetch, produce
from server.broker.test_broker_quotas import muted, throttle_of
from server.secure_cluster import SecureCluster, secure_cluster
from server.security.test_request_quotas import stop_the_clocks
from server.zk import test_zk_broker_listener_settings as zk_listener

PRODUCE_VERSION, FETCH_VERSION = 9, 12
VALUE = b"v" * 1_000


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


def size_of(request: Any, client_id: str = "kcore") -> int:
    """The bytes of a Produce request, with its header."""
    header = RequestHeader(request_api_key=0, request_api_version=PRODUCE_VERSION, client_id=client_id)
    return len(encode(header, 2)) + len(encode(request, PRODUCE_VERSION))


def wait_ms(counted: int, quota: int) -> int:
    """The throttle time of a client that has sent so many bytes at once; the quota is in bytes a second."""
    return round((counted / 10 - quota) / quota * 10_000)


async def limit(cluster: SecureCluster, **quotas: float | None) -> None:
    """Alice's quotas; None removes one. Broker 1 has them."""
    ops = [OpData(key=key, value=value or 0, remove=value is None) for key, value in quotas.items()]
    entity = [EntityData(entity_type="user", entity_name="alice")]
    entry = AlterClientQuotasRequestEntryData(entity=entity, ops=ops)
    answer = await cluster.ask("admin", AlterClientQuotasRequest(entries=[entry]))
    assert [each.error_code for each in answer.entries] == [0]

    def known() -> bool:
        found = throttle_of(cluster.brokers[1]).known.quotas.get((("user", "alice"),), {})
        return all(found.get(key) == value for key, value in quotas.items())

    await until(known)


async def ready(cluster: SecureCluster, **quotas: float | None) -> KraftBrokerServer:
    """Topic t, and alice's rights and quotas; the clock of broker 1 stands still."""
    await create(cluster)
    await cluster.allow(WRITE, TOPIC, "t")
    await cluster.allow(READ, TOPIC, "t")
    await limit(cluster, **quotas)
    throttle_of(cluster.brokers[1]).now_ms = lambda: 1_000_000
    return cluster.brokers[1]


async def send(connection: Connection, request: Any, version: int) -> Any:
    answer = await connection.send(request, version)
    for topic in answer.responses:
        for each in getattr(topic, "partition_responses", ()) or getattr(topic, "partitions", ()):
            assert each.error_code == Errors.NONE
    return answer


@story
async def test_a_producer_is_throttled_for_the_bytes_of_its_requests(tmp_path: Path, authority: Authority) -> None:
    async with secure_cluster(tmp_path, authority) as cluster:
        size = size_of(produce(VALUE))
        quota = size // 10 + 1
        broker = await ready(cluster, producer_byte_rate=quota)
        async with await cluster.connect(1, "alice") as alice, await cluster.connect(1, "admin") as admin:
            assert (await send(alice, produce(VALUE), PRODUCE_VERSION)).throttle_time_ms == 0
            answer = await send(alice, produce(VALUE), PRODUCE_VERSION)
            assert answer.throttle_time_ms == wait_ms(2 * size, quota) > 9_000, "twice the bytes of ten seconds"
            await until(lambda: muted(broker))
            assert (await send(admin, produce(VALUE), PRODUCE_VERSION)).throttle_time_ms == 0
        assert broker.runtime.manager.partitions["t", 0].log.end_offset == 3, "a throttled request is not refused"
        async with await cluster.connect(1, "alice", "CLIENTS") as alice:
            await limit(cluster, producer_byte_rate=size)
            assert (await send(alice, produce(VALUE), PRODUCE_VERSION)).throttle_time_ms == 0, "the quota is raised"
            await limit(cluster, producer_byte_rate=None)
            for _ in range(20):
                assert (await send(alice, produce(VALUE), PRODUCE_VERSION)).throttle_time_ms == 0
        assert broker.handlers.quotas.produce.counted == 3 * size
        produced = broker.handlers.quotas.produce
        assert (produced.throttled, produced.throttled_ms) == (1, wait_ms(2 * size, quota))


@story
async def test_a_producer_without_responses_is_muted(tmp_path: Path, authority: Authority) -> None:
    async with secure_cluster(tmp_path, authority) as cluster:
        broker = await ready(cluster, producer_byte_rate=10.0)
        async with await cluster.connect(1, "alice") as alice:
            silent = asyncio.ensure_future(alice.send(produce(VALUE, acks=0), PRODUCE_VERSION))
            await until(lambda: broker.runtime.manager.partitions["t", 0].log.end_offset == 1)
            asked = asyncio.ensure_future(alice.send(s.MetadataRequest(topics=[])))
            await until(lambda: muted(broker) or asked.done() or silent.done())
            is_answered = asked.done() or silent.done()
            for each in (silent, asked):
                each.cancel()
            await asyncio.gather(silent, asked, return_exceptions=True)
            assert not is_answered


@story
async def test_the_bytes_of_a_refused_produce_count(tmp_path: Path, authority: Authority) -> None:
    async with secure_cluster(tmp_path, authority) as cluster:
        await create(cluster)
        await limit(cluster, producer_byte_rate=10.0)
        throttle_of(cluster.brokers[1]).now_ms = lambda: 1_000_000
        async with await cluster.connect(1, "alice") as alice:
            answer = await alice.send(produce(VALUE), PRODUCE_VERSION)
            [refused] = answer.responses[0].partition_responses
            assert refused.error_code == Errors.TOPIC_AUTHORIZATION_FAILED
            assert answer.throttle_time_ms > 0


@story
async def test_a_throttled_consumer_gets_no_records_and_then_all(tmp_path: Path, authority: Authority) -> None:
    """Responses that were not sent do not count (unrecordQuotaSensor)."""
    async with secure_cluster(tmp_path, authority) as cluster:
        broker = await ready(cluster)
        async with await cluster.connect(1, "admin") as admin:
            await send(admin, produce(VALUE), PRODUCE_VERSION)
        await until(lambda: broker.runtime.manager.partitions["t", 0].log.high_watermark == 1)
        async with await cluster.connect(1, "alice") as alice:
            answer = await send(alice, fetch(), FETCH_VERSION)
            size = len(encode(answer, FETCH_VERSION)) + 4
            quota = size // 10 + 1
            await limit(cluster, consumer_byte_rate=quota)
            assert (await send(alice, fetch(), FETCH_VERSION)).responses, "within the quota"
            answer = await send(alice, fetch(), FETCH_VERSION)
            assert (answer.responses, answer.throttle_time_ms) == ([], wait_ms(2 * size, quota))
            await until(lambda: muted(broker))
        assert broker.handlers.quotas.fetch.counted == size
        async with await cluster.connect(1, "alice") as alice:
            await limit(cluster, consumer_byte_rate=2 * quota)
            assert (await send(alice, fetch(), FETCH_VERSION)).responses, "two responses of three"
        await limit(cluster, consumer_byte_rate=1.0)
        await cluster.allow(CLUSTER_ACTION)
        async with await cluster.connect(1, "alice") as follower:
            answer = await send(follower, fetch(replica_id=2), FETCH_VERSION)
            assert answer.responses[0].partitions[0].records and not answer.throttle_time_ms
        assert broker.handlers.quotas.fetch.counted == 2 * size, "the bytes of followers do not count"


@story
async def test_the_longer_of_two_throttle_times_counts(tmp_path: Path, authority: Authority) -> None:
    """A request quota throttles for at most a second, a quota on bytes for longer. Neither time is counted twice."""
    async with secure_cluster(tmp_path, authority) as cluster:
        broker = await ready(cluster, request_percentage=0.001)
        requests = throttle_of(broker)
        stop_the_clocks(requests)
        async with await cluster.connect(1, "alice") as alice:
            answer = await send(alice, fetch(), FETCH_VERSION)
            assert (answer.responses, answer.throttle_time_ms) == ([], 1_000), "empty for the request quota, too"
            await until(lambda: muted(broker))
        assert broker.handlers.quotas.fetch.counted == 0
        await limit(cluster, producer_byte_rate=1.0, consumer_byte_rate=1.0)
        async with await cluster.connect(1, "alice") as alice:
            assert (await send(alice, produce(VALUE), PRODUCE_VERSION)).throttle_time_ms > 1_000_000
        async with await cluster.connect(1, "alice") as alice:
            before = requests.rates.throttled
            answer = await send(alice, fetch(), FETCH_VERSION)
            assert answer.responses == [] and answer.throttle_time_ms > 1_000
            await until(lambda: muted(broker))
            assert requests.rates.throttled == before + 1, "the fetch counts once"
            assert broker.handlers.quotas.fetch.counted == 0


@story
async def test_quotas_on_bytes_in_zookeeper_hold_at_its_brokers(tmp_path: Path, authority: Authority) -> None:
    """Both kinds of quotas of one znode are known."""
    async with zk_listener.brokers_in(tmp_path, authority) as brokers:
        await brokers.elect(1)
        await zk_listener.allow(brokers, WRITE, TOPIC, "t")
        broker = brokers.servers[1]
        throttle_of(broker).now_ms = lambda: 1_000_000
        limits = {PRODUCER_BYTE_RATE: "10", CONSUMER_BYTE_RATE: "20", REQUEST_PERCENTAGE: "100.0"}
        brokers.tree.nodes[f"{znodes.CONFIG}/clients/kcore"] = znodes.encode_config(limits), 0, 0, 0
        note = znodes.encode_config_change("clients/kcore")
        brokers.tree.nodes[f"{znodes.CONFIG_CHANGES}/config_change_0000000001"] = note, 0, 0, 0
        brokers.tree.fire(znodes.CONFIG_CHANGES)
        await until(lambda: throttle_of(broker).is_on)
        [found] = throttle_of(broker).known.quotas.values()
        assert found == {key: float(text) for key, text in limits.items()}
        async with await zk_listener.as_user(brokers, authority, "alice") as alice:
            answer = await send(alice, produce(VALUE), PRODUCE_VERSION)
            assert answer.throttle_time_ms > 1_000
            await until(lambda: muted(broker))
        await zk_listener.allow(brokers, READ, TOPIC, "t")
        async with await zk_listener.as_user(brokers, authority, "alice") as alice:
            assert (await alice.send(s.MetadataRequest(topics=[]))).throttle_time_ms == 0
            answer = await send(alice, fetch(), FETCH_VERSION)
            assert answer.responses == [] and answer.throttle_time_ms > 1_000
