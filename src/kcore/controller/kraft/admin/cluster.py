"""DescribeCluster as a controller answers it (KIP-919): the registered controllers.

Source: ControllerApis.handleDescribeCluster, AuthHelper.computeDescribeClusterResponse and
ControllerRegistrationsPublisher.
"""

from typing import Final

from kcore.controller.kraft.decision import Decision
from kcore.controller.kraft.kraft_context import ControllerContext, RequestInfo
from kcore.java_hash import hash_map_order
from kcore.metadata.acl_codes import (
    ALTER,
    ALTER_CONFIGS,
    CLUSTER_ACTION,
    CREATE,
    DESCRIBE,
    DESCRIBE_CONFIGS,
    IDEMPOTENT_WRITE,
)
from kcore.node.authorization import refusal
from kcore.node.error_responses import refused
from kcore.protocol_errors import Errors
from kcore.schema.cluster_metadata import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
    EndpointType,
)

OF_THE_CLUSTER: Final = (CREATE, CLUSTER_ACTION, DESCRIBE_CONFIGS, ALTER_CONFIGS, IDEMPOTENT_WRITE, ALTER, DESCRIBE)
"""AclEntry.supportedOperations of the CLUSTER resource."""
_TOO_OLD: Final = "Direct-to-controller communication is not supported with the current MetadataVersion."


def on_describe_cluster(context: ControllerContext, request: DescribeClusterRequest, info: RequestInfo) -> Decision:
    """The registered controllers, with their addresses at the listener that received the request.

    Needs ALTER of the cluster.
    """
    if not context.version.controller_registration_supported:
        return Decision(refused(request, Errors.UNSUPPORTED_VERSION, _TOO_OLD))
    if not context.is_authorized(info, ALTER):
        return Decision(refused(request, Errors.CLUSTER_AUTHORIZATION_FAILED, refusal(info, ALTER)))
    if request.endpoint_type not in [*EndpointType]:
        why = f"Unsupported endpoint type {request.endpoint_type}"
        return Decision(_mistaken(Errors.UNSUPPORTED_ENDPOINT_TYPE, why, info))
    if request.endpoint_type != EndpointType.CONTROLLER:
        why = "The request was sent to an endpoint of type CONTROLLER, but we wanted an endpoint of type BROKER"
        return Decision(_mistaken(Errors.MISMATCHED_ENDPOINT_TYPE, why, info))
    controllers = context.image.controllers
    nodes = [
        DescribeClusterBroker(broker_id=each, host=endpoint.host, port=endpoint.port)
        for each in hash_map_order(controllers, int, capacity=1)  # The map's capacity in ClusterDelta.apply.
        for endpoint in controllers[each].end_points
        if endpoint.name == info.listener
    ]
    own_id = context.config.node.node_id
    response = DescribeClusterResponse(
        endpoint_type=EndpointType.CONTROLLER,
        cluster_id=context.config.node.cluster_id,
        controller_id=own_id if any(each.broker_id == own_id for each in nodes) else -1,
        brokers=nodes,
    )
    if request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = _authorized_operations(context, info)
    return Decision(response)


def _mistaken(error: Errors, why: str, info: RequestInfo) -> DescribeClusterResponse:
    """The error for a wrong endpoint type. Version 0 of the request has no endpoint types."""
    return DescribeClusterResponse(error_code=error if info.version else Errors.INVALID_REQUEST, error_message=why)


def _authorized_operations(context: ControllerContext, info: RequestInfo) -> int:
    """A bit for each operation of the cluster that the principal may do; 0 without DESCRIBE."""
    if not context.is_authorized(info, DESCRIBE):
        return 0
    return sum(1 << each for each in OF_THE_CLUSTER if context.is_authorized(info, each))
