"""The folder of `--out`: checked before a measurement, and overwritten only with --overwrite."""

import atexit
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryFile
from typing import Annotated

import typer

from kcore.cli.console import fail, say
from kcore.measure.report.exits import Exit
from kcore.measure.report.result_files import CELLS, RESULT_FILES

Overwrite = Annotated[
    bool, typer.Option("--overwrite", help="Replace the results that the folder of --out holds already.")
]


def results_directory(out: Path | None, command: str, overwrite: bool = False) -> Path:
    """Makes the folder for a command's results before the command runs; ends the command if that fails.

    A run of hours must not be lost because its folder is not writable, and must not replace an earlier run. Without
    `out` the folder is a new one below out/. A new folder that stays empty is removed when Python ends.
    """
    try:
        if out is None:
            return _new_folder(command)
        is_new = not out.exists()
        out.mkdir(parents=True, exist_ok=True)
        if is_new:
            _remove_if_empty_at_the_end(out)
        with TemporaryFile(dir=out):
            pass  # Permission bits do not show a full or read-only file system, or a quota.
    except (FileExistsError, NotADirectoryError) as error:
        path = Path(error.filename)  # It or its nearest parent that exists is not a folder.
        wrong = next(each for each in (path, *path.parents) if os.path.lexists(each) and not each.is_dir())
        where = f"{out}" if wrong == out else f"{out}: {wrong}"
        fail(f"--out: {where} is no folder: name another one for the results")
    except OSError as error:
        fail(f"--out: {error}")
    if is_new or not (present := [name for name in RESULT_FILES if (out / name).exists()]):
        return out
    if not overwrite and CELLS in present:
        remedy = f"`kcore bench` continues it with --resume {out}; or name another folder or add --overwrite"
        fail(f"--out: {out} holds an unfinished run ({CELLS}): {remedy}")
    if not overwrite:
        fail(f"--out: {out} holds the results of an earlier run ({present[0]}): name another folder or add --overwrite")
    if folders := [name for name in present if (out / name).is_dir()]:
        fail(f"--out: {out / folders[0]} is a folder: name another one for the results")
    return out


@contextmanager
def kept_whole(directory: Path) -> Iterator[None]:
    """A context for the writing of results that are already printed: a failure ends the command with one line.

    The disk may be full. Each file is either complete or absent.
    """
    try:
        yield
    except OSError as error:
        present = [name for name in RESULT_FILES if (directory / name).exists()]
        kept = f"only {', '.join(present)} could be kept" if present else "nothing could be kept"
        say(f"kcore: {directory}: {error.strerror or error}: {kept}", err=True)
        raise typer.Exit(Exit.INVALID) from None


def _new_folder(command: str) -> Path:
    """Makes a new folder; runs that start in the same second get different folders."""
    name, number = f"{command}-{datetime.now():%Y%m%d-%H%M%S}", 1
    while True:
        folder = Path("out") / (name if number == 1 else f"{name}-{number}")
        try:
            folder.mkdir(parents=True)
        except FileExistsError:
            if not folder.is_dir():
                raise  # `out` itself is a file.
            number += 1
        else:
            _remove_if_empty_at_the_end(folder)
            return folder


def _remove_if_empty_at_the_end(folder: Path) -> None:
    atexit.register(_remove_if_empty, folder.absolute())


def _remove_if_empty(folder: Path) -> None:
    with suppress(OSError):
        folder.rmdir()
