"""Metadata records settings."""

from kcore.schema.kinds import float64, int8, int16, int32, int64
from kcore.schema.structure import MetadataRecord, Struct, field


class ConfigRecord(MetadataRecord, api_key=4, versions="0", flexible="0+"):
    """ConfigRecord, as Kafka has it."""

    resource_type: int8
    resource_name: str
    name: str
    value: str | None = field(nullable="0+")


class EntityData(Struct):
    """A part of ClientQuotaRecord."""

    entity_type: str
    entity_name: str | None = field(nullable="0+")


class ClientQuotaRecord(MetadataRecord, api_key=14, versions="0", flexible="0+"):
    """ClientQuotaRecord, as Kafka has it."""

    entity: list[EntityData]
    key: str
    value: float64
    remove: bool


class FeatureLevelRecord(MetadataRecord, api_key=12, versions="0", flexible="0+"):
    """FeatureLevelRecord, as Kafka has it."""

    name: str
    feature_level: int16


class ProducerIdsRecord(MetadataRecord, api_key=15, versions="0", flexible="0+"):
    """ProducerIdsRecord, as Kafka has it."""

    broker_id: int32
    broker_epoch: int64 = field(default=-1)
    next_producer_id: int64
