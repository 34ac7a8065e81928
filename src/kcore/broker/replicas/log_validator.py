"""Checks a producer's records as the leader does, and returns the batch in the form that the leader appends.

`check_headers` reads only the batches' headers. Some faults refuse every partition of the request, as in Kafka, where
the exception leaves the request's handler. `validate` then checks the header, the CRC and every record of a partition's
batch, which it decompresses (`kcore._ext.records.validate`). It returns the batch with its offsets and leader epoch. If
the topic has its own compression type, the batch is rebuilt. `producers.py` then checks epochs and sequences.

If Kafka throws another exception than ApiException for a fault, the error is UNKNOWN_SERVER_ERROR. Only kcore limits
a batch's decompressed size.

Source: RequestUtils.hasTransactionalRecords, ProduceRequest.validateRecords, ReplicaManager.handleProduceAppend,
UnifiedLog.analyzeAndValidateRecords and LogValidator of 3.9.1. 4.3.1 has the same rules. 4.4.0 adds a limit of each
decompressed record.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from struct import Struct
from typing import Final, NamedTuple, TypeAlias

import numpy as np

from kcore._ext import records as kernel
from kcore.broker.replicas.producers import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from kcore.protocol_errors import ApiException, Errors, exception_of
from kcore.wire.record_batch import (
    ATTRIBUTES_AT,
    CODEC_MASK,
    CONTROL,
    DELETE_HORIZON,
    HEADER_END,
    LENGTH_END,
    LOG_APPEND_TIME,
    MAGIC_AT,
    NO_TIMESTAMP,
    TRANSACTIONAL,
    RecordBatches,
    scan_batches,
)
from kcore.wire.record_building import CODECS

Bytes: TypeAlias = bytes | memoryview

MAX_MESSAGE_BYTES: Final = 1_048_588  # The default of max.message.bytes.
MAX_DECOMPRESSED_BYTES: Final = 2**31 - 9  # The default of max.decompressed.message.bytes.
NO_LIMIT_MS: Final = 2**63 - 1  # The default of both limits of a record's timestamp.
PRODUCER_CHOOSES: Final = "producer"  # A value of compression.type: keep the producer's codec.
UNCOMPRESSED: Final = "uncompressed"  # Another value of compression.type.
# The limit of a batch's decompressed size, in bytes: the larger of LEAST_BUDGET and BUDGET_PER_BYTE for each byte of
# max.message.bytes. Real batches are much smaller.
LEAST_BUDGET: Final = 2**28
BUDGET_PER_BYTE: Final = 64
FEW_BYTES: Final = 2**13  # A compressed batch of at most so many bytes is checked within milliseconds.

_MAGIC: Final = 2
_LENGTH: Final = Struct(">i")
_LENGTH_AT: Final = 8
_LEAST_LENGTH: Final = 14  # LegacyRecord.RECORD_OVERHEAD_V0
_INT_MAX: Final = 2**31 - 1
_ATTRIBUTES: Final = Struct(">h")
_PRODUCER_ID: Final = Struct(">q")
_PRODUCER: Final = Struct(">qhi")  # Id, epoch and base sequence.
_PRODUCER_AT: Final = 43
_PRODUCER_ID_END: Final = 51
_SEQUENCE_END: Final = 57
_HEADER: Final = Struct(">qiibIhiqqqhii")
_CRC: Final = Struct(">I")
_CRC_AT: Final = 17
_CRC_END: Final = 21
_FIRST_OF_ZSTD: Final = 7  # The first version of Produce that allows zstd (KIP-110).
_ZSTD: Final = CODECS.index("zstd")
_CRC_MATCHES: Final = np.ones(1, np.bool_)
# The errors by the numbers that the kernel returns.
_REFUSALS: Final = (Errors.INVALID_RECORD, Errors.UNKNOWN_SERVER_ERROR, Errors.MESSAGE_TOO_LARGE)
_TOO_LARGE: Final = 2
_NO_KEY: Final = 0


@dataclass(frozen=True, slots=True)
class LogConfig:
    """The part of a topic's configuration that checks of records use, with the names and defaults of Kafka 3.9."""

    max_message_bytes: int = MAX_MESSAGE_BYTES
    compression_type: str = PRODUCER_CHOOSES  # PRODUCER_CHOOSES, UNCOMPRESSED, or the name of a codec.
    compression_level: int | None = None  # None: the codec's default; for lz4 kcore has only the default.
    is_compacted: bool = False  # cleanup.policy has "compact".
    has_log_append_time: bool = False  # message.timestamp.type is LogAppendTime.
    timestamp_before_max_ms: int = NO_LIMIT_MS
    timestamp_after_max_ms: int = NO_LIMIT_MS
    max_decompressed_message_bytes: int = MAX_DECOMPRESSED_BYTES  # The limit of a compressed record (4.4.0).


class RecordError(NamedTuple):
    """The reason why a record and its batch are refused (KIP-467)."""

    batch_index: int
    message: str


class RecordValidationException(ApiException):
    """A batch is refused because of some of its records; reports the first thousand of these."""

    def __init__(self, error: Errors, why: str, record_errors: tuple[RecordError, ...]) -> None:
        super().__init__(why)
        self.error, self.record_errors = error, record_errors


class Validated(NamedTuple):
    """A batch in its final form for the log."""

    data: bytes
    batches: RecordBatches  # The result of `scan_batches(data)`.
    max_timestamp: int  # In ms since 1970.
    log_append_time_ms: int  # -1 if the topic keeps the producer's timestamps.


class TransactionalProducer(NamedTuple):
    """The producer's fields in the header of a transactional batch."""

    producer_id: int
    epoch: int
    base_sequence: int


class _Header(NamedTuple):
    """The fields of a batch's header, in the order of the bytes."""

    base_offset: int
    batch_length: int
    partition_leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def codec(self) -> int:
        return self.attributes & CODEC_MASK

    @property
    def has_producer_id(self) -> bool:
        return self.producer_id > -1


def _refused(error: Errors, why: str) -> ApiException:
    return exception_of(error)(why)


def batch_size(data: Bytes, at: int = 0) -> int | None:
    """The size in bytes of the batch at position `at`; None if the batch is incomplete.

    Raises CorruptMessageException for an invalid length or magic (ByteBufferLogInputStream.nextBatch).
    """
    left = len(data) - at
    if left < LENGTH_END:
        return None
    [length] = _LENGTH.unpack_from(data, at + _LENGTH_AT)
    if length < _LEAST_LENGTH:
        raise _refused(Errors.CORRUPT_MESSAGE, f"a record batch has the length {length}, less than {_LEAST_LENGTH}")
    if left <= MAGIC_AT:
        return None
    magic = data[at + MAGIC_AT]
    if magic > _MAGIC:
        raise _refused(Errors.CORRUPT_MESSAGE, f"a record batch of magic {magic}")
    size: int = length + LENGTH_END
    if size > _INT_MAX:  # Kafka's 32-bit sum overflows, and its slice fails with a negative size.
        raise _refused(Errors.UNKNOWN_SERVER_ERROR, f"a record batch of length {length}")
    return size if size <= left else None


def has_transactional_records(partitions: Sequence[Bytes]) -> bool:
    """Whether any partition's first batch is transactional (RequestUtils.hasTransactionalRecords).

    If it raises ApiException, the whole request is refused.
    """
    return any(batch_size(data) is not None and _is_transactional(data) for data in partitions)


def check_headers(partitions: Sequence[Bytes], version: int) -> list[ApiException | None]:
    """Checks the headers of a Produce request's batches. Returns the error, or None, of each partition.

    `version`: the request's version, 3 or later. If it raises ApiException, the whole request is refused.
    """
    found = [_look(data, version) for data in partitions]
    taken = [data for data, refusal in zip(partitions, found, strict=True) if refusal is None]
    producers = {producer[:2] for producer in map(transactional_producer, taken) if producer is not None}
    if len(producers) > 1:
        raise _refused(Errors.INVALID_PRODUCER_ID_MAPPING, "transactional records of more than one producer id")
    return found


def _is_transactional(data: Bytes) -> bool:
    """Whether the first batch of `data` is transactional."""
    [attributes] = _ATTRIBUTES.unpack_from(data, ATTRIBUTES_AT)
    return data[MAGIC_AT] == _MAGIC and bool(attributes & TRANSACTIONAL)


def _look(data: Bytes, version: int) -> ApiException | None:
    """The error if the data is not exactly one whole batch of magic 2, or None (ProduceRequest.validateRecords)."""
    try:
        size = batch_size(data)
        if size is None:
            return _refused(Errors.INVALID_RECORD, f"no record batch for a partition, in version {version}")
        if data[MAGIC_AT] != _MAGIC:
            return _refused(Errors.INVALID_RECORD, f"a record batch of magic {data[MAGIC_AT]}")
        if version < _FIRST_OF_ZSTD and _codec(data) == _ZSTD:
            return _refused(Errors.UNSUPPORTED_COMPRESSION_TYPE, f"zstd in version {version}")
        if batch_size(data, size) is not None:
            return _refused(Errors.INVALID_RECORD, f"more than one record batch for a partition, in version {version}")
    except ApiException as refusal:
        if refusal.error is Errors.UNKNOWN_SERVER_ERROR:
            raise
        return refusal
    return None


def _codec(data: Bytes) -> int:
    """The codec of a batch; UnknownServerException for an unknown codec (CompressionType.forId)."""
    [attributes] = _ATTRIBUTES.unpack_from(data, ATTRIBUTES_AT)
    codec: int = attributes & CODEC_MASK
    if codec >= len(CODECS):
        raise _refused(Errors.UNKNOWN_SERVER_ERROR, f"Unknown compression type id: {codec}")
    return codec


def transactional_producer(data: Bytes) -> TransactionalProducer | None:
    """The producer of a transactional batch (ReplicaManager.handleProduceAppend); None for other batches."""
    size = batch_size(data) or 0
    short = _refused(Errors.UNKNOWN_SERVER_ERROR, f"a record batch of {size} bytes: its header has {HEADER_END}")
    if size < _PRODUCER_ID_END:
        raise short
    [producer_id] = _PRODUCER_ID.unpack_from(data, _PRODUCER_AT)
    if producer_id <= NO_PRODUCER_ID or not _is_transactional(data):
        return None
    if size < _SEQUENCE_END:
        raise short
    return TransactionalProducer._make(_PRODUCER.unpack_from(data, _PRODUCER_AT))


# The append.


def validate(
    data: Bytes,
    config: LogConfig,
    offset: int,
    leader_epoch: int,
    date_ms: int,
    prechecked: "CheckedRecords | None" = None,
) -> Validated:
    """Checks the first batch of `data`, which passed `check_headers`; returns the batch to append at `offset`.

    `date_ms`: the present time in ms since 1970. `prechecked`: the result of an earlier check of the same records.
    Raises ApiException if the batch is refused, RecordValidationException if some of its records are refused.
    """
    size = batch_size(data)
    assert size is not None, "the batch passed check_headers"
    header = _checked_header(data, size, config)
    records = memoryview(data)[HEADER_END:size]
    if prechecked is not None and prechecked.data is data and prechecked.config == config:
        checked = prechecked.result()
    else:
        checked = _checked_records(header, records, config, date_ms)
    time_bit = LOG_APPEND_TIME if config.has_log_append_time else 0
    max_timestamp = date_ms if config.has_log_append_time else checked.max_timestamp
    placed = header._replace(base_offset=offset, partition_leader_epoch=leader_epoch)
    if checked.rebuilt is not None:
        records = memoryview(checked.rebuilt)
        placed = placed._replace(
            batch_length=HEADER_END + len(records) - LENGTH_END,
            attributes=_target_codec(config, header.codec) | time_bit | header.attributes & TRANSACTIONAL,
            base_timestamp=checked.first_timestamp,
            max_timestamp=max_timestamp,
        )
    elif (header.attributes & LOG_APPEND_TIME, header.max_timestamp) != (time_bit, max_timestamp):
        kept = header.attributes & (CODEC_MASK | TRANSACTIONAL | DELETE_HORIZON)
        placed = placed._replace(attributes=kept | time_bit, max_timestamp=max_timestamp)
    written = _written(placed, records)
    batches = replace(scan_batches(written, check_crc=False), crc_matches=_CRC_MATCHES)
    return Validated(written, batches, max_timestamp, date_ms if config.has_log_append_time else NO_TIMESTAMP)


class _Checked(NamedTuple):
    """The result of checking a batch's records, if all have passed."""

    first_timestamp: int  # In ms since 1970, as `max_timestamp`.
    max_timestamp: int
    rebuilt: bytes | None  # The records in the topic's compression; None: the producer's bytes are kept.


class CheckedRecords(NamedTuple):
    """The result of checking a batch's records before its offset in the log is known."""

    data: Bytes
    config: LogConfig
    found: "_Checked | ApiException"

    def result(self) -> "_Checked":
        """The checked records; raises the ApiException of refused records."""
        if isinstance(self.found, ApiException):
            raise self.found
        return self.found


def may_take_long(data: Bytes) -> bool:
    """Whether checking the batch may take long: it is compressed and not small."""
    size = len(data)
    return size > FEW_BYTES and bool(data[ATTRIBUTES_AT + 1] & CODEC_MASK)


def precheck_records(data: Bytes, config: LogConfig, date_ms: int) -> CheckedRecords:
    """Decompresses and checks the records of the first batch of `data`; may be called in another thread."""
    try:
        size = batch_size(data)
        if size is None:
            raise _refused(Errors.INVALID_RECORD, "there is no complete record batch")
        header = _checked_header(data, size, config)
        return CheckedRecords(
            data, config, _checked_records(header, memoryview(data)[HEADER_END:size], config, date_ms)
        )
    except ApiException as refusal:
        return CheckedRecords(data, config, refusal)


def _checked_records(header: _Header, records: memoryview, config: LogConfig, date_ms: int) -> _Checked:
    """Checks every record, and rebuilds the batch if needed (LogValidator.validateMessagesAndAssignOffsets)."""
    target = _target_codec(config, header.codec)
    is_rebuilt = target != header.codec
    window = (date_ms, config.timestamp_before_max_ms, config.timestamp_after_max_ms)
    refusal, errors, first_timestamp, max_timestamp, rebuilt = kernel.validate(
        records,
        header.record_count,
        header.codec,
        header.base_timestamp,
        header.max_timestamp if header.attributes & LOG_APPEND_TIME else None,
        config.is_compacted,
        None if config.has_log_append_time else window,
        (target, config.compression_level, max(config.max_message_bytes - HEADER_END, 0)) if is_rebuilt else None,
        max(LEAST_BUDGET, config.max_message_bytes * BUDGET_PER_BYTE),
        config.max_decompressed_message_bytes,
    )
    if refusal is not None and refusal[0] != _TOO_LARGE:
        raise _refused(_REFUSALS[refusal[0]], refusal[1])
    if errors:
        raise _record_errors(errors, window)
    if is_rebuilt:
        _check_producer_state(header)
    if refusal is not None:
        raise _refused(Errors.MESSAGE_TOO_LARGE, refusal[1])
    return _Checked(first_timestamp, max_timestamp, rebuilt)


def _checked_header(data: Bytes, size: int, config: LogConfig) -> _Header:
    """Checks and returns the header (UnifiedLog.analyzeAndValidateRecords, LogValidator.validateBatch)."""
    if int.from_bytes(data[:8], signed=True) != 0:
        raise _refused(Errors.INVALID_RECORD, "the base offset of a producer's batch is 0")
    if size > config.max_message_bytes:
        raise _refused(Errors.MESSAGE_TOO_LARGE, f"the batch has {size} bytes, more than {config.max_message_bytes}")
    [crc] = _CRC.unpack_from(data, _CRC_AT)
    if size < HEADER_END or kernel.crc32c(memoryview(data)[_CRC_END:size]) != crc:
        raise _refused(Errors.CORRUPT_MESSAGE, "a batch whose CRC does not match")
    header = _Header._make(_HEADER.unpack_from(data))
    _codec(data)
    count = header.last_offset_delta + 1
    if count <= 0 or header.record_count != count:
        raise _refused(Errors.INVALID_RECORD, f"{header.record_count} records, whose last offset is {count - 1}")
    if header.attributes & CONTROL:
        raise _refused(Errors.INVALID_RECORD, "clients must not write control batches")
    if header.has_producer_id and header.base_sequence < 0:
        raise _refused(Errors.INVALID_RECORD, f"sequence {header.base_sequence} of an idempotent producer")
    return header


def _target_codec(config: LogConfig, source: int) -> int:
    if config.compression_type == PRODUCER_CHOOSES:
        return source
    return 0 if config.compression_type == UNCOMPRESSED else CODECS.index(config.compression_type)


def _record_errors(errors: Sequence[tuple[int, int, int]], window: tuple[int, int, int]) -> ApiException:
    """The exception for the kernel's `errors` (LogValidator.processRecordErrors)."""
    date_ms, before_ms, after_ms = window
    texts = (
        lambda _: "a compacted topic requires a key",
        lambda timestamp: f"timestamp {timestamp} is not within [{date_ms - before_ms}, {date_ms + after_ms}]",
        lambda _: "a producer must not set the timestamp type LogAppendTime",
    )
    reported = tuple(RecordError(index, texts[kind](timestamp)) for index, kind, timestamp in errors)
    error = Errors.INVALID_RECORD if all(kind == _NO_KEY for _, kind, _ in errors) else Errors.INVALID_TIMESTAMP
    return RecordValidationException(
        error, f"records are refused, such as record {reported[0].batch_index}: {reported[0].message}", reported
    )


def _check_producer_state(header: _Header) -> None:
    """Checks the producer's fields of a batch that is rebuilt (MemoryRecordsBuilder.validateProducerState)."""
    has_id = header.producer_id != NO_PRODUCER_ID
    if header.attributes & TRANSACTIONAL and not has_id:
        raise _refused(Errors.UNKNOWN_SERVER_ERROR, "transactional records without a producer id")
    if has_id and header.producer_epoch == NO_PRODUCER_EPOCH:
        raise _refused(Errors.UNKNOWN_SERVER_ERROR, "a producer id without an epoch")
    if has_id and header.base_sequence < 0:
        raise _refused(Errors.UNKNOWN_SERVER_ERROR, "a producer id without a sequence")


def _written(header: _Header, records: memoryview) -> bytes:
    """The batch's bytes with a new CRC."""
    head = _HEADER.pack(*header)
    crc = kernel.crc32c(records, kernel.crc32c(head[_CRC_END:]))
    return b"".join((head[:_CRC_AT], _CRC.pack(crc), head[_CRC_END:], records))
