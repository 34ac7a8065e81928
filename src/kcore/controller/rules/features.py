"""Features of a cluster: whether a broker supports their levels, and which updates are refused (KIP-584).

Source: KafkaController of 3.9.1 (partitionOnFeatureCompatibility, validateFeatureUpdate).
"""

from collections.abc import Iterable, Mapping
from typing import TypeAlias

from kcore.schema.update_features import FeatureUpdateKey, UpgradeType

Supported: TypeAlias = Mapping[str, tuple[int, int]]  # Lowest and highest level of each feature.


def supports(supported: Supported, levels: Mapping[str, int]) -> bool:
    """True if a broker supports all features at these levels (BrokerFeatures.hasIncompatibleFeatures)."""
    lowest_and_highest = {name: supported.get(name, (1, 0)) for name in levels}
    return all(low <= levels[name] <= high for name, (low, high) in lowest_and_highest.items())


def upgrade_type(update: FeatureUpdateKey, version: int) -> int:
    """The kind of an update. Requests of version 0 have only the flag `allow_downgrade`."""
    if version:
        return update.upgrade_type
    return UpgradeType.SAFE_DOWNGRADE if update.allow_downgrade else UpgradeType.UPGRADE


def reason_refused(
    name: str, level: int, kind: int, known: int | None, own: Supported, of_brokers: Iterable[Supported]
) -> str | None:
    """Kafka's error message for an update to `level`; None if the update is valid (validateFeatureUpdate).

    `known`: the finalized level, None if the feature has none. `own`: the levels that the controller supports.
    `of_brokers`: the levels that each live broker supports.
    """
    if not name:
        return "Feature name can not be empty."
    if kind not in [*UpgradeType]:
        return "Received unknown upgrade type."
    if level < 1 and kind != UpgradeType.UPGRADE:
        return "Can not delete non-existing finalized feature." if known is None else None
    if level < 1:
        return (
            f"Can not provide versionLevel: {level} less than 1 without setting the SAFE downgradeType in the request."
        )
    if level == known:
        verb = "downgrade" if kind == UpgradeType.SAFE_DOWNGRADE else "upgrade"
        return f"Can not {verb} a finalized feature from existing versionLevel:{known} to the same value."
    if known is not None and level < known and kind != UpgradeType.SAFE_DOWNGRADE:
        return (
            f"Can not downgrade finalized feature from existing versionLevel:{known} to provided versionLevel:{level} "
            "without setting the downgradeType to SAFE in the request."
        )
    if known is not None and level > known and kind != UpgradeType.UPGRADE:
        return (
            f"When the downgradeType is set to SAFE in the request, the provided versionLevel:{level} can not be "
            f"greater than existing versionLevel:{known}."
        )
    return _reason_unsupported(name, level, own, of_brokers)


def _reason_unsupported(name: str, level: int, own: Supported, of_brokers: Iterable[Supported]) -> str | None:
    """Kafka's message if the controller or a live broker lacks the level.

    Source: newFinalizedVersionOrIncompatibilityError.
    """
    prefix = "Could not apply finalized feature update because"
    if name not in own:
        return f"{prefix} the provided feature is not supported."
    if not supports(own, {name: level}):
        return f"{prefix} the provided versionLevel:{level} is lower than the supported minVersion:{own[name][0]}."
    if not all(supports(supported, {name: level}) for supported in of_brokers):
        return f"{prefix} brokers were found to have incompatible versions for the feature."
    return None
