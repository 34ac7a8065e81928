"""kraft.version goes up from 0 to 1 while the quorum runs: from then on the log names the voters (KIP-853).

Nothing is asked of a change of voters that is on its way: at version 0 there is none, and behind the upgrade the next
one waits until that is committed. Source: KafkaRaftClient.upgradeKRaftVersion,
LeaderState.maybeAppendUpgradedKRaftVersion; of requests FeatureControlManager.updateFeature, QuorumController.
"""

from collections.abc import Hashable
from typing import Final, TypeAlias

from kcore.protocol_errors import Errors
from kcore.raft.config import MOST_WAITING
from kcore.raft.context import NodeContext
from kcore.raft.control_records import kraft_version_record
from kcore.raft.replicas import NO_DIRECTORY
from kcore.raft.states import Leader
from kcore.raft.voter_changes import FEATURE
from kcore.raft.voters import MAX_KRAFT_VERSION
from kcore.schema.update_features import (
    FeatureUpdateKey,
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)

Problem: TypeAlias = tuple[Errors, str]
UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE = 1, 2, 3  # FeatureUpdate.UpgradeType
LAST_VERSION_WITH_RESULTS: Final = 1  # Of UpdateFeatures (KIP-1022).


def upgrade(node: NodeContext, version: int, now_ms: int, *, validate_only: bool) -> Problem | None:
    """Of a leader: version and voters go into the log, in one batch. Why not, or None, also where it is so already."""
    known, persisted = node.leading.known_voters, node.voter_history.kraft_version
    if version == persisted:
        return None
    invalid, step = Errors.INVALID_UPDATE_VERSION, f"Invalid upgrade of {FEATURE} from version {persisted} to {version}"
    if version < persisted:
        return invalid, f"{step} because the new version is a downgrade"
    if known is None or version > MAX_KRAFT_VERSION or node.config.level == "3.9":
        return invalid, step
    assert known.ids == node.voters.ids  # At version 0 nobody comes and nobody goes.
    if not known.supports(version):  # As configured they are said to do no more than 0: who is silent is one of these.
        return invalid, f"{step} because not all of the voters support it"
    if any(key.directory_id == NO_DIRECTORY for key in known.keys):  # An IllegalStateException.
        return Errors.UNKNOWN_SERVER_ERROR, f"{step}: the directory ids of all voters must be known"
    if not validate_only:
        node.leading.append_control(node, [kraft_version_record(version), known.to_record()], now_ms)
        node.leading.known_voters = None
    return None


# Asked of the active controller.


def on_update_features_request(
    node: NodeContext, request: UpdateFeaturesRequest, version: int, reply_to: Hashable, now_ms: int
) -> UpdateFeaturesResponse | None:
    """Of kraft.version alone, which raft itself keeps; answered once it is committed. All or nothing."""
    if type(node.quorum.state) is not Leader or node.quorum.high_watermark is None:
        return _not_controller(node)
    for validate_only in (True, False)[: 1 if request.validate_only else 2]:
        for update in request.feature_updates:
            problem = _update(node, update, now_ms, validate_only=validate_only)
            if problem is not None:
                text = f"The update failed for all features since the following feature had an error: {problem[1]}"
                return UpdateFeaturesResponse(error_code=problem[0], error_message=text)
    response = _updated(request, version)
    if request.validate_only or _is_committed(node, node.quorum.high_watermark):
        return response
    if len(node.leading.upgrades) >= MOST_WAITING:
        return UpdateFeaturesResponse(error_code=Errors.REQUEST_TIMED_OUT, error_message="Too many requests wait.")
    node.leading.upgrades.append((reply_to, response))
    return None


def _not_controller(node: NodeContext) -> UpdateFeaturesResponse:
    is_known = node.leader_id not in (-1, node.local.id)
    text = f"The active controller appears to be node {node.leader_id}." if is_known else "No controller is active."
    return UpdateFeaturesResponse(error_code=Errors.NOT_CONTROLLER, error_message=text)


def _updated(request: UpdateFeaturesRequest, version: int) -> UpdateFeaturesResponse:
    none = Errors.NONE
    results = [
        UpdatableFeatureResult(feature=update.feature, error_code=none, error_message=none.name)
        for update in request.feature_updates
        if version <= LAST_VERSION_WITH_RESULTS
    ]
    return UpdateFeaturesResponse(error_message=None, results=results)


def _update(node: NodeContext, update: FeatureUpdateKey, now_ms: int, *, validate_only: bool) -> Problem | None:
    wanted, current = update.max_version_level, node.voter_history.kraft_version
    is_upgrade = update.upgrade_type == UPGRADE
    why = None
    if update.upgrade_type not in (UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE):
        why = "The controller does not support the given upgrade type."
    elif wanted < 0:
        why = "A feature version cannot be less than 0."
    elif update.feature != FEATURE:
        why = f"Local controller {node.local.id} does not support this feature."
    elif wanted > MAX_KRAFT_VERSION:
        why = f"Local controller {node.local.id} only supports versions 0-{MAX_KRAFT_VERSION}"
    elif wanted < current and is_upgrade:
        why = (
            "Can't downgrade the version of this feature without setting the upgrade type to either safe or unsafe "
            "downgrade."
        )
    elif wanted > current and not is_upgrade:
        why = "Can't downgrade to a newer version."
    elif wanted < current:
        why = "Can't downgrade the version of this feature."
    if why is not None:
        text = f"Invalid update version {wanted} for feature {update.feature}. {why}"
        return Errors.INVALID_UPDATE_VERSION, text
    return upgrade(node, wanted, now_ms, validate_only=validate_only)


def _is_committed(node: NodeContext, high_watermark: int) -> bool:
    """Nothing is on its way at version 0, where the configuration names the voters."""
    offset = node.voter_history.last_voters_offset
    return offset is None or offset < high_watermark


def on_high_watermark(node: NodeContext, high_watermark: int) -> None:
    """Whoever waits for the upgrade is answered."""
    leading = node.leading
    if leading.upgrades and _is_committed(node, high_watermark):
        waiting, leading.upgrades = leading.upgrades, []
        for reply_to, response in waiting:
            node.answer(reply_to, response)


def fail(node: NodeContext) -> None:
    """It leads no more: nobody knows whether the upgrade will be committed."""
    for reply_to, _ in node.leading.upgrades:
        node.answer(reply_to, _not_controller(node))
