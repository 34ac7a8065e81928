"""UpdateFeatures: which updates are refused, and why (KIP-584).

Source: KafkaController.processFeatureUpdates of 3.9.1.
"""

from kcore.controller.context import ControllerContext
from kcore.controller.effects import Outcome, SetData, Steps, write_nodes
from kcore.controller.events import UpdateFeatures
from kcore.controller.features import Finalized, supports
from kcore.metadata import znodes
from kcore.protocol_errors import Errors
from kcore.schema import UpdateFeaturesResponse
from kcore.schema.update_features import FeatureUpdateKey, UpdatableFeatureResult

UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE = 1, 2, 3  # FeatureUpdate.UpgradeType


def on_update_features(context: ControllerContext, event: UpdateFeatures) -> Steps[None]:
    """Each update is judged by itself; what is well is written, unless it is only to be checked.

    3.9.1 in ZooKeeper mode does not ask whether it is.
    """
    if not context.finalized.node.enabled:
        message = "Feature versioning system is disabled."
        refusal = UpdateFeaturesResponse(error_code=Errors.INVALID_REQUEST, error_message=message, results=[])
        yield from context.answer(event.request_id, refusal)
        return
    known = context.finalized.node.features
    wanted, results = dict(known), []
    for update in event.request.feature_updates:
        level, kind = update.max_version_level, upgrade_type(update, event.version)
        refused = _reason_refused(context, update.feature, level, kind, known.get(update.feature))
        error = Errors.INVALID_REQUEST if refused else Errors.NONE
        results.append(UpdatableFeatureResult(feature=update.feature, error_code=error, error_message=refused))
        if not refused:
            wanted[update.feature] = level
    wanted = {name: level for name, level in wanted.items() if level >= 1}
    if wanted != known and not event.request.validate_only and not (yield from _write(context, wanted)):
        for result in results:
            result.error_code = result.error_code or Errors.FEATURE_UPDATE_FAILED
    yield from context.answer(event.request_id, UpdateFeaturesResponse(error_message=None, results=results))


def upgrade_type(update: FeatureUpdateKey, version: int) -> int:
    """Version 0 has a flag for it."""
    if version:
        return update.upgrade_type
    return SAFE_DOWNGRADE if update.allow_downgrade else UPGRADE


def _write(context: ControllerContext, features: dict[str, int]) -> Steps[bool]:
    node, version = context.finalized
    node = node._replace(features=features)
    [outcome] = yield from write_nodes([SetData(znodes.FEATURE, znodes.encode_feature(node), version)])
    if outcome is Outcome.DONE:
        context.finalized = Finalized(node, version + 1)
    return outcome is Outcome.DONE


def _reason_refused(context: ControllerContext, name: str, level: int, kind: int, known: int | None) -> str | None:
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
    return _reason_unsupported(context, name, level)


def _reason_unsupported(context: ControllerContext, name: str, level: int) -> str | None:
    """By the controller, or by a broker that lives (newFinalizedVersionOrIncompatibilityError)."""
    sorry = "Could not apply finalized feature update because"
    own = context.config.supported_features
    if name not in own:
        return f"{sorry} the provided feature is not supported."
    if not supports(own, {name: level}):
        return f"{sorry} the provided versionLevel:{level} is lower than the supported minVersion:{own[name][0]}."
    brokers = context.table.brokers
    live = brokers.ids[brokers.live].tolist()
    if not all(supports(context.features_of.get(broker_id, {}), {name: level}) for broker_id in live):
        return f"{sorry} brokers were found to have incompatible versions for the feature."
    return None
