"""Authorization shared by controllers and brokers: settings, Metadata and DescribeCluster, cut to the allowed parts."""

from typing import Any

import pytest

from kcore.metadata.acl_codes import (
    ALTER,
    ALTER_CONFIGS,
    CLUSTER,
    CLUSTER_NAME,
    CREATE,
    DESCRIBE,
    DESCRIBE_CONFIGS,
    GROUP,
    READ,
    TOPIC,
    WRITE,
)
from kcore.net.request_context import ClientSession
from kcore.protocol_errors import Errors
from kcore.schema.cluster_metadata import (
    DescribeClusterResponse,
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)
from kcore.schema.configs import (
    AlterConfigsRequest,
    AlterConfigsRequestAlterConfigsResource,
    AlterConfigsResponse,
    ConfigResourceType,
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestAlterConfigsResource,
    IncrementalAlterConfigsResponse,
)
from kcore.server.broker.broker_authorization import BrokerAuthorization
from kcore.server.security.rights import Rights
from kcore.server.zk_controller.zk_controller_authorization import ZkControllerAuthorization
from kcore.types import ZERO_UUID, Uuid
from server.broker.test_broker_authorization import Granted, Right

NOT_REQUESTED = -(2**31)
OF_CLUSTER = CLUSTER, CLUSTER_NAME
RESOURCES = [
    (ConfigResourceType.TOPIC, "t"),
    (ConfigResourceType.TOPIC, "u"),
    (ConfigResourceType.BROKER, "1"),
    (ConfigResourceType.GROUP, "g"),
]
REFUSED = [
    (ConfigResourceType.TOPIC, "u", Errors.TOPIC_AUTHORIZATION_FAILED, "Topic authorization failed."),
    (ConfigResourceType.BROKER, "1", Errors.CLUSTER_AUTHORIZATION_FAILED, "Cluster authorization failed."),
    (ConfigResourceType.GROUP, "g", Errors.GROUP_AUTHORIZATION_FAILED, "Group authorization failed."),
]
ALTERED = AlterConfigsRequest, AlterConfigsRequestAlterConfigsResource, AlterConfigsResponse
INCREMENTAL = (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestAlterConfigsResource,
    IncrementalAlterConfigsResponse,
)


def of(kind: type[Rights], *rights: Right) -> Any:
    return kind(Granted(*rights), ClientSession("L", "10.0.0.1"))


@pytest.mark.parametrize("authorization", [BrokerAuthorization, ZkControllerAuthorization])
@pytest.mark.parametrize(("request_", "resource", "response"), [ALTERED, INCREMENTAL])
def test_settings_are_altered_one_resource_at_a_time(
    authorization: Any, request_: Any, resource: Any, response: Any
) -> None:
    """Groups have none in ZooKeeper mode, which refuses them elsewhere."""
    rows = [resource(resource_type=kind, resource_name=name) for kind, name in RESOURCES]
    checked = of(authorization, (ALTER_CONFIGS, TOPIC, "t")).alter_configs(request_(resources=rows, validate_only=True))
    has_groups = authorization is BrokerAuthorization
    assert [each.resource_name for each in checked.request.resources] == ["t", *([] if has_groups else ["g"])]
    assert checked.request.validate_only and not checked.is_empty
    answer = response(responses=[])
    checked.complete(answer)
    assert [
        (each.resource_type, each.resource_name, each.error_code, each.error_message) for each in answer.responses
    ] == [(kind, name, error, None) for kind, name, error, _ in (REFUSED if has_groups else REFUSED[:-1])]
    everything = of(authorization, (ALTER_CONFIGS, *OF_CLUSTER), (ALTER_CONFIGS, GROUP, "g"))
    kept = everything.alter_configs(request_(resources=rows)).request.resources
    assert [each.resource_name for each in kept] == ["1", "g"]


def test_settings_are_described_one_resource_at_a_time() -> None:
    rows = [DescribeConfigsResource(resource_type=kind, resource_name=name) for kind, name in RESOURCES]
    for option in (False, True):
        request = DescribeConfigsRequest(resources=rows, include_synonyms=option, include_documentation=not option)
        checked = of(BrokerAuthorization, (DESCRIBE_CONFIGS, TOPIC, "t")).describe_configs(request)
        assert [each.resource_name for each in checked.request.resources] == ["t"]
        options = checked.request.include_synonyms, checked.request.include_documentation
        assert options == (option, not option) and not checked.is_empty
    answer = DescribeConfigsResponse(results=[])
    checked.complete(answer)
    found = [(each.resource_type, each.resource_name, each.error_code, each.error_message) for each in answer.results]
    assert found == REFUSED
    assert of(BrokerAuthorization, (DESCRIBE, TOPIC, "t")).describe_configs(request).is_empty


# Answers about the cluster.


def metadata(*names: str | None, bits: int = NOT_REQUESTED) -> MetadataResponse:
    topics = [MetadataResponseTopic(name=name, topic_id=ID, topic_authorized_operations=bits) for name in names]
    return MetadataResponse(topics=topics, cluster_authorized_operations=bits)


ID = Uuid(b"i" * 16)


def cut(rights: Rights, request: MetadataRequest, response: MetadataResponse, version: int) -> None:
    visible = rights.topic_filter(request, version, any(each.topic_id != ZERO_UUID for each in request.topics or ()))
    response.topics = [each for topic in response.topics if (each := visible(topic)) is not None]
    rights.cut(response)


@pytest.mark.parametrize(
    ("topics", "version", "is_told"),
    [(None, 1, False), (None, 12, False), ([], 0, False), ([], 1, True), (["t", "u"], 0, True), (["t", "u"], 12, True)],
)
def test_a_request_for_all_topics_gets_only_those_that_it_may_describe(
    topics: list[str] | None, version: int, is_told: bool
) -> None:
    """Version 0 asks for all by naming none."""
    request = MetadataRequest(topics=None if topics is None else [MetadataRequestTopic(name=name) for name in topics])
    response = metadata("t", "u")
    cut(of(Rights, (DESCRIBE, TOPIC, "t")), request, response, version)
    found = [(each.name, each.topic_id, each.error_code) for each in response.topics]
    refused = ("u", ZERO_UUID, Errors.TOPIC_AUTHORIZATION_FAILED)
    assert found == [("t", ID, Errors.NONE), *([refused] if is_told else [])]


def test_a_topic_whose_id_nobody_knows_stays_in_the_answer() -> None:
    response = metadata(None)
    cut(of(Rights), MetadataRequest(topics=[MetadataRequestTopic(name=None, topic_id=ID)]), response, 12)
    assert [(each.name, each.topic_id, each.error_code) for each in response.topics] == [(None, ID, Errors.NONE)]


def test_allowed_operations_are_answered_only_on_request() -> None:
    rights = of(Rights, (DESCRIBE, TOPIC, "t"), (READ, TOPIC, "t"), (CREATE, *OF_CLUSTER), (WRITE, *OF_CLUSTER))
    for bits, of_topic, of_cluster in (
        (NOT_REQUESTED, NOT_REQUESTED, NOT_REQUESTED),
        (0, 0, 0),
        (1 << READ | 1 << WRITE, 1 << READ, 1 << WRITE),
        (1 << READ | 1 << CREATE | 1 << ALTER, 1 << READ, 1 << CREATE),
    ):
        response = metadata("t", bits=bits)
        cut(rights, MetadataRequest(topics=None), response, 10)
        assert response.topics[0].topic_authorized_operations == of_topic
        assert response.cluster_authorized_operations == of_cluster


@pytest.mark.parametrize(
    ("rights", "bits", "expected"),
    [
        (((DESCRIBE, *OF_CLUSTER), (CREATE, *OF_CLUSTER)), 1 << CREATE | 1 << ALTER, 1 << CREATE),
        (((CREATE, *OF_CLUSTER),), 1 << CREATE | 1 << ALTER, 0),
        (((DESCRIBE, *OF_CLUSTER),), NOT_REQUESTED, NOT_REQUESTED),
        ((), NOT_REQUESTED, NOT_REQUESTED),
    ],
)
def test_a_described_cluster_tells_what_is_allowed(rights: tuple[Right, ...], bits: int, expected: int) -> None:
    """None without DESCRIBE (AuthHelper.computeDescribeClusterResponse)."""
    response = DescribeClusterResponse(cluster_authorized_operations=bits)
    of(Rights, *rights).cut(response)
    assert response.cluster_authorized_operations == expected
