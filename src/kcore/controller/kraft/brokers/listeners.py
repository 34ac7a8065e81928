"""The listeners that a broker or a controller registers (Kafka's ListenerInfo)."""

from collections.abc import Iterable

from kcore.constants import JAVA_BLANKS
from kcore.metadata.table.broker_table import SECURITY_PROTOCOLS
from kcore.schema.broker_lifecycle import Listener


def merged(listeners: Iterable[Listener]) -> list[Listener]:
    """One listener per name: the last one, at the place of the first one."""
    return [*{each.name: each for each in listeners}.values()]


def are_valid(listeners: Iterable[Listener]) -> bool:
    """True if each listener has a known security protocol, and each merged one a host and a port."""
    given = list(listeners)
    known = {*SECURITY_PROTOCOLS.values()}
    return all(each.security_protocol in known for each in given) and all(
        each.port and each.host.strip(JAVA_BLANKS) for each in merged(given)
    )
