"""Reads from server.properties the listeners of a broker, and which of them brokers use among themselves.

Source: AbstractKafkaConfig (interBrokerListenerNameAndSecurityProtocol), SocketServerConfigs,
KafkaConfig.validateValues of 4.3.1.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from kcore.metadata.table.broker_table import Endpoint
from kcore.net.limits.connection_limits import Limits
from kcore.net.request_context import PLAINTEXT
from kcore.net.security.listener_security import PROTOCOLS, ListenerSecurity
from kcore.raft.membership.replicas import Address
from kcore.server.properties.limits import limits_of
from kcore.server.properties.security import OF_BROKERS, security_of
from kcore.server.properties.values import ADVERTISED, EVERYWHERE, LISTENERS, SettingsError, places_of

INTER_BROKER: Final = "inter.broker.listener.name"
OF_PROTOCOL: Final = "security.inter.broker.protocol"


class BrokerListener(NamedTuple):
    """One listener of a broker."""

    name: str = PLAINTEXT
    listen: Address = Address("127.0.0.1", 0)  # Port 0: any free port.
    advertised: Address | None = None  # None: `listen`.
    security: ListenerSecurity = ListenerSecurity()
    is_advertised: bool = True
    limits: Limits = Limits()  # Limits of its connections.

    def endpoint(self, port: int) -> Endpoint:
        """The advertised endpoint; `port`: the port that the listener is bound to."""
        at = self.advertised or self.listen
        return Endpoint(at.port or port, at.host, self.name, PROTOCOLS.index(self.security.protocol))


class BrokerListeners(NamedTuple):
    """All listeners of a broker."""

    each: tuple[BrokerListener, ...] = (BrokerListener(),)
    inter_broker: str = PLAINTEXT

    def endpoints(self, ports: Mapping[str, int]) -> list[Endpoint]:
        """The advertised endpoints; `ports`: the ports that the listeners are bound to."""
        return [listener.endpoint(ports[listener.name]) for listener in self.each if listener.is_advertised]

    @property
    def of_brokers(self) -> BrokerListener:
        """The listener that brokers use among themselves."""
        return next(listener for listener in self.each if listener.name == self.inter_broker)


def listeners_of(given: Mapping[str, str], controllers: str | None = None) -> BrokerListeners:
    """The listeners of a broker; SettingsError. `controllers`: the name of the controllers' listener, if it has one."""
    places = places_of(LISTENERS, given) or {PLAINTEXT: Address("", 9092)}
    if controllers is not None and controllers.upper() in places:
        raise SettingsError(f"{LISTENERS}={given.get(LISTENERS, '')}: {controllers} is the controllers'")
    advertised = places_of(ADVERTISED, given)
    if unknown := sorted({*advertised} - {*places}):
        raise SettingsError(f"{ADVERTISED}={given[ADVERTISED]}: {unknown[0]} is not among the {LISTENERS}")
    inter_broker = _inter_broker(given, [*places])
    if inter_broker not in (advertised or places):
        where = ADVERTISED if advertised else LISTENERS
        raise SettingsError(f"{given.get(INTER_BROKER, inter_broker)}: it is not among the {where}")
    found = [
        BrokerListener(
            name,
            listen,
            advertised.get(name, Address("localhost", listen.port) if listen.host in EVERYWHERE else None),
            security_of(given, name, OF_BROKERS if name == inter_broker else None, is_controllers=False),
            name in (advertised or places),
            limits_of(given, name, Limits()),
        )
        for name, listen in places.items()
    ]
    listeners = BrokerListeners(tuple(found), inter_broker)
    own = listeners.of_brokers.security
    if own.own_mechanism is not None and own.own_mechanism not in own.mechanisms:
        raise SettingsError(f"{OF_BROKERS}={own.own_mechanism}: it is not among sasl.enabled.mechanisms")
    return listeners


def _inter_broker(given: Mapping[str, str], names: list[str]) -> str:
    """The inter-broker listener: the given name, or the given protocol as name; else the only one, or PLAINTEXT."""
    name, protocol = given.get(INTER_BROKER), given.get(OF_PROTOCOL)
    if name and protocol:
        raise SettingsError(f"give either {INTER_BROKER} or {OF_PROTOCOL}")
    if name:
        return name.upper()
    if protocol and protocol.upper() not in PROTOCOLS:
        raise SettingsError(f"{OF_PROTOCOL}={protocol}: give one of {', '.join(PROTOCOLS)}")
    return protocol.upper() if protocol else names[0] if len(names) == 1 else PLAINTEXT
