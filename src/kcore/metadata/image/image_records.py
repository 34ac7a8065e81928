"""Writes all parts of an image but the topics as records, in the order and version of Kafka's images."""

from collections.abc import Callable, Iterator
from typing import Any, Final

from kcore.constants import KRAFT_VERSION
from kcore.metadata.image.image import ClusterImage
from kcore.metadata.metadata_version import FEATURE_NAME, MetadataVersion
from kcore.metadata.table.broker_registration import BrokerRegistration
from kcore.schema import metadata_records_log as log_records
from kcore.schema import metadata_records_settings as setting_records
from kcore.schema.metadata_records_brokers import BrokerEndpoint, BrokerFeature, RegisterBrokerRecord
from kcore.schema.structure import MetadataRecord

Written = Iterator[tuple[MetadataRecord, int]]  # A record with the version to write.
OnLoss = Callable[[str], None]  # Called for a value that the metadata.version has no field for.

_MIGRATION_STATES: Final = {0: "NONE", 1: "PRE_MIGRATION", 2: "MIGRATION", 3: "POST_MIGRATION", 4: "ZK"}


def features(image: ClusterImage, level: MetadataVersion, on_loss: OnLoss) -> Written:
    """FeaturesImage.write: metadata.version first, because readers need it to decode the rest."""
    levels = {name: value for name, value in image.features.items() if name != FEATURE_NAME}
    if level.rules.kraft_version_is_a_feature and image.written_kraft_version:
        levels[KRAFT_VERSION] = image.written_kraft_version
    others = sorted(levels)
    if level.feature_levels_in_log:
        yield setting_records.FeatureLevelRecord(name=FEATURE_NAME, feature_level=level.feature_level), 0
        for name in others:
            yield setting_records.FeatureLevelRecord(name=name, feature_level=levels[name]), 0
    elif others:
        on_loss(f"feature flag(s): {', '.join(others)}")
    state = image.zk_migration_state
    if level.migration_supported:
        if state or level.rules.migrates_from_zookeeper:  # 4.x reads the record, but does not write it.
            yield log_records.ZkMigrationStateRecord(zk_migration_state=state), 0
    elif state:
        on_loss(f"the ZK Migration state which was {_MIGRATION_STATES.get(state, state)}")


def brokers(image: ClusterImage, level: MetadataVersion, on_loss: OnLoss) -> Written:
    """The registrations of brokers (ClusterImage.write, BrokerRegistration.toRecord)."""
    for broker_id in sorted(image.brokers):
        yield _registration(image.brokers[broker_id], level, on_loss), level.register_broker_record_version


def _registration(broker: BrokerRegistration, level: MetadataVersion, on_loss: OnLoss) -> RegisterBrokerRecord:
    record = RegisterBrokerRecord(
        broker_id=broker.id,
        incarnation_id=broker.incarnation_id,
        broker_epoch=broker.epoch,
        end_points=[
            BrokerEndpoint(name=each.listener, host=each.host, port=each.port, security_protocol=each.security_protocol)
            for each in broker.listeners
        ],
        features=[
            BrokerFeature(name=name, min_supported_version=lowest, max_supported_version=highest)
            for name, (lowest, highest) in broker.supported_features.items()
        ],
        rack=broker.rack,
        fenced=broker.fenced,
    )
    _set(record, "in_controlled_shutdown", broker.in_controlled_shutdown, level.controlled_shutdown_in_log, on_loss)
    _set(record, "is_migrating_zk_broker", broker.is_migrating_zk_broker, level.migration_supported, on_loss)
    _set(record, "log_dirs", [*broker.directories], level.directories_supported, on_loss)
    if broker.cordoned_directories is not None:
        cordoned = [*broker.cordoned_directories]
        _set(record, "cordoned_log_dirs", cordoned, level.cordoned_directories_supported, on_loss)
    return record


_LOST: Final = {
    "in_controlled_shutdown": "the inControlledShutdown state",
    "is_migrating_zk_broker": "the isMigratingZkBroker state",
    "log_dirs": "the online log directories",
    "cordoned_log_dirs": "the cordoned log directories",
}


def _set(record: RegisterBrokerRecord, field: str, value: Any, is_supported: bool, on_loss: OnLoss) -> None:
    if is_supported:
        setattr(record, field, value)
    elif value or field == "cordoned_log_dirs":  # An empty list of these differs from None.
        on_loss(f"{_LOST[field]} of one or more brokers")


def controllers(image: ClusterImage, level: MetadataVersion, on_loss: OnLoss) -> Written:
    """The registrations of controllers (ClusterImage.write; KIP-919)."""
    if level.controller_registration_supported:
        for _, record in sorted(image.controllers.items()):
            yield record, 0
    elif image.controllers:
        on_loss("controller registration data")


def settings(image: ClusterImage) -> Written:
    """Settings, quotas and the next producer id (ConfigurationsImage, ClientQuotasImage and ProducerIdsImage)."""
    for (kind, resource), values in sorted(image.configs.items()):
        for name, value in sorted(values.items()):
            yield (
                setting_records.ConfigRecord(resource_type=kind, resource_name=resource, name=name, value=value),
                0,
            )
    for entity, quotas in sorted(image.quotas.items(), key=_none_first):
        parts = [setting_records.EntityData(entity_type=kind, entity_name=name) for kind, name in entity]
        for key, quota in sorted(quotas.items()):
            yield setting_records.ClientQuotaRecord(entity=parts, key=key, value=quota, remove=False), 0
    if image.next_producer_id >= 0:
        next_id = image.next_producer_id
        yield setting_records.ProducerIdsRecord(broker_id=-1, broker_epoch=-1, next_producer_id=next_id), 0


def _none_first(item: tuple[Any, Any]) -> list[tuple[str, bool, str]]:
    return [(kind, name is not None, name or "") for kind, name in item[0]]


def security(image: ClusterImage, level: MetadataVersion, on_loss: OnLoss) -> Written:
    """ACLs, SCRAM credentials and delegation tokens (AclsImage, ScramImage and DelegationTokenImage)."""
    for _, acl in sorted(image.acls.items()):
        yield acl, 0
    if level.scram_supported:
        for _, credential in sorted(image.scram.items()):
            yield credential, 0
    elif image.scram:
        on_loss(f"ScramImage({', '.join(f'{mechanism}: {user}' for mechanism, user in sorted(image.scram))})")
    if level.delegation_tokens_supported:
        for _, token in sorted(image.tokens.items()):
            yield token, 0
    elif image.tokens:
        on_loss(f"DelegationTokenImage({', '.join(sorted(image.tokens))})")
