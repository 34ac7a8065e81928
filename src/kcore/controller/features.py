"""Finalized features: set up at failover, changed by UpdateFeatures, and what brokers must support (KIP-584).

Source: KafkaController of 3.9.1 (maybeSetupFeatureVersioning, partitionOnFeatureCompatibility, processFeatureUpdates).
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from kcore.controller.effects import Create, Outcome, SetData, Steps, read_node, write_nodes
from kcore.controller.events import UpdateFeatures
from kcore.controller.requests.versions import at_least
from kcore.metadata import znodes
from kcore.protocol_errors import Errors
from kcore.schema import UpdateFeaturesResponse
from kcore.schema.update_features import FeatureUpdateKey, UpdatableFeatureResult

if TYPE_CHECKING:
    from kcore.controller.active import ActiveController

Supported: TypeAlias = Mapping[str, tuple[int, int]]  # Lowest and highest level of each feature.
UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE = 1, 2, 3  # FeatureUpdate.UpgradeType
VERSIONING_SINCE: Final = "2.7-IV0"


class Finalized(NamedTuple):
    """What all brokers of the cluster have agreed upon."""

    node: znodes.Feature
    version: int  # Of the znode.


def set_up(inter_broker_protocol: str) -> Steps[Finalized]:
    """Finalized features are kept, and dropped below 2.7."""
    enabled = at_least(inter_broker_protocol, VERSIONING_SINCE)
    version = 2 if at_least(inter_broker_protocol, "3.3-IV0") else 1
    node = yield from read_node(znodes.FEATURE)
    known = znodes.decode_feature(node.data) if node is not None else None
    kept = known.features if known is not None and known.enabled and enabled else {}
    wanted = znodes.Feature(enabled, kept, version)
    if node is None:
        yield from write_nodes([Create(znodes.FEATURE, znodes.encode_feature(wanted))])
        return Finalized(wanted, 0)
    if known == wanted:
        return Finalized(wanted, node.version)
    yield from write_nodes([SetData(znodes.FEATURE, znodes.encode_feature(wanted), node.version)])
    return Finalized(wanted, node.version + 1)


def supports(supported: Supported, levels: Mapping[str, int]) -> bool:
    """Whether a broker has all of the features at these levels (BrokerFeatures.hasIncompatibleFeatures)."""
    lowest_and_highest = {name: supported.get(name, (1, 0)) for name in levels}
    return all(low <= levels[name] <= high for name, (low, high) in lowest_and_highest.items())


def on_update_features(active: "ActiveController", event: UpdateFeatures) -> Steps[None]:
    """Each update is judged by itself; what is well is written, unless it is only to be checked.

    3.9.1 in ZooKeeper mode does not ask whether it is.
    """
    if not active.finalized.node.enabled:
        message = "Feature versioning system is disabled."
        refusal = UpdateFeaturesResponse(error_code=Errors.INVALID_REQUEST, error_message=message, results=[])
        yield from active.answer(event.request_id, refusal)
        return
    known = active.finalized.node.features
    wanted, results = dict(known), []
    for update in event.request.feature_updates:
        level, kind = update.max_version_level, upgrade_type(update, event.version)
        refused = _reason_refused(active, update.feature, level, kind, known.get(update.feature))
        error = Errors.INVALID_REQUEST if refused else Errors.NONE
        results.append(UpdatableFeatureResult(feature=update.feature, error_code=error, error_message=refused))
        if not refused:
            wanted[update.feature] = level
    wanted = {name: level for name, level in wanted.items() if level >= 1}
    if wanted != known and not event.request.validate_only and not (yield from _write(active, wanted)):
        for result in results:
            result.error_code = result.error_code or Errors.FEATURE_UPDATE_FAILED
    yield from active.answer(event.request_id, UpdateFeaturesResponse(error_message=None, results=results))


def upgrade_type(update: FeatureUpdateKey, version: int) -> int:
    """Version 0 has a flag for it."""
    if version:
        return update.upgrade_type
    return SAFE_DOWNGRADE if update.allow_downgrade else UPGRADE


def _write(active: "ActiveController", features: dict[str, int]) -> Steps[bool]:
    node, version = active.finalized
    node = node._replace(features=features)
    [outcome] = yield from write_nodes([SetData(znodes.FEATURE, znodes.encode_feature(node), version)])
    if outcome is Outcome.DONE:
        active.finalized = Finalized(node, version + 1)
    return outcome is Outcome.DONE


def _reason_refused(active: "ActiveController", name: str, level: int, kind: int, known: int | None) -> str | None:
    """Kafka's message, None if the update is well (validateFeatureUpdate)."""
    if not name:
        return "Feature name can not be empty."
    if kind not in (UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE):
        return "Received unknown upgrade type."
    if level < 1 and kind != UPGRADE:
        return "Can not delete non-existing finalized feature." if known is None else None
    if level < 1:
        return (
            f"Can not provide versionLevel: {level} less than 1 without setting the SAFE downgradeType in the request."
        )
    if level == known:
        verb = "downgrade" if kind == SAFE_DOWNGRADE else "upgrade"
        return f"Can not {verb} a finalized feature from existing versionLevel:{known} to the same value."
    if known is not None and level < known and kind != SAFE_DOWNGRADE:
        return (
            f"Can not downgrade finalized feature from existing versionLevel:{known} to provided versionLevel:{level} "
            "without setting the downgradeType to SAFE in the request."
        )
    if known is not None and level > known and kind != UPGRADE:
        return (
            f"When the downgradeType is set to SAFE in the request, the provided versionLevel:{level} can not be "
            f"greater than existing versionLevel:{known}."
        )
    return _reason_unsupported(active, name, level)


def _reason_unsupported(active: "ActiveController", name: str, level: int) -> str | None:
    """By the controller, or by a broker that lives (newFinalizedVersionOrIncompatibilityError)."""
    sorry = "Could not apply finalized feature update because"
    own = active.config.supported_features
    if name not in own:
        return f"{sorry} the provided feature is not supported."
    if not supports(own, {name: level}):
        return f"{sorry} the provided versionLevel:{level} is lower than the supported minVersion:{own[name][0]}."
    brokers = active.table.brokers
    live = brokers.ids[brokers.live].tolist()
    if not all(supports(active.features_of.get(broker_id, {}), {name: level}) for broker_id in live):
        return f"{sorry} brokers were found to have incompatible versions for the feature."
    return None
