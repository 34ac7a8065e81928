"""Converts the parts of an image to Apache Arrow: one definition of each table, for the library and for Spark.

Columns have the names of Kafka's records. Codes of ACLs and kinds of resources are Kafka's words; a code that has no
word is its number.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import numpy as np

from kcore.constants import METADATA_VERSION, NO_BROKER_ROW
from kcore.extras import needs
from kcore.metadata import acl_codes
from kcore.metadata.image.image_state import ImageState
from kcore.metadata.image.table_names import PARTITIONS
from kcore.metadata.metadata_version import name_of_level
from kcore.metadata.sensitive_settings import is_sensitive_setting
from kcore.metadata.table.broker_registration import Endpoint
from kcore.metadata.table.broker_table import SECURITY_PROTOCOLS
from kcore.metadata.table.directory_table import RESERVED
from kcore.metadata.table.table_arrow import SCHEMA, partitions_as_arrow, topic_ids
from kcore.schema.configs import ConfigResourceType
from kcore.types import ZERO_UUID

with needs("arrow"):
    import pyarrow as pa

_END_POINTS: Final = pa.list_(
    pa.struct([("name", pa.string()), ("host", pa.string()), ("port", pa.int32()), ("securityProtocol", pa.string())])
)
_FEATURES: Final = pa.list_(
    pa.struct([("name", pa.string()), ("minSupportedVersion", pa.int16()), ("maxSupportedVersion", pa.int16())])
)
_ENTITY: Final = pa.list_(pa.struct([("entityType", pa.string()), ("entityName", pa.string())]))

SCHEMAS: Final[Mapping[str, pa.Schema]] = {
    PARTITIONS: SCHEMA,
    "topics": pa.schema(
        [
            ("topic", pa.string()),
            ("topicId", pa.string()),  # Null for topics without ids, from before KIP-516.
            ("partitions", pa.int32()),
            ("replicationFactor", pa.int32()),  # That of partition 0, as kafka-topics.sh prints it.
        ]
    ),
    "brokers": pa.schema(
        [
            ("brokerId", pa.int32()),
            ("registered", pa.bool_()),  # False for a broker that only partitions name.
            ("brokerEpoch", pa.int64()),  # -1 if it is unknown.
            ("incarnationId", pa.string()),
            ("rack", pa.string()),
            ("fenced", pa.bool_()),
            ("inControlledShutdown", pa.bool_()),
            ("isMigratingZkBroker", pa.bool_()),
            ("endPoints", _END_POINTS),
            ("features", _FEATURES),
            ("logDirs", pa.list_(pa.string())),  # Online directories (KIP-858).
            ("cordonedLogDirs", pa.list_(pa.string())),  # Null if the broker has not reported them (KIP-1066).
        ]
    ),
    "directories": pa.schema(
        [
            ("directory", pa.string()),
            ("brokerId", pa.int32()),  # The broker that lists the directory; null if none does: it is offline.
            ("cordoned", pa.bool_()),
            ("replicas", pa.int64()),
        ]
    ),
    "configs": pa.schema(
        [
            ("resourceType", pa.string()),
            ("resourceName", pa.string()),  # Empty for the default of all brokers.
            ("name", pa.string()),
            ("value", pa.string()),  # Null if the setting is sensitive.
            ("isSensitive", pa.bool_()),
        ]
    ),
    "acls": pa.schema(
        [
            (name, pa.string())
            for name in (
                *("id", "resourceType", "resourceName", "patternType"),
                *("principal", "host", "operation", "permissionType"),
            )
        ]
    ),
    "quotas": pa.schema([("entity", _ENTITY), ("key", pa.string()), ("value", pa.float64())]),
    "features": pa.schema(
        [
            ("name", pa.string()),
            ("featureLevel", pa.int16()),
            ("metadataVersion", pa.string()),  # The name of metadata.version's level; null for other features.
        ]
    ),
}
_PROTOCOLS: Final = {code: name for name, code in SECURITY_PROTOCOLS.items()}
_RESOURCES: Final = {each.value: each.name for each in ConfigResourceType}


def table_of(image: ImageState, name: str) -> pa.Table:
    """One table of the image, with the columns of SCHEMAS. KeyError for another name."""
    return _MAKERS[name](image)


def _partitions(image: ImageState) -> pa.Table:
    return partitions_as_arrow(image.table)


def _topics(image: ImageState) -> pa.Table:
    table, topics = image.table, image.topics
    rows = np.array([row for row, name in enumerate(topics.names) if name], np.int64)
    used = table.topic_row__p >= 0
    counts = np.bincount(table.topic_row__p[used], minlength=len(topics))
    firsts = np.flatnonzero(used & (table.partition_index__p == 0))
    factors = np.zeros(len(topics), np.int32)
    factors[table.topic_row__p[firsts]] = (table.replicas__ps[firsts] != NO_BROKER_ROW).sum(axis=1)
    columns = [
        pa.array([topics.names[row] for row in rows.tolist()], pa.string()),
        topic_ids(topics).take(pa.array(rows)),
        pa.array(counts[rows].astype(np.int32)),
        pa.array(factors[rows]),
    ]
    return pa.Table.from_arrays(columns, schema=SCHEMAS["topics"])


def _brokers(image: ImageState) -> pa.Table:
    table, uuids = image.brokers, image.directories.uuids

    def texts(rows: tuple[int, ...] | None) -> list[str] | None:
        return None if rows is None else [str(uuids[row]) for row in rows]

    features = [
        [{"name": name, "minSupportedVersion": low, "maxSupportedVersion": high} for name, (low, high) in each.items()]
        for each in table.features
    ]
    columns: list[Any] = [
        *(table.ids, table.registered__b, table.epochs),
        [None if each == ZERO_UUID else str(each) for each in table.incarnation_ids],
        *(table.racks, table.fenced__b, table.in_controlled_shutdown__b, table.is_migrating_zk_broker__b),
        [[*map(_end_point, each)] for each in table.endpoints],
        features,
        [*map(texts, table.directories)],
        [*map(texts, table.cordoned_directories)],
    ]
    schema = SCHEMAS["brokers"]
    arrays = [pa.array(column, each.type) for column, each in zip(columns, schema, strict=True)]
    return pa.Table.from_arrays(arrays, schema=schema)


def _end_point(endpoint: Endpoint) -> dict[str, Any]:
    protocol = _word(_PROTOCOLS, endpoint.security_protocol)
    return {"name": endpoint.listener, "host": endpoint.host, "port": endpoint.port, "securityProtocol": protocol}


def _directories(image: ImageState) -> pa.Table:
    table, directories = image.table, image.directories
    replicas = np.zeros(len(directories), np.int64)
    if table.directories__ps is not None:
        used = (table.replicas__ps != NO_BROKER_ROW) & (table.topic_row__p >= 0)[:, None]
        replicas = np.bincount(table.directories__ps[used], minlength=len(directories))
    cordoned = {row for rows in image.brokers.cordoned_directories for row in rows or ()}
    first, owners = len(RESERVED), directories.owner__d.tolist()
    ids = image.brokers.ids.tolist()
    columns = [
        [str(each) for each in directories.uuids[first:]],
        [None if owner == NO_BROKER_ROW else ids[owner] for owner in owners[first:]],
        [row in cordoned for row in range(first, len(directories))],
        replicas[first:],
    ]
    schema = SCHEMAS["directories"]
    arrays = [pa.array(column, each.type) for column, each in zip(columns, schema, strict=True)]
    return pa.Table.from_arrays(arrays, schema=schema)


def _rows_of(name: str, rows: Callable[[ImageState], Iterator[tuple[Any, ...]]]) -> Callable[[ImageState], pa.Table]:
    """The maker of a table from its rows; a row has the values of the columns in their order."""
    schema = SCHEMAS[name]

    def made(image: ImageState) -> pa.Table:
        return pa.Table.from_pylist([dict(zip(schema.names, row, strict=True)) for row in rows(image)], schema=schema)

    return made


def _configs(image: ImageState) -> Iterator[tuple[Any, ...]]:
    for (kind, resource), values in sorted(image.configs.items()):
        for name, value in sorted(values.items()):
            hides = is_sensitive_setting(kind, name)
            yield _word(_RESOURCES, kind), resource, name, None if hides else value, hides


def _acls(image: ImageState) -> Iterator[tuple[Any, ...]]:
    for acl_id, acl in sorted(image.acls.items()):
        kind, pattern = _word(acl_codes.RESOURCE_TYPES, acl.resource_type), acl.pattern_type
        operation, permission = _word(acl_codes.OPERATIONS, acl.operation), acl.permission_type
        resource = (str(acl_id), kind, acl.resource_name, _word(acl_codes.PATTERN_TYPES, pattern))
        yield *resource, acl.principal, acl.host, operation, _word(acl_codes.PERMISSIONS, permission)


def _quotas(image: ImageState) -> Iterator[tuple[Any, ...]]:
    for entity, quotas in image.quotas.items():
        parts = [{"entityType": kind, "entityName": name} for kind, name in entity]  # The name None is the default.
        for key, value in sorted(quotas.items()):
            yield parts, key, value


def _features(image: ImageState) -> Iterator[tuple[Any, ...]]:
    for name, level in sorted(image.features.items()):
        yield name, level, name_of_level(level) if name == METADATA_VERSION else None


def _word(words: Mapping[int, str], code: int) -> str:
    return words.get(code, str(code))


_MAKERS: Final[Mapping[str, Callable[[ImageState], pa.Table]]] = {
    PARTITIONS: _partitions,
    "topics": _topics,
    "brokers": _brokers,
    "directories": _directories,
    "configs": _rows_of("configs", _configs),
    "acls": _rows_of("acls", _acls),
    "quotas": _rows_of("quotas", _quotas),
    "features": _rows_of("features", _features),
}
