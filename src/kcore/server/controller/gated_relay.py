"""What a controller with an authorizer relays to a live broker: only requests whose rights it has checked itself.

The broker sees the controller's principal, not the client's. So all else that brokers know is not served at all.
Source: KafkaApis.handleFindCoordinatorRequest and handleInitProducerIdRequest of 3.9.1.
"""

from typing import Final

from kcore.controller.zk.acls import AclAuthorizer
from kcore.errors import DisconnectedError
from kcore.metadata.acl_codes import DESCRIBE, GROUP, IDEMPOTENT_WRITE, TOPIC, TRANSACTIONAL_ID, WRITE
from kcore.net.request_context import SESSION
from kcore.net.versions import response_of
from kcore.protocol_errors import Errors
from kcore.schema.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from kcore.schema.headers import RequestHeader, ResponseHeader
from kcore.schema.index import REQUESTS
from kcore.schema.structure import Message
from kcore.schema.transactions import InitProducerIdRequest, InitProducerIdResponse
from kcore.server.controller.gate import Gate
from kcore.server.controller.relay import BrokerRelay
from kcore.wire.codec import decode_from, encode

CHECKED: Final = frozenset({"FindCoordinator", "InitProducerId"})
KEYS_SINCE: Final = 4  # The version of FindCoordinator since which it has several keys.
_TRANSACTION: Final = 1  # FindCoordinatorRequest.CoordinatorType


class GatedRelay:
    """A relay before which the authorizer is asked."""

    def __init__(self, relay: BrokerRelay, authorizer: AclAuthorizer) -> None:
        """`relay`: of the APIs in CHECKED alone."""
        self._relay, self._authorizer = relay, authorizer

    def takes(self, api_key: int, version: int) -> bool:
        """Whether it is for a broker."""
        return self._relay.takes(api_key, version)

    async def ask(self, connection_id: int, frame: bytes) -> bytes:
        """A broker's answer, or the refusal."""
        session = SESSION.get()
        if session is None:
            raise DisconnectedError("nobody asks")
        kind, version = REQUESTS[int.from_bytes(frame[:2])], int.from_bytes(frame[2:4])
        header, at = decode_from(RequestHeader, kind.header_version(version), frame)
        request, _ = decode_from(kind, version, frame, at)
        refusal = refusal_of(Gate(self._authorizer, session), request, version)
        if refusal is None:
            return await self._relay.ask(connection_id, frame)
        head = ResponseHeader(correlation_id=header.correlation_id)
        return bytes(encode(head, response_of(kind).header_version(version))) + bytes(encode(refusal, version))

    def forget(self, connection_id: int) -> None:
        """That connection has ended."""
        self._relay.forget(connection_id)


def refusal_of(gate: Gate, request: Message, version: int) -> Message | None:
    """The response where a right is missing; None otherwise."""
    if isinstance(request, FindCoordinatorRequest):
        return _no_coordinator(gate, request, version)
    assert isinstance(request, InitProducerIdRequest), f"{type(request).__name__} is not relayed"
    if request.transactional_id is not None:
        allowed = gate.allows(WRITE, TRANSACTIONAL_ID, request.transactional_id)
        error = Errors.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    else:
        allowed = gate.allows(IDEMPOTENT_WRITE) or gate.allows_on_any(WRITE, TOPIC)
        error = Errors.CLUSTER_AUTHORIZATION_FAILED
    return None if allowed else InitProducerIdResponse(error_code=error, producer_id=-1, producer_epoch=-1)


def _no_coordinator(gate: Gate, request: FindCoordinatorRequest, version: int) -> FindCoordinatorResponse | None:
    """Needs DESCRIBE of each group or transactional id. A client asks again for those that it may know."""
    is_group = request.key_type != _TRANSACTION
    kind = GROUP if is_group else TRANSACTIONAL_ID
    error = Errors.GROUP_AUTHORIZATION_FAILED if is_group else Errors.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    keys = request.coordinator_keys if version >= KEYS_SINCE else [request.key]
    refused = {key for key in keys if not gate.allows(DESCRIBE, kind, key)}
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
