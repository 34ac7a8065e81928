"""Update features."""

from kcore.schema.kinds import int8, int16, int32
from kcore.schema.structure import Message, Struct, field


class FeatureUpdateKey(Struct):
    """A part of UpdateFeaturesRequest."""

    feature: str
    max_version_level: int16
    allow_downgrade: bool = field(versions="0")
    upgrade_type: int8 = field(versions="1+", default=1)


class UpdateFeaturesRequest(Message, api_key=57, versions="0-2", flexible="0+"):
    """UpdateFeaturesRequest, as Kafka has it."""

    timeout_ms: int32 = field(default=60000)
    feature_updates: list[FeatureUpdateKey]
    validate_only: bool = field(versions="1+")


class UpdatableFeatureResult(Struct):
    """A part of UpdateFeaturesResponse."""

    feature: str
    error_code: int16
    error_message: str | None = field(nullable="0+")


class UpdateFeaturesResponse(Message, api_key=57, versions="0-2", flexible="0+"):
    """UpdateFeaturesResponse, as Kafka has it."""

    throttle_time_ms: int32
    error_code: int16
    error_message: str | None = field(nullable="0+")
    results: list[UpdatableFeatureResult] = field(versions="0-1", ignorable=True)
