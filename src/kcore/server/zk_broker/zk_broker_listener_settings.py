"""Reads the listeners, authorizer and token settings of a ZooKeeper-mode broker from server.properties of 3.9.1.

Source: KafkaConfig (controlPlaneListenerName, validateValues) of 3.9.1.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from kcore.node.zk.acls import AUTHORIZER_NAMES, AclAuthorizerSettings, acl_authorizer_settings
from kcore.node.zk.admin.tokens import TokenRules
from kcore.protocol_errors import ApiException
from kcore.scram import DIGESTS
from kcore.server.properties.listeners import BrokerListeners, listeners_of
from kcore.server.properties.values import CONTROL_PLANE, TOKEN_KEY, SettingsError, checked, read_all

_OF_TOKENS: Final = ("delegation.token.max.lifetime.ms", "delegation.token.expiry.time.ms")


class ZkBrokerListenerSettings(NamedTuple):
    """The settings of one broker's listeners and of its authorization."""

    listeners: BrokerListeners = BrokerListeners()
    control_plane: str | None = None  # The listener of control requests; None: all listeners.
    authorizer: AclAuthorizerSettings | None = None
    tokens: TokenRules = TokenRules()

    def __repr__(self) -> str:
        """Omits the settings, because they may contain secrets."""
        return f"ZkBrokerListenerSettings(listeners={[each.name for each in self.listeners.each]})"

    @property
    def has_users(self) -> bool:
        """Whether clients may authenticate as users stored in ZooKeeper."""
        return any(name in DIGESTS for each in self.listeners.each for name in each.security.mechanisms)


OPEN: Final = ZkBrokerListenerSettings()


def zk_broker_listener_settings(properties: Mapping[str, str]) -> ZkBrokerListenerSettings:
    """The settings; other names are ignored. SettingsError with one line that shows no password."""
    given = checked(properties, has_security=True)
    listeners = listeners_of(given)
    plane = (given.get(CONTROL_PLANE) or "").upper() or None
    if plane is not None and plane not in {each.name for each in listeners.each}:
        raise SettingsError(f"{CONTROL_PLANE}={plane}: it is not among the listeners")
    if plane == listeners.inter_broker:
        raise SettingsError(f"{CONTROL_PLANE}={plane}: it must differ from the inter-broker listener")
    try:
        authorizer = acl_authorizer_settings({name: given[name] for name in AUTHORIZER_NAMES if name in given})
    except ApiException as error:
        raise SettingsError(str(error)) from None
    tokens = TokenRules(given.get(TOKEN_KEY) or None, **read_all(given, _OF_TOKENS, "delegation.token."))
    return ZkBrokerListenerSettings(listeners, plane, authorizer, tokens)
