"""The link of a broker to the controller of its cluster, which the modes implement."""

from collections.abc import Collection
from typing import Protocol

from kcore.metadata.table.broker_table import Endpoint
from kcore.net.security.sasl_mechanisms import Credentials
from kcore.server.broker.broker_connections import ControllerClient, Dialer
from kcore.server.security.request_throttle import RequestThrottle


class ClusterLink(Protocol):
    """The facts and connections of its cluster that a broker needs.

    A migrating broker's link changes from ZooKeeper to a quorum.
    """

    @property
    def dialer(self) -> Dialer:
        """Connects to controllers."""

    @property
    def credentials(self) -> Credentials:
        """The SCRAM users and delegation tokens of the cluster."""

    @property
    def throttle(self) -> RequestThrottle:
        """The throttle for the cluster's request quotas."""

    def controller(self) -> Endpoint | None:
        """The endpoint of the active controller; None while it is unknown."""

    def knows_envelopes(self) -> bool:
        """Whether the controller accepts Envelope requests, which carry the client's principal."""

    def broker_epoch(self) -> int:
        """The broker epoch under which the controller has registered this broker."""

    def has_states(self) -> bool:
        """True once the replicas have states from the controller.

        An earlier checkpoint would lose the high watermarks of replicas without a state (KAFKA-7235).
        """

    def report_failed_directories(self) -> None:
        """Reports offline log directories to the controller; stops the broker if no directory is online."""

    def keep_settings(self, topics: Collection[str]) -> None:
        """Drops the settings of other topics, which the broker no longer holds."""


def controller_client(link: ClusterLink, broker_id: int, name: str) -> ControllerClient:
    """A connection to the active controller; `name` is part of its client id."""
    return ControllerClient(f"broker-{broker_id}-{name}", link.controller, link.dialer)
