"""Metadata records log."""

from kcore.schema.kinds import int8
from kcore.schema.structure import MetadataRecord, field


class NoOpRecord(MetadataRecord, api_key=20, versions="0", flexible="0+"):
    """NoOpRecord, as Kafka has it."""


class BeginTransactionRecord(MetadataRecord, api_key=23, versions="0", flexible="0+"):
    """BeginTransactionRecord, as Kafka has it."""

    name: str | None = field(nullable="0+", tag=0, tagged="0+", default=None)


class EndTransactionRecord(MetadataRecord, api_key=24, versions="0", flexible="0+"):
    """EndTransactionRecord, as Kafka has it."""


class AbortTransactionRecord(MetadataRecord, api_key=25, versions="0", flexible="0+"):
    """AbortTransactionRecord, as Kafka has it."""

    reason: str | None = field(nullable="0+", tag=0, tagged="0+", default=None)


class ZkMigrationStateRecord(MetadataRecord, api_key=21, versions="0", flexible="0+"):
    """ZkMigrationStateRecord, as Kafka has it."""

    zk_migration_state: int8
