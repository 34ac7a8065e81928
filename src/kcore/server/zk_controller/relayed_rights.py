"""The rights that a controller with an authorizer checks before it relays a request to a live broker.

The broker sees the controller's principal, not the client's. So the controller relays only requests whose rights it
checks itself. Source: KafkaApis.handleFindCoordinatorRequest and handleInitProducerIdRequest of 3.9.1.
"""

from typing import Final

from kcore.metadata.acl_codes import DESCRIBE, GROUP, TRANSACTIONAL_ID
from kcore.protocol_errors import Errors
from kcore.schema.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from kcore.schema.structure import Message
from kcore.schema.transactions import InitProducerIdRequest
from kcore.server.security.rights import Rights, refusal_of_producer

CHECKED: Final = frozenset({"FindCoordinator", "InitProducerId"})
KEYS_SINCE: Final = 4  # The first version of FindCoordinator with several keys.
_TRANSACTION: Final = 1  # FindCoordinatorRequest.CoordinatorType


def refusal_of(rights: Rights, request: Message, version: int) -> Message | None:
    """The error response if a right is missing; None if the request may be relayed."""
    if isinstance(request, FindCoordinatorRequest):
        return _no_coordinator(rights, request, version)
    assert isinstance(request, InitProducerIdRequest), f"{type(request).__name__} is not relayed"
    return refusal_of_producer(rights, request)


def _no_coordinator(rights: Rights, request: FindCoordinatorRequest, version: int) -> FindCoordinatorResponse | None:
    """Needs DESCRIBE of each group or transactional id; for others a client must send another request."""
    is_group = request.key_type != _TRANSACTION
    kind = GROUP if is_group else TRANSACTIONAL_ID
    error = Errors.GROUP_AUTHORIZATION_FAILED if is_group else Errors.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    keys = request.coordinator_keys if version >= KEYS_SINCE else [request.key]
    if not keys:
        return FindCoordinatorResponse()  # An empty request is not relayed.
    refused = {key for key in keys if not rights.allows(DESCRIBE, kind, key)}
    if not refused:
        return None
    if version < KEYS_SINCE:
        return FindCoordinatorResponse(error_code=error, node_id=-1, host="", port=-1)
    found = [
        Coordinator(
            key=key,
            node_id=-1,
            host="",
            port=-1,
            error_code=error if key in refused else Errors.COORDINATOR_NOT_AVAILABLE,
            error_message=None,
        )
        for key in keys
    ]
    return FindCoordinatorResponse(coordinators=found)
