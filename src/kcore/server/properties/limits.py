"""Reads the limits of a listener's connections from server.properties.

Source: SocketServerConfigs, AbstractKafkaConfig, ConnectionQuotas of 4.3.1.
"""

import socket
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from kcore.net.limits.connection_limits import Limits
from kcore.net.listener import plain_address
from kcore.server.properties.values import SettingsError, count_of, listed, value_of

MOST: Final = "max.connections"
RATE: Final = "max.connection.creation.rate"
PER_ADDRESS: Final = "max.connections.per.ip"
OVERRIDES: Final = "max.connections.per.ip.overrides"
IDLE: Final = "connections.max.idle.ms"
REQUEST: Final = "socket.request.max.bytes"
QUEUED: Final = "queued.max.request.bytes"
LONGEST_IDLE_S: Final = 10 * 365 * 24 * 3600.0  # In place of an unlimited idle time.


def limits_of(given: Mapping[str, str], listener: str, default: Limits) -> Limits:
    """`default` with the given settings; MOST and RATE: the lower of the listener's and the server's. SettingsError."""
    prefix = f"listener.name.{listener.lower()}."
    found: dict[str, Any] = {}
    for field, name in {"connections": MOST, "connections_a_second": RATE}.items():
        values = [value_of(name, given[each], each) for each in (name, prefix + name) if given.get(each)]
        if values:
            found[field] = min(values)
    if given.get(PER_ADDRESS):
        found["connections_per_address"] = value_of(PER_ADDRESS, given[PER_ADDRESS])
    if given.get(OVERRIDES):
        found["connections_of_address"] = _overrides(given)
    elif found.get("connections_per_address") == 0:
        raise SettingsError(f"{PER_ADDRESS}=0: only with {OVERRIDES}")
    if given.get(IDLE):
        idle_ms = value_of(IDLE, given[IDLE])
        found["idle_s"] = LONGEST_IDLE_S if idle_ms < 0 else min(idle_ms / 1000, LONGEST_IDLE_S)
    if given.get(REQUEST):
        found["frame_bytes"] = value_of(REQUEST, given[REQUEST])
    if given.get(QUEUED) and (most := value_of(QUEUED, given[QUEUED])) > 0:
        found["received_bytes"] = most
    return replace(default, **found)


def _overrides(given: Mapping[str, str]) -> dict[str, int]:
    """The limits by address; a host name stands for its first address (InetAddress.getByName)."""
    found = {}
    for each in listed(given, OVERRIDES):
        host, _, count = each.rpartition(":")
        try:
            [(*_, (address, *_)), *_] = socket.getaddrinfo(host.strip("[]"), None, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError):
            raise SettingsError(f"{OVERRIDES}={each}: give HOST:NUMBER,... of known hosts") from None
        found[plain_address(str(address))] = count_of(OVERRIDES, count)
    return found
