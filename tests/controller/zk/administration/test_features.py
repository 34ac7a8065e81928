"""Finalized features (KIP-584): a broker that lacks one counts as dead; UpdateFeatures, and every refusal of it."""

from typing import Any

import pytest

import kcore
from controller.zk import admin
from controller.zk.tree import Cluster
from kcore import schema
from kcore.controller.zk import events
from kcore.metadata.zookeeper import znodes
from kcore.metadata.zookeeper.znode_operations import WriteNodes
from kcore.protocol_errors import Errors
from kcore.schema.update_features import FeatureUpdateKey

UPGRADE, SAFE, UNSAFE = 1, 2, 3
OWN = {"f": (2, 6), "g": (1, 1)}


def cluster(finalized: dict[str, int], *supported: dict[str, tuple[int, int]], **config: Any) -> Cluster:
    """Brokers 1, 2, ... that support these; topic t on all of them."""
    made = Cluster(**{"supported_features": OWN} | config)
    made.tree.create(znodes.FEATURE, znodes.encode_feature(znodes.Feature(True, finalized)))
    for broker, features in enumerate(supported, start=1):
        made.register(broker, features=features)
    made.write_topic("t", [*range(1, len(supported) + 1)])
    made.elect()
    made.requests()
    return made


def live(made: Cluster) -> list[int]:
    brokers = made.active.table.brokers
    found: list[int] = brokers.ids[brokers.live].tolist()
    return sorted(found)


def update(
    made: Cluster, *updates: tuple[str, int, int], version: int = 1, validate_only: bool = False
) -> dict[str, tuple[Errors, str | None]]:
    """Feature, level and kind of each; what became of it."""
    keys = [
        FeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=kind, allow_downgrade=kind == SAFE)
        for name, level, kind in updates
    ]
    request = schema.UpdateFeaturesRequest(feature_updates=keys, validate_only=validate_only)
    response = admin.ask(made, request, version)
    response = kcore.decode("UpdateFeaturesResponse", version, kcore.encode(response, version))
    assert response.error_code == Errors.NONE
    return {each.feature: (Errors(each.error_code), each.error_message) for each in response.results}


def finalized(made: Cluster) -> tuple[dict[str, int], int]:
    node = made.tree.nodes[znodes.FEATURE]
    return znodes.decode_feature(node.data).features, node.version


def test_brokers_that_lack_a_finalized_feature_are_not_there() -> None:
    made = cluster({"f": 3}, {"f": (4, 9)}, {}, {"f": (1, 2)}, {"f": (3, 3), "h": (1, 1)})
    assert live(made) == [4]
    assert made.state("t") == (4, (4,), 0)


def test_one_that_comes_is_looked_at_too() -> None:
    made = cluster({"f": 3}, {"f": (1, 5)})
    made.register(2, features={"f": (4, 5)})
    made.register(3, features={"f": (3, 4)})
    made.run()
    assert live(made) == [1, 3]


def test_one_that_bounced_and_lacks_it_now_has_failed() -> None:
    made = cluster({"f": 3}, {"f": (1, 5)}, {"f": (1, 5)})
    made.unregister(1)
    made.register(1)
    made.run()
    assert live(made) == [2]
    assert made.state("t") == (2, (2,), 1)


def test_levels_go_up_down_and_away() -> None:
    made = cluster({}, {"f": (1, 9)}, {"f": (2, 5)})
    well = (Errors.NONE, None)
    for updates, expected in (
        ([("f", 3, UPGRADE)], {"f": 3}),
        ([("f", 5, UPGRADE)], {"f": 5}),
        ([("f", 2, SAFE)], {"f": 2}),
        ([("f", 0, SAFE)], {}),
    ):
        before = finalized(made)[1]
        assert update(made, *updates) == {"f": well}
        assert finalized(made) == (expected, before + 1)
    assert made.tree.nodes[znodes.FEATURE].data == b'{"features":{},"version":2,"status":1}'


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (("", 1, UPGRADE), "Feature name can not be empty."),
        (("f", 5, 0), "Received unknown upgrade type."),
        (("f", 5, 4), "Received unknown upgrade type."),
        (("g", 0, SAFE), "Can not delete non-existing finalized feature."),
        (
            ("f", 0, UPGRADE),
            "Can not provide versionLevel: 0 less than 1 without setting the SAFE downgradeType in the request.",
        ),
        (("f", 4, UPGRADE), "Can not upgrade a finalized feature from existing versionLevel:4 to the same value."),
        (("f", 4, SAFE), "Can not downgrade a finalized feature from existing versionLevel:4 to the same value."),
        (
            ("f", 3, UPGRADE),
            "Can not downgrade finalized feature from existing versionLevel:4 to provided versionLevel:3 "
            "without setting the downgradeType to SAFE in the request.",
        ),
        (
            ("f", 5, UNSAFE),
            "When the downgradeType is set to SAFE in the request, the provided versionLevel:5 can not be "
            "greater than existing versionLevel:4.",
        ),
        (
            ("h", 1, UPGRADE),
            "Could not apply finalized feature update because the provided feature is not supported.",
        ),
        (
            ("f", 1, SAFE),
            "Could not apply finalized feature update because the provided versionLevel:1 is lower than the "
            "supported minVersion:2.",
        ),
        (
            ("f", 6, UPGRADE),
            "Could not apply finalized feature update because brokers were found to have incompatible versions "
            "for the feature.",
        ),
        (
            ("g", 1, UPGRADE),
            "Could not apply finalized feature update because brokers were found to have incompatible versions "
            "for the feature.",
        ),
    ],
)
def test_what_is_refused(asked: tuple[str, int, int], message: str) -> None:
    made = cluster({"f": 4}, {"f": (1, 9)}, {"f": (2, 5)})
    before = finalized(made)
    assert update(made, asked) == {asked[0]: (Errors.INVALID_REQUEST, message)}
    assert finalized(made) == before


def test_each_is_judged_by_itself() -> None:
    made = cluster({"f": 4}, {"f": (1, 9), "g": (1, 1)})
    response = update(made, ("f", 3, UPGRADE), ("g", 1, UPGRADE))
    assert [error for error, _ in response.values()] == [Errors.INVALID_REQUEST, Errors.NONE]
    assert finalized(made)[0] == {"f": 4, "g": 1}


def test_version_0_has_a_flag_for_a_downgrade() -> None:
    made = cluster({"f": 4}, {"f": (1, 9)})
    assert update(made, ("f", 3, UPGRADE), version=0)["f"][0] is Errors.INVALID_REQUEST
    assert update(made, ("f", 3, SAFE), version=0)["f"][0] is Errors.NONE


def test_only_checked() -> None:
    made = cluster({"f": 4}, {"f": (1, 9)})
    made.effects.clear()
    assert update(made, ("f", 5, UPGRADE), validate_only=True) == {"f": (Errors.NONE, None)}
    assert not any(isinstance(each, WriteNodes) for each in made.effects)


def test_somebody_else_wrote_the_znode() -> None:
    made = cluster({"f": 4}, {"f": (1, 9)})
    made.tree.set_data(znodes.FEATURE, made.tree.nodes[znodes.FEATURE].data)
    response = update(made, ("f", 5, UPGRADE), ("h", 1, UPGRADE))
    assert [error for error, _ in response.values()] == [Errors.FEATURE_UPDATE_FAILED, Errors.INVALID_REQUEST]
    assert finalized(made)[0] == {"f": 4}


def test_without_versioning_there_is_nothing_to_update() -> None:
    made = cluster({"f": 4}, {}, inter_broker_protocol="2.6")
    assert live(made) == [1], "what was finalized is dropped"
    request = schema.UpdateFeaturesRequest(feature_updates=[FeatureUpdateKey(feature="f", max_version_level=1)])
    response = admin.ask(made, request, 1)
    assert (response.error_code, response.error_message) == (
        Errors.INVALID_REQUEST,
        "Feature versioning system is disabled.",
    )
    made.run(events.SessionLost())
    assert admin.ask(made, request, 1).error_code == Errors.NOT_CONTROLLER
