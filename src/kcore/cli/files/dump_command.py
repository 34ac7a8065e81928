"""`kcore dump`: shows segments, snapshots and their index and state files as text, JSON lines or Arrow."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from kcore.cli.console import fail, say
from kcore.cli.files.arrow_file import write_feather
from kcore.constants import GROUP_METADATA_TOPIC, METADATA_TOPIC, TRANSACTION_STATE_TOPIC
from kcore.errors import DecodeError, KcoreError, StorageError
from kcore.extras import needs
from kcore.measure.report.exits import Exit
from kcore.metadata.newer_records import SkippedRecords
from kcore.printable import printable
from kcore.storage.checkpoints import TopicPartition
from kcore.storage.files import is_there, open_reader
from kcore.storage.log.continuity import gap_in_file, gaps_between_files
from kcore.storage.log.partition_folder import partition_of
from kcore.storage.log.segment import LOG
from kcore.storage.raft.snapshot import is_snapshot
from kcore.storage.tools.coordinator_records import OFFSETS, TRANSACTIONS, coordinator_json
from kcore.storage.tools.dump import (
    Detail,
    batch_json,
    batches_of,
    compact,
    control_json,
    dump_lines,
    files_of,
    metadata_json,
    newer_records_in,
    shown_name,
)
from kcore.storage.tools.dump_beside import beside_rows, is_beside
from kcore.storage.tools.foreign import HEAD_BYTES, file_of_zookeeper
from kcore.wire.records import Record

Row = dict[str, Any]
_DECODED_BY = {
    METADATA_TOPIC: "--metadata",
    GROUP_METADATA_TOPIC: "--offsets",
    TRANSACTION_STATE_TOPIC: "--transactions",
}
_NOT_DECODED = ("__share_group_state", "__remote_log_metadata")


def command(
    path: Annotated[Path, typer.Argument(help="A segment, a snapshot, their index or state files, or a folder.")],
    deep: Annotated[bool, typer.Option("--deep", help="Also a line per record.")] = False,
    records: Annotated[bool, typer.Option("--records", help="Also the keys and values of records.")] = False,
    metadata: Annotated[bool, typer.Option("--metadata", help="Decode values as records of the metadata log.")] = False,
    offsets: Annotated[bool, typer.Option("--offsets", help="Decode records of __consumer_offsets.")] = False,
    transactions: Annotated[
        bool, typer.Option("--transactions", help="Decode records of __transaction_state.")
    ] = False,
    skip_record_metadata: Annotated[
        bool, typer.Option("--skip-record-metadata", help="Omit offsets, timestamps and sizes of records.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="A line of JSON for each batch, or for each record.")] = False,
    arrow: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the rows to an Arrow IPC file.")] = None,
) -> None:
    """Show the contents of a log, as kafka-dump-log prints them.

    Exit code: 0 good, 1 a part is torn or broken (reported with its position), 2 usage.
    """
    if metadata + offsets + transactions > 1:
        raise typer.BadParameter("at most one of --metadata, --offsets and --transactions")
    coordinator = OFFSETS if offsets else TRANSACTIONS if transactions else None
    detail = Detail(deep, records, metadata, skip_record_metadata, coordinator)
    raise typer.Exit(run(path, detail, json, arrow))


def run(path: Path, detail: Detail, as_json: bool, arrow: Path | None) -> Exit:
    """Prints the contents or writes the Arrow file. Damage gives exit code 1, after the readable part is printed."""
    try:
        if not is_there(path):
            raise StorageError(f"{path}: there is no such file or folder")
        files = files_of(path)
        if not files:
            raise StorageError(f"{path}: neither a segment nor a snapshot there")
        _check_topic(files[0], detail)
        gaps = [_report(file, gap) for file, gap in gaps_between_files(path).items()]
        if arrow is not None or as_json:
            found = _rows(files, detail, as_json, arrow)
        else:
            found = max(_lines(file, detail) for file in files)
        if detail.metadata:
            _warn_of_newer(files)
        return max(found, *gaps, Exit.GOOD)
    except (KcoreError, OSError) as error:
        fail(str(error))


def _check_topic(file: Path, detail: Detail) -> None:
    """Checks the options against the file's topic.

    Raises StorageError for an option that decodes another topic's records, and for ZooKeeper's files. Prints a line on
    stderr for records of Kafka's own topics that no option decodes.
    """
    with open_reader(file) as opened:
        kind = file_of_zookeeper(opened.read(HEAD_BYTES))
    if kind is not None:
        raise StorageError(f"{file}: it is {kind}")
    partition = partition_of(file.resolve().parent)
    topic = partition.topic if partition is not None else ""
    if not topic.startswith("__") or not detail.records:
        return
    options = {METADATA_TOPIC: detail.metadata, GROUP_METADATA_TOPIC: detail.coordinator is OFFSETS}
    options |= {TRANSACTION_STATE_TOPIC: detail.coordinator is TRANSACTIONS}
    is_decoded = detail.metadata or detail.coordinator is not None
    if is_decoded and topic in (*_DECODED_BY, *_NOT_DECODED) and not options.get(topic):
        hint = f"give {_DECODED_BY[topic]}" if topic in _DECODED_BY else "no option decodes them; give --records"
        raise StorageError(f"{file}: these are records of {topic}: {hint}")
    if topic in _NOT_DECODED:
        say(f"kcore: {file}: keys and values of {topic} are shown as they are: kcore does not decode them", err=True)


def _lines(file: Path, detail: Detail) -> Exit:
    say(f"Dumping {printable(str(file))}")
    try:
        for line in dump_lines(file, detail):
            say(line)
    except DecodeError as error:
        return _report(file, error)
    return Exit.GOOD


def _warn_of_newer(files: list[Path]) -> None:
    """Prints a line for each file with metadata records that only a newer release can read."""
    for file in files:
        newer = SkippedRecords()
        for each in () if is_beside(file) else newer_records_in(file):
            newer.take(each)
        if text := str(newer):
            say(f"kcore: {file}: {text}", err=True)


def _report(file: Path, error: KcoreError | str) -> Exit:
    say(f"kcore: {file}: {error}", err=True)
    return Exit.FAILED


def _rows(files: list[Path], detail: Detail, as_json: bool, arrow: Path | None) -> Exit:
    exit_code, kept = Exit.GOOD, list[Row]()
    for file in files:
        if not (is_beside(file) or is_snapshot(file.name) or file.name.endswith(LOG)):
            raise StorageError(f"{file}: neither a segment nor a snapshot, nor a file beside one")
        if detail.records and is_beside(file):
            raise StorageError(f"{file}: only segments and snapshots have records")
        try:
            for row in _rows_of(file, detail):
                if as_json:
                    say(compact(_printable(row)))
                if arrow is not None:
                    kept.append(row)
        except DecodeError as error:
            exit_code = _report(file, error)
    if arrow is not None:
        _write_arrow(kept, arrow, detail)
    return exit_code


def _rows_of(file: Path, detail: Detail) -> Iterator[Row]:
    """Yields a row per batch, or per record if records are shown; for an index or a state file, a row per entry."""
    if is_beside(file):
        yield from ({"file": str(file)} | row for row in beside_rows(file))
        return
    partition = partition_of(file.resolve().parent)
    for batches, row, records in batches_of(file, detail.records):
        batch = {"file": str(file)} | batch_json(batches, row)
        if not detail.records:
            yield batch
        for record in records:
            yield _record_row(batch, partition, record, detail)
    if gap := gap_in_file(file):
        raise gap


def _record_row(batch: Row, partition: TopicPartition | None, record: Record, detail: Detail) -> Row:
    row: Row = {
        "file": batch["file"],
        "topic": partition and partition.topic,
        "partition": partition and partition.partition,
        "batchPosition": batch["position"],
        "partitionLeaderEpoch": batch["partitionLeaderEpoch"],
        "offset": record.offset,
        "timestamp": record.timestamp,
        "sequence": record.sequence,
        "controlType": record.control,
        "key": record.key,
        "value": record.value,
        "headers": [{"key": shown_name(key), "value": value} for key, value in record.headers],
    }
    try:
        decoded = _decoded(record, detail)
    except DecodeError as error:
        decoded = {"error": str(error)}
    return row if decoded is None else row | {"decoded": decoded}


def _decoded(record: Record, detail: Detail) -> Row | None:
    if record.control is not None:
        return control_json(record)
    if detail.coordinator is not None:
        decoded = coordinator_json(record, detail.coordinator)
        return {"unknownType": decoded} if isinstance(decoded, int) else decoded._asdict()
    return metadata_json(record) if detail.metadata else None


def _printable(value: Any) -> Any:
    """The value with all bytes as text if they are UTF-8, and otherwise as hex after "0x"."""
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return f"0x{value.hex()}"
    if isinstance(value, dict):
        return {name: _printable(each) for name, each in value.items()}
    return [_printable(each) for each in value] if isinstance(value, list) else value


def _write_arrow(rows: list[Row], arrow: Path, detail: Detail) -> None:
    """Writes an Arrow IPC file (Feather 2) with one column per field; decoded records are JSON text."""
    with needs("arrow"):
        import pyarrow as pa

        from kcore.storage.tools.record_rows import SCHEMA

    rows = [{name: shown_name(each) if isinstance(each, str) else each for name, each in row.items()} for row in rows]
    if detail.records:
        rows = [row | {"decoded": compact(row["decoded"]) if "decoded" in row else None} for row in rows]
        table = pa.Table.from_pylist(rows, schema=SCHEMA.append(pa.field("decoded", pa.string())))
    else:
        table = pa.Table.from_pylist(rows)
    write_feather(table, arrow)
