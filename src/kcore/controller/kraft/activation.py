"""The first records of a controller that becomes active. Source: ActivationRecordsGenerator of 3.9.1 and 4.3.1."""

from collections.abc import Sequence
from typing import NamedTuple

from kcore.constants import ELR_VERSION, MIN_ISR
from kcore.controller.kraft.decision import Decision, Versioned
from kcore.controller.kraft.departures import HALF_BOOTSTRAP
from kcore.controller.kraft.kraft_controller_config import KraftControllerConfig
from kcore.errors import LevelError
from kcore.metadata.image.image import ClusterImage
from kcore.metadata.metadata_version import (
    FEATURE_NAME,
    MINIMUM_KRAFT_VERSION,
    MetadataVersion,
)
from kcore.schema.configs import ConfigResourceType
from kcore.schema.metadata_records_log import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
    ZkMigrationStateRecord,
)
from kcore.schema.metadata_records_settings import ConfigRecord, FeatureLevelRecord


class Bootstrap(NamedTuple):
    """The records that the first active controller of a cluster writes (BootstrapMetadata)."""

    records: Sequence[Versioned]
    source: str  # The origin of the records, for the operator's log.

    def level_of(self, feature: str) -> int:
        """The level of the feature in the records, 0 if they do not name the feature."""
        found = [
            each.record.feature_level
            for each in self.records
            if isinstance(each.record, FeatureLevelRecord) and each.record.name == feature
        ]
        return found[-1] if found else 0

    @classmethod
    def of_features(cls, features: dict[str, int], source: str) -> "Bootstrap":
        """Records for metadata.version first, then for the other enabled features by name
        (BootstrapMetadata.fromVersions).
        """
        names = [FEATURE_NAME, *sorted(name for name, level in features.items() if name != FEATURE_NAME and level)]
        return cls([Versioned(FeatureLevelRecord(name=name, feature_level=features[name])) for name in names], source)


class Activation(NamedTuple):
    """The first decision of an active controller, and the reason for it in the operator's log."""

    decision: Decision
    log_text: str


def activation(
    image: ClusterImage, config: KraftControllerConfig, bootstrap: Bootstrap, *, is_empty: bool
) -> Activation:
    """The first records of an active controller. `is_empty`: the log has only control records.

    LevelError if a transaction is open and the metadata.version does not support transactions.
    """
    if _needs_bootstrap(image, config, is_empty=is_empty):
        return _of_empty_log(image, config, bootstrap)
    level = MetadataVersion.of_level(image.features.get(FEATURE_NAME, MINIMUM_KRAFT_VERSION), config.node.release)
    says = "is at" if FEATURE_NAME in image.features else "names no level, which stands for"
    if not image.in_transaction:
        return Activation(Decision(), f"the log {says} metadata.version {level}")
    if not level.transactions_supported:
        raise LevelError(f"a transaction is open in the log, and metadata.version {level} has no transactions")
    return Activation(Decision(records=[_abort()]), f"an open metadata transaction is aborted, at {level}")


def _needs_bootstrap(image: ClusterImage, config: KraftControllerConfig, *, is_empty: bool) -> bool:
    """True if the controller must write the bootstrap records.

    Kafka 3.9.1 takes a log with half of a bootstrap transaction for a log of its oldest level, and stops.
    """
    if not config.node.rules.levels_may_be_unnamed:
        return FEATURE_NAME not in image.features
    if is_empty or HALF_BOOTSTRAP in config.kafka_way:
        return is_empty
    return not (image.features or image.brokers or image.topic_ids)


def _of_empty_log(image: ClusterImage, config: KraftControllerConfig, bootstrap: Bootstrap) -> Activation:
    level = MetadataVersion.of_level(bootstrap.level_of(FEATURE_NAME), config.node.release)
    records: list[Versioned] = []
    if image.in_transaction:
        if not level.transactions_supported:
            raise LevelError(f"metadata.version {level} cannot abort the open bootstrap transaction in the log")
        records.append(_abort())
    if level.transactions_supported:
        records.append(Versioned(BeginTransactionRecord(name="Bootstrap records")))
    records += bootstrap.records
    if config.node.rules.migrates_from_zookeeper and level.transactions_supported:
        records.append(Versioned(ZkMigrationStateRecord(zk_migration_state=0)))
    if config.node.rules.elr_is_a_feature and bootstrap.level_of(ELR_VERSION) > 0:
        value = config.node.static_configs.get(MIN_ISR, "1")
        of_all_brokers = ConfigRecord(
            resource_type=ConfigResourceType.BROKER, resource_name="", name=MIN_ISR, value=value
        )
        records.append(Versioned(of_all_brokers))
    if level.transactions_supported:
        records.append(Versioned(EndTransactionRecord()))
    text = f"the log is empty: {len(bootstrap.records)} bootstrap records at metadata.version {level}"
    return Activation(Decision(records=records, is_atomic=False), f"{text} from {bootstrap.source}")


def _abort() -> Versioned:
    return Versioned(AbortTransactionRecord(reason="Controller failover"))
