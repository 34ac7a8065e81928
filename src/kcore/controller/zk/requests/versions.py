"""The versions of control requests by `inter.broker.protocol.version`.

Source: ControllerChannelManager of 3.9.1. The two-step rolling upgrade of KIP-380 is the step from "2.1" to "2.2".
"""

from typing import Final, NamedTuple

from kcore.errors import UnsupportedVersionError
from kcore.node.zk.inter_broker_protocol import parsed


class RequestVersions(NamedTuple):
    """The version of each control request."""

    leader_and_isr: int
    update_metadata: int
    stop_replica: int

    @property
    def leader_recovery_supported(self) -> bool:
        """True if unclean leaders are marked as recovering: from 3.2-IV0 on (KIP-704)."""
        return self.leader_and_isr >= 6


# The first protocol version with these request versions, ascending.
SENT_FROM: Final = (
    ("0.8.0", RequestVersions(0, 0, 0)),
    ("0.9.0", RequestVersions(0, 1, 0)),
    ("0.10.0-IV1", RequestVersions(0, 2, 0)),
    ("0.10.2-IV0", RequestVersions(0, 3, 0)),
    ("1.0-IV0", RequestVersions(1, 4, 0)),
    ("2.2-IV0", RequestVersions(2, 5, 1)),  # KIP-380
    ("2.4-IV0", RequestVersions(3, 5, 1)),
    ("2.4-IV1", RequestVersions(4, 6, 2)),
    ("2.6-IV0", RequestVersions(4, 6, 3)),
    ("2.8-IV1", RequestVersions(5, 7, 3)),
    ("3.2-IV0", RequestVersions(6, 7, 3)),
    ("3.4-IV0", RequestVersions(7, 8, 4)),
)


def request_versions(inter_broker_protocol: str) -> RequestVersions:
    """The request versions at an inter.broker.protocol.version; UnsupportedVersionError without ZooKeeper mode."""
    wanted = parsed(inter_broker_protocol)
    if not (0, 8) <= wanted[:2] <= (3, 9):
        raise UnsupportedVersionError(f"Kafka {inter_broker_protocol} has no ZooKeeper mode")
    return [versions for since, versions in SENT_FROM if parsed(since) <= wanted][-1]
