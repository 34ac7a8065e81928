"""Small files whole: read with their path in every error, written so that a crash leaves the old or the new one."""

import errno
import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from kcore.errors import StorageError

LOCK: Final = ".lock"


@contextmanager
def naming(path: str | Path) -> Iterator[None]:
    """A StorageError from inside says which file it is about."""
    try:
        yield
    except StorageError as error:
        raise StorageError(f"{path}: {error}") from None


def read_text(path: Path) -> str:
    """A file that is UTF-8; StorageError with the line that is not. OSError if it cannot be read."""
    return text_of(path.read_bytes())


def text_of(data: bytes) -> str:
    """UTF-8 bytes as text; StorageError with the line that is not."""
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise StorageError(f"line {line}: not UTF-8: {error.reason}") from None


def write_atomically(path: Path, data: bytes) -> None:
    """Replaces the file: after a crash at any moment it holds what it did, or all of `data`.

    As Kafka does: a file beside it is written and fsynced, renamed over it, and the folder is fsynced
    (Utils.atomicMoveWithFallback).
    """
    beside = path.with_name(path.name + ".tmp")
    try:
        with beside.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Makes names in the folder last: a file is durable only once its name is."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def lock_directory(directory: Path) -> int:
    """Holds a directory for this process, as Kafka does, until the descriptor is closed (FileLock, DataDirLock).

    StorageError if another process has it.
    """
    descriptor = os.open(directory / LOCK, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(descriptor)
        if error.errno not in (errno.EACCES, errno.EAGAIN):
            raise
        raise StorageError(f"{directory}: another process uses it") from None
    return descriptor
