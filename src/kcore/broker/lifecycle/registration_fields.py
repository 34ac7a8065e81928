"""The fields of a broker's registration, from its settings."""

from collections.abc import Iterable, Mapping

from kcore.metadata.table.broker_table import Endpoint
from kcore.schema.broker_lifecycle import Feature, Listener


def listeners_of(endpoints: Iterable[Endpoint]) -> list[Listener]:
    """The listeners of a registration."""
    return [
        Listener(name=each.listener, host=each.host, port=each.port, security_protocol=each.security_protocol)
        for each in endpoints
    ]


def features_of(supported: Mapping[str, tuple[int, int]]) -> list[Feature]:
    """The supported features of a registration."""
    return [
        Feature(name=name, min_supported_version=lowest, max_supported_version=highest)
        for name, (lowest, highest) in sorted(supported.items())
    ]
