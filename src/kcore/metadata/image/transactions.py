"""Wraps records that take effect together or not at all, however many there are (KIP-868)."""

from kcore.errors import LevelError
from kcore.metadata.metadata_version import MetadataVersion
from kcore.schema.metadata_records_log import BeginTransactionRecord, EndTransactionRecord
from kcore.wire.encoded_records import MAX_BATCH_BYTES, EncodedRecords
from kcore.wire.metadata_frames import encode_metadata_record


def atomic(
    records: EncodedRecords,
    version: MetadataVersion | str,
    *,
    name: str | None = None,
    max_bytes: int = MAX_BATCH_BYTES,
) -> EncodedRecords:
    """The records for one append: unchanged if they fit into one batch, otherwise within a metadata transaction.

    `name`: the transaction's name, for readers of the log. LevelError if they need a transaction and the level has
    none.
    """
    level = MetadataVersion.parse(version) if isinstance(version, str) else version
    if records.fit_one_batch(max_bytes):
        return records
    if not level.transactions_supported:
        size = int(records.offsets[-1] - records.offsets[0])
        raise LevelError(f"metadata.version {level} has no transactions, and {size} bytes do not fit one batch")
    ends = BeginTransactionRecord(name=name), EndTransactionRecord()
    begin, end = (EncodedRecords.of([encode_metadata_record(each, 0)]) for each in ends)
    return EncodedRecords.joined([begin, records, end])
