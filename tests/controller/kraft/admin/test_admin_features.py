"""UpdateFeatures and DescribeCluster, beyond what stories of a real controller show."""

import pytest

from controller.kraft.contexts import CLUSTER_ID, a_context, applied, at_once
from kcore.constants import ELR_VERSION
from kcore.controller.kraft.admin.cluster import on_describe_cluster
from kcore.controller.kraft.admin.features import on_update_features
from kcore.controller.kraft.decision import Decision, Versioned
from kcore.controller.kraft.kraft_context import ControllerContext, RaftView, RequestInfo
from kcore.protocol_errors import Errors
from kcore.schema.cluster_metadata import DescribeClusterRequest
from kcore.schema.metadata_records_brokers import ControllerEndpoint, ControllerFeature, RegisterControllerRecord
from kcore.schema.metadata_records_settings import ConfigRecord
from kcore.schema.update_features import FeatureUpdateKey, UpdateFeaturesRequest

INFO = RequestInfo(2, 0)
UPGRADE, SAFE, UNSAFE = 1, 2, 3
SUPPORTED = {
    **{"metadata.version": (7, 30), "kraft.version": (0, 1), ELR_VERSION: (0, 1)},
    **{"group.version": (0, 1), "odd.version": (0, 3)},
}
FAILED = "The update failed for all features since the following feature had an error: "


def a_world(level: int = 29, **settings: object) -> ControllerContext:
    return a_context(level, **{"supported_features": SUPPORTED, **settings})


def updated(context: ControllerContext, *updates: tuple[str, int, int], check: bool = False) -> Decision:
    rows = [FeatureUpdateKey(feature=name, max_version_level=to, upgrade_type=kind) for name, to, kind in updates]
    return at_once(on_update_features(context, UpdateFeaturesRequest(feature_updates=rows, validate_only=check), INFO))


def names(decision: Decision) -> list[str]:
    return [type(each.record).__name__ for each in decision.records if isinstance(each, Versioned)]


def registered(controller_id: int, highest: int = 30) -> RegisterControllerRecord:
    return RegisterControllerRecord(
        controller_id=controller_id,
        end_points=[ControllerEndpoint(name="CONTROLLER", host=f"c{controller_id}", port=9093, security_protocol=0)],
        features=[
            ControllerFeature(name="metadata.version", min_supported_version=7, max_supported_version=highest),
            ControllerFeature(name="kraft.version", min_supported_version=0, max_supported_version=1),
        ],
    )


def test_metadata_version_goes_up() -> None:
    context = a_world()
    decision = updated(context, ("metadata.version", 30, UPGRADE))
    assert context.image.features["metadata.version"] == 29
    applied(context, decision)
    assert context.image.features["metadata.version"] == 30


def test_kraft_version_is_asked_of_raft_only_if_all_updates_are_fine() -> None:
    context = a_world()
    fine = updated(context, ("kraft.version", 1, UPGRADE))
    assert (fine.kraft_version, names(fine)) == (1, ["NoOpRecord"])
    refused = updated(context, ("kraft.version", 1, UPGRADE), ("odd.version", -1, UPGRADE))
    assert refused.kraft_version is None
    assert not refused.records
    assert refused.response.error_code == Errors.INVALID_UPDATE_VERSION
    checked = updated(context, ("kraft.version", 1, UPGRADE), check=True)
    assert (checked.kraft_version, names(checked)) == (None, [])
    context.raft.kraft_version = 1
    again = updated(context, ("kraft.version", 1, UPGRADE))
    assert (again.kraft_version, names(again)) == (None, ["NoOpRecord"])
    assert updated(context, ("kraft.version", 0, SAFE)).response.error_message == (
        f"{FAILED}Invalid update version 0 for feature kraft.version. Can't downgrade the version of this feature."
    )


def test_a_kraft_version_that_raft_cannot_write_is_refused() -> None:
    context = a_world()
    context.raft = RaftView(kraft_version_problem=lambda version: f"no voter can do {version}")
    refused = updated(context, ("kraft.version", 1, UPGRADE), ("group.version", 1, UPGRADE))
    assert (refused.kraft_version, refused.records) == (None, ())
    assert refused.response.error_code == Errors.INVALID_UPDATE_VERSION
    assert refused.response.error_message == f"{FAILED}no voter can do 1"
    assert updated(context, ("kraft.version", 0, UPGRADE)).records  # That it has already.


@pytest.mark.parametrize(
    ("release", "now", "to", "may"),
    [
        ("4.3.1", 29, 24, True),  # 4.2-IV1 to 4.0-IV2
        ("4.3.1", 29, 23, True),
        ("4.3.1", 29, 22, False),  # 4.0-IV1 says what 4.0-IV0 cannot.
        ("4.3.1", 30, 29, False),
        ("4.1.2", 27, 23, True),
        ("4.1.2", 27, 22, False),
        ("3.9.1", 21, 17, True),
        ("3.9.1", 21, 16, False),
        ("3.9.1", 5, 4, False),
    ],
)
def test_a_downgrade_that_loses_nothing(release: str, now: int, to: int, may: bool) -> None:
    context = a_world(now, release=release, supported_features={"metadata.version": (1, 31)})
    for kind in (SAFE, UNSAFE):
        assert bool(updated(context, ("metadata.version", to, kind)).records) is may
    assert not updated(context, ("metadata.version", to, UPGRADE)).records


def test_every_controller_must_have_registered() -> None:
    voters = {"controller.quorum.voters": "3000@a:1, 3001@b:1"}
    context = a_world(static_configs=voters)
    refused = updated(context, ("metadata.version", 30, UPGRADE))
    assert refused.response.error_message == (
        f"{FAILED}Invalid update version 30 for feature metadata.version. controller 3001 has not registered, and may "
        "not support this feature"
    )
    context.image.apply(registered(3001, 29))
    refused = updated(context, ("metadata.version", 30, UPGRADE))
    assert refused.response.error_message.endswith("Controller 3001 only supports versions 7-29")
    context.image.apply(registered(3001))
    assert updated(context, ("metadata.version", 30, UPGRADE)).records
    assert updated(a_world(14, static_configs=voters), ("metadata.version", 15, UPGRADE)).records  # Nobody registers.


def test_a_feature_needs_the_metadata_version_that_the_same_request_sets() -> None:
    """The error names the first of two faults in the order of Kafka's checks (Feature.validateVersion)."""
    decision = updated(a_world(), ("group.version", 1, UPGRADE), ("metadata.version", -1, SAFE))
    why = "group.version could not be set to 1 because it depends on metadata.version=7 (3.3-IV3)"
    assert decision.response.error_message == f"{FAILED}Invalid update version 1 for feature group.version. {why}"
    assert not decision.records


def test_elr_needs_one_min_insync_replicas_for_all() -> None:
    context = a_world(static_configs={"min.insync.replicas": " 2 "})
    for name in ("5", "7"):
        record = ConfigRecord(resource_type=4, resource_name=name, name="min.insync.replicas", value="3")
        context.image.apply(record)
    context.image.apply(ConfigRecord(resource_type=4, resource_name="6", name="log.retention.ms", value="3"))
    decision = updated(context, (ELR_VERSION, 1, UPGRADE))
    found = {each.record.resource_name: each.record.value for each in decision.records[:-1]}
    assert found == {"": "2", "5": None, "7": None}
    assert names(decision)[-1] == "FeatureLevelRecord"
    applied(context, decision)
    assert names(updated(context, (ELR_VERSION, 1, UPGRADE))) == ["FeatureLevelRecord"]
    assert names(updated(context, (ELR_VERSION, 0, SAFE))) == ["FeatureLevelRecord"]


def test_a_feature_that_kafka_does_not_know() -> None:
    refused = updated(a_world(), ("odd.version", 1, UPGRADE))
    assert refused.response.error_message.endswith("Feature odd.version not found.")


def test_what_3_9_makes_of_each_update() -> None:
    context = a_world(17, release="3.9.1", supported_features={"metadata.version": (1, 21), "kraft.version": (0, 1)})
    decision = updated(context, ("odd.version", 1, UPGRADE), ("metadata.version", 18, UPGRADE))
    assert [(each.feature, each.error_code) for each in decision.response.results] == [
        ("metadata.version", Errors.NONE),
        ("odd.version", Errors.INVALID_UPDATE_VERSION),
    ]
    assert names(decision) == ["FeatureLevelRecord"]


def test_3_9_takes_kraft_version_for_a_feature_like_others() -> None:
    context = a_world(21, release="3.9.1", supported_features={"kraft.version": (0, 1)})
    made = updated(context, ("kraft.version", 1, UPGRADE))
    assert (made.kraft_version, names(made)) == (None, ["FeatureLevelRecord"])
    applied(context, made)
    assert context.raft.kraft_version == 0
    again = updated(context, ("kraft.version", 0, UPGRADE))
    assert again.response.results[0].error_code == Errors.INVALID_UPDATE_VERSION
    assert updated(context, ("kraft.version", 0, SAFE)).records


def test_who_may_not_alter_changes_nothing() -> None:
    decision = updated(a_world(has_authorizer=True), ("metadata.version", 30, UPGRADE))
    assert decision.response.error_code == Errors.CLUSTER_AUTHORIZATION_FAILED
    assert not decision.records


def test_the_cluster_is_described_by_its_controllers() -> None:
    context = a_world()
    request = DescribeClusterRequest(endpoint_type=2, include_cluster_authorized_operations=True)
    unregistered = on_describe_cluster(context, request, INFO).response
    assert (unregistered.controller_id, unregistered.brokers) == (-1, [])
    for each in (3001, 3000):
        context.image.apply(registered(each))
    response = on_describe_cluster(context, request, INFO).response
    assert (response.cluster_id, response.controller_id) == (CLUSTER_ID, 3000)
    assert [(each.broker_id, each.host) for each in response.brokers] == [(3000, "c3000"), (3001, "c3001")]
    assert response.cluster_authorized_operations == 8096
    other = on_describe_cluster(context, request, INFO._replace(listener="OTHER")).response
    assert (other.controller_id, other.brokers) == (-1, [])


def test_an_old_cluster_is_described_by_brokers_alone() -> None:
    response = on_describe_cluster(a_world(14), DescribeClusterRequest(endpoint_type=2), INFO).response
    assert response.error_code == Errors.UNSUPPORTED_VERSION


@pytest.mark.parametrize("by", ["log", "settings"])
def test_a_removed_voters_registration_stops_no_upgrade(by: str) -> None:
    """KAFKA-20295; the present voters come from raft, or from server.properties where there is no raft node."""
    static = {"controller.quorum.voters": "3000@a:1,3001@b:1"} if by == "settings" else {}

    def a_quorum(**settings: object) -> ControllerContext:
        context = a_world(static_configs=static, **settings)
        context.raft.voter_ids = frozenset({3000, 3001}) if by == "log" else frozenset()
        for each in (registered(3001), registered(3002, 29)):  # 3002 was a voter.
            context.image.apply(each)
        return context

    assert updated(a_quorum(), ("metadata.version", 30, UPGRADE)).records
    kafka = updated(a_quorum(kafka_way=frozenset({"removed-voters-block"})), ("metadata.version", 30, UPGRADE))
    assert kafka.response.error_message.endswith("Controller 3002 only supports versions 7-29")


def test_a_voter_of_a_dynamic_quorum_that_has_not_registered_stops_an_upgrade() -> None:
    for kafka_way in (frozenset[str](), frozenset({"removed-voters-block"})):
        context = a_world(kafka_way=kafka_way)
        context.raft.voter_ids = frozenset({3000, 3001})
        decision = updated(context, ("metadata.version", 30, UPGRADE))
        assert bool(decision.records) is bool(kafka_way)
        if not kafka_way:
            assert "controller 3001 has not registered" in decision.response.error_message
    context = a_world()
    context.raft.voter_ids = frozenset({3000, 3001})
    context.image.apply(registered(3001))
    assert updated(context, ("metadata.version", 30, UPGRADE)).records


def test_share_version_2_is_known_from_4_4_on() -> None:
    supported = {**SUPPORTED, "share.version": (0, 2)}
    for release, level, error in (("4.3.1", 30, Errors.INVALID_UPDATE_VERSION), ("4.4.0", 31, Errors.NONE)):
        context = a_world(level, release=release, supported_features=supported)
        assert updated(context, ("share.version", 2, UPGRADE)).response.error_code == error


def test_a_downgrade_across_4_4_iv1_or_iv2_might_lose_metadata() -> None:
    supported = {**SUPPORTED, "metadata.version": (7, 33)}
    for level, to, error in ((33, 32, 95), (32, 31, 95), (31, 30, 0), (33, 33, 0)):
        context = a_world(level, release="4.4.0", supported_features=supported)
        assert updated(context, ("metadata.version", to, SAFE if to < level else UPGRADE)).response.error_code == error
