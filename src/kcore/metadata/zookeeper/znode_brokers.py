"""Encodes and decodes /brokers/ids/<id>, a broker's registration in ZooKeeper (BrokerIdZNode of 3.9.1)."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final

from kcore.errors import TableError
from kcore.metadata.table.broker_table import SECURITY_PROTOCOLS, Endpoint
from kcore.metadata.zookeeper.znode_json import Fields, encode_json, fault, immutable_order
from kcore.metadata.zookeeper.znodes import BROKER_IDS, broker_path

NEWEST_VERSION: Final = 5  # Since 2.7; 3.9 is the last release that registers in ZooKeeper.
_ENDPOINT: Final = re.compile(r"(.*)://\[?([0-9a-zA-Z\-%._:]*)\]?:(-?\d{1,9})")  # As in SocketServerConfigs.
REMEMBERED_BYTES: Final = 1_024  # Larger registrations are not cached; Kafka's brokers write 200 to 400 bytes.
COORDINATES: Final = "kcore.coordinates"  # A field that only kcore writes; Kafka ignores it.
_PROTOCOL_NAMES: Final = {number: name for name, number in SECURITY_PROTOCOLS.items()}


@dataclass(frozen=True, slots=True)
class BrokerNode:
    """A broker's registration. The broker epoch is not in the data: it is the czxid of the znode (KIP-380)."""

    endpoints: Sequence[Endpoint]
    rack: str | None = None
    features: Mapping[str, tuple[int, int]] = field(default_factory=dict)  # lowest and highest supported level
    jmx_port: int = -1
    version: int = NEWEST_VERSION  # 4 below metadata version 2.7, 2 below 0.10.0
    coordinates: bool = True  # False for kcore's brokers, which coordinate no groups and transactions.


def encode_broker(broker: BrokerNode, timestamp_ms: int) -> bytes:
    """The znode's data; old clients read the host and port of the first PLAINTEXT listener in separate fields."""
    plain = [endpoint for endpoint in broker.endpoints if endpoint.security_protocol == SECURITY_PROTOCOLS["PLAINTEXT"]]
    fields: dict[str, Any] = {}
    if broker.version >= 5:
        ranges = ((name, *broker.features[name]) for name in immutable_order(broker.features))
        fields["features"] = {name: {"min_version": least, "max_version": most} for name, least, most in ranges}
    if broker.version >= 4:
        protocols = {each.listener: _PROTOCOL_NAMES[each.security_protocol] for each in broker.endpoints}
        names = immutable_order(protocols)
        fields["listener_security_protocol_map"] = {name: protocols[name] for name in names}
    fields["endpoints"] = [_connection_string(endpoint) for endpoint in broker.endpoints]
    if broker.rack is not None and broker.version >= 3:
        fields["rack"] = broker.rack
    fields["jmx_port"] = broker.jmx_port
    fields["port"] = plain[0].port if plain else -1
    fields["host"] = (plain[0].host or None) if plain else None
    if not broker.coordinates:
        fields[COORDINATES] = False
    return encode_json({**fields, "version": broker.version, "timestamp": str(timestamp_ms)})


def decode_broker(broker_id: int, data: bytes) -> BrokerNode:
    """Decodes any version; before version 4 a listener has the name of its protocol."""
    path = broker_path(broker_id)
    fields = Fields.of(path, data)
    version = fields.integer("version")
    if not 1 <= version <= NEWEST_VERSION:
        raise fault(path, f"version {version} is not one of 1 to {NEWEST_VERSION}")
    features = fields.object("features", {})
    return BrokerNode(
        _endpoints(fields) if version > 1 else [_first_endpoint(fields)],
        fields.text("rack", None),
        {name: _range(features.object(name)) for name in features},
        fields.integer("jmx_port", -1),
        version,
        coordinates=fields.values.get(COORDINATES) is not False,
    )


def _range(levels: Fields) -> tuple[int, int]:
    return levels.integer("min_version", bits=16), levels.integer("max_version", bits=16)


def _connection_string(endpoint: Endpoint) -> str:
    host = f"[{endpoint.host}]" if ":" in endpoint.host else endpoint.host
    return f"{endpoint.listener}://{host}:{endpoint.port}"


def _first_endpoint(fields: Fields) -> Endpoint:
    """The endpoint of version 1, which has no list."""
    return Endpoint(fields.integer("port"), fields.text("host"), "PLAINTEXT", SECURITY_PROTOCOLS["PLAINTEXT"])


def _endpoints(fields: Fields) -> list[Endpoint]:
    protocols = fields.object("listener_security_protocol_map", {})
    endpoints = []
    for text in fields.texts("endpoints"):
        if (match := _ENDPOINT.fullmatch(text)) is None:
            raise fault(fields.path, f"{text!r} is not an endpoint")
        listener, host, port = match.groups()
        protocol = protocols.text(listener, listener)
        if protocol not in SECURITY_PROTOCOLS:
            raise fault(fields.path, f"security protocol {protocol!r}")
        endpoints.append(Endpoint(int(port), host, listener, SECURITY_PROTOCOLS[protocol]))
    return endpoints


def broker_id_of(name: str) -> int:
    """The broker id in the name of a child of `/brokers/ids`; TableError if the name is not a broker id."""
    if not (name.isascii() and name.isdecimal() and int(name) < 2**31):
        raise TableError(f"{BROKER_IDS}/{name}: the name is not a broker id")
    return int(name)


def read_broker(name: str, data: bytes) -> tuple[int, BrokerNode]:
    """Decodes a registration; TableError if it is unreadable.

    Decoded registrations are cached, because all are read again whenever a broker starts or fails.
    """
    broker_id = broker_id_of(name)
    decode = _remembered if len(data) <= REMEMBERED_BYTES else decode_broker
    return broker_id, decode(broker_id, data)


_remembered = lru_cache(maxsize=10_000)(decode_broker)  # A BrokerNode is never mutated.
