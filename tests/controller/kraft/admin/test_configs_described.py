"""A controller describes its own settings as Kafka's controller does for the same server.properties."""

from typing import Any

import pytest

import cases
from controller.kraft.admin.test_configs_altered import BROKER, GROUP, decided
from controller.kraft.broker_clusters import put
from controller.kraft.contexts import a_context
from kcore.controller.kraft.kraft_context import ControllerContext
from kcore.schema import configs as schema
from kcore.schema.metadata_records_settings import ConfigRecord

Result = schema.DescribeConfigsResourceResult


def described(context: ControllerContext, name: str, *keys: str, kind: int = BROKER) -> list[Result]:
    resource = schema.DescribeConfigsResource(
        resource_type=kind, resource_name=name, configuration_keys=[*keys] or None
    )
    request = schema.DescribeConfigsRequest(resources=[resource], include_synonyms=True)
    response = decided(context, request).response
    assert isinstance(response, schema.DescribeConfigsResponse)
    (result,) = response.results
    return result.configs


def as_json(entry: Result) -> dict[str, Any]:
    return {
        "name": entry.name,
        "value": entry.value,
        "readOnly": entry.read_only,
        "configSource": entry.config_source,
        "isSensitive": entry.is_sensitive,
        "configType": entry.config_type,
        "synonyms": [[each.name, each.value, each.source] for each in entry.synonyms],
    }


@pytest.mark.parametrize(("release", "level"), [("4.3.1", 29), ("4.4.0", 33)])
def test_all_settings_of_a_controller(release: str, level: int) -> None:
    """Defaults included, in Kafka's order."""
    [case] = cases.load(f"controller_settings_{release}")
    own_id = int(case["properties"]["node.id"])
    context = a_context(level, release=release, static_configs=case["properties"], node_id=own_id)
    for node, settings in case["dynamic"].items():
        for name, value in settings.items():
            put(context, ConfigRecord(resource_type=BROKER, resource_name=node, name=name, value=value))
    assert [as_json(each) for each in described(context, "101")] == case["configs"]
    assert [each.name for each in described(context, "")] == ["min.insync.replicas"]


def test_all_settings_of_groups_of_4_4() -> None:
    """Internal settings come first, if the group sets them; a group's assignor is the first of the node's."""
    [case] = cases.load("controller_settings_4.4.0")
    for group in case["groups"]:
        context = a_context(33, release="4.4.0", static_configs=case["properties"])
        for name, value in group["own"].items():
            put(context, ConfigRecord(resource_type=GROUP, resource_name=group["group"], name=name, value=value))
        assert [as_json(each) for each in described(context, group["group"], kind=GROUP)] == group["configs"]


def test_values_are_described_as_kafka_reads_them() -> None:
    given = {"log.dirs": " a , b", "num.io.threads": " 08", "auto.leader.rebalance.enable": "FALSE", "x.y": " z"}
    context = a_context(static_configs=given)
    found = {each.name: each.value for each in described(context, "3000", *given)}
    assert found == {"log.dirs": "a,b", "num.io.threads": "8", "auto.leader.rebalance.enable": "false", "x.y": None}


def test_another_release_tells_what_is_set() -> None:
    context = a_context(release="3.9.1", static_configs={"num.io.threads": "4", "listeners": "PLAINTEXT://:9092"})
    found = {each.name: each.read_only for each in described(context, "3000")}
    assert found == {"num.io.threads": False, "listeners": False}
    assert described(a_context(release="4.1.2"), "3000") == []
