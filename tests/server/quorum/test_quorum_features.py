"""UpdateFeatures of a quorum without an active controller: kraft.version is upgraded or refused (KIP-853)."""

from collections.abc import Hashable
from typing import Any

import pytest

from kcore.protocol_errors import Errors
from kcore.raft.effects import Committed, Effect, LeaderChanged, SendResponse, SnapshotLoaded
from kcore.raft.node import RaftNode
from kcore.schema.update_features import FeatureUpdateKey, UpdateFeaturesRequest, UpdateFeaturesResponse
from kcore.server.quorum_node.features import FeatureUpdates
from raft.membership.test_kraft_version import STATIC, static_leader, upgraded
from raft.nodes import answer, begin_request, follower, leader, of
from raft.replication import fetch, fetch_request, flush

pytestmark = pytest.mark.usefixtures("either_answer_loop")


def features(*levels: int, feature: str = "kraft.version", **fields: Any) -> UpdateFeaturesRequest:
    names = [feature, *["kraft.version"] * (len(levels) - 1)]
    updates = [
        FeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=fields.get("upgrade_type", 1))
        for name, level in zip(reversed(names), levels, strict=True)
    ]
    return UpdateFeaturesRequest(feature_updates=updates, validate_only=fields.get("validate_only", False))


class Controller:
    """A leader and who answers UpdateFeatures beside it."""

    def __init__(self, node: RaftNode) -> None:
        self.node, self.features = node, FeatureUpdates(node)

    def ask(self, request: UpdateFeaturesRequest, version: int = 2, reply_to: Hashable = "features") -> list[Effect]:
        return self._with_answers(self.features.on_request(request, version, reply_to, 1000))

    def answer(self, request: UpdateFeaturesRequest, version: int = 2) -> UpdateFeaturesResponse:
        return answer(self.ask(request, version))  # type: ignore[no-any-return]

    def commit(self, effects: list[Effect]) -> list[Effect]:
        """Flush the appended records on this node, and let a follower fetch them."""
        done = flush(self.node, effects, 1000)
        return self._with_answers([*done, *fetch(self.node, fetch_request(3, max_wait_ms=0), 1000)[1]])

    def perform(self, effects: list[Effect]) -> list[Effect]:
        return self._with_answers(effects)

    def _with_answers(self, effects: list[Effect]) -> list[Effect]:
        relevant = [effect for effect in effects if isinstance(effect, Committed | LeaderChanged | SnapshotLoaded)]
        return [*effects, *(each for effect in relevant for each in self.features.on_effect(effect))]


def features_answer(node: RaftNode, request: UpdateFeaturesRequest) -> UpdateFeaturesResponse:
    return Controller(node).answer(request)


def test_an_administrator_is_answered_when_it_is_committed() -> None:
    """Version 1 has a result for each feature, version 2 one for all (KIP-1022)."""
    controller = Controller(static_leader())
    effects = controller.ask(features(1), 2, "change")
    again = controller.ask(features(1), 1, "again")
    assert of(SendResponse, effects + again) == []
    effects = controller.commit(effects)
    first, second = [effect.response for effect in effects if getattr(effect, "reply_to", None) in ("change", "again")]
    assert first == UpdateFeaturesResponse(error_message=None)
    assert [(each.feature, each.error_code, each.error_message) for each in second.results] == [
        ("kraft.version", 0, "NONE")
    ]
    assert controller.answer(features(1)).error_code == Errors.NONE
    assert controller.node.log.end_offset == 3
    assert controller.features.waiting == []


def test_an_administrator_is_answered_when_it_leads_no_more() -> None:
    controller = Controller(static_leader())
    assert of(SendResponse, controller.ask(features(1), 2, "change")) == []
    lost = controller.perform(controller.node.on_request(begin_request(2, leader_id=3), 1, "begin", 1000))
    (answer,) = [each for each in of(SendResponse, lost) if each.reply_to == "change"]
    assert answer.response.error_code == Errors.NOT_CONTROLLER  # type: ignore[attr-defined]


def test_who_does_not_lead_or_not_yet_is_no_controller() -> None:
    node, _ = leader(voters=STATIC)
    assert features_answer(node, features(1)).error_code == Errors.NOT_CONTROLLER
    response = features_answer(follower(voters=STATIC), features(1))
    assert response.error_code == Errors.NOT_CONTROLLER
    assert response.error_message == "The active controller appears to be node 2."


@pytest.mark.parametrize(
    ("request_", "why"),
    [
        (features(2), "only supports versions 0-1"),
        (features(-1), "cannot be less than 0"),
        (features(1, upgrade_type=0), "does not support the given upgrade type"),
        (features(1, upgrade_type=2), "Can't downgrade to a newer version"),
        (features(27, feature="metadata.version"), "does not support this feature"),
        (features(1, 27, feature="metadata.version"), "does not support this feature"),
    ],
)
def test_what_is_no_upgrade_changes_nothing(request_: UpdateFeaturesRequest, why: str) -> None:
    """Nor does one that comes beside another that is none."""
    node = static_leader()
    response = features_answer(node, request_)
    assert response.error_code == Errors.INVALID_UPDATE_VERSION
    assert response.error_message is not None and why in response.error_message
    assert (node.log.end_offset, node.voter_history.kraft_version) == (1, 0)


@pytest.mark.parametrize(("upgrade_type", "why"), [(1, "without setting the upgrade type"), (3, "Can't downgrade the")])
def test_there_is_no_way_back(upgrade_type: int, why: str) -> None:
    node, _ = upgraded()
    response = features_answer(node, features(0, upgrade_type=upgrade_type))
    assert response.error_code == Errors.INVALID_UPDATE_VERSION
    assert response.error_message is not None and why in response.error_message


def test_a_refusal_is_the_nodes() -> None:
    assert features_answer(static_leader(2), features(1)).error_code == Errors.INVALID_UPDATE_VERSION


def test_an_administrator_may_only_ask_whether_it_would_do() -> None:
    node = static_leader()
    assert features_answer(node, features(1, validate_only=True)).error_code == Errors.NONE
    assert node.voter_history.kraft_version == 0


def test_so_many_wait_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    """While the upgrade is not committed."""
    monkeypatch.setattr("kcore.server.quorum_node.features.MOST_WAITING", 3)
    controller = Controller(static_leader())
    for number in range(3):
        assert of(SendResponse, controller.ask(features(1), 2, number)) == []
    assert controller.answer(features(1)).error_code == Errors.REQUEST_TIMED_OUT
    assert len(controller.features.waiting) == 3


def test_a_leader_whose_time_is_over_makes_no_second_update() -> None:
    """The first look at the clock, which comes with the first update, ends its leadership."""
    node = static_leader()
    controller = Controller(node)
    node.resign(1, 1000)
    assert controller.answer(features(1)).error_code == Errors.NOT_CONTROLLER
    node = static_leader()
    controller = Controller(node)
    effects = controller.features.on_request(features(1), 2, "late", 10_000_000)
    assert not node.leads
    assert [each.response.error_code for each in of(SendResponse, effects)] == [Errors.NOT_CONTROLLER]  # type: ignore[attr-defined]
    assert node.log.end_offset == 1
