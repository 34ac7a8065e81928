"""UpdateFeatures (KIP-584, KIP-778, KIP-1022): metadata.version, kraft.version and the other features.

In 4.x a request makes all of its updates or none; in 3.9.1 each update is independent. The raft layer writes
kraft.version if `Decision.kraft_version` is set: if all updates are valid, and in Kafka's way
("refused-kraft-version") also if a later update is refused.

Source: FeatureControlManager, ConfigurationControlManager.updateFeatures, QuorumFeatures, Feature, MetadataVersion.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from kcore.constants import (
    ELR_VERSION,
    KRAFT_VERSION,
    MIN_ISR,
)
from kcore.controller.kraft.decision import AT_ONCE, Decision, Steps, Versioned
from kcore.controller.kraft.departures import REFUSED_KRAFT_VERSION, REMOVED_VOTERS
from kcore.controller.kraft.kraft_context import ControllerContext, RequestInfo
from kcore.controller.rules.features import Supported
from kcore.java_hash import hash_map_ordering, timeline_order
from kcore.metadata.acl_codes import ALTER
from kcore.metadata.image.image import ClusterImage
from kcore.metadata.metadata_version import FEATURE_NAME as METADATA_VERSION
from kcore.metadata.metadata_version import PLACES, VERSIONS, MetadataVersion
from kcore.node.authorization import refusal
from kcore.node.error_responses import refused
from kcore.protocol_errors import Errors
from kcore.releases.known import RELEASES
from kcore.releases.release import Release
from kcore.schema.configs import ConfigResourceType
from kcore.schema.metadata_records_log import NoOpRecord
from kcore.schema.metadata_records_settings import ConfigRecord, FeatureLevelRecord
from kcore.schema.update_features import (
    LAST_VERSION_WITH_RESULTS,
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
    UpgradeType,
)

DEPENDENCIES: Final = {(ELR_VERSION, 1): {METADATA_VERSION: 23}}  # FeatureVersion.dependencies; 23: 4.0-IV1.
FIRST_IN_LOG: Final = "3.3-IV0"  # MINIMUM_BOOTSTRAP_VERSION of 3.9.1, the first with FeatureLevelRecords.
_UPDATED_AT_ONCE: Final = 10  # Updates of one part: each is compared with the features of all brokers.
_FAILED: Final = "The update failed for all features since the following feature had an error: "


class Update(NamedTuple):
    """One feature and its new level."""

    name: str
    level: int
    kind: int  # FeatureUpdate.UpgradeType's code.


def on_update_features(context: ControllerContext, request: UpdateFeaturesRequest, info: RequestInfo) -> Steps:
    """Update levels of features, and write the records that the new levels require. Needs ALTER of the cluster.

    `allow_downgrade` of version 0 is ignored, as in Kafka: every update of that version is an upgrade.
    """
    if not context.is_authorized(info, ALTER):
        return Decision(refused(request, Errors.CLUSTER_AUTHORIZATION_FAILED, refusal(info, ALTER)))
    context.call_controller()
    by_name: dict[str, Update] = {}
    for place, given in enumerate(request.feature_updates, 1):
        if place % AT_ONCE == 0:
            yield
        by_name[given.feature] = Update(given.feature, given.max_version_level, given.upgrade_type)
    updates, proposed = list[Update](), {**context.image.features}
    for place, name in enumerate((yield from hash_map_ordering(by_name)), 1):
        if place % AT_ONCE == 0:
            yield
        updates.append(by_name[name])
        proposed[name] = by_name[name].level
    if not context.config.node.rules.updates_features_together:
        return (yield from _one_by_one(context, request, updates))
    kraft_version: int | None = None
    for each in updates:
        reason = _reason_refused(context, each, proposed)
        if reason is None and each.name == KRAFT_VERSION and each.level != context.raft.kraft_version:
            reason = context.raft.kraft_version_problem(each.level)
            kraft_version = each.level if reason is None else None
        if reason is not None:
            asks = REFUSED_KRAFT_VERSION in context.config.kafka_way and not request.validate_only
            return Decision(_all_refused(reason), kraft_version=kraft_version if asks else None)
    response = _accepted(request, info.version)
    if request.validate_only:
        return Decision(response)
    records = [record for each in updates for record in _records(each)]
    if by_name.get(ELR_VERSION, Update(ELR_VERSION, 0, UpgradeType.UPGRADE)).level > 0:
        records = [*_elr_safety(context), *records]
    return Decision(response, records, kraft_version=kraft_version)


def _all_refused(reason: str) -> UpdateFeaturesResponse:
    """The response if no feature is updated, because one update is refused."""
    return UpdateFeaturesResponse(error_code=Errors.INVALID_UPDATE_VERSION, error_message=_FAILED + reason)


def _accepted(request: UpdateFeaturesRequest, version: int) -> UpdateFeaturesResponse:
    results = [
        UpdatableFeatureResult(feature=each.feature, error_message=Errors.NONE.name)
        for each in request.feature_updates
        if version <= LAST_VERSION_WITH_RESULTS
    ]
    return UpdateFeaturesResponse(error_message=None, results=results)


def _one_by_one(context: ControllerContext, request: UpdateFeaturesRequest, updates: list[Update]) -> Steps:
    """The rule of 3.9.1: each update is made or refused independently."""
    reasons = {}
    for place, each in enumerate(updates, 1):
        if place % _UPDATED_AT_ONCE == 0:
            yield
        reasons[each.name] = _reason_refused(context, each, {})
    results = []
    for place, name in enumerate(sorted(reasons), 1):
        if place % AT_ONCE == 0:
            yield
        error = Errors.NONE if reasons[name] is None else Errors.INVALID_UPDATE_VERSION
        results.append(UpdatableFeatureResult(feature=name, error_code=error, error_message=reasons[name]))
    made = [_level(each) for each in updates if reasons[each.name] is None]
    return Decision(UpdateFeaturesResponse(results=results), () if request.validate_only else made)


def _level(update: Update) -> Versioned:
    return Versioned(FeatureLevelRecord(name=update.name, feature_level=update.level))


def _records(update: Update) -> list[Versioned]:
    """The records of a valid update.

    The raft layer writes kraft.version. Its upgrade has only a NoOpRecord, for whose commit the answer waits.
    """
    if update.name != KRAFT_VERSION:
        return [_level(update)]
    return [Versioned(NoOpRecord())] if update.kind == UpgradeType.UPGRADE else []


def _elr_safety(context: ControllerContext) -> Iterator[Versioned]:
    """The records that set one min.insync.replicas for all brokers, as ELR needs (maybeGenerateElrSafetyRecords)."""
    configs = context.image.configs
    broker = ConfigResourceType.BROKER
    if MIN_ISR not in configs.get((broker, ""), {}):
        static = context.config.node.static_configs.get(MIN_ISR, "1").strip()
        yield Versioned(ConfigRecord(resource_type=broker, resource_name="", name=MIN_ISR, value=str(int(static))))
    ids = [int(name) for kind, name in configs if kind == broker and name.isascii() and name.isdecimal()]
    for broker_id in timeline_order(ids):
        if MIN_ISR in configs[broker, str(broker_id)]:
            yield Versioned(ConfigRecord(resource_type=broker, resource_name=str(broker_id), name=MIN_ISR, value=None))


# Reasons for refusals.


def _reason_refused(context: ControllerContext, update: Update, proposed: Mapping[str, int]) -> str | None:
    """Kafka's error message for an update; None if it is valid (FeatureControlManager.updateFeature)."""
    reason = _reason_invalid(context, update)
    if reason is None and update.name == METADATA_VERSION:
        return _reason_no_metadata_version(context, update)
    if reason is None and context.config.node.rules.features_have_dependencies and update.name != KRAFT_VERSION:
        reason = _reason_dependent(RELEASES[context.config.node.release], update, proposed)
    return None if reason is None else f"Invalid update version {update.level} for feature {update.name}. {reason}"


def _reason_invalid(context: ControllerContext, update: Update) -> str | None:
    if update.kind not in [*UpgradeType]:
        return "The controller does not support the given upgrade type."
    is_raft = update.name == KRAFT_VERSION and not context.config.node.rules.kraft_version_is_a_feature
    current = _current(context, update.name)
    if update.level < 0:
        return "A feature version cannot be less than 0."
    if (reason := _reason_unsupported(context, update)) is not None:
        return reason
    if update.level < current and update.kind == UpgradeType.UPGRADE:
        return (
            "Can't downgrade the version of this feature without setting the upgrade type to either safe or unsafe "
            "downgrade."
        )
    if update.level > current and update.kind != UpgradeType.UPGRADE:
        return "Can't downgrade to a newer version."
    return "Can't downgrade the version of this feature." if is_raft and update.level < current else None


def _current(context: ControllerContext, name: str) -> int:
    """The level of a feature; 3.9.1 treats kraft.version like any other feature."""
    if name == KRAFT_VERSION:
        is_feature = context.config.node.rules.kraft_version_is_a_feature
        return context.image.written_kraft_version if is_feature else context.raft.kraft_version
    return context.image.features.get(name, 0)


def _reason_unsupported(context: ControllerContext, update: Update) -> str | None:
    """Kafka's message about a node that does not support the level; None if all nodes do (reasonNotSupported).

    Controllers are checked only if they are present voters, and each voter must have registered. In Kafka's way
    ("removed-voters-block") all registered controllers are checked, and only static voters must have registered.
    """
    config, image = context.config, context.image
    nodes = {f"Local controller {config.node.node_id}": config.node.supported_features}
    brokers = timeline_order(image.brokers, replaced=True)  # An unfencing puts a broker into Kafka's map again.
    nodes |= {f"Broker {each}": image.brokers[each].supported_features for each in brokers}
    is_registered = context.version.controller_registration_supported
    static = _static_voters(config.node.static_configs)
    kafka_way = REMOVED_VOTERS in config.kafka_way
    voters = [] if kafka_way else sorted(context.raft.voter_ids or static)
    if is_registered:
        registered = [each for each in image.controllers if not voters or each in voters]
        nodes |= _registered_controllers(config.node.node_id, image, registered)
    for node, supported in nodes.items():
        low, high = supported.get(update.name, (0, 0))
        if not low <= update.level <= high:
            only = f"{low}" if low == high else f"{low}-{high}"
            return f"{node} does not support this feature." if not high else f"{node} only supports versions {only}"
    if is_registered:
        for voter in static if kafka_way else voters:
            if voter not in (config.node.node_id, *image.controllers):
                return f"controller {voter} has not registered, and may not support this feature"
    return None


def _registered_controllers(own_id: int, image: ClusterImage, ids: Iterable[int]) -> dict[str, Supported]:
    return {
        f"Controller {each}": {
            feature.name: (feature.min_supported_version, feature.max_supported_version)
            for feature in image.controllers[each].features
        }
        for each in timeline_order(ids)
        if each != own_id
    }


def _static_voters(settings: Mapping[str, str]) -> list[int]:
    """The ids in `controller.quorum.voters`; empty for a dynamic quorum."""
    listed = [each.strip().partition("@")[0] for each in settings.get("controller.quorum.voters", "").split(",")]
    return [int(each) for each in listed if each.isascii() and each.isdecimal()]


def _reason_no_metadata_version(context: ControllerContext, update: Update) -> str | None:
    """Kafka's error message for a metadata.version that all nodes support, or None (updateMetadataVersion)."""
    release, now = context.config.node.release, context.version
    wanted = MetadataVersion.of_level(update.level, release)
    if not wanted.is_at_least(FIRST_IN_LOG):
        return f"Invalid metadata.version {update.level}. Unable to set a metadata.version less than {FIRST_IN_LOG}"
    changed = RELEASES[release].changed_metadata
    lost = {each for each in VERSIONS if PLACES[wanted.name] < PLACES[each] <= PLACES[now.name]} & changed
    if not lost:
        return None
    why = "Refusing to perform the requested downgrade because it might delete metadata information."
    if update.kind == UpgradeType.UNSAFE_DOWNGRADE:
        why = "Unsafe metadata downgrade is not supported in this version."
    if wanted.rules.names_both_levels_of_downgrade:
        return f"Unsupported metadata.version downgrade from {now.feature_level} to {update.level}. {why}"
    return f"Invalid metadata.version {update.level}. {why}"


def _reason_dependent(release: Release, update: Update, proposed: Mapping[str, int]) -> str | None:
    """Kafka's error message if another feature's level is too low for the update, or None (Feature.validateVersion)."""
    if update.name not in release.known_features:
        return f"Feature {update.name} not found."
    if update.level > release.known_features[update.name]:
        return f"No feature:{update.name} with feature level {update.level}"
    lowest = MetadataVersion(release.oldest_version, release.name)
    if update.level >= 1 and proposed.get(METADATA_VERSION, -1) < lowest.feature_level:
        needs = f"{METADATA_VERSION}={lowest.feature_level} ({lowest})"
        return f"{update.name} could not be set to {update.level} because it depends on {needs}"
    for name, level in DEPENDENCIES.get((update.name, update.level), {}).items():
        if proposed.get(name, -1) < level:
            return f"{update.name} could not be set to {update.level} because it depends on {name} level {level}"
    return None
