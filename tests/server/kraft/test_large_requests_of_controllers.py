"""A KRaft controller gets a large request in parts if it refuses or reads it, and as a whole if it decides it."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from kcore.protocol_errors import Errors
from kcore.schema.configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from kcore.schema.partitions import ElectLeadersRequest, ElectLeadersResponse, TopicPartitions
from kcore.schema.structure import Message
from kcore.server import large_descriptions, request_parts
from kcore.server.kraft_controller.kraft_controller_request_handlers import KraftControllerRequestHandlers

ENTRIES = 1000


def parts_for(request: Message, *, is_standby: bool = False, is_allowed: bool = True, settings: int = 1) -> Any:
    """The part of the request that the controller gets, and the response. A resource has so many settings."""
    parts: list[Any] = []

    async def answered(context: object, ask: Any) -> Message:
        part = ask.args[0]
        parts.append(part)
        if isinstance(part, ElectLeadersRequest):
            return ElectLeadersResponse(error_code=Errors.NONE, replica_election_results=[])
        configs = [DescribeConfigsResourceResult(name=str(number)) for number in range(settings)]
        results = [DescribeConfigsResult(resource_name=each.resource_name, configs=configs) for each in part.resources]
        return DescribeConfigsResponse(results=results)

    handlers: Any = SimpleNamespace(
        pending=SimpleNamespace(answered=answered),
        _control=None,
        _info=lambda context: None,
        _context=lambda: SimpleNamespace(is_standby=is_standby),
        _is_allowed=lambda context, operation: is_allowed,
    )
    handlers._control = lambda *_: None
    context: Any = None
    return parts, asyncio.run(KraftControllerRequestHandlers._response_of_controller(handlers, context, request))


@pytest.mark.parametrize(
    ("is_standby", "is_allowed", "is_split"), [(False, True, False), (False, False, True), (True, True, True)]
)
def test_elections_are_decided_together_and_refused_in_parts(
    is_standby: bool, is_allowed: bool, is_split: bool
) -> None:
    topics = [TopicPartitions(topic=f"t{number}", partitions=[0]) for number in range(ENTRIES)]
    request = ElectLeadersRequest(topic_partitions=topics)
    parts, _ = parts_for(request, is_standby=is_standby, is_allowed=is_allowed)
    assert [each for part in parts for each in part.topic_partitions] == topics
    assert (len(parts) > 1) == is_split
    assert not is_split or max(len(part.topic_partitions) for part in parts) <= request_parts.ENTRIES_AT_ONCE


def test_resources_are_described_in_parts_and_once() -> None:
    names = [f"t{number}" for number in range(ENTRIES)]
    resources = [DescribeConfigsResource(resource_type=2, resource_name=name) for name in [*names, *names]]
    parts, response = parts_for(DescribeConfigsRequest(resources=resources))
    assert [each.resource_name for each in response.results] == names
    assert max(len(part.resources) for part in parts) <= request_parts.ENTRIES_AT_ONCE // 25


def test_a_description_has_a_bounded_number_of_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(large_descriptions, "MOST_SETTINGS", 500)
    resources = [DescribeConfigsResource(resource_type=2, resource_name=f"t{number}") for number in range(ENTRIES)]
    _, response = parts_for(DescribeConfigsRequest(resources=resources), settings=10)
    assert [each.resource_name for each in response.results] == [each.resource_name for each in resources]
    codes = [each.error_code for each in response.results]
    assert codes == [Errors.NONE] * 50 + [Errors.POLICY_VIOLATION] * (ENTRIES - 50)


def test_a_few_resources_are_described_as_kafka_does() -> None:
    resources = [DescribeConfigsResource(resource_type=2, resource_name="t")] * 3
    parts, response = parts_for(DescribeConfigsRequest(resources=resources))
    assert len(parts) == 1 and len(response.results) == 3
