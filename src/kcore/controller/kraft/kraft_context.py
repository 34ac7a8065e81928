"""The context of handlers: the state, the settings, and facts that no record of the log has."""

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Final, NamedTuple, TypeAlias

from kcore.constants import ELR_VERSION
from kcore.controller.kraft.brokers.heartbeats import BrokerHeartbeats, Contact
from kcore.controller.kraft.decision import AT_ONCE, Decision, Steps
from kcore.controller.kraft.departures import FENCES_ONE_BY_ONE, RECORD_LIMITS
from kcore.controller.kraft.election_settings import ElectionSettings
from kcore.controller.kraft.kafka_way.shadow import Shadow
from kcore.controller.kraft.kraft_controller_config import KraftControllerConfig
from kcore.controller.rules.mutation_quotas import MutationQuota, MutationQuotas
from kcore.errors import KcoreError
from kcore.metadata.acl_codes import CLUSTER, CLUSTER_NAME
from kcore.metadata.image.image import ClusterImage
from kcore.metadata.metadata_version import FEATURE_NAME, VERSIONS_BY_RELEASE, MetadataVersion
from kcore.metadata.principal import ANONYMOUS, KafkaPrincipal
from kcore.node.kraft.image_indexes import ImageAuthorizer, TokenIndex
from kcore.protocol_errors import Errors
from kcore.replication.java_random import JavaRandom
from kcore.replication.kraft_changes import KraftSettings
from kcore.replication.levels import Level, level_of
from kcore.schema.acls import AclCreationResult
from kcore.schema.structure import MetadataRecord
from kcore.types import Uuid

_CHECKED_AT_ONCE: Final = 2 * AT_ONCE  # Names whose permissions are checked in one part of a decision.
MOST_RECORDS: Final = 10_000  # Records or partitions of a request (QuorumController.MAX_RECORDS_PER_USER_OP).
TOO_LARGE: Final = "Unable to perform excessively large batch operation."  # BoundedList
_ELR_OF_3_9: Final = "eligible.leader.replicas.enable"  # The setting of 3.9.1, which has no feature for ELRs.


class RequestInfo(NamedTuple):
    """The facts about a request that are not in its message."""

    version: int
    now_ms: int  # By the controller's monotonic clock.
    wall_ms: int = 0  # By the wall clock, for time stamps of tokens.
    principal: KafkaPrincipal = ANONYMOUS  # In an envelope: the principal of the original request.
    client_address: str = "127.0.0.1"
    is_forwarded: bool = False  # A broker sent the request in an envelope.
    is_token_authenticated: bool = False  # The principal authenticated with a delegation token.
    listener: str = "CONTROLLER"  # The listener that received the request.
    client_id: str | None = None  # In an envelope: the client id of the original request.
    security_protocol: str = "PLAINTEXT"  # The security protocol of `listener`.


class NotControllerError(KcoreError):
    """A standby received a request that only the active controller decides."""

    def __init__(self, refused: Mapping[int, AclCreationResult]) -> None:
        """`refused`: for CreateAcls, the results of entries that failed a check, by place in the request."""
        super().__init__("only the active controller decides this")
        self.refused = refused


@dataclass(slots=True)
class RaftView:
    """The facts about the raft node that rules need; the edge keeps them up to date."""

    leader_id: int = -1  # NOT_CONTROLLER answers name it as the active controller; -1: unknown.
    kraft_version: int = 0  # From raft's control records; the image has the levels of the other features.
    # Returns why raft cannot write a kraft.version; without a raft node nothing prevents it.
    kraft_version_problem: Callable[[int], str | None] = lambda kraft_version: None
    voter_ids: frozenset[int] = frozenset()  # The latest voters, committed or not; empty without a raft node.


class ControllerContext:
    """The state, settings and indexes that handlers read.

    Handlers change only the state of `random`, the contact times of heartbeats, and the token buckets of quotas on
    mutations. `image` is the state after all decisions, committed or not: the records of a request are replayed before
    the next request is decided.
    """

    def __init__(
        self, config: KraftControllerConfig, image: ClusterImage, random: JavaRandom, new_uuid: Callable[[], Uuid]
    ) -> None:
        """`random`: draws the placements (StripedReplicaPlacer). `new_uuid`: draws ids of topics and ACLs."""
        self.config = config
        self.image = image
        self.random = random
        self.new_uuid = new_uuid
        self.is_standby = False  # On a standby, handlers run only as far as `call_controller`.
        self.raft = RaftView()
        one_by_one = FENCES_ONE_BY_ONE in config.kafka_way
        self.heartbeats = BrokerHeartbeats(config.broker_session_timeout_ms, config.node.release, one_by_one=one_by_one)
        self.election_settings = ElectionSettings(config)
        self.authorizer = ImageAuthorizer(config.node, lambda: self.image)
        self.tokens = TokenIndex(config.node.delegation_token_secret_key)  # For `admin/tokens.py`.
        burst_s = config.controller_quota_window_num * config.controller_quota_window_size_seconds
        self.mutation_quotas = MutationQuotas(burst_s)
        self.used_quota: MutationQuota | None = None  # The quota that the present request uses.
        self.shadow = Shadow()  # State of Kafka's controller that the image does not have; see `kafka_way/`.
        self.wall_ahead_ms = 0  # Wall clock minus the controller's clock, for periodic tasks.

    @property
    def version(self) -> MetadataVersion:
        """The finalized metadata.version, as the configured release understands it.

        While nothing is committed, it is the release's oldest version, because a standby of a new quorum needs a
        version from the start (FeaturesPublisher).
        """
        return _version(self.image.features.get(FEATURE_NAME), self.config.node.release)

    @property
    def level(self) -> Level:
        """The level of Kafka whose rules apply."""
        return level_of(f"{self.version.name}@{self.config.node.release}")

    @property
    def next_offset(self) -> int:
        """The offset of the next decision's first record."""
        return self.image.end_offset

    def kraft_settings(self) -> KraftSettings:
        """The level of Kafka and the topics' settings that decide elections, in the present state.

        The cost grows with the settings that changed since the last call. If elections read one of these settings, the
        cost also grows with the topics that override it.
        """
        return self.election_settings.of(self.image, self.level, self.is_elr_enabled)

    @property
    def is_elr_enabled(self) -> bool:
        """True if partitions have eligible leader replicas (FeatureControlManager.isElrFeatureEnabled)."""
        if not self.config.node.rules.elr_is_a_feature:
            return self.level.elr_supported and self.config.node.static_configs.get(_ELR_OF_3_9) == "true"
        return self.image.features.get(ELR_VERSION, 0) >= 1

    def is_authorized(
        self, info: RequestInfo, operation: int, resource_type: int = CLUSTER, name: str = CLUSTER_NAME
    ) -> bool:
        """True if the principal may do the operation on the resource, and always without an authorizer."""
        if not self.config.node.has_authorizer:
            return True
        return self.authorizer.allows(info.principal, info.client_address, operation, resource_type, name)

    def filter_by_authorized(
        self, info: RequestInfo, operation: int, resource_type: int, names: Iterable[str]
    ) -> Generator[None, None, set[str]]:
        """The names of resources for which `is_authorized` is true (AuthHelper.filterByAuthorized)."""
        allowed = set()
        for number, name in enumerate(set(names), 1):
            if self.is_authorized(info, operation, resource_type, name):
                allowed.add(name)
            if number % _CHECKED_AT_ONCE == 0:
                yield
        return allowed

    @property
    def has_record_limits(self) -> bool:
        """True if Kafka's limit of records per request applies, which is only in Kafka's way ("record-limits")."""
        return RECORD_LIMITS in self.config.kafka_way

    def check_records(self, count: int) -> None:
        """PolicyViolationException if a request would write too many records (BoundedList)."""
        if count > MOST_RECORDS and self.has_record_limits:
            Errors.POLICY_VIOLATION.raise_for(TOO_LARGE)

    def call_controller(self, refused: Mapping[int, AclCreationResult] = MappingProxyType({})) -> None:
        """Raise NotControllerError on a standby.

        Every handler that does more than read calls this method where Kafka's ControllerApis calls its controller: the
        code after the call runs only on the active controller. A standby runs handlers only in Kafka's way
        ("standbys-check-first"). `refused`: as in NotControllerError.
        """
        if self.is_standby:
            raise NotControllerError(refused)

    def mutation_quota(self, info: RequestInfo, *, strict_from: int) -> MutationQuota:
        """The quota on mutations for a request; versions before `strict_from` are never refused."""
        is_strict = info.version >= strict_from
        name = info.principal.name
        quotas = self.image.quotas
        self.used_quota = self.mutation_quotas.of(quotas, name, info.client_id, info.now_ms, is_strict=is_strict)
        return self.used_quota

    def activate(self, now_ms: int) -> None:
        """Begin all unfenced brokers' sessions, because the node leads from now on (ClusterControlManager.activate)."""
        self.heartbeats.activate(self.image, now_ms)

    def on_contacts(self, contacts: Sequence[Contact]) -> None:
        """Extend the sessions of brokers whose heartbeats change nothing and were answered by the edge."""
        for contact in contacts:
            self.heartbeats.on_contact(contact, self.image)

    def apply(self, record: MetadataRecord, offset: int, now_ms: int) -> None:
        """Apply a record of the log to the state and to the heartbeats."""
        self.image.apply(record, offset)
        self.heartbeats.on_record(record, self.image, now_ms)


Handler: TypeAlias = Callable[[ControllerContext, Any, RequestInfo], Decision | Steps]
"""Decides requests of one type; in parts if a request may name many topics or partitions."""


@lru_cache(maxsize=64)
def _version(level: int | None, release: str) -> MetadataVersion:
    if level is None:
        return MetadataVersion(VERSIONS_BY_RELEASE[release].oldest, release)
    return MetadataVersion.of_level(level, release)
