"""Administrators' requests to kcore's controller: real Kafka 3.9.1 brokers apply them, and describe the same state."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from kcore import schema
from kcore.controller.zk.zk_controller_config import ControllerConfig
from kcore.measure.processes.zk_cluster import ZkBroker, ZkBrokers, ZookeeperProcess
from kcore.metadata.table.partition_table import PartitionState
from kcore.net.connect import connect
from kcore.net.connection import Connection
from kcore.net.limits.connection_limits import Limits
from kcore.protocol_errors import Errors
from kcore.schema.configs import (
    DescribeConfigsResource,
    IncrementalAlterConfigsRequestAlterableConfig,
    IncrementalAlterConfigsRequestAlterConfigsResource,
)
from kcore.schema.partitions import CreatePartitionsTopic, ReassignablePartition, ReassignableTopic
from kcore.schema.topics import CreatableTopic, CreatableTopicConfig, DeleteTopicState
from kcore.server.zk_controller.zk_controller_server import ControllerServer
from net.loops import story

TOPIC = 2
PATIENT = Limits(request_s=100)  # A deletion waits for a broker that starts.


@asynccontextmanager
async def cluster() -> AsyncIterator[tuple[ControllerServer, ZkBrokers, Connection]]:
    """Three brokers under kcore's controller, and a connection to it."""
    config = ControllerConfig(1000, auto_leader_rebalance_enable=False)
    with ZookeeperProcess() as zookeeper:
        async with ControllerServer(config, zookeeper.address) as server:
            brokers = ZkBrokers(zookeeper.address)
            try:
                await asyncio.to_thread(brokers.start)
                await until(lambda: server.active.table.brokers.live.sum() == 3)
                async with await connect("127.0.0.1", server.port, limits=PATIENT) as connection:
                    yield server, brokers, connection
            finally:
                await asyncio.to_thread(brokers.close)


async def until(condition: Callable[[], Any]) -> None:
    """Returns when it is true."""
    while not condition():
        await asyncio.sleep(0.02)


def states(server: ControllerServer) -> list[PartitionState]:
    table = server.active.table
    return [table.state(row) for row in table.rows_of_topic("t").tolist()]


async def create(connection: Connection, partitions: int, **configs: str) -> Any:
    topic = CreatableTopic(name="t", num_partitions=partitions, replication_factor=2)
    topic.configs = [CreatableTopicConfig(name=name.replace("_", "."), value=value) for name, value in configs.items()]
    response = await connection.send(schema.CreateTopicsRequest(topics=[topic], timeout_ms=10_000), 7)
    [result] = response.topics
    assert (result.error_code, result.error_message) == (Errors.NONE, None)
    return result


async def described(port: int) -> dict[str, Any]:
    """A node's answer to DescribeConfigs, but for the documentation."""
    async with await connect("127.0.0.1", port) as connection:
        resource = DescribeConfigsResource(resource_type=TOPIC, resource_name="t", configuration_keys=None)
        request = schema.DescribeConfigsRequest(resources=[resource], include_synonyms=True)
        [result] = (await connection.send(request, 4)).results
    return {
        each.name: (
            each.value,
            each.config_source,
            each.config_type,
            each.is_sensitive,
            each.read_only,
            [(synonym.name, synonym.value, synonym.source) for synonym in each.synonyms],
        )
        for each in result.configs
    }


@story
async def test_settings_are_what_the_brokers_say_they_are() -> None:
    async with cluster() as (server, brokers, connection):
        result = await create(connection, 1, retention_ms="100000", cleanup_policy="compact")
        settings = {each.name: (each.value, each.config_source) for each in result.configs}
        while {name: each[:2] for name, each in (await described(brokers[1].port)).items()} != settings:
            await asyncio.sleep(0.1)
        change = IncrementalAlterConfigsRequestAlterableConfig(
            name="min.insync.replicas", config_operation=0, value="2"
        )
        resource = IncrementalAlterConfigsRequestAlterConfigsResource(
            resource_type=TOPIC, resource_name="t", configs=[change]
        )
        response = await connection.send(schema.IncrementalAlterConfigsRequest(resources=[resource]), 1)
        assert [each.error_code for each in response.responses] == [Errors.NONE]
        ours = await described(server.port)
        assert ours["min.insync.replicas"][:2] == ("2", 1)
        for broker in brokers.brokers:
            while await described(broker.port) != ours:  # It reads the note of the change when it gets to it.
                await asyncio.sleep(0.1)


@story
async def test_topics_grow_move_and_go_even_while_a_broker_is_dead() -> None:
    async with cluster() as (server, brokers, connection):
        await create(connection, 4)
        grown = CreatePartitionsTopic(name="t", count=6, assignments=None)
        response = await connection.send(schema.CreatePartitionsRequest(topics=[grown], timeout_ms=10_000), 3)
        assert [each.error_code for each in response.results] == [Errors.NONE]
        targets = [tuple(broker % 3 + 1 for broker in state.replicas) for state in states(server)]
        moves = [ReassignablePartition(partition_index=k, replicas=[*each]) for k, each in enumerate(targets)]
        request = schema.AlterPartitionReassignmentsRequest(topics=[ReassignableTopic(name="t", partitions=moves)])
        response = await connection.send(request, 0)
        assert {each.error_code for topic in response.responses for each in topic.partitions} == {Errors.NONE}
        await until(lambda: all(_has_moved(state, to) for state, to in zip(states(server), targets, strict=True)))
        await connection.send(schema.ElectLeadersRequest(topic_partitions=None), 2)
        assert [state.leader for state in states(server)] == [replicas[0] for replicas in targets]
        await until(lambda: not server._channels.queued)  # Broker 3 has deleted the replicas that moved away from it.
        brokers[3].kill()
        await until(lambda: server.active.table.brokers.live.sum() == 2)
        assert 3 not in {state.leader for state in states(server)}
        request = schema.DeleteTopicsRequest(topics=[DeleteTopicState(name="t")], timeout_ms=100_000)
        deletion = asyncio.ensure_future(connection.send(request, 6))
        await until(lambda: server.active.deletion.ineligible == {"t"})
        assert not deletion.done(), "broker 3 has replicas of it"
        await asyncio.to_thread(brokers[3].start)
        assert [each.error_code for each in (await deletion).responses] == [Errors.NONE]
        await until(lambda: not any(map(_logs, brokers.brokers)))


def _has_moved(state: PartitionState, target: tuple[int, ...]) -> bool:
    return state.replicas == target and {*state.isr} == {*target} and not state.adding


def _logs(broker: ZkBroker) -> list[str]:
    """The logs that a broker has of the topic, without those that it has renamed to be removed."""
    folders = [path.name for path in broker.folder.rglob("t-*")]
    return [name for name in folders if not name.endswith("-delete")]
