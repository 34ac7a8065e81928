"""Records of the metadata log: configurations, quotas, features, producer ids (KIP-631)."""

from kcore.schema.kinds import float64, int8, int16, int32, int64
from kcore.schema.quotas import EntityData as EntityData
from kcore.schema.structure import MetadataRecord, field


class ConfigRecord(MetadataRecord, api_key=4, versions="0", flexible="0+"):
    """A setting of a resource was changed or removed."""

    resource_type: int8  # 2 topic, 4 broker, 8 broker logger, 16 client metrics, 32 group.
    resource_name: str  # Empty for the default of all brokers.
    name: str
    value: str | None = field(nullable="0+", secret=True)  # Null if the setting was removed. It may be a password.


class ClientQuotaRecord(MetadataRecord, api_key=14, versions="0", flexible="0+"):
    """A quota of an entity was set or removed (KIP-546)."""

    entity: list[EntityData]
    key: str
    value: float64
    remove: bool


class FeatureLevelRecord(MetadataRecord, api_key=12, versions="0", flexible="0+"):
    """The cluster's level of a feature, for example `metadata.version` (KIP-778)."""

    name: str
    feature_level: int16  # 0 if the feature was removed.


class ProducerIdsRecord(MetadataRecord, api_key=15, versions="0", flexible="0+"):
    """A broker got a block of producer ids (KIP-730)."""

    broker_id: int32
    broker_epoch: int64 = field(default=-1)
    next_producer_id: int64  # The first unassigned id.
