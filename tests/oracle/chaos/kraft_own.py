"""What of a cluster's state belongs to one client, and how its brokers register."""

from dataclasses import dataclass, field
from random import Random
from typing import Final

from kcore.schema.broker_lifecycle import BrokerRegistrationRequest, Feature, Listener
from kcore.types import Uuid
from oracle.chaos.kraft_registers import (
    Acl,
    FeatureLevel,
    Given,
    Guest,
    Quota,
    Register,
    ResourceConfig,
    Scram,
    Token,
    Topic,
)
from oracle.kraft_observer import Watch

BROKER, CLIENT_METRICS, GROUP = 4, 16, 32  # ConfigResource.Type
STABLE: Final = (1, 2, 3, 4)  # Brokers that run; see kraft_brokers.py.
LEVELS: Final = {"share.version": (0, 1), "streams.version": (0, 1), "transaction.version": (0, 2)}
BROKER_FEATURES: Final = {
    **{"metadata.version": (7, 30), "kraft.version": (0, 1), "eligible.leader.replicas.version": (0, 1)},
    **{"group.version": (0, 1), "share.version": (0, 1), "streams.version": (0, 1), "transaction.version": (0, 2)},
}


@dataclass
class Own:
    """The registers that one client alone changes, and the `watch` and `given` that all clients share."""

    name: str
    number: int
    dice: Random
    watch: Watch
    given: Given
    topics: list[Topic] = field(default_factory=list)
    resources: list[ResourceConfig] = field(default_factory=list)
    quotas: list[Quota] = field(default_factory=list)
    scram: list[Scram] = field(default_factory=list)
    deletes_scram: bool = True
    acls: list[Acl] = field(default_factory=list)
    tokens: list[Token] = field(default_factory=list)
    features: list[FeatureLevel] = field(default_factory=list)
    guests: list[Guest] = field(default_factory=list)

    def __post_init__(self) -> None:
        name, number = self.name, self.number
        self.topics = [Topic(f"{name}-topic-{k}") for k in range(6)]
        self.resources = [
            ResourceConfig(CLIENT_METRICS, f"{name}-metrics", "interval.ms", ("1000", "2000")),
            ResourceConfig(GROUP, f"{name}-group", "consumer.session.timeout.ms", ("45000", "50000")),
        ]
        if number < len(STABLE):
            broker = str(STABLE[number])
            self.resources.append(ResourceConfig(BROKER, broker, "log.cleaner.threads", ("1", "2")))
        self.quotas = [Quota(f"{name}-user-{k}") for k in range(3)]
        self.scram = [Scram(f"{name}-user-{k}", mechanism) for k in range(2) for mechanism in (1, 2)]
        self.acls = [Acl(f"{name}-acl-{k}") for k in range(5)]
        self.tokens = [Token(f"{name}-token-{k}") for k in range(2)]
        owned = [*LEVELS.items()][number : number + 1]
        self.features = [FeatureLevel(feature, levels) for feature, levels in owned]
        self.guests = [Guest(50 + number)]

    @property
    def registers(self) -> list[Register]:
        """All."""
        return [
            *(*self.topics, *self.resources, *self.quotas, *self.scram),
            *(*self.acls, *self.tokens, *self.features, *self.guests),
        ]


def directory_of(broker_id: int, number: int) -> Uuid:
    return Uuid(bytes(12) + bytes((1, 0, broker_id, number)))


def directories_of(broker_id: int) -> list[Uuid]:
    """The log directories of a broker that runs."""
    return [directory_of(broker_id, number) for number in range(2)]


def registration(
    watch: Watch, broker_id: int, incarnation: Uuid, directories: list[Uuid], previous_epoch: int = -1
) -> BrokerRegistrationRequest:
    return BrokerRegistrationRequest(
        broker_id=broker_id,
        cluster_id=watch.cluster_id,
        incarnation_id=incarnation,
        listeners=[Listener(name="PLAINTEXT", host="127.0.0.1", port=9000 + broker_id)],
        features=[
            Feature(name=name, min_supported_version=lowest, max_supported_version=highest)
            for name, (lowest, highest) in BROKER_FEATURES.items()
        ],
        rack=None,
        log_dirs=directories,
        previous_broker_epoch=previous_epoch,
    )
