"""The part of a cluster's state that belongs to one client, and the registration of its brokers."""

from dataclasses import dataclass, field
from random import Random
from typing import Final

from kcore.protocol_errors import Errors
from kcore.releases.known import NEWEST, RELEASES
from kcore.schema.broker_lifecycle import (
    BrokerRegistrationRequest,
    ControllerRegistrationRequest,
    Feature,
    Listener,
)
from kcore.types import Uuid
from oracle.chaos.kraft_registers import (
    Acl,
    ExtraController,
    FeatureLevel,
    FencedBroker,
    Given,
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
LEVELED: Final = ("share.version", "streams.version", "transaction.version")
UNREGISTER_CONTROLLER: Final = "UnregisterController"


@dataclass
class Own:
    """The registers that one client alone changes, and the `watch` and `given` that all clients share."""

    name: str
    number: int
    dice: Random
    watch: Watch
    given: Given
    release: str
    topics: list[Topic] = field(default_factory=list)
    resources: list[ResourceConfig] = field(default_factory=list)
    quotas: list[Quota] = field(default_factory=list)
    scram: list[Scram] = field(default_factory=list)
    deletes_scram: bool = True
    acls: list[Acl] = field(default_factory=list)
    tokens: list[Token] = field(default_factory=list)
    features: list[FeatureLevel] = field(default_factory=list)
    fenced_brokers: list[FencedBroker] = field(default_factory=list)
    extra_controllers: list[ExtraController] = field(default_factory=list)

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
        release = RELEASES[self.release]
        self.features = [FeatureLevel(each, release.features[each]) for each in LEVELED[number : number + 1]]
        self.fenced_brokers = [FencedBroker(50 + number)]
        if UNREGISTER_CONTROLLER in release.apis:
            self.extra_controllers = [ExtraController(60 + number)]
            for each in self.features:  # kcore changes no level while a voter is unregistered.
                each.anyway = frozenset({Errors.INVALID_UPDATE_VERSION})

    @property
    def registers(self) -> list[Register]:
        """All."""
        return [
            *(*self.topics, *self.resources, *self.quotas, *self.scram),
            *(*self.acls, *self.tokens, *self.features, *self.fenced_brokers),
            *self.extra_controllers,
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
        features=_features(),
        rack=None,
        log_dirs=directories,
        previous_broker_epoch=previous_epoch,
    )


def controller_registration(controller_id: int, incarnation: Uuid) -> ControllerRegistrationRequest:
    return ControllerRegistrationRequest(
        controller_id=controller_id,
        incarnation_id=incarnation,
        listeners=[Listener(name="CONTROLLER", host="127.0.0.1", port=9000 + controller_id)],
        features=_features(),
    )


def _features() -> list[Feature]:
    """Nodes of older releases refuse no levels above theirs."""
    return [
        Feature(name=name, min_supported_version=lowest, max_supported_version=highest)
        for name, (lowest, highest) in NEWEST.supported_features.items()
    ]
