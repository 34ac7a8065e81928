"""UpdateFeatures: sets the cluster's level of a feature, such as metadata.version (KIP-584)."""

from enum import IntEnum
from typing import Final

from kcore.schema.kinds import int8, int16, int32
from kcore.schema.structure import Message, Struct, field

LAST_VERSION_WITH_RESULTS: Final = 1  # Later responses have only an error for the whole request (KIP-1022).


class UpgradeType(IntEnum):
    """FeatureUpdate.UpgradeType: the direction in which a feature's level may change (KIP-778)."""

    UPGRADE = 1
    SAFE_DOWNGRADE = 2  # No metadata is lost.
    UNSAFE_DOWNGRADE = 3  # Metadata may be lost.


class FeatureUpdateKey(Struct):
    """A feature and its new level."""

    feature: str
    max_version_level: int16  # A level below 1 removes the feature.
    allow_downgrade: bool = field(versions="0")  # Version 1 replaces it by `upgrade_type`.
    upgrade_type: int8 = field(versions="1+", default=1)  # UpgradeType


class UpdateFeaturesRequest(Message, api_key=57, versions="0-2", flexible="0+"):
    """An administrator asks the controller to change the levels of features."""

    timeout_ms: int32 = field(default=60000)
    feature_updates: list[FeatureUpdateKey]
    validate_only: bool = field(versions="1+")  # Only checks the request (KIP-778).


class UpdatableFeatureResult(Struct):
    """The result for one feature."""

    feature: str
    error_code: int16
    error_message: str | None = field(nullable="0+")


class UpdateFeaturesResponse(Message, api_key=57, versions="0-2", flexible="0+"):
    """The controller's answer, in versions 0 and 1 feature by feature."""

    throttle_time_ms: int32
    error_code: int16
    error_message: str | None = field(nullable="0+")
    # Since version 2 all updates succeed or none does (KIP-1022), so the response has one error.
    results: list[UpdatableFeatureResult] = field(versions="0-1", ignorable=True)
