"""What happens to a controller: events in."""

from collections.abc import Sequence
from dataclasses import dataclass

from kcore.metadata.broker_table import Endpoint
from kcore.types import Int32s


@dataclass(frozen=True, slots=True)
class BrokerFailed:
    """Brokers whose registration is gone, by id."""

    broker_ids: Sequence[int]


@dataclass(frozen=True, slots=True)
class BrokerStarted:
    """A broker registered, anew or as a new incarnation; its epoch is the czxid of its znode (KIP-380)."""

    broker_id: int
    broker_epoch: int
    endpoints: Sequence[Endpoint] = ()
    rack: str | None = None


@dataclass(frozen=True, slots=True)
class ControlledShutdown:
    """A broker asks to have its leaders moved away. `broker_epoch` -1: from before KIP-380, not checked."""

    broker_id: int
    broker_epoch: int


@dataclass(frozen=True, slots=True)
class PreferredElection:
    """Lead where the first replica can: the partitions in `rows`, or all whose leader is another."""

    rows: Int32s | None = None
