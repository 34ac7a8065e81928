"""Finalized features (KIP-584), which the controller reads and repairs at failover, and UpdateFeatures.

Source: KafkaController.maybeSetupFeatureVersioning, processFeatureUpdates of 3.9.1.
"""

from typing import Final

from kcore.controller.rules.features import reason_refused, upgrade_type
from kcore.controller.zk.effects import Steps
from kcore.controller.zk.events import RequestEvent
from kcore.controller.zk.zk_context import ControllerContext, Finalized
from kcore.metadata.zookeeper import znodes
from kcore.metadata.zookeeper.znode_operations import Create, OperationResult, SetData
from kcore.node.zk.inter_broker_protocol import at_least
from kcore.node.zk.znode_steps import read_node, write_nodes
from kcore.protocol_errors import Errors
from kcore.schema import UpdateFeaturesRequest, UpdateFeaturesResponse
from kcore.schema.structure import Message
from kcore.schema.update_features import UpdatableFeatureResult

VERSIONING_SINCE: Final = "2.7-IV0"


def set_up(inter_broker_protocol: str) -> Steps[Finalized]:
    """Reads the finalized features and writes the znode if it must change; below 2.7 no features are finalized."""
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


def on_update_features(context: ControllerContext, event: RequestEvent[UpdateFeaturesRequest]) -> Steps[Message]:
    """Checks each update separately and writes the valid updates, unless `validate_only` is set.

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
