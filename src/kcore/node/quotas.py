"""The valid entities and values of client quotas and connection quotas (KIP-546, KIP-612).

Source: ClientQuotaControlManager, QuotaConfig.
"""

import ipaddress
import math
from collections.abc import Mapping
from typing import Final, TypeAlias

Entity: TypeAlias = Mapping[str, str | None]  # Name by type, in the order of Java's map; None: the default entity.
Quotas: TypeAlias = Mapping[str, tuple[str, float] | None]

USER, CLIENT_ID, IP = "user", "client-id", "ip"
TYPES: Final = (USER, CLIENT_ID, IP)
INT_MAX, LONG_MAX = (1 << 31) - 1, float(1 << 63)
OF_CLIENTS: Final[Quotas] = {  # By quota: the type and maximum of its values; None: any positive number is valid.
    "producer_byte_rate": ("LONG", LONG_MAX),
    "consumer_byte_rate": ("LONG", LONG_MAX),
    "request_percentage": None,
    "controller_mutation_rate": None,
}
OF_ADDRESSES: Final[Quotas] = {"connection_creation_rate": ("INT", INT_MAX)}
_FRACTION: Final = 1e-6  # An integer quota may have at most this fraction (ClientQuotaControlManager).


def reason_no_entity(entity: Entity) -> str | None:
    """Kafka's error message for an invalid entity; None if it is valid (validateEntity, configKeysForEntityType)."""
    if not entity:
        return "Invalid empty client quota entity"
    for kind, name in entity.items():
        if kind not in TYPES:
            return f"Unhandled client quota entity type: {kind}"
        if name == "":
            return f"Empty {kind} not supported"
    if IP in entity and len(entity) > 1:
        return "Invalid quota entity combination, IP entity shouldnot be combined with User or ClientId"
    address = entity.get(IP)
    return None if address is None or is_address(address) else f"{address} is not a valid IP or resolvable host."


def is_address(text: str) -> bool:
    """True for an IP address and for localhost.

    Kafka's controller resolves other names and waits for the answer; kcore's controller asks no name server.
    """
    try:
        ipaddress.ip_address(text[1:-1] if text.startswith("[") and text.endswith("]") else text)
    except ValueError:
        return text == "localhost"
    return True


def reason_no_value(known: Quotas, key: str, value: float, *, must_be_finite: bool = False) -> str | None:
    """Kafka's error message if the quota cannot have the value; None if the value is valid (validateQuotaKeyValue)."""
    if key not in known:
        return f"Invalid configuration key {key}"
    if must_be_finite and not math.isfinite(value):
        return f"Quota {key} must be a finite number"
    if value <= 0.0:
        return f"Quota {key} must be greater than 0"
    bounds = known[key]
    if bounds is None:
        return None
    kind, most = bounds
    if value > most:
        return f"Proposed value for {key} is too large for {'an' if kind == 'INT' else 'a'} {kind}."
    if math.isfinite(value) and math.fmod(value, 1.0) > _FRACTION:
        return f"{key} cannot be a fractional value."
    return None
