"""request_percentage of authenticated users at brokers, over real sockets; both modes.

The clocks are the test's, as in `test_request_quotas`.
"""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from kcore import schema as s
from kcore.metadata.acl_codes import CLUSTER_ACTION
from kcore.metadata.zookeeper import znodes
from kcore.net.limits.throttled_channel import ThrottledChannel
from kcore.schema.quotas import AlterClientQuotasRequest, AlterClientQuotasRequestEntryData, EntityData, OpData
from kcore.server.kraft_broker.kraft_broker_server import KraftBrokerServer
from kcore.server.security.request_throttle import RequestThrottle
from net.authority import Authority
from net.limits.test_muting import muted as muted_at
from net.loops import story, until
from server.broker.test_broker_listeners import create, fetch, produce
from server.secure_cluster import SecureCluster, secure_cluster
from server.security.test_request_quotas import stop_the_clocks
from server.zk import test_zk_broker_listener_settings as zk_listener

METADATA = s.MetadataRequest(topics=[])


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


def throttle_of(broker: KraftBrokerServer) -> RequestThrottle:
    found = broker.listening.servers[0].apis.parts.throttle
    assert isinstance(found, RequestThrottle)
    return found


def muted(broker: KraftBrokerServer) -> list[ThrottledChannel]:
    return [each for server in broker.listening.servers for each in muted_at(server)]


async def limit_alice(cluster: SecureCluster, percentage: float) -> None:
    """Both brokers know."""
    op = OpData(key="request_percentage", value=percentage)
    entry = AlterClientQuotasRequestEntryData(entity=[EntityData(entity_type="user", entity_name="alice")], ops=[op])
    answer = await cluster.ask("admin", AlterClientQuotasRequest(entries=[entry]))
    assert [each.error_code for each in answer.entries] == [0]
    wanted = {(("user", "alice"),): {"request_percentage": percentage}}
    await until(lambda: all(throttle_of(each).known.quotas == wanted for each in cluster.brokers.values()))


async def until_throttled(connection: Any, request: Any, version: int | None = None) -> Any:
    for _ in range(10):
        answer = await connection.send(request, version)
        if answer.throttle_time_ms:
            return answer
    raise AssertionError("never throttled")


@story
async def test_a_user_is_held_to_it_at_a_broker_and_others_are_not(tmp_path: Path, authority: Authority) -> None:
    async with secure_cluster(tmp_path, authority) as cluster:
        await create(cluster)
        await limit_alice(cluster, 1.0)
        for each in cluster.brokers.values():
            stop_the_clocks(throttle_of(each))
        async with await cluster.connect(1, "alice") as alice, await cluster.connect(1, "admin") as admin:
            assert (await until_throttled(alice, METADATA)).throttle_time_ms <= 1000
            await until(lambda: muted(cluster.brokers[1]))
            [channel] = muted(cluster.brokers[1])
            waits = asyncio.ensure_future(alice.send(METADATA))
            for request, version in ((METADATA, None), (fetch(), 12), (produce(), 9)):
                for _ in range(5):
                    assert (await admin.send(request, version)).throttle_time_ms == 0
            channel.end()
            assert (await waits).throttle_time_ms == 1000
        async with await cluster.connect(1, "alice", "CLIENTS") as alice:
            assert (await until_throttled(alice, fetch(), 12)).throttle_time_ms == 1000, "at all listeners"
        async with await cluster.connect(2, "alice") as alice:
            await until_throttled(alice, produce(), 9)
            await limit_alice(cluster, 50.0)
            assert (await alice.send(METADATA)).throttle_time_ms == 0


@story
async def test_what_goes_on_to_the_controller_counts_at_both(tmp_path: Path, authority: Authority) -> None:
    """The client waits for the longer time, and the answer says so wherever its version has it."""
    ours, tokens = s.ElectLeadersRequest(topic_partitions=None), s.CreateDelegationTokenRequest(renewers=[])
    async with secure_cluster(tmp_path, authority) as cluster:
        await limit_alice(cluster, 1.0)
        controller, broker = cluster.controller.handlers.pipeline.throttle, cluster.brokers[1]
        stop_the_clocks(throttle_of(broker))
        stop_the_clocks(controller)
        throttle_of(broker).clock_ns = lambda: 0
        for request in (ours, tokens):
            async with await cluster.connect(1, "alice") as alice:
                assert (await until_throttled(alice, request)).throttle_time_ms > 0
                await until(lambda: muted(broker))
        controller.clock_ns = lambda: 0
        controller.rates._rates.clear()
        stop_the_clocks(throttle_of(broker))
        for request in (ours, tokens):
            async with await cluster.connect(1, "alice") as alice:
                assert (await until_throttled(alice, request)).throttle_time_ms > 0


@story
async def test_what_brokers_send_each_other_is_exempt(tmp_path: Path, authority: Authority) -> None:
    """A follower's Fetch; of somebody without the right it is as anybody's."""
    async with secure_cluster(tmp_path, authority) as cluster:
        await create(cluster)
        await limit_alice(cluster, 1.0)
        stop_the_clocks(throttle_of(cluster.brokers[1]))
        async with await cluster.connect(1, "alice") as alice:
            answer = await until_throttled(alice, fetch(replica_id=2), 12)
            assert answer.throttle_time_ms > 0
        await cluster.allow(CLUSTER_ACTION)
        throttle_of(cluster.brokers[1]).rates._rates.clear()
        async with await cluster.connect(1, "alice") as alice:
            for _ in range(10):
                assert (await alice.send(fetch(replica_id=2), 12)).throttle_time_ms == 0


@story
async def test_quotas_in_zookeeper_hold_at_its_brokers(tmp_path: Path, authority: Authority) -> None:
    """Read at the start, and again where a notification names them; what the controller sends is exempt."""
    path = f"{znodes.CONFIG}/users/alice/clients/kcore"
    async with zk_listener.brokers_in(tmp_path, authority) as brokers:
        broker = brokers.servers[1]
        stop_the_clocks(throttle_of(broker))
        async with await zk_listener.as_user(brokers, authority, "alice") as alice:
            for _ in range(5):
                assert (await alice.send(METADATA)).throttle_time_ms == 0
            limited = znodes.encode_config({"request_percentage": "1.0"})
            note = znodes.encode_config_change("users/alice/clients/kcore")
            brokers.tree.nodes[path] = limited, 0, 0, 0
            brokers.tree.nodes[f"{znodes.CONFIG_CHANGES}/config_change_0000000001"] = note, 0, 0, 0
            brokers.tree.fire(znodes.CONFIG_CHANGES)
            await until(lambda: throttle_of(broker).is_on)
            await until_throttled(alice, METADATA)
            await until(lambda: muted(broker))
        async with await zk_listener.as_user(brokers, authority, "broker") as node:
            for _ in range(5):
                assert (await node.send(METADATA)).throttle_time_ms == 0
