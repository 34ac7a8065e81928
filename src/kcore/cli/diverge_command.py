"""`kcore diverge`: two replicas of a partition, or two log directories, and where they differ."""

from pathlib import Path
from typing import Any

import typer

from kcore.bench.results import Exit
from kcore.cli.bench_command import fail
from kcore.errors import StorageError
from kcore.storage.diverge import SAME, Divergence, diverge
from kcore.storage.diverge_dirs import diverge_log_dirs
from kcore.storage.dump import compact
from kcore.storage.log import segment_files


def run(folder_a: Path, folder_b: Path, read: str, as_json: bool) -> Exit:
    """Compare and show: one line a partition that differs, and what was read; exit code 1 if any does."""
    try:
        found = _found(folder_a, folder_b, read)
    except (StorageError, OSError) as error:
        fail(str(error))
    differ = {name: each for name, each in found.items() if each.reason != SAME}
    bytes_read = sum(each.bytes_read for each in found.values())
    if as_json:
        for name, each in found.items():
            typer.echo(compact({"partition": name} | _as_json(each)))
    else:
        for name, each in found.items():
            if each.reason != SAME or each.detail:
                typer.echo(_line(name, each))
        typer.echo(f"{len(differ)} of {len(found)} partitions differ; {bytes_read:,} bytes read")
    return Exit.FAILED if differ else Exit.GOOD


def _found(folder_a: Path, folder_b: Path, read: str) -> dict[str, Divergence]:
    if segment_files(folder_a) or segment_files(folder_b):
        return {folder_a.resolve().name: diverge(folder_a, folder_b, read=read)}
    found = diverge_log_dirs(folder_a, folder_b, read=read)
    if not found:
        raise StorageError(f"neither {folder_a} nor {folder_b} holds a partition")
    return {str(partition): each for partition, each in found.items()}


def _line(name: str, found: Divergence) -> str:
    where = "the same" if found.offset is None else f"offset {found.offset}"
    epochs = "" if found.epoch_offset is None else f"; leader epochs part at {found.epoch_offset}"
    places = "".join(f"\n  {place.path} at {place.position}" for place in found.places or ())
    return f"{name}: {where} ({found.reason}){': ' if found.detail else ''}{found.detail}{epochs}{places}"


def _as_json(found: Divergence) -> dict[str, Any]:
    return {
        "offset": found.offset,
        "reason": found.reason,
        "detail": found.detail,
        "epochOffset": found.epoch_offset,
        "places": [{"file": str(place.path), "position": place.position} for place in found.places or ()],
        "bytesRead": found.bytes_read,
    }
