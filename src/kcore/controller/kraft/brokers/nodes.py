"""UnregisterBroker removes a broker; ControllerRegistration registers a controller, UnregisterController removes one.

AllocateProducerIds allocates each block of producer ids to one broker only (KIP-730). Source: ClusterControlManager,
ReplicationControlManager.unregisterBroker, ProducerIdControlManager.
"""

from typing import Final

from kcore.constants import INT64_MAX, PRODUCER_ID_BLOCK_SIZE
from kcore.controller.kraft.brokers.registration import are_valid, merged
from kcore.controller.kraft.decision import Decision, Records, Versioned
from kcore.controller.kraft.departures import LISTENERS
from kcore.controller.kraft.kafka_way.faults import fail_as_kafka
from kcore.controller.kraft.kafka_way.stale_eligible import changes_of_stale
from kcore.controller.kraft.kraft_context import MOST_RECORDS, TOO_LARGE, ControllerContext, RequestInfo
from kcore.controller.kraft.kraft_error_responses import unregister_broker
from kcore.metadata.acl_codes import ALTER, CLUSTER_ACTION
from kcore.node.authorization import refusal
from kcore.node.error_responses import refused
from kcore.protocol_errors import Errors
from kcore.replication import kraft_events
from kcore.schema.broker_lifecycle import (
    ControllerRegistrationRequest,
    ControllerRegistrationResponse,
    UnregisterBrokerRequest,
    UnregisterBrokerResponse,
    UnregisterControllerRequest,
    UnregisterControllerResponse,
)
from kcore.schema.metadata_records_brokers import (
    ControllerEndpoint,
    ControllerFeature,
    RegisterControllerRecord,
    UnregisterBrokerRecord,
    UnregisterControllerRecord,
)
from kcore.schema.metadata_records_settings import ProducerIdsRecord
from kcore.schema.producers import AllocateProducerIdsRequest, AllocateProducerIdsResponse

_MESSAGES: Final = {  # By error: ControllerRegistrationRequest.getErrorResponse ignores the exception's message.
    Errors.CLUSTER_AUTHORIZATION_FAILED: "Cluster authorization failed.",
    Errors.UNSUPPORTED_VERSION: "The version of API is not supported.",
    Errors.INVALID_REQUEST: "A listener has no host, no port or an unknown security protocol.",
}


def on_unregister_broker(context: ControllerContext, request: UnregisterBrokerRequest, info: RequestInfo) -> Decision:
    """Remove the broker from every ISR, then remove its registration. The broker may be unfenced."""
    if not context.is_authorized(info, ALTER):
        return _not_unregistered(context, Errors.CLUSTER_AUTHORIZATION_FAILED, refusal(info, ALTER))
    context.call_controller()
    broker_id = request.broker_id
    row = context.image.brokers.registered_row(broker_id)
    if row is None:
        message = f"Broker ID {broker_id} is not currently registered"
        return _not_unregistered(context, Errors.BROKER_ID_NOT_REGISTERED, message)
    changes = kraft_events.broker_unregistered(context.image.table, context.kraft_settings(), broker_id)
    again = changes_of_stale(context, broker_id, crashed=False)
    if context.has_record_limits and len(changes) + sum(map(len, again)) >= MOST_RECORDS:
        return _not_unregistered(context, Errors.POLICY_VIOLATION, TOO_LARGE)
    epoch = int(context.image.brokers.epochs[row])
    gone = Versioned(UnregisterBrokerRecord(broker_id=broker_id, broker_epoch=epoch))
    records: list[Records] = [*([changes] if len(changes) else []), *again, gone]
    return Decision(UnregisterBrokerResponse(), records, is_atomic=False)


def _not_unregistered(context: ControllerContext, error: Errors, message: str) -> Decision:
    return Decision(unregister_broker(context.config, error, message))


def on_controller_registration(
    context: ControllerContext, request: ControllerRegistrationRequest, info: RequestInfo
) -> Decision:
    """Register the listeners and features of a controller (KIP-919)."""
    if not context.is_authorized(info, CLUSTER_ACTION):
        return _not_registered(Errors.CLUSTER_AUTHORIZATION_FAILED)
    context.call_controller()
    if not context.version.controller_registration_supported:
        return _not_registered(Errors.UNSUPPORTED_VERSION)
    if not are_valid(request.listeners):
        fail_as_kafka(context.config, LISTENERS, "unreadable listeners")
        return _not_registered(Errors.INVALID_REQUEST)
    record = RegisterControllerRecord(
        controller_id=request.controller_id,
        incarnation_id=request.incarnation_id,
        zk_migration_ready=request.zk_migration_ready and context.config.node.rules.migrates_from_zookeeper,
        end_points=[
            ControllerEndpoint(name=each.name, host=each.host, port=each.port, security_protocol=each.security_protocol)
            for each in merged(request.listeners)
        ],
        features=[
            ControllerFeature(
                name=each.name,
                min_supported_version=each.min_supported_version,
                max_supported_version=each.max_supported_version,
            )
            for each in request.features
        ],
    )
    return Decision(ControllerRegistrationResponse(), [Versioned(record)])


def _not_registered(error: Errors) -> Decision:
    return Decision(ControllerRegistrationResponse(error_code=error, error_message=_MESSAGES[error]))


def on_unregister_controller(
    context: ControllerContext, request: UnregisterControllerRequest, info: RequestInfo
) -> Decision:
    """Remove the registration of another controller (KIP-1312). Needs ALTER of the cluster."""
    if not context.is_authorized(info, ALTER):
        return Decision(refused(request, Errors.CLUSTER_AUTHORIZATION_FAILED, refusal(info, ALTER)))
    context.call_controller()
    controller_id = request.controller_id
    if controller_id == context.config.node.node_id:
        message = "Controller cannot unregister itself while it is active."
        return Decision(refused(request, Errors.INVALID_REQUEST, message))
    if not context.version.controller_unregistration_supported:
        message = "The current MetadataVersion is too old to support controller unregistration."
        return Decision(refused(request, Errors.UNSUPPORTED_VERSION, message))
    if controller_id not in context.image.controllers:
        message = f"Controller ID {controller_id} is not currently registered."
        return Decision(refused(request, Errors.CONTROLLER_ID_NOT_REGISTERED, message))
    return Decision(
        UnregisterControllerResponse(),
        [Versioned(UnregisterControllerRecord(controller_id=controller_id))],
    )


def on_allocate_producer_ids(
    context: ControllerContext, request: AllocateProducerIdsRequest, info: RequestInfo
) -> Decision:
    """Allocate the next block to a broker that is registered with the request's broker epoch."""
    if not context.is_authorized(info, CLUSTER_ACTION):
        return _refused(Errors.CLUSTER_AUTHORIZATION_FAILED)
    context.call_controller()
    if context.image.brokers.registered_row(request.broker_id, request.broker_epoch) is None:
        return _refused(Errors.STALE_BROKER_EPOCH)
    first = max(context.image.next_producer_id, 0)
    if first > INT64_MAX - PRODUCER_ID_BLOCK_SIZE:
        return _refused(Errors.UNKNOWN_SERVER_ERROR)
    record = ProducerIdsRecord(
        broker_id=request.broker_id, broker_epoch=request.broker_epoch, next_producer_id=first + PRODUCER_ID_BLOCK_SIZE
    )
    return Decision(
        AllocateProducerIdsResponse(producer_id_start=first, producer_id_len=PRODUCER_ID_BLOCK_SIZE),
        [Versioned(record)],
    )


def _refused(error: Errors) -> Decision:
    return Decision(AllocateProducerIdsResponse(error_code=error))
