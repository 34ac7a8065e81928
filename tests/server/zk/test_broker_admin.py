"""Administrators' requests to one broker over sockets: log directories, settings, DeleteRecords."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from kcore import schema
from kcore.errors import UnsupportedVersionError
from kcore.metadata.table.broker_table import Endpoint
from kcore.metadata.zookeeper import znodes
from kcore.metadata.zookeeper.znode_brokers import BrokerNode, encode_broker
from kcore.net.server import RequestContext, serve
from kcore.net.versions import response_of
from kcore.protocol_errors import Errors
from kcore.schema.configs import (
    AlterConfigsRequest,
    AlterConfigsRequestAlterableConfig,
    AlterConfigsRequestAlterConfigsResource,
    AlterConfigsResourceResponse,
    DescribeConfigsResource,
    IncrementalAlterConfigsRequestAlterableConfig,
    IncrementalAlterConfigsRequestAlterConfigsResource,
)
from kcore.schema.log_dirs import AlterReplicaLogDirsRequest, DescribableLogDirTopic, DescribeLogDirsRequest
from kcore.schema.topics import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from kcore.storage.log.log_directory import LogDirectory
from net.loops import story
from server.replicas import Brokers

TOPIC, BROKER, LOGGER = 2, 4, 8
SET, DELETE, APPEND = 0, 1, 2
LEADER_RATE = "leader.replication.throttled.rate"
BY_KAFKAS = Errors.POLICY_VIOLATION  # Requests that this broker does not answer.


@asynccontextmanager
async def brokers_in(folder: Path, **settings: Any) -> AsyncIterator[Brokers]:
    async with AsyncExitStack() as stack:
        brokers = await Brokers(stack, folder).open(**settings)
        await brokers.elect(1)
        yield brokers


async def described(brokers: Brokers, name: str, kind: int = BROKER) -> Any:
    """Broker 1's answer, and what it says by name."""
    resource = DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=None)
    request = schema.DescribeConfigsRequest(resources=[resource], include_synonyms=True)
    [result] = (await brokers.ask(1, request, 4)).results
    return Errors(result.error_code), {each.name: (each.value, each.config_source) for each in result.configs}


async def altered(brokers: Brokers, name: str, *changes: tuple[int, str, str | None], kind: int = BROKER) -> Errors:
    configs = [
        IncrementalAlterConfigsRequestAlterableConfig(config_operation=operation, name=key, value=value)
        for operation, key, value in changes
    ]
    resource = IncrementalAlterConfigsRequestAlterConfigsResource(
        resource_type=kind, resource_name=name, configs=configs
    )
    request = schema.IncrementalAlterConfigsRequest(resources=[resource])
    [answer] = (await brokers.ask(1, request, 1)).responses
    return Errors(answer.error_code)


@story
async def test_a_broker_describes_its_settings_and_keeps_throttles(tmp_path: Path) -> None:
    """As kafka-configs --entity-name 1 and kafka-reassign-partitions --throttle ask."""
    async with brokers_in(tmp_path, replica_lag_time_max_ms=7000) as brokers:
        error, settings = await described(brokers, "1")
        assert error is Errors.NONE and settings["replica.lag.time.max.ms"] == ("7000", 4)
        assert settings["broker.id"] == ("1", 4) and settings["inter.broker.protocol.version"] == ("3.9", 4)
        assert settings["log.dirs"] == (str(tmp_path / "1"), 4)
        assert await altered(brokers, "1", (SET, LEADER_RATE, "1000")) is Errors.NONE
        data = brokers.tree.nodes[znodes.config_path("brokers", "1")][0]
        assert znodes.decode_config("", data) == {LEADER_RATE: "1000"}
        notes = [each for path, each in brokers.tree.nodes.items() if path.startswith("/config/changes/")]
        assert [each[0] for each in notes] == [b'{"version":2,"entity_path":"brokers/1"}']
        assert (await described(brokers, "1"))[1][LEADER_RATE] == ("1000", 2)
        assert await altered(brokers, "1", (DELETE, LEADER_RATE, None)) is Errors.NONE
        assert LEADER_RATE not in (await described(brokers, "1"))[1]
        assert await altered(brokers, "", (SET, LEADER_RATE, "5")) is Errors.NONE
        assert await described(brokers, "") == (Errors.NONE, {LEADER_RATE: ("5", 3)})
        assert "/config/brokers/<default>" in brokers.tree.nodes


async def replaced(brokers: Brokers, name: str, **settings: str) -> Errors:
    configs = [
        AlterConfigsRequestAlterableConfig(name=key.replace("_", "."), value=value) for key, value in settings.items()
    ]
    resource = AlterConfigsRequestAlterConfigsResource(resource_type=BROKER, resource_name=name, configs=configs)
    [answer] = (await brokers.ask(1, AlterConfigsRequest(resources=[resource]), 2)).responses
    return Errors(answer.error_code)


@story
async def test_settings_are_replaced_as_a_whole(tmp_path: Path) -> None:
    """kafka-configs --alter asks so of brokers. Settings from other sources may stay and may be removed."""
    async with brokers_in(tmp_path) as brokers:
        path = znodes.config_path("brokers", "1")
        brokers.tree.nodes[path] = (znodes.encode_config({"log.cleaner.threads": "2", LEADER_RATE: "7"}), 0, 1, 0)

        def stored() -> dict[str, str]:
            return znodes.decode_config(path, brokers.tree.nodes[path][0])

        rate = {"follower_replication_throttled_rate": "5"}
        assert await replaced(brokers, "1", **rate, log_cleaner_threads="3") is Errors.INVALID_REQUEST
        assert await replaced(brokers, "1", **rate, log_cleaner_threads="2") is Errors.NONE
        assert stored() == {"log.cleaner.threads": "2", "follower.replication.throttled.rate": "5"}
        assert await replaced(brokers, "1") is Errors.NONE
        assert stored() == {}


@story
async def test_what_only_kafkas_brokers_know_one_of_them_answers(tmp_path: Path) -> None:
    """kcore's broker checks only throttles among the settings of all brokers."""

    async def answer(context: RequestContext, request: Any) -> Any:
        return response_of(type(request))(responses=[AlterConfigsResourceResponse(error_code=BY_KAFKAS)])

    apis = {"AlterReplicaLogDirs": (0, 2), "IncrementalAlterConfigs": (0, 1), "AlterConfigs": (0, 2)}
    async with AsyncExitStack() as stack:
        kafka = await stack.enter_async_context(await serve("127.0.0.1", 0, answer, apis))
        brokers = Brokers(stack, tmp_path)
        brokers.tree.nodes["/brokers"] = brokers.tree.nodes["/brokers/ids"] = (b"", 0, 1, 0)
        node = BrokerNode([Endpoint(kafka.port, "127.0.0.1", "PLAINTEXT", 0)])
        brokers.tree.nodes[znodes.broker_path(5)] = (encode_broker(node, 0), 0, 1, 0)
        await brokers.open()
        await brokers.elect(1)
        async with brokers.connected(1) as connection:
            with pytest.raises(UnsupportedVersionError):  # A matter of the broker's own disks.
                connection.send(AlterReplicaLogDirsRequest(dirs=[]))
        threads = SET, "log.cleaner.threads", "2"
        assert await altered(brokers, "", threads) is await replaced(brokers, "", log_cleaner_threads="2") is BY_KAFKAS
        assert await altered(brokers, "1", threads) is Errors.INVALID_REQUEST
        await kafka.close()
        assert await altered(brokers, "", threads) is Errors.INVALID_REQUEST


@pytest.mark.parametrize(
    ("name", "change", "expected"),
    [
        ("1", (SET, "log.cleaner.threads", "2"), Errors.INVALID_REQUEST),
        ("1", (SET, LEADER_RATE, "-1"), Errors.INVALID_CONFIG),
        ("1", (SET, LEADER_RATE, "9" * 5000), Errors.INVALID_CONFIG),
        ("1", (SET, LEADER_RATE, "9" * 19), Errors.INVALID_CONFIG),
        ("1", (SET, LEADER_RATE, "\u0663"), Errors.INVALID_CONFIG),
        ("1", (APPEND, LEADER_RATE, "1"), Errors.INVALID_CONFIG),
        ("2", (SET, LEADER_RATE, "1"), Errors.INVALID_REQUEST),
        ("one", (SET, LEADER_RATE, "1"), Errors.INVALID_REQUEST),
    ],
)
@story
async def test_settings_that_a_broker_does_not_take(
    tmp_path: Path, name: str, change: tuple[int, str, str | None], expected: Errors
) -> None:
    async with brokers_in(tmp_path) as brokers:
        before = {*brokers.tree.nodes}
        assert await altered(brokers, name, change) is expected
        assert {*brokers.tree.nodes} == before
        assert (await described(brokers, name))[0] is (Errors.NONE if name == "1" else Errors.INVALID_REQUEST)
        assert (await described(brokers, "1", LOGGER))[0] is Errors.INVALID_REQUEST


@story
async def test_any_broker_describes_and_changes_settings_of_topics(tmp_path: Path) -> None:
    async with brokers_in(tmp_path) as brokers:
        assert await altered(brokers, "t", (SET, "retention.ms", "5"), kind=TOPIC) is Errors.NONE
        error, settings = await described(brokers, "t", TOPIC)
        assert error is Errors.NONE and settings["retention.ms"] == ("5", 1)
        assert await altered(brokers, "gone", (SET, "retention.ms", "5"), kind=TOPIC) is (
            Errors.UNKNOWN_TOPIC_OR_PARTITION
        )


@story
async def test_log_directories_are_described(tmp_path: Path) -> None:
    async with brokers_in(tmp_path, directories=2) as brokers:
        await brokers.produce(1, b"a")
        for topics, listed in ((None, ["t"]), ([DescribableLogDirTopic(topic="t", partitions=[1])], [])):
            results = (await brokers.ask(1, DescribeLogDirsRequest(topics=topics), 4)).results
            assert [each.log_dir for each in results] == [str(tmp_path / "1"), str(tmp_path / "1-2")]
            assert [topic.name for each in results for topic in each.topics] == listed
            assert all(0 < each.usable_bytes <= each.total_bytes for each in results)
        [first, _] = (await brokers.ask(1, DescribeLogDirsRequest(topics=None), 4)).results
        [partition] = (first.topics or _.topics)[0].partitions
        segment = next(tmp_path.glob("1*/t-0/*.log"))
        assert (partition.partition_size, partition.offset_lag) == (segment.stat().st_size, 0)
        server = brokers.servers[1]
        server.runtime.directories_failed(
            server.runtime.logs.directories.fail(server.runtime.logs.directories[1], "a test")
        )
        results = (await brokers.ask(1, DescribeLogDirsRequest(topics=None), 4)).results
        assert [each.error_code for each in results] == [0, Errors.KAFKA_STORAGE_ERROR]


@story
async def test_records_are_deleted_and_stay_so(tmp_path: Path) -> None:
    async with brokers_in(tmp_path) as brokers:
        await brokers.produce(1, b"a", b"b", b"c")
        partition = DeleteRecordsPartition(partition_index=0, offset=2)
        topics = [DeleteRecordsTopic(name="t", partitions=[partition])]
        answer = await brokers.ask(1, DeleteRecordsRequest(topics=topics, timeout_ms=10_000), 2)
        [response] = answer.topics[0].partitions
        assert (response.error_code, response.low_watermark) == (Errors.NONE, 2)
        for broker_id in (1, 2):
            assert (
                next(iter(brokers.servers[broker_id].runtime.logs.directories.online[0].logs.values())).start_offset
                == 2
            )
            [data] = (await brokers.fetch(broker_id, 0)).responses[0].partitions
            assert data.error_code == Errors.OFFSET_OUT_OF_RANGE
        brokers.servers[1].runtime.logs.checkpoint()
    directory = LogDirectory(tmp_path / "1").open()
    assert [each.start_offset for each in directory.logs.values()] == [2]
    directory.close()
