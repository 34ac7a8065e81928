"""Records of the metadata log about the log itself."""

from kcore.schema.kinds import int8
from kcore.schema.structure import MetadataRecord, field


class NoOpRecord(MetadataRecord, api_key=20, versions="0", flexible="0+"):
    """The controller writes it periodically, so that the log's end moves and lag is visible (KIP-835)."""


class BeginTransactionRecord(MetadataRecord, api_key=23, versions="0", flexible="0+"):
    """The following records, in one or more batches, take effect together at EndTransactionRecord (KIP-868)."""

    name: str | None = field(nullable="0+", tag=0, tagged="0+", default=None)  # For people.


class EndTransactionRecord(MetadataRecord, api_key=24, versions="0", flexible="0+"):
    """The records of the transaction take effect."""


class AbortTransactionRecord(MetadataRecord, api_key=25, versions="0", flexible="0+"):
    """The records of the transaction are discarded."""

    reason: str | None = field(nullable="0+", tag=0, tagged="0+", default=None)  # For people.


class ZkMigrationStateRecord(MetadataRecord, api_key=21, versions="0", flexible="0+"):
    """The progress of the migration from ZooKeeper (KIP-866)."""

    zk_migration_state: int8  # 0 none, 1 migration, 2 pre-migration (1 in 3.4), 3 post-migration.
