"""All file access: only regular files are opened, and no more of one is read than its format allows.

Small files are read whole, with their path in every error, and written so that a crash leaves the old or the new one.
"""

import errno
import fcntl
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import FileIO
from pathlib import Path
from typing import Final

from kcore.errors import FileKindError, StorageError

LOCK: Final = ".lock"
SMALL: Final = 1 << 20  # Bytes: more than quorum-state, meta.properties or partition.metadata ever have.
MOST_CLUSTER_FILE: Final = 1 << 30  # Of a ZooKeeper dump: three million partitions, or more.
_PIECE: Final = 1 << 20
_KINDS: Final = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


@contextmanager
def naming(path: str | Path) -> Iterator[None]:
    """Adds the file's path to a StorageError raised inside."""
    try:
        yield
    except StorageError as error:
        raise StorageError(f"{path}: {error}") from None


def is_there(path: Path) -> bool:
    """Whether the folder has that name. A dangling link counts as existing: the file must not be created again."""
    try:
        path.lstat()
    except FileNotFoundError:
        return False
    return True


def open_file(path: str | Path, flags: int = os.O_RDONLY, mode: int = 0o666) -> int:
    """A descriptor of a regular file. FileKindError for anything else, which opening or reading could hang on."""
    with suppress(FileNotFoundError):  # With O_CREAT it need not be there yet.
        _check_regular(path, os.stat(path))  # Before it is opened: to open a device may already do something.
    descriptor = os.open(path, flags | os.O_NONBLOCK | os.O_NOCTTY, mode)
    try:
        _check_regular(path, os.fstat(descriptor))
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _check_regular(path: str | Path, status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        kind = _KINDS.get(stat.S_IFMT(status.st_mode), "something else")
        raise FileKindError(f"{path}: {kind}, not a regular file")


def open_reader(path: str | Path) -> FileIO:
    """As `open_file`, as a file without a buffer."""
    return FileIO(open_file(path), "rb")


def open_writer(path: str | Path, flags: int = os.O_TRUNC) -> FileIO:
    """A file to write, made if need be; without a buffer, so that each `write` may take less than it is given."""
    return FileIO(open_file(path, os.O_WRONLY | os.O_CREAT | flags), "wb")


def write_all(file: FileIO, data: bytes) -> None:
    """All of `data`; what was written of it stays if that fails."""
    view = memoryview(data)
    while view:
        view = view[file.write(view) :]


def read_bytes(path: str | Path, most: int = SMALL) -> bytes:
    """A whole file; StorageError if it has more than `most` bytes. OSError if it cannot be read."""
    data = bytearray()
    with open_reader(path) as file:
        size = os.fstat(file.fileno()).st_size
        while size <= most and (piece := file.read(min(_PIECE, most + 1 - len(data)))):
            data += piece
            size = max(size, len(data))
    if size > most:
        raise StorageError(f"{size:,} bytes are more than the {most:,} that such a file may have")
    return bytes(data)


def read_text(path: Path, most: int = SMALL) -> str:
    """As `read_bytes`, of a file that is UTF-8; StorageError with the line that is not."""
    return text_of(read_bytes(path, most))


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
    file = open_writer(beside)
    try:
        with file:
            write_all(file, data)
            os.fsync(file.fileno())
        beside.replace(path)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Makes names in the folder last: a file is durable only once its name is."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def lock_directory(directory: Path) -> int:
    """Holds a directory for this process, as Kafka does, until the descriptor is closed (FileLock, DataDirLock).

    StorageError if another process has it.
    """
    descriptor = open_file(directory / LOCK, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(descriptor)
        if error.errno not in (errno.EACCES, errno.EAGAIN):
            raise
        raise StorageError(f"{directory}: another process uses it") from None
    return descriptor
