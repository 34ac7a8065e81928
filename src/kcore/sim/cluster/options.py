"""The options of a simulated cluster, drawn from its seed: the options of its quorum, and more."""

from dataclasses import dataclass, replace
from random import Random
from typing import Any, Final

from kcore.constants import ELR_VERSION
from kcore.controller.kraft.admin.features import DEPENDENCIES
from kcore.metadata.metadata_version import FEATURE_NAME, MetadataVersion
from kcore.releases.known import RELEASES
from kcore.sim.raft import options as quorum_options

CONTROLLERS: Final = (1, 3, 5)
LEAST_BROKERS: Final = 3
MOST_BROKERS: Final = 9
OWN_FAULTS: Final = ("bounce", "controlled_shutdown", "lose_directory", "lose_broker")
DIRECTORIES_SINCE: Final = 18  # 3.7-IV2, the first metadata.version with log directories (KIP-858).
_SESSIONS: Final = ((9_000, 2_000), (3_000, 500), (1_500, 300))  # Session time-outs and heartbeat intervals, in ms.
_NEVER_US: Final = 1 << 50


@dataclass(frozen=True, slots=True)
class ClusterOptions:
    """Times are simulated. Intervals are means."""

    quorum: quorum_options.Options  # The controllers are its voters, the brokers its observers.
    release: str  # The release whose rules all nodes follow.
    metadata_version: int  # The level of the bootstrap records.
    has_elr: bool  # Whether eligible leader replicas are switched on (KIP-966).
    directories: int  # The most log directories of a broker.
    session_timeout_ms: int  # broker.session.timeout.ms
    heartbeat_interval_ms: int  # broker.heartbeat.interval.ms
    idle_interval_ms: int  # metadata.max.idle.interval.ms
    rebalance_s: int  # leader.imbalance.check.interval.seconds
    administer_every_us: int
    propose_every_us: int  # Leaders look at their ISRs.
    unclean: bool  # The administrator permits and requests unclean elections.

    @property
    def controllers(self) -> int:
        return self.quorum.voters

    @property
    def brokers(self) -> int:
        return self.quorum.observers

    @property
    def elr_in_effect(self) -> bool:
        """Whether partitions have eligible leader replicas: 3.9.1 ignores its setting below 4.0-IV0."""
        return self.has_elr and MetadataVersion.of_level(self.metadata_version, self.release).elr_supported

    @property
    def features(self) -> dict[str, int]:
        """The finalized features that the first controller writes."""
        elr = {ELR_VERSION: 1} if self.has_elr and RELEASES[self.release].rules.elr_is_a_feature else {}
        return {FEATURE_NAME: self.metadata_version, **elr}


def draw(seed: int, **fixed: Any) -> ClusterOptions:
    """The options of a seed. In `fixed`, controllers, brokers, release and faults replace the drawn ones."""
    random = Random(f"cluster options {seed}")
    release = random.choice([*RELEASES])
    controllers = random.choice(CONTROLLERS)
    brokers = random.randint(LEAST_BROKERS, MOST_BROKERS)
    release = fixed.get("release") or release
    newest = RELEASES[release].supported_features[FEATURE_NAME][1]
    session_ms, heartbeat_ms = random.choice(_SESSIONS)
    quorum = _quorum(seed, random, release, fixed.get("controllers") or controllers, fixed.get("brokers") or brokers)
    metadata_version = newest if random.random() < 0.7 else random.randint(DIRECTORIES_SINCE, newest)
    is_elr_wanted = random.random() < 0.5
    return ClusterOptions(
        quorum=replace(quorum, faults=fixed.get("faults") or quorum.faults),
        release=release,
        metadata_version=metadata_version,
        has_elr=is_elr_wanted and _may_have_elr(release, metadata_version),
        directories=random.choice((1, 2, 3)),
        session_timeout_ms=session_ms,
        heartbeat_interval_ms=heartbeat_ms,
        idle_interval_ms=random.choice((500, 500, 2_000)),
        rebalance_s=random.choice((1, 5, 300)),
        administer_every_us=random.choice((50_000, 200_000, 1_000_000)),
        propose_every_us=random.choice((20_000, 100_000, 500_000)),
        unclean=random.random() < 0.4,
    )


def _may_have_elr(release: str, metadata_version: int) -> bool:
    """False if the release has ELR as a feature, and the feature depends on a higher metadata.version."""
    least = DEPENDENCIES[ELR_VERSION, 1][FEATURE_NAME]
    return metadata_version >= least or not RELEASES[release].rules.elr_is_a_feature


def _quorum(seed: int, random: Random, release: str, controllers: int, brokers: int) -> quorum_options.Options:
    """The quorum's options: its clients are brokers and the administrator, and no voter changes."""
    drawn = quorum_options.draw(
        seed, level=RELEASES[release].raft_level, voters=controllers, observers=brokers, upgraded=False
    )
    faults = (*quorum_options.FAULTS, *OWN_FAULTS)
    return replace(
        drawn,
        auto_join=False,
        flooded=False,
        append_every_us=_NEVER_US,
        change_every_us=_NEVER_US,
        faults=tuple(name for name in faults if random.random() < 0.6) or ("kill",),
    )
