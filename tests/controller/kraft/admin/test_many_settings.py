"""Requests with many settings are decided in parts, with the result of one part."""

from typing import Any

import pytest

from controller.kraft.contexts import a_context, in_parts
from kcore.controller.kraft.admin import config_changes, configs
from kcore.controller.kraft.kraft_context import RequestInfo
from kcore.controller.kraft.topics.creation import on_create_topics
from kcore.java_hash import hash_map_order, string_hash, timeline_order
from kcore.protocol_errors import Errors
from kcore.schema.configs import (
    AlterConfigsRequest,
    AlterConfigsRequestAlterableConfig,
    AlterConfigsRequestAlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestAlterableConfig,
    IncrementalAlterConfigsRequestAlterConfigsResource,
)
from kcore.schema.topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest

BROKER, CLIENT_METRICS, SET = 4, 16, 0
NAMED = 3_000


@pytest.mark.parametrize("longest", [1, 40_000])
def test_a_topic_with_too_many_settings_is_refused_in_parts(longest: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the error of the first setting in the order of a HashMap that is too long, or else unknown."""
    values = {f"unknown-{number}": "v" for number in range(2_000)} | {"unknown-7": "v" * longest}
    settings = [CreatableTopicConfig(name=name, value=value) for name, value in values.items()]
    topic = CreatableTopic(name="t", num_partitions=1, replication_factor=1, configs=settings)
    request = CreateTopicsRequest(topics=[topic])
    monkeypatch.setattr(config_changes, "SETTINGS_AT_ONCE", 300)
    decision, parts = in_parts(on_create_topics(a_context(), request, RequestInfo(7, 0)))
    [result] = decision.response.topics
    assert result.error_code == Errors.INVALID_CONFIG
    unknown = f"Unknown topic config name: {hash_map_order(values)[0]}"
    assert result.error_message == unknown if longest == 1 else "exceeds the maximum" in result.error_message
    assert parts > 2_000 // 300


@pytest.mark.parametrize("kind", ["legacy", "incremental"])
def test_many_settings_of_a_resource_are_altered_in_parts(kind: str) -> None:
    """A broker may have any: they are all written, and replaced again."""
    context, info = a_context(), RequestInfo(1, 0)
    names = [f"setting-{number}" for number in range(NAMED)]

    def altered(names: list[str], resource: tuple[int, str] = (BROKER, "")) -> tuple[Any, int]:
        if kind == "legacy":
            values = [AlterConfigsRequestAlterableConfig(name=each, value="1") for each in names]
            legacy = AlterConfigsRequestAlterConfigsResource(
                resource_type=resource[0], resource_name=resource[1], configs=values
            )
            return in_parts(configs.on_alter_configs(context, AlterConfigsRequest(resources=[legacy]), info))
        changes = [
            IncrementalAlterConfigsRequestAlterableConfig(name=each, config_operation=SET, value="1") for each in names
        ]
        changed = IncrementalAlterConfigsRequestAlterConfigsResource(
            resource_type=resource[0], resource_name=resource[1], configs=changes
        )
        request = IncrementalAlterConfigsRequest(resources=[changed])
        return in_parts(configs.on_incremental_alter_configs(context, request, info))

    decision, parts = altered(names)
    assert [each.record.name for each in decision.records] == hash_map_order(names)
    assert parts >= 4 * NAMED // 1_000
    for each in decision.records:
        context.image.apply(each.record)
    if kind == "legacy":
        before = context.image.configs[BROKER, ""]
        decision, parts = altered([])
        assert [each.record.name for each in decision.records] == timeline_order(before, string_hash)
        assert {each.record.value for each in decision.records} == {None} and parts >= 3 * NAMED // 1_000
    decision, parts = altered(names, (CLIENT_METRICS, "m"))
    [result] = decision.response.responses
    assert result.error_message == f"Unknown client metrics configuration: {hash_map_order(names)[0]}"
    assert result.error_code == Errors.INVALID_REQUEST and not decision.records and parts >= 4 * NAMED // 1_000
