"""DescribeCluster at a controller: which controllers there are, where, and what the principal may do (KIP-919)."""

import pytest

from controller.kraft.contexts import a_context
from kcore.controller.kraft.admin.cluster import on_describe_cluster
from kcore.controller.kraft.kraft_context import ControllerContext, RequestInfo
from kcore.metadata.acl_codes import (
    ALLOW,
    ALTER,
    ALTER_CONFIGS,
    CLUSTER,
    CLUSTER_ACTION,
    CLUSTER_NAME,
    CREATE,
    DENY,
    DESCRIBE,
    DESCRIBE_CONFIGS,
    IDEMPOTENT_WRITE,
    LITERAL,
)
from kcore.metadata.principal import KafkaPrincipal
from kcore.protocol_errors import Errors
from kcore.schema.cluster_metadata import DescribeClusterRequest
from kcore.schema.metadata_records_brokers import ControllerEndpoint, RegisterControllerRecord
from kcore.schema.metadata_records_security import AccessControlEntryRecord
from kcore.types import Uuid

ALICE = RequestInfo(1, 0, principal=KafkaPrincipal("alice"), listener="SECURE")
OF_CONTROLLERS = DescribeClusterRequest(endpoint_type=2)


def a_world(**settings: object) -> ControllerContext:
    """Three controllers, of which 3002 does not listen on SECURE."""
    context = a_context(**settings)
    for controller_id, names in ((3000, ("PLAIN", "SECURE")), (3001, ("SECURE",)), (3002, ("PLAIN",))):
        endpoints = [ControllerEndpoint(name=each, host=f"{each}-{controller_id}", port=9) for each in names]
        context.image.apply(RegisterControllerRecord(controller_id=controller_id, end_points=endpoints))
    return context


def test_controllers_are_described_at_the_listener_of_the_request() -> None:
    answer = on_describe_cluster(a_world(), OF_CONTROLLERS, ALICE).response
    assert (answer.error_code, answer.endpoint_type, answer.controller_id) == (Errors.NONE, 2, 3000)
    assert answer.cluster_id == a_context().config.node.cluster_id
    assert sorted((each.broker_id, each.host, each.port) for each in answer.brokers) == [
        (3000, "SECURE-3000", 9),
        (3001, "SECURE-3001", 9),
    ]
    assert answer.cluster_authorized_operations == -(2**31), "nobody asked for them"
    elsewhere = on_describe_cluster(a_world(), OF_CONTROLLERS, ALICE._replace(listener="NONE")).response
    assert (elsewhere.controller_id, elsewhere.brokers) == (-1, [])


@pytest.mark.parametrize(
    ("version", "endpoint_type", "error"),
    [
        (1, 1, Errors.MISMATCHED_ENDPOINT_TYPE),
        (1, 0, Errors.UNSUPPORTED_ENDPOINT_TYPE),
        (1, 3, Errors.UNSUPPORTED_ENDPOINT_TYPE),
        (0, 1, Errors.INVALID_REQUEST),
    ],
)
def test_a_controller_knows_no_brokers(version: int, endpoint_type: int, error: Errors) -> None:
    request = DescribeClusterRequest(endpoint_type=endpoint_type)
    answer = on_describe_cluster(a_world(), request, ALICE._replace(version=version)).response
    assert answer.error_code == error and not answer.brokers


@pytest.mark.parametrize(("level", "error"), [(14, Errors.UNSUPPORTED_VERSION), (16, Errors.NONE)])
def test_controllers_are_known_since_3_7(level: int, error: Errors) -> None:
    assert on_describe_cluster(a_world(level=level), OF_CONTROLLERS, ALICE).response.error_code == error


def test_authorized_operations_need_the_right_to_describe_the_cluster() -> None:
    request = DescribeClusterRequest(endpoint_type=2, include_cluster_authorized_operations=True)
    every = {CREATE, ALTER, DESCRIBE, CLUSTER_ACTION, DESCRIBE_CONFIGS, ALTER_CONFIGS, IDEMPOTENT_WRITE}

    def allowed(*entries: tuple[int, int]) -> set[int]:
        context = a_world(has_authorizer=bool(entries))
        for number, (operation, permission) in enumerate(entries):
            record = AccessControlEntryRecord(
                id=Uuid(number.to_bytes(16)),
                resource_type=CLUSTER,
                resource_name=CLUSTER_NAME,
                pattern_type=LITERAL,
                principal="User:alice",
                host="*",
                operation=operation,
                permission_type=permission,
            )
            context.image.apply(record)
        bits = on_describe_cluster(context, request, ALICE).response.cluster_authorized_operations
        return {code for code in range(32) if bits >> code & 1}

    assert allowed() == every
    assert allowed((ALTER, ALLOW), (ALTER_CONFIGS, ALLOW)) == {ALTER, DESCRIBE, ALTER_CONFIGS, DESCRIBE_CONFIGS}
    assert allowed((ALTER, ALLOW), (DESCRIBE, DENY)) == set()
