"""`kcore diverge`: finds where two replicas of a partition, or the partitions of two log directories, differ."""

from pathlib import Path
from typing import Annotated, Any

import typer

from kcore.cli.console import fail, say
from kcore.cli.options.spark_options import Archives, Conf, Gathered, SparkSettings, gather, session_on, spark_of
from kcore.errors import KcoreError, StorageError
from kcore.measure.report.exits import Exit
from kcore.printable import printable
from kcore.storage.checkpoints import TopicPartition
from kcore.storage.log.partition_folder import partition_of, segment_files
from kcore.storage.tools.diverge import MISSING, READS, SAME, Read, diverge, divergence_row
from kcore.storage.tools.diverge_dirs import diverge_log_dirs
from kcore.storage.tools.dump import compact
from kcore.suggestions import did_you_mean

Row = dict[str, Any]
_ALL = Gathered([], is_partial=False)


def command(
    a: Annotated[Path, typer.Argument(help="A replica's folder, or a log directory with many.")],
    b: Annotated[Path, typer.Argument(help="The other replica's folder, or the other log directory.")],
    read: Annotated[
        str,
        typer.Option(help="bytes: all bytes; headers: of batches; epochs: from the last common leader epoch."),
    ] = "bytes",
    master: Annotated[
        str | None, typer.Option(help="Compare log directories over Spark, at this master URL such as local[*].")
    ] = None,
    conf: Conf = None,
    archives: Archives = None,
    json: Annotated[bool, typer.Option("--json", help="One line of JSON per partition.")] = False,
) -> None:
    """Find the first offset at which two replicas on disk differ.

    Exit code: 0 none differs, 1 some differ, 2 usage, 3 some were not compared.
    """
    raise typer.Exit(run(a, b, read_of(read), spark_of(master, conf, archives), json))


def read_of(text: str) -> Read:
    """The text as one of READS; ends the command with exit code 2 for another text."""
    for each in READS:
        if each == text:
            return each
    fail(f"--read {text}: give one of {', '.join(READS)}{did_you_mean(text, READS)}")


def run(folder_a: Path, folder_b: Path, read: Read, spark: SparkSettings | None, as_json: bool) -> Exit:
    """Compares and prints a line for each partition that differs, and the bytes read; exit code 1 if one differs."""
    try:
        rows, gathered = _rows(folder_a, folder_b, read, spark)
    except (KcoreError, OSError) as error:
        fail(str(error))
    differ = sum(row["reason"] != SAME for row in rows)
    if as_json:
        for row in rows:
            say(compact({"partition": _name(row)} | {key: row[key] for key in list(row)[2:]}))
    else:
        for row in rows:
            if row["reason"] != SAME or row["detail"]:
                say(_line(row))
        bytes_read = sum(row["bytesRead"] for row in rows)
        say(f"{differ} of {len(rows)} partitions differ; {bytes_read:,} bytes read")
    if all(row["reason"] == MISSING for row in rows):
        say(f"kcore: {folder_a} and {folder_b} have no partition in common", err=True)
    for trouble in gathered.troubles:
        say(f"kcore: {'not all was compared: ' if gathered.is_partial else ''}{trouble}", err=True)
    if gathered.is_partial:
        return Exit.INVALID
    return Exit.FAILED if differ else Exit.GOOD


def _rows(folder_a: Path, folder_b: Path, read: Read, spark: SparkSettings | None) -> tuple[list[Row], Gathered]:
    if segment_files(folder_a) or segment_files(folder_b):
        if spark is not None:
            raise StorageError(f"--master is for log directories: {folder_a} and {folder_b} are one partition's")
        folder = folder_a.resolve()
        topic, number = partition_of(folder) or (folder.name, None)
        return [divergence_row(topic, number, diverge(folder_a, folder_b, read=read))], _ALL
    if spark is not None:
        return _over_spark(folder_a, folder_b, read, spark)
    compared = diverge_log_dirs(folder_a, folder_b, read=read)
    if not compared:
        raise StorageError(f"neither {folder_a} nor {folder_b} holds a partition")
    return [divergence_row(*partition, found) for partition, found in compared.items()], _ALL


def _over_spark(folder_a: Path, folder_b: Path, read: Read, wanted: SparkSettings) -> tuple[list[Row], Gathered]:
    """The rows by partition, and the problems of the run."""
    from kcore.spark.divergence import diverge_pieces, pairs_of

    pairs = pairs_of(folder_a, folder_b, read)  # Checked before Spark starts, which takes seconds.
    found: list[Row] = []
    with session_on(wanted) as spark:
        gathered = gather(diverge_pieces(spark, pairs, read), found)
    return sorted(found, key=lambda row: (str(row["topic"]), int(row["partition"]))), gathered


def _name(row: Row) -> str:
    name = row["topic"] if row["partition"] is None else str(TopicPartition(row["topic"], row["partition"]))
    return str(name)


def _line(row: Row) -> str:
    where = "the same" if row["offset"] is None else f"offset {row['offset']}"
    epochs = "" if row["epochOffset"] is None else f"; leader epochs part at {row['epochOffset']}"
    places = "".join(f"\n  {printable(place['file'])} at {place['position']}" for place in row["places"])
    detail = f"{': ' if row['detail'] else ''}{row['detail']}"
    return f"{printable(_name(row))}: {where} ({row['reason']}){detail}{epochs}{places}"
