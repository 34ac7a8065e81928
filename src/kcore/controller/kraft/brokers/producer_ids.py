"""AllocateProducerIds: blocks of producer ids, each allocated once (KIP-730). Source: ProducerIdControlManager."""

from kcore.constants import INT64_MAX, PRODUCER_ID_BLOCK_SIZE
from kcore.controller.kraft.decision import Decision, Versioned
from kcore.controller.kraft.kraft_context import ControllerContext, RequestInfo
from kcore.metadata.acl_codes import CLUSTER_ACTION
from kcore.protocol_errors import Errors
from kcore.schema.metadata_records_settings import ProducerIdsRecord
from kcore.schema.producers import AllocateProducerIdsRequest, AllocateProducerIdsResponse


def on_allocate_producer_ids(
    context: ControllerContext, request: AllocateProducerIdsRequest, info: RequestInfo
) -> Decision:
    """Allocate the next block, for a broker that is registered with the request's epoch."""
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
