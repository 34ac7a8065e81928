"""UpdateFeatures (KIP-584): `rules/features.py` checks each update, and the valid ones are written to /feature.

Source: KafkaController.processFeatureUpdates of 3.9.1.
"""

from kcore.controller.rules.features import reason_refused, upgrade_type
from kcore.controller.zk.effects import Steps, write_nodes
from kcore.controller.zk.events import RequestEvent
from kcore.controller.zk.features import Finalized
from kcore.controller.zk.zk_context import ControllerContext
from kcore.metadata.zookeeper import znodes
from kcore.metadata.zookeeper.znode_operations import OperationResult, SetData
from kcore.protocol_errors import Errors
from kcore.schema import UpdateFeaturesRequest, UpdateFeaturesResponse
from kcore.schema.structure import Message
from kcore.schema.update_features import UpdatableFeatureResult


def on_update_features(context: ControllerContext, event: RequestEvent[UpdateFeaturesRequest]) -> Steps[Message]:
    """Checks each update by itself and writes the valid ones, unless `validate_only` is set.

    3.9.1 ignores `validate_only` in ZooKeeper mode.
    """
    if not context.finalized.node.enabled:
        message = "Feature versioning system is disabled."
        refusal = UpdateFeaturesResponse(error_code=Errors.INVALID_REQUEST, error_message=message, results=[])
        return refusal
    known, brokers = context.finalized.node.features, context.table.brokers
    of_brokers = [context.features_of.get(broker_id, {}) for broker_id in brokers.ids[brokers.live].tolist()]
    wanted, results = dict(known), []
    for update in event.request.feature_updates:
        level, kind = update.max_version_level, upgrade_type(update, event.version)
        refused = reason_refused(
            update.feature, level, kind, known.get(update.feature), context.config.supported_features, of_brokers
        )
        error = Errors.INVALID_REQUEST if refused else Errors.NONE
        results.append(UpdatableFeatureResult(feature=update.feature, error_code=error, error_message=refused))
        if not refused:
            wanted[update.feature] = level
    wanted = {name: level for name, level in wanted.items() if level >= 1}
    if wanted != known and not event.request.validate_only and not (yield from _write(context, wanted)):
        for result in results:
            result.error_code = result.error_code or Errors.FEATURE_UPDATE_FAILED
    return UpdateFeaturesResponse(error_message=None, results=results)


def _write(context: ControllerContext, features: dict[str, int]) -> Steps[bool]:
    node, version = context.finalized
    node = node._replace(features=features)
    [outcome] = yield from write_nodes([SetData(znodes.FEATURE, znodes.encode_feature(node), version)])
    if outcome is OperationResult.DONE:
        context.finalized = Finalized(node, version + 1)
    return outcome is OperationResult.DONE
