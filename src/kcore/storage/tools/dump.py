"""The output of kafka-dump-log for segments, snapshots and files beside them, by line (DumpLogSegments of 4.3)."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from kcore.errors import DecodeError
from kcore.metadata.newer_records import NewerRecord, newer_records
from kcore.printable import printable, printable_json
from kcore.storage.log.continuity import gap_in_file
from kcore.storage.log.partition_folder import segment_files
from kcore.storage.log.segment import LOG, base_offset_of, map_file, problems_in
from kcore.storage.raft.snapshot import BOOTSTRAP, DELETED, is_snapshot, snapshot_id, snapshots_in
from kcore.storage.tools.coordinator_records import Types, coordinator_json
from kcore.storage.tools.dump_beside import beside_line, beside_rows, is_beside
from kcore.storage.tools.foreign import explained
from kcore.wire.jsonform import to_json
from kcore.wire.log_formats import decode_run, runs_of, scan_log
from kcore.wire.message_sets import NEWEST_MAGIC, UNKNOWN_COUNT
from kcore.wire.metadata_frames import decode_metadata_record
from kcore.wire.record_batch import (
    CODEC_MASK,
    CONTROL,
    DELETE_HORIZON,
    LOG_APPEND_TIME,
    TRANSACTIONAL,
    RecordBatches,
)
from kcore.wire.record_building import CODECS
from kcore.wire.records import Record, control_message, decode_records

_MOST_SEQUENCE: Final = 2**31 - 1
_OF_OLD: Final = ("position", "maxTimestamp", "size", "magic", "compresscodec", "crc", "isvalid")  # In magic 0 and 1.
_CONTROL_NAMES: Final = {
    "SNAPSHOT_HEADER": "SnapshotHeader",
    "SNAPSHOT_FOOTER": "SnapshotFooter",
    "KRAFT_VERSION": "KRaftVersion",
    "KRAFT_VOTERS": "KRaftVoters",
}


@dataclass(frozen=True, slots=True)
class Detail:
    """How much of a log is shown: by default only batches.

    `deep` adds records, `contents` their keys and values. `metadata` decodes values as metadata records, `coordinator`
    keys and values by OFFSETS or TRANSACTIONS of `coordinator_records`.
    """

    deep: bool = False
    contents: bool = False
    metadata: bool = False
    skip_record_metadata: bool = False
    coordinator: Types | None = None

    @property
    def records(self) -> bool:
        return self.deep or self.contents or self.metadata or self.coordinator is not None


def files_of(path: Path) -> list[Path]:
    """The files to dump: the file itself, or a folder's snapshots and segments."""
    if not path.is_dir():
        return [path]
    return [*(path / found.file_name for found in snapshots_in(path)), *segment_files(path)]


def batches_of(path: Path, with_records: bool) -> Iterator[tuple[RecordBatches, int, list[Record]]]:
    """Yields each batch of a segment or snapshot: all batches, the batch's row, and its records, if `with_records`.

    Also yields batches with a wrong CRC. Raises DecodeError after the last batch if bytes cannot be read.
    """
    data = map_file(path)
    batches = scan_log(data, stop=True)
    problem, shown = batches.problem, 0
    for run in runs_of(replace(batches, problem=None)) if with_records else ():
        records = decode_run(data, run, check_crc=False, stop=True)
        of_batch: dict[int, list[Record]] = {}
        for number, record in zip(records.batch.tolist(), records, strict=True):
            of_batch.setdefault(number, []).append(record)
        for row in range(len(records.batches)):
            yield records.batches, row, of_batch.get(row, [])
        shown += len(records.batches)
        if records.problem:
            problem = records.problem
            break
    for row in range(shown, len(batches)):
        yield batches, row, []
    if problem:
        raise explained(problem, data)


def dump_lines(path: Path, detail: Detail) -> Iterator[str]:
    """The lines of one file. Raises DecodeError or StorageError for damage, after the lines of the readable part."""
    if is_beside(path):
        yield from map(beside_line, beside_rows(path))
        return
    yield _first_line(path)
    problem = None
    try:
        for batches, row, records in batches_of(path, detail.records):
            yield batch_line(batches, row)
            for record in records:
                yield record_line(record, time_type(batches, row), detail, is_old=is_old(batches, row))
    except DecodeError as error:
        problem = error
        yield f"Found {path.stat().st_size - error.offset} invalid bytes at the end of {path.name}"
    if path.suffix == LOG:
        data = map_file(path)
        first = next(iter(problems_in(scan_log(data, stop=True), base_offset_of(path))), None)
        problem = explained(first, data) if first else problem
    if problem := problem or gap_in_file(path):
        raise problem


def _first_line(path: Path) -> str:
    if path.name == BOOTSTRAP:
        return "KRaft bootstrap snapshot"
    if is_snapshot(path.name):
        found = snapshot_id(path.name.removesuffix(DELETED))
        return f"Snapshot end offset: {found.end_offset}, epoch: {found.epoch}" if found else "Snapshot"
    return f"Log starting offset: {base_offset_of(path)}"


def batch_json(batches: RecordBatches, row: int) -> dict[str, Any]:
    """The fields of one batch's header, with the names and in the order of Kafka's dump."""
    attributes, base = int(batches.attributes[row]), int(batches.base_sequence[row])
    delta, count = int(batches.last_offset_delta[row]), int(batches.count[row])
    last = base + delta if base + delta <= _MOST_SEQUENCE else base + delta - _MOST_SEQUENCE - 1
    return {
        "baseOffset": None if count == UNKNOWN_COUNT else int(batches.base_offset[row]),
        "lastOffset": int(batches.base_offset[row]) + delta,
        "count": None if count == UNKNOWN_COUNT else count,
        "baseSequence": base,
        "lastSequence": -1 if base == -1 else last,
        "producerId": int(batches.producer_id[row]),
        "producerEpoch": int(batches.producer_epoch[row]),
        "partitionLeaderEpoch": int(batches.partition_leader_epoch[row]),
        "isTransactional": bool(attributes & TRANSACTIONAL),
        "isControl": bool(attributes & CONTROL),
        "deleteHorizonMs": int(batches.base_timestamp[row]) if attributes & DELETE_HORIZON else None,
        "position": int(batches.position[row]),
        "timestampType": time_type(batches, row),
        "maxTimestamp": int(batches.max_timestamp[row]),
        "size": int(batches.size[row]),
        "magic": int(batches.magic[row]),
        "compresscodec": dict(enumerate(CODECS)).get(attributes & CODEC_MASK, "unknown"),
        "crc": int(batches.crc[row]),
        "isvalid": bool(batches.crc_matches[row]),
    }


def is_old(batches: RecordBatches, row: int) -> bool:
    """True for a message of magic 0 or 1."""
    return bool(batches.magic[row] <= NEWEST_MAGIC)


def time_type(batches: RecordBatches, row: int) -> str:
    """The name of a batch's TimestampType."""
    if batches.magic[row] == 0:
        return "NoTimestampType"
    return "LogAppendTime" if batches.attributes[row] & LOG_APPEND_TIME else "CreateTime"


def batch_line(batches: RecordBatches, row: int) -> str:
    """The line of one batch's header in Kafka's dump; in magic 0 and 1 only the fields that these formats have."""
    fields = batch_json(batches, row)
    if is_old(batches, row):
        of_old = {"offset": fields["lastOffset"]} | {name: fields[name] for name in _OF_OLD}
        return _fields_line(of_old, fields["timestampType"])
    kind, horizon = fields.pop("timestampType"), fields["deleteHorizonMs"]
    fields["deleteHorizonMs"] = "OptionalLong.empty" if horizon is None else f"OptionalLong[{horizon}]"
    return _fields_line(fields, kind)


def _fields_line(fields: dict[str, Any], kind: str) -> str:
    shown = (f"{name}: {str(value).lower() if isinstance(value, bool) else value}" for name, value in fields.items())
    return " ".join(shown).replace("maxTimestamp:", f"{kind}:")


def record_line(record: Record, time_type: str, detail: Detail, *, is_old: bool = False) -> str:
    """The line of one record in Kafka's dump; empty if `detail` shows nothing of the record.

    `is_old`: a message of magic 0 or 1. Kafka also shows the CRC of each such message; kcore leaves it out.
    """
    shown = []
    if not detail.skip_record_metadata:
        sizes = (-1 if each is None else len(each) for each in (record.key, record.value))
        shown.append(f"offset: {record.offset} {time_type}: {record.timestamp}")
        shown.append("keySize: {} valueSize: {}".format(*sizes))
        if not is_old:
            names = ",".join(printable(shown_name(name)) for name, _ in record.headers)
            shown.append(f"sequence: {record.sequence} headerKeys: [{names}]")
        if record.control is not None:
            shown.append(control_text(record))
    if record.control is None:
        shown += _contents(record, detail)
    return f"| {' '.join(shown)}" if shown else ""


def shown_name(name: str) -> str:
    """A header's key or a file's name, with bytes that are not UTF-8 replaced as in Java's String."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _contents(record: Record, detail: Detail) -> list[str]:
    """The texts of a record's key and value, decoded as `detail` requires."""
    if detail.coordinator is not None:
        return coordinator_text(record, detail.coordinator)
    if detail.metadata:
        return [f"payload: {metadata_text(record)}"]
    both = (("key", record.key), ("payload", record.value)) if detail.contents else ()
    return [f"{name}: {printable(value.decode('utf-8', 'replace'))}" for name, value in both if value is not None]


def control_json(record: Record) -> dict[str, Any] | None:
    """A control record's value as JSON; None for an unknown type. Raises DecodeError for invalid bytes."""
    message = control_message(record)
    return None if message is None else to_json(message, getattr(message, "version", 0))


def control_text(record: Record) -> str:
    """The text of a control record in Kafka's dump; for an invalid record, the error."""
    try:
        decoded = control_json(record)
    except DecodeError as error:
        return f"Error at {record.offset}, skipping. {error}"
    if record.control in ("ABORT", "COMMIT") and decoded is not None:
        return f"endTxnMarker: {record.control} coordinatorEpoch: {decoded['coordinatorEpoch']}"
    if decoded is None:
        return f"controlType: {record.control}"
    return f"{_CONTROL_NAMES.get(record.control or '', 'LeaderChange:')} {compact(decoded)}"


def metadata_json(record: Record) -> dict[str, Any]:
    """A record's value as a metadata record: type, version and data. Raises DecodeError for other values."""
    message, version = decode_metadata_record(record.value or b"")
    kind = re.sub(r"(?<!^)(?=[A-Z])", "_", type(message).__name__).upper()
    return {"type": kind, "version": version, "data": to_json(message, version)}


def newer_records_in(path: Path) -> Iterator[NewerRecord]:
    """The metadata records of a segment or snapshot that only a newer release can read."""
    yield from newer_records(decode_records(map_file(path), check_crc=False, stop=True))


def metadata_text(record: Record) -> str:
    """The text of a metadata record in Kafka's dump; for an invalid record, an error text."""
    try:
        return compact(metadata_json(record))
    except DecodeError as error:
        return f"Error at {record.offset}, skipping. {error}"


def coordinator_text(record: Record, types: Types) -> list[str]:
    """The texts of a coordinator's record in Kafka's dump; for an invalid record, an error text."""
    try:
        decoded = coordinator_json(record, types)
    except DecodeError as error:
        return [f"key: Error at offset {record.offset}, skipping. {error}"]
    if isinstance(decoded, int):
        return [f"key: Unknown record type {decoded} at offset {record.offset}, skipping."]
    return [
        f"key: {compact(decoded.key)}",
        f"payload: {'<DELETE>' if decoded.value is None else compact(decoded.value)}",
    ]


def compact(value: Any) -> str:
    """JSON as Kafka's tools print it, without blanks; only a terminal's control characters are escaped."""
    return printable_json(json.dumps(value, separators=(",", ":"), ensure_ascii=False))
