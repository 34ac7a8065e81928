"""One broker's registration as an object: for people, tests and error messages; the table has columns."""

from dataclasses import dataclass, field
from typing import NamedTuple

from kcore.types import ZERO_UUID, Uuid


class Endpoint(NamedTuple):
    """One listener of a broker, its fields in UpdateMetadata's order."""

    port: int
    host: str
    listener: str
    security_protocol: int  # SecurityProtocol's id


class LiveBroker(NamedTuple):
    """A live broker that is not in the table: a controller, or the broker that owns the table."""

    id: int
    endpoints: tuple[Endpoint, ...]
    rack: str | None = None


@dataclass(frozen=True, slots=True, eq=False)
class BrokerRegistration:
    """One broker's registration and its present state (Kafka's BrokerRegistration).

    The order of listeners and of directories has no meaning, and equality ignores it.
    """

    id: int
    epoch: int
    incarnation_id: Uuid = ZERO_UUID
    listeners: tuple[Endpoint, ...] = ()
    supported_features: dict[str, tuple[int, int]] = field(default_factory=dict)  # Lowest and highest level, by name.
    rack: str | None = None
    fenced: bool = False
    in_controlled_shutdown: bool = False
    is_migrating_zk_broker: bool = False
    directories: tuple[Uuid, ...] = ()
    cordoned_directories: tuple[Uuid, ...] | None = None  # None: the broker has not reported them (KIP-1066).

    def __eq__(self, other: object) -> bool:
        return self._key() == other._key() if isinstance(other, BrokerRegistration) else NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def _key(self) -> tuple[object, ...]:
        """The values that equality compares."""
        cordoned = self.cordoned_directories
        return (
            *(self.id, self.epoch, self.incarnation_id, sorted(self.listeners, key=lambda each: each.listener)),
            *(self.supported_features, self.rack, self.fenced, self.in_controlled_shutdown),
            *(self.is_migrating_zk_broker, sorted(self.directories, key=bytes)),
            None if cordoned is None else sorted(cordoned, key=bytes),
        )
