"""Handles UpdateFeatures in a quorum without an active controller: only kraft.version can change (KIP-853).

Source: FeatureControlManager.updateFeature, QuorumController.
"""

from collections.abc import Hashable

from kcore.constants import KRAFT_VERSION
from kcore.protocol_errors import Errors
from kcore.raft.driver import MachineEffect
from kcore.raft.effects import Committed, Effect, LeaderChanged, SendResponse
from kcore.raft.membership.kraft_version import Problem
from kcore.raft.membership.voters import MAX_KRAFT_VERSION
from kcore.raft.node import RaftNode
from kcore.raft.raft_config import MOST_WAITING
from kcore.schema.update_features import (
    LAST_VERSION_WITH_RESULTS,
    FeatureUpdateKey,
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
    UpgradeType,
)


class FeatureUpdates:
    """Handles UpdateFeatures of one node; a request is answered once its update is committed."""

    def __init__(self, node: RaftNode) -> None:
        self._node = node
        self.waiting: list[tuple[Hashable, UpdateFeaturesResponse]] = []  # Reply address and response.

    def on_request(self, request: UpdateFeaturesRequest, version: int, reply_to: Hashable, now_ms: int) -> list[Effect]:
        """Starts the updates: all or none. Returns the effects, with a SendResponse if no commit is needed."""
        node = self._node
        if not node.leads or node.high_watermark is None:
            return [SendResponse(reply_to, self._not_controller())]
        effects: list[Effect] = []
        for validate_only in (True, False)[: 1 if request.validate_only else 2]:
            for update in request.feature_updates:
                if not node.leads:  # The last update ran the node's timers, and the node resigned.
                    return [*effects, SendResponse(reply_to, self._not_controller())]
                problem, more = self._update(update, now_ms, validate_only=validate_only)
                effects += more
                if problem is not None:
                    text = f"The update failed for all features since the following feature had an error: {problem[1]}"
                    refused = UpdateFeaturesResponse(error_code=problem[0], error_message=text)
                    return [*effects, SendResponse(reply_to, refused)]
        response = _updated(request, version)
        if request.validate_only or node.is_kraft_version_committed:
            return [*effects, SendResponse(reply_to, response)]
        if len(self.waiting) >= MOST_WAITING:
            response = UpdateFeaturesResponse(
                error_code=Errors.REQUEST_TIMED_OUT, error_message="Too many requests wait."
            )
            return [*effects, SendResponse(reply_to, response)]
        self.waiting.append((reply_to, response))
        return effects

    def on_effect(self, effect: MachineEffect) -> list[SendResponse]:
        """Answers the waiting requests if this effect commits the upgrade, or if the node has resigned."""
        if not self.waiting:
            return []
        if isinstance(effect, LeaderChanged):  # It is unknown whether the upgrade will be committed.
            answers = [SendResponse(reply_to, self._not_controller()) for reply_to, _ in self.waiting]
        elif isinstance(effect, Committed) and self._node.is_kraft_version_committed:
            answers = [SendResponse(reply_to, response) for reply_to, response in self.waiting]
        else:
            return []
        self.waiting = []
        return answers

    def _not_controller(self) -> UpdateFeaturesResponse:
        leader_id = self._node.leader_id
        is_known = leader_id not in (-1, self._node.local.id)
        text = f"The active controller appears to be node {leader_id}." if is_known else "No controller is active."
        return UpdateFeaturesResponse(error_code=Errors.NOT_CONTROLLER, error_message=text)

    def _update(
        self, update: FeatureUpdateKey, now_ms: int, *, validate_only: bool
    ) -> tuple[Problem | None, list[Effect]]:
        problem = _why_not(self._node, update)
        if problem is not None:
            return problem, []
        wanted, epoch = update.max_version_level, self._node.epoch
        return self._node.upgrade_kraft_version(wanted, epoch, now_ms, validate_only=validate_only)


def _updated(request: UpdateFeaturesRequest, version: int) -> UpdateFeaturesResponse:
    none = Errors.NONE
    results = [
        UpdatableFeatureResult(feature=update.feature, error_code=none, error_message=none.name)
        for update in request.feature_updates
        if version <= LAST_VERSION_WITH_RESULTS
    ]
    return UpdateFeaturesResponse(error_message=None, results=results)


def _why_not(node: RaftNode, update: FeatureUpdateKey) -> Problem | None:
    """The error of an update that no voters could make valid; None if there is no such error."""
    wanted, current = update.max_version_level, node.voter_history.kraft_version
    is_upgrade = update.upgrade_type == UpgradeType.UPGRADE
    why = None
    if update.upgrade_type not in [*UpgradeType]:
        why = "The controller does not support the given upgrade type."
    elif wanted < 0:
        why = "A feature version cannot be less than 0."
    elif update.feature != KRAFT_VERSION:
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
    return None
