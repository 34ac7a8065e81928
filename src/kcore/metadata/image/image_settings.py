"""Applies records of features, settings, quotas, access control and credentials to an image."""

from collections.abc import Callable, Iterable
from itertools import groupby
from operator import itemgetter
from typing import Any, Final

from kcore.constants import KRAFT_VERSION
from kcore.errors import TableError
from kcore.metadata.image.image_state import ImageState
from kcore.schema import metadata_records_log as log_records
from kcore.schema import metadata_records_security as security_records
from kcore.schema import metadata_records_settings as setting_records
from kcore.schema.structure import MetadataRecord


def _feature_level(image: ImageState, record: setting_records.FeatureLevelRecord) -> None:
    image.feature_records += 1
    if record.name == KRAFT_VERSION:
        image.set_number("written_kraft_version", record.feature_level)
    else:
        image.set_key("features", record.name, record.feature_level or None)


def _config(image: ImageState, record: setting_records.ConfigRecord) -> None:
    resource = record.resource_type, record.resource_name
    values = dict(image.configs.get(resource, {}))
    if record.value is None:
        values.pop(record.name, None)
    else:
        values[record.name] = record.value
    image.set_key("configs", resource, values or None)


def set_configs(image: ImageState, records: Iterable[tuple[int, str, str, str | None, int]]) -> None:
    """Apply ConfigRecords: each has type and name of the resource, name and value of the setting, and its offset.

    Consecutive records of one resource are one change of the image, recorded at each of their offsets.
    """
    for resource, group in groupby(records, itemgetter(0, 1)):
        values = dict(image.configs.get(resource, {}))
        for _, _, name, value, offset in group:
            image.record_delta_key("configs", resource, offset)
            if value is None:
                values.pop(name, None)
            else:
                values[name] = value
        image.set_key("configs", resource, values or None)


def _client_quota(image: ImageState, record: setting_records.ClientQuotaRecord) -> None:
    entity = tuple(sorted(((each.entity_type, each.entity_name) for each in record.entity), key=_none_first))
    values = dict(image.quotas.get(entity, {}))
    if record.remove:
        values.pop(record.key, None)
    else:
        values[record.key] = record.value
    image.set_key("quotas", entity, values or None)


def _none_first(pair: tuple[str, str | None]) -> tuple[str, str]:
    return pair[0], pair[1] or ""


def _producer_ids(image: ImageState, record: setting_records.ProducerIdsRecord) -> None:
    image.set_number("next_producer_id", record.next_producer_id)


def _acl(image: ImageState, record: security_records.AccessControlEntryRecord) -> None:
    image.set_key("acls", record.id, record)


def _remove_acl(image: ImageState, record: security_records.RemoveAccessControlEntryRecord) -> None:
    if record.id not in image.acls:
        raise TableError(f"unknown ACL {record.id}")
    image.set_key("acls", record.id, None)


def _scram(image: ImageState, record: security_records.UserScramCredentialRecord) -> None:
    image.set_key("scram", (record.mechanism, record.name), record)


def _remove_scram(image: ImageState, record: security_records.RemoveUserScramCredentialRecord) -> None:
    image.set_key("scram", (record.mechanism, record.name), None)


def _token(image: ImageState, record: security_records.DelegationTokenRecord) -> None:
    image.set_key("tokens", record.token_id, record)


def _remove_token(image: ImageState, record: security_records.RemoveDelegationTokenRecord) -> None:
    image.set_key("tokens", record.token_id, None)


def _zk_migration_state(image: ImageState, record: log_records.ZkMigrationStateRecord) -> None:
    image.set_number("zk_migration_state", record.zk_migration_state)


HANDLERS: Final[dict[type[MetadataRecord], Callable[[ImageState, Any], None]]] = {
    setting_records.FeatureLevelRecord: _feature_level,
    setting_records.ConfigRecord: _config,
    setting_records.ClientQuotaRecord: _client_quota,
    setting_records.ProducerIdsRecord: _producer_ids,
    security_records.AccessControlEntryRecord: _acl,
    security_records.RemoveAccessControlEntryRecord: _remove_acl,
    security_records.UserScramCredentialRecord: _scram,
    security_records.RemoveUserScramCredentialRecord: _remove_scram,
    security_records.DelegationTokenRecord: _token,
    security_records.RemoveDelegationTokenRecord: _remove_token,
    log_records.ZkMigrationStateRecord: _zk_migration_state,
}
