"""All that handlers read: the state, the settings, and what no record of the log has."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias

from kcore.controller.kraft.acl_index import AclIndex
from kcore.controller.kraft.brokers.heartbeats import BrokerHeartbeats, Contact
from kcore.controller.kraft.decision import Decision, Steps
from kcore.controller.kraft.departures import FENCES_ONE_BY_ONE
from kcore.controller.kraft.election_settings import ElectionSettings
from kcore.controller.kraft.kafka_way.shadow import Shadow
from kcore.controller.kraft.kraft_controller_config import KraftControllerConfig
from kcore.controller.kraft.token_index import TokenIndex
from kcore.controller.rules.mutation_quotas import MutationQuota, MutationQuotas
from kcore.errors import KcoreError
from kcore.metadata.image.image import ClusterImage
from kcore.metadata.metadata_version import FEATURE_NAME, RELEASES, MetadataVersion
from kcore.metadata.principal import ANONYMOUS, KafkaPrincipal
from kcore.replication.java_random import JavaRandom
from kcore.replication.levels import Level, level_of
from kcore.schema.acls import AclCreationResult
from kcore.schema.structure import MetadataRecord
from kcore.types import Uuid


class RequestInfo(NamedTuple):
    """What a handler may know of a request beside its message."""

    version: int
    now_ms: int  # Of the controller's clock, which only goes forward.
    wall_ms: int = 0  # Of the wall clock: time stamps of tokens.
    principal: KafkaPrincipal = ANONYMOUS  # The original one, behind an envelope.
    client_address: str = "127.0.0.1"
    is_forwarded: bool = False  # It came in an envelope.
    is_token_authenticated: bool = False  # The principal showed a delegation token.
    listener: str = "CONTROLLER"  # On which the request came.
    client_id: str | None = None  # The original one, behind an envelope.
    security_protocol: str = "PLAINTEXT"  # Of that listener.


class NotControllerError(KcoreError):
    """A standby was asked for what only the active controller decides."""

    def __init__(self, refused: Mapping[int, AclCreationResult]) -> None:
        """`refused`: of CreateAcls, the results that keep an error of their own, by place."""
        super().__init__("only the active controller decides this")
        self.refused = refused


def _no_problem(kraft_version: int) -> str | None:
    """For a context without a raft node."""
    return None


@dataclass(slots=True)
class RaftView:
    """What the rules ask of the raft node; the edge keeps it up to date."""

    kraft_version: int = 0  # Finalized by raft's control records; the image has the other features.
    kraft_version_problem: Callable[[int], str | None] = _no_problem  # Why raft cannot write a level.
    voter_ids: frozenset[int] = frozenset()  # The latest ones, committed or not; none where there is no node.


class ControllerContext:
    """Handlers read it and change nothing but the random numbers, the dice, the heartbeats' contact times and what is
    left of quotas on mutations.

    `image` is the state that was decided, committed or not. A request's records are replayed before the next one is
    decided, by `apply`.
    """

    def __init__(
        self, config: KraftControllerConfig, image: ClusterImage, random: JavaRandom, new_uuid: Callable[[], Uuid]
    ) -> None:
        """`random`: draws the placements (StripedReplicaPlacer); `new_uuid`: ids of topics and ACLs."""
        self.config = config
        self.image = image
        self.random = random
        self.new_uuid = new_uuid
        self.is_standby = False  # Its handlers check as far as `call_controller`.
        self.raft = RaftView()
        one_by_one = FENCES_ONE_BY_ONE in config.kafka_way
        self.heartbeats = BrokerHeartbeats(config.broker_session_timeout_ms, config.release, one_by_one=one_by_one)
        self.election_settings = ElectionSettings(config)  # Of `image`; see `settings_of_topics.kraft_settings`.
        self.acls = AclIndex()  # Of `image`, for `authorization`.
        self.tokens = TokenIndex(config.delegation_token_secret_key)  # Of `image`, for `admin/tokens.py`.
        burst_s = config.controller_quota_window_num * config.controller_quota_window_size_seconds
        self.mutation_quotas = MutationQuotas(burst_s)
        self.used_quota: MutationQuota | None = None  # Of the request that is being decided, once it asked for it.
        self.shadow = Shadow()  # What Kafka's controller keeps beside the state; see `kafka_way/`.
        self.wall_ahead_ms = 0  # What the wall clock says above the controller's own, for periodic work.

    @property
    def version(self) -> MetadataVersion:
        """The metadata.version that is finalized, as the configured release understands it.

        The release's oldest while nothing is committed: a standby of a new quorum is asked before (FeaturesPublisher).
        """
        return _version(self.image.features.get(FEATURE_NAME), self.config.release)

    @property
    def level(self) -> Level:
        """The level of Kafka whose rules decide."""
        return level_of(f"{self.version.name}@{self.config.release}")

    @property
    def next_offset(self) -> int:
        """Where the first record of the next decision will stand in the log."""
        return self.image.end_offset

    def call_controller(self, refused: Mapping[int, AclCreationResult] = MappingProxyType({})) -> None:
        """Every handler of what is not only read calls it where Kafka's ControllerApis calls its controller.

        What follows is for the active controller alone: NotControllerError on a standby, which comes to this point in
        Kafka's way ("standbys-check-first"). `refused`: as NotControllerError has it.
        """
        if self.is_standby:
            raise NotControllerError(refused)

    def mutation_quota(self, info: RequestInfo, *, strict_from: int) -> MutationQuota:
        """What of its quota on mutations a request uses; versions before `strict_from` are never refused."""
        is_strict = info.version >= strict_from
        name = info.principal.name
        quotas = self.image.quotas
        self.used_quota = self.mutation_quotas.of(quotas, name, info.client_id, info.now_ms, is_strict=is_strict)
        return self.used_quota

    def activate(self, now_ms: int) -> None:
        """The node leads: the session of every unfenced broker begins now (ClusterControlManager.activate)."""
        self.heartbeats.activate(self.image, now_ms)

    def hear(self, contacts: Sequence[Contact]) -> None:
        """Heartbeats that were answered elsewhere, since they change nothing: their brokers' sessions go on."""
        for contact in contacts:
            self.heartbeats.heard(contact, self.image)

    def apply(self, record: MetadataRecord, offset: int, now_ms: int) -> None:
        """Applies a record of the log to the state and to the heartbeats."""
        self.image.apply(record, offset)
        self.heartbeats.on_record(record, self.image, now_ms)


Handler: TypeAlias = Callable[[ControllerContext, Any, RequestInfo], Decision | Steps]
"""Decides a request, of its own type; one that may name many topics or partitions, part by part."""


@lru_cache(maxsize=64)
def _version(level: int | None, release: str) -> MetadataVersion:
    if level is None:
        return MetadataVersion(RELEASES[release].oldest, release)
    return MetadataVersion.of_level(level, release)
