"""Reads the settings of a ZooKeeper-mode controller's listener and connections from a server.properties of 3.9.1.

The controller can use the file of a broker. It has one listener, the inter-broker listener; it reads the settings of
this listener and of the brokers' listener for control requests. Other settings are ignored.

Source: KafkaConfig (getInterBrokerListenerNameAndSecurityProtocol, getControlPlaneListenerNameAndSecurityProtocol),
ControllerChannelManager.addNewBroker of 3.9.1.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from kcore.controller.zk.zk_controller_config import ControllerConfig
from kcore.metadata.table.broker_table import SECURITY_PROTOCOLS, Endpoint
from kcore.net.limits.connection_limits import Limits
from kcore.net.request_context import PLAINTEXT
from kcore.net.security.listener_security import ListenerSecurity
from kcore.node.zk.acls import AUTHORIZER_NAMES
from kcore.scram import DIGESTS
from kcore.server.properties.limits import limits_of
from kcore.server.properties.security import OF_BROKERS, security_of
from kcore.server.properties.values import CONTROL_PLANE, TOKEN_KEY, SettingsError, checked

OF_TOKENS: Final = (
    "delegation.token.max.lifetime.ms",
    "delegation.token.expiry.time.ms",
    "delegation.token.expiry.check.interval.ms",
)
OTHERS: Final = (*AUTHORIZER_NAMES, *OF_TOKENS)


@dataclass(frozen=True, slots=True)
class ZkControllerListenerSettings:
    """How clients and brokers connect to a controller, and how it connects to brokers."""

    security: ListenerSecurity = field(default_factory=ListenerSecurity)  # The security of the inter-broker listener.
    control: ListenerSecurity | None = None  # The security of a separate listener for control requests.
    limits: Limits = field(default_factory=Limits)

    @property
    def to_brokers(self) -> ListenerSecurity:
        """The security of the listener at which brokers receive control requests."""
        return self.control or self.security

    @property
    def has_users(self) -> bool:
        """Whether clients may authenticate as users stored in ZooKeeper."""
        return any(each in DIGESTS for each in self.security.mechanisms)


OPEN: Final = ZkControllerListenerSettings()


def endpoints_at(host: str, port: int, config: ControllerConfig, protocol: str) -> tuple[Endpoint, ...]:
    """The controller's endpoints for brokers: one port, with the name of each listener that brokers use.

    A broker with a control-plane listener connects to the controller's (MetadataCacheControllerNodeProvider).
    """
    names = config.inter_broker_listener_name, config.control_plane_listener_name
    code = SECURITY_PROTOCOLS[protocol]
    return tuple(Endpoint(port, host, name, code) for name in dict.fromkeys(names) if name)


class ZkControllerSettings(NamedTuple):
    """The settings that a controller reads from the file."""

    listener: str
    control_plane: str | None
    listener_settings: ZkControllerListenerSettings
    others: dict[str, str]  # The settings of the authorizer, and the lifetimes of tokens.
    token_key: str | None

    def __repr__(self) -> str:
        """Omits the settings, because they contain secrets."""
        return f"ZkControllerSettings(listener={self.listener})"


def zk_controller_settings(properties: Mapping[str, str]) -> ZkControllerSettings:
    """The settings in a server.properties. SettingsError with one line that shows no password, for invalid values."""
    given = checked(properties, has_security=True)
    listener = _between_brokers(given)
    control_plane = given.get(CONTROL_PLANE) or None
    security, *controls = (
        security_of(given, name, OF_BROKERS, is_controllers=False) for name in (listener, control_plane) if name
    )
    control = controls[0] if controls else None
    if control is not None and (control.protocol, control.mechanisms) != (security.protocol, security.mechanisms):
        raise SettingsError(
            f"{CONTROL_PLANE}={control_plane}: its protocol and mechanisms must be those of {listener}, because the "
            "controller has one port for both"
        )
    others = {name: given[name] for name in given if name in OTHERS}
    listener_settings = ZkControllerListenerSettings(security, control, limits_of(given, listener, Limits()))
    return ZkControllerSettings(listener, control_plane, listener_settings, others, given.get(TOKEN_KEY) or None)


def _between_brokers(given: Mapping[str, str]) -> str:
    """The name of the inter-broker listener."""
    name, protocol = given.get("inter.broker.listener.name"), given.get("security.inter.broker.protocol")
    if name and protocol:
        raise SettingsError("give either inter.broker.listener.name or security.inter.broker.protocol")
    return name or protocol or PLAINTEXT
