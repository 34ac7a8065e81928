"""Who is let in to a broker of ZooKeeper mode, by server.properties of 3.9.1, and what it hands on to other brokers.

Source: KafkaConfig (controlPlaneListenerName, validateValues), KafkaApis of 3.9.1.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from kcore.controller.rules.authorization import refusal
from kcore.controller.rules.error_responses import refused
from kcore.controller.zk.authorizer_settings import AUTHORIZER_NAMES, AclAuthorizerSettings, acl_authorizer_settings
from kcore.errors import DisconnectedError
from kcore.net.request_context import SESSION
from kcore.net.sasl_mechanisms import DIGESTS
from kcore.net.server import Relay
from kcore.protocol_errors import ApiException, Errors
from kcore.schema.headers import RequestHeader, ResponseHeader
from kcore.schema.index import REQUESTS
from kcore.server.controller.door import CONTROL_PLANE, TOKEN_KEY
from kcore.server.controller.gate import OF_THE_CLUSTER
from kcore.server.properties.listeners import BrokerListeners, listeners_of
from kcore.server.properties.values import SettingsError, checked
from kcore.server.rights import Authorizer, Rights
from kcore.wire.codec import decode_from, encode


class BrokerDoor(NamedTuple):
    """One broker's."""

    listeners: BrokerListeners = BrokerListeners()
    control_plane: str | None = None  # The listener of control requests, where they have one.
    authorizer: AclAuthorizerSettings | None = None
    token_key: str | None = None  # delegation.token.secret.key

    def __repr__(self) -> str:
        """Without the settings themselves: secrets are among them."""
        return f"BrokerDoor(listeners={[each.name for each in self.listeners.each]})"

    @property
    def has_users(self) -> bool:
        """Whether clients may come whom ZooKeeper knows."""
        return any(name in DIGESTS for each in self.listeners.each for name in each.security.mechanisms)


OPEN: Final = BrokerDoor()


def broker_door(properties: Mapping[str, str]) -> BrokerDoor:
    """SettingsError, one line, for invalid values, which never shows a password. Other settings are passed over."""
    given = checked(properties, has_security=True, knows_all=False)
    listeners = listeners_of(given)
    plane = (given.get(CONTROL_PLANE) or "").upper() or None
    if plane is not None and plane not in {each.name for each in listeners.each}:
        raise SettingsError(f"{CONTROL_PLANE}={plane}: it is not among the listeners")
    if plane == listeners.inter_broker:
        raise SettingsError(f"{CONTROL_PLANE}={plane}: brokers among themselves have another listener")
    try:
        authorizer = acl_authorizer_settings({name: given[name] for name in AUTHORIZER_NAMES if name in given})
    except ApiException as error:
        raise SettingsError(str(error)) from None
    return BrokerDoor(listeners, plane, authorizer, given.get(TOKEN_KEY) or None)


class CheckedRelay:
    """Before what another broker answers: that one takes a request for this broker's, so rights are checked here."""

    def __init__(self, relay: Relay, authorizer: Authorizer) -> None:
        """`relay`: of requests about the cluster."""
        self._relay, self._authorizer = relay, authorizer

    def takes(self, api_key: int, version: int) -> bool:
        """Whether it is for another broker."""
        return self._relay.takes(api_key, version)

    async def ask(self, connection_id: int, frame: bytes) -> bytes:
        """The other broker's answer, or the refusal."""
        session = SESSION.get()
        if session is None:
            raise DisconnectedError("nobody asks")
        kind, version = REQUESTS[int.from_bytes(frame[:2])], int.from_bytes(frame[2:4])
        operation = OF_THE_CLUSTER[kind.__name__.removesuffix("Request")]
        if Rights(self._authorizer, session).allows(operation):
            return await self._relay.ask(connection_id, frame)
        header, at = decode_from(RequestHeader, kind.header_version(version), frame)
        request, _ = decode_from(kind, version, frame, at)
        answer = refused(request, Errors.CLUSTER_AUTHORIZATION_FAILED, refusal(session, operation))
        head = ResponseHeader(correlation_id=header.correlation_id)
        return bytes(encode(head, answer.header_version(version))) + bytes(encode(answer, version))

    def forget(self, connection_id: int) -> None:
        """That connection has ended."""
        self._relay.forget(connection_id)
