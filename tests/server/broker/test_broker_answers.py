"""Requests with many or long names get responses, and other clients are served meanwhile."""

from pathlib import Path
from typing import Any

import pytest

from kcore.net.limits import work_in_parts
from kcore.node.kraft.config_descriptions import Describing
from kcore.protocol_errors import Errors
from kcore.schema import configs
from kcore.schema.cluster_metadata import DescribeClusterRequest
from kcore.schema.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kcore.schema.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kcore.schema.producers import DescribeProducersRequest, TopicRequest
from kcore.schema.topics import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from kcore.server import large_descriptions
from net.loops import story, with_turns_of_others
from server.kraft.test_kraft_broker import cluster_in


def resource(kind: int, name: str, keys: list[str] | None = None) -> configs.DescribeConfigsResource:
    return configs.DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=keys)


LONGEST = "n" * 32_767  # The longest string on the wire.
NAMED: list[tuple[Any, int]] = [
    (
        ProduceRequest(
            acks=1, topic_data=[TopicProduceData(name=LONGEST, partition_data=[PartitionProduceData(index=0)])]
        ),
        9,
    ),
    (DescribeProducersRequest(topics=[TopicRequest(name=LONGEST, partition_indexes=[0])]), 0),
    (DeleteRecordsRequest(topics=[DeleteRecordsTopic(name=LONGEST, partitions=[DeleteRecordsPartition()])]), 2),
    (ListOffsetsRequest(topics=[ListOffsetsTopic(name=LONGEST, partitions=[ListOffsetsPartition()])]), 7),
    *((configs.DescribeConfigsRequest(resources=[resource(kind, LONGEST)]), 4) for kind in (2, 4, 8, 32)),
]


@story
async def test_a_name_of_the_longest_kind_is_answered(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Not by a closed connection and a traceback: an error message that has the name would be too long for a string."""
    async with cluster_in(tmp_path) as cluster:
        for request, version in NAMED:
            await cluster.ask(1, request, version)
    assert not [each for each in caplog.records if each.exc_info]


@story
async def test_a_resource_that_is_described_again_is_answered_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has dozens of settings: a small request would have an answer without bound."""
    described, result = [], Describing.result

    def counted(self: Describing, each: configs.DescribeConfigsResource) -> configs.DescribeConfigsResult:
        described.append(each.resource_name)
        return result(self, each)

    monkeypatch.setattr(Describing, "result", counted)
    async with cluster_in(tmp_path) as cluster:
        same = [resource(4, "1")] * 50
        other = [resource(4, "1", ["broker.id"]), resource(32, "g"), resource(32, "g")]
        answer = await cluster.ask(1, configs.DescribeConfigsRequest(resources=[*same, *other]))
        assert [each.resource_name for each in answer.results] == described == ["1", "1", "g"]
        assert len(answer.results[0].configs) > 100 > len(answer.results[1].configs)
        monkeypatch.setattr(large_descriptions, "MOST_SETTINGS", 20)
        groups = [resource(32, f"g{number}") for number in range(20)]
        answer = await cluster.ask(1, configs.DescribeConfigsRequest(resources=groups))
        codes = [each.error_code for each in answer.results]
        assert codes[0] == Errors.NONE and codes[-1] == Errors.POLICY_VIOLATION
        assert sum(len(each.configs) for each in answer.results) < 100


@pytest.mark.parametrize(("keys", "names"), [(None, 200), (["none.such"], 200), (None, 1)])
@story
async def test_others_are_served_while_many_resources_are_described(
    tmp_path: Path, keys: list[str] | None, names: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where each has no setting that was asked for, and where a resource is repeated."""
    monkeypatch.setattr(work_in_parts, "PART_S", 0.0)
    async with cluster_in(tmp_path) as cluster:
        handlers: Any = cluster.brokers[1].handlers.mode
        resources = [resource(32, f"g{number % names}", keys) for number in range(200)]
        request = configs.DescribeConfigsRequest(resources=resources)
        answer, turns = await with_turns_of_others(handlers._describe_configs(request))
        assert len(answer.results) == names and turns >= 199
        assert (await cluster.ask(1, DescribeClusterRequest())).error_code == Errors.NONE
