"""Forwards clients' requests to the active controller, each in an Envelope (KIP-590).

Source: ForwardingManager, KafkaApis.forwardToController of 4.3.1.
"""

import asyncio
from ipaddress import ip_address
from typing import Final

from kcore.errors import DisconnectedError
from kcore.net.limits.connection_limits import Limits
from kcore.net.request_context import ClientSession, RequestContext
from kcore.node.authorization import Authorizer
from kcore.protocol_errors import Errors
from kcore.releases.known import DEFAULT_RELEASE, RELEASES
from kcore.schema.acls import DescribeAclsRequest
from kcore.schema.delegation_tokens import (
    CreateDelegationTokenRequest,
    ExpireDelegationTokenRequest,
    RenewDelegationTokenRequest,
)
from kcore.schema.envelope import EnvelopeRequest
from kcore.schema.index import REQUESTS
from kcore.schema.principal import DefaultPrincipalData
from kcore.schema.producers import AllocateProducerIdsRequest
from kcore.schema.scram import DescribeUserScramCredentialsRequest
from kcore.schema.structure import Message
from kcore.schema.versions import Versions
from kcore.server.broker import token_requests
from kcore.server.broker.broker_authorization import BrokerAuthorization
from kcore.server.broker.broker_connections import Choose, ControllerClient
from kcore.server.envelopes import FORWARDABLE
from kcore.server.pipeline import request_of, response_bytes
from kcore.server.request_parts import checked_in_parts
from kcore.server.security.rights import Checked, is_cluster_node
from kcore.wire.codec import encode

WITHIN_S: Final = 60.0  # The time-out of a forwarded request, as in Kafka.
MOST_WAITING: Final = 256  # The limit of requests in flight, of all clients together.
_BESIDE_BYTES: Final = 256 * 1024  # More than an envelope's principal, address and header need.
MOST_BYTES: Final = Limits().frame_bytes - _BESIDE_BYTES  # The limit of a request, whose envelope must fit in a frame.
_PRINCIPAL_VERSION: Final = 0
_AS_IT_IS: Final[frozenset[type[Message]]] = frozenset({DescribeAclsRequest, DescribeUserScramCredentialsRequest})
"""Requests without an envelope: controllers answer them to any node. Kafka's brokers answer them themselves."""


_CHECKED_HERE: Final = _AS_IT_IS | {
    *(CreateDelegationTokenRequest, RenewDelegationTokenRequest, ExpireDelegationTokenRequest)
}


def forwarded_apis(release: str = DEFAULT_RELEASE) -> dict[str, tuple[int, int]]:
    """The forwarded APIs, with the versions that controllers of this release answer."""
    names = {each.__name__.removesuffix("Request") for each in (FORWARDABLE - {AllocateProducerIdsRequest}) | _AS_IT_IS}
    return {name: versions for name, versions in RELEASES[release].apis.items() if name in names}


class ControllerForwarding:
    """Forwards the frames of requests, each with its client's principal and address: the routing policy of KRaft."""

    def __init__(
        self, controller: ControllerClient, authorizer: Authorizer | None = None, release: str = DEFAULT_RELEASE
    ) -> None:
        """`authorizer`: checks requests without an envelope, which the controller attributes to this broker.

        `release`: the controllers' release.
        """
        self._controller, self._authorizer = controller, authorizer
        self._waiting = asyncio.Semaphore(MOST_WAITING)
        apis = forwarded_apis(release)
        self._apis = {
            key: (message, Versions(*apis[name]))
            for key, message in REQUESTS.items()
            if (name := message.__name__.removesuffix("Request")) in apis
        }

    def takes(self, api_key: int, version: int) -> bool:
        """True if the request is forwarded: the controller answers this API in this version."""
        return api_key in self._apis and version in self._apis[api_key][1]

    async def ask(self, context: RequestContext) -> bytes:
        """The controller's response. DisconnectedError after a time-out, or if the controller refuses the envelope."""
        message, _ = self._apis[context.api_key]
        try:
            async with asyncio.timeout(WITHIN_S), self._waiting:
                if message in _AS_IT_IS:
                    return await self._as_it_is(context)
                return await self._in_envelope(context)
        except TimeoutError:
            raise DisconnectedError(f"no controller has answered {message.__name__}") from None

    async def _in_envelope(self, context: RequestContext) -> bytes:
        size = len(context.frame)
        if size > MOST_BYTES:  # The controller would close the connection that all clients share.
            raise DisconnectedError(f"a request of {size:,} bytes does not fit in an envelope")
        envelope = enveloped(context.frame, context.session)

        def make(choose: Choose) -> tuple[Message, int]:
            return envelope, choose(EnvelopeRequest)

        answer = await self._controller.ask(make)
        if answer.error_code != Errors.NONE or answer.response_data is None:
            raise DisconnectedError(f"the controller refused an envelope: {Errors.of(answer.error_code).name}")
        return bytes(answer.response_data)

    async def _as_it_is(self, context: RequestContext) -> bytes:
        request = request_of(context, self._is_node)
        return response_bytes(context, await self._controller.ask(lambda choose: (request, context.version)))

    async def refuse(self, context: RequestContext) -> Message | None:
        """The response to an unauthorized request; None for an allowed one. A DecodeError closes the connection."""
        if self._apis[context.api_key][0] not in _CHECKED_HERE:
            return None
        request = request_of(context, self._is_node)
        refused = token_requests.refusal_of(request, context.version, context.session)
        if refused is None and self._authorizer is not None:
            authorization = BrokerAuthorization(self._authorizer, context)
            checked = await checked_in_parts(request, lambda part: authorization.check(part, context.version))
            refused = None if isinstance(checked, Checked) else checked
        return refused

    def _is_node(self, session: ClientSession) -> bool:
        return is_cluster_node(self._authorizer, session)


def enveloped(frame: bytes, session: ClientSession) -> EnvelopeRequest:
    """The envelope of a request's header and body, with the session's principal and address."""
    return EnvelopeRequest(
        request_data=frame,
        request_principal=principal_bytes(session),
        client_host_address=address_bytes(session.client_address),
    )


def principal_bytes(session: ClientSession) -> bytes:
    """Encodes the session's principal, after the version of its encoding (DefaultKafkaPrincipalBuilder)."""
    principal = session.principal
    data = DefaultPrincipalData(
        type=principal.principal_type, name=principal.name, token_authenticated=session.is_token_authenticated
    )
    return _PRINCIPAL_VERSION.to_bytes(2) + bytes(encode(data, _PRINCIPAL_VERSION))


def address_bytes(client_address: str) -> bytes:
    """The address as 4 or 16 bytes, without the zone of a link-local address, which is local to this host."""
    try:
        return ip_address(client_address.partition("%")[0]).packed
    except ValueError:
        return ip_address("127.0.0.1").packed
