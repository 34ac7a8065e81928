"""The option --forwarding of nodes in ZooKeeper mode: how administrators' changes reach the controller (KIP-590)."""

from enum import StrEnum
from typing import Annotated, Final, TypeAlias

import typer

from kcore.server.zk_node.document_routing import DocumentRouting


class Forwarding(StrEnum):
    """Kafka's released form, or the one of KIP-590's document."""

    RELEASED = "released"
    DOCUMENT = "document"


SINCE: Final = "2.8"
"""The inter.broker.protocol that turns the document's routing on: that of the release that KIP-590 was written for."""
ForwardingOption: TypeAlias = Annotated[
    Forwarding,
    typer.Option(
        help="released: each broker changes configs, ACLs, quotas and tokens in ZooKeeper itself, as Kafka's brokers "
        f"do. document: from --inter-broker-protocol {SINCE} on, brokers send these requests to the controller as "
        "KIP-590's document describes; all nodes must run kcore.",
    ),
]


def routing_of(forwarding: Forwarding) -> DocumentRouting | None:
    """The routing of a server; None for Kafka's released form."""
    return DocumentRouting(SINCE) if forwarding is Forwarding.DOCUMENT else None
