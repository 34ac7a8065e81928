"""Accesses files: opens regular files only, and reads no more than a format allows.

Small files are read as a whole, with their path in every error, and replaced atomically: a crash leaves the old or the
new content. `FileSystem` is the interface of storage to the operating system. `OS` implements it with `os`; the
simulated file system (`kcore.sim.kernel.file_system`) loses unsynced bytes at a power cut.
"""

import errno
import fcntl
import mmap
import os
import stat
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache
from io import FileIO
from pathlib import Path
from types import TracebackType
from typing import Final, Protocol, Self

from kcore.errors import ArgumentError, FileKindError, StorageError

LOCK: Final = ".lock"
SMALL: Final = 1 << 20  # Size limit, in bytes, of quorum-state, meta.properties and partition.metadata.
MOST_CLUSTER_FILE: Final = 1 << 30  # Size limit, in bytes, of a ZooKeeper dump: more than three million partitions.
_PIECE: Final = 1 << 20  # Bytes that one read of a file takes at most.
_KINDS: Final = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


class FileSystem(Protocol):
    """The file operations of storage, named as in `os`; files are descriptors. They raise OSError as `os` does.

    A file's bytes are durable after `fsync`, its name after `fsync_folder` of its folder. A power cut may lose all
    other changes.
    """

    def open(self, path: str | Path, flags: int = os.O_RDONLY, mode: int = 0o666) -> int:
        """Opens a regular file. Raises FileKindError for other kinds, as opening or reading these could hang."""

    def close(self, file: int) -> None: ...
    def dup(self, file: int) -> int: ...
    def size(self, file: int) -> int: ...
    def pread(self, file: int, size: int, position: int) -> bytes: ...
    def map(self, file: int, size: int) -> mmap.mmap | bytes:
        """Maps the first `size` bytes for reading; `size` is above 0. Raises ValueError if the file is shorter."""

    def write(self, file: int, data: bytes | memoryview) -> int:
        """Writes a first part of `data`; returns how many bytes were written."""

    def ftruncate(self, file: int, size: int) -> None: ...
    def protect(self, file: int) -> None:
        """Removes all write permissions from a file."""

    def fsync(self, file: int) -> None: ...
    def lock(self, file: int) -> bool:
        """Locks the file for this process until it is closed; False if another process has locked it."""

    def is_there(self, path: Path) -> bool:
        """Whether the path exists; true for a dangling link, whose file must not be created again."""

    def names(self, folder: Path) -> list[str]: ...
    def size_of(self, path: Path) -> int: ...
    def replace(self, source: Path, target: Path) -> None: ...
    def unlink(self, path: Path) -> None: ...
    def mkdir(self, folder: Path) -> None:
        """Creates the folder and its parents, unless the folder exists."""

    def fsync_folder(self, folder: Path) -> None: ...


class OsFileSystem:
    """The operating system's files."""

    def __init__(self, unlink: Callable[[Path], None] = Path.unlink) -> None:
        """`unlink`: deletes a file, or gives it another name and deletes it later. FileNotFoundError if it is gone."""
        self._unlink = unlink

    def open(self, path: str | Path, flags: int = os.O_RDONLY, mode: int = 0o666) -> int:
        return open_file(path, flags, mode)

    def close(self, file: int) -> None:
        os.close(file)

    def dup(self, file: int) -> int:
        return os.dup(file)

    def size(self, file: int) -> int:
        return os.fstat(file).st_size

    def pread(self, file: int, size: int, position: int) -> bytes:
        return os.pread(file, size, position)

    def map(self, file: int, size: int) -> mmap.mmap | bytes:
        return mmap.mmap(file, size, access=mmap.ACCESS_READ)

    def write(self, file: int, data: bytes | memoryview) -> int:
        return os.write(file, data)

    def ftruncate(self, file: int, size: int) -> None:
        os.ftruncate(file, size)

    def protect(self, file: int) -> None:
        os.fchmod(file, os.fstat(file).st_mode & 0o444)

    def fsync(self, file: int) -> None:
        os.fsync(file)

    def lock(self, file: int) -> bool:
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno not in (errno.EACCES, errno.EAGAIN):
                raise
            return False
        return True

    def is_there(self, path: Path) -> bool:
        try:
            path.lstat()
        except FileNotFoundError:
            return False
        return True

    def names(self, folder: Path) -> list[str]:
        return os.listdir(folder)

    def size_of(self, path: Path) -> int:
        return path.stat().st_size

    def replace(self, source: Path, target: Path) -> None:
        source.replace(target)

    def unlink(self, path: Path) -> None:
        self._unlink(path)

    def mkdir(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)

    def fsync_folder(self, folder: Path) -> None:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


OS: Final = OsFileSystem()


class Closing(ABC):
    """Base of objects that a `with` block closes."""

    __slots__ = ()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    @abstractmethod
    def close(self) -> None:
        """Closes the files."""


class naming:  # A class, as a generator-based context manager would take longer than the work inside it.
    """A context manager that adds a file's path to a StorageError raised inside."""

    __slots__ = ("_path",)

    def __init__(self, path: str | Path) -> None:
        self._path = path

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if isinstance(error, StorageError):
            raise StorageError(f"{self._path}: {error}") from None


def checked_path(path: str | Path) -> Path:
    """Returns a caller's path as a Path; raises ArgumentError for another type, or if no file can have that name."""
    if not isinstance(path, str | os.PathLike):
        raise ArgumentError(f"a path is a text or a Path, not {path!r:.60}")
    try:
        named = os.fsencode(path)
    except ValueError:
        named = b"\0"
    if b"\0" in named:
        raise ArgumentError(f"no file can be called {path!r:.60}")
    return Path(path)


def is_there(path: Path, files: FileSystem = OS) -> bool:
    """Whether the path exists; true for a dangling link, whose file must not be created again."""
    return files.is_there(path)


def open_file(path: str | Path, flags: int = os.O_RDONLY, mode: int = 0o666) -> int:
    """Opens a regular file. Raises FileKindError for other kinds, as opening or reading these could hang."""
    with suppress(FileNotFoundError):  # With O_CREAT the file need not exist.
        _check_regular(path, os.stat(path))  # Checked before opening, as opening a device may have effects.
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
    """Opens a regular file for reading, without a buffer."""
    return FileIO(open_file(path), "rb")


class opened:  # A class for the same reason as `naming`.
    """A context manager that opens a file, returns its descriptor, and closes the file at the end."""

    __slots__ = ("_file", "_files")

    def __init__(self, path: Path, flags: int = os.O_RDONLY, *, files: FileSystem = OS) -> None:
        self._files = files
        self._file = files.open(path, flags)

    def __enter__(self) -> int:
        return self._file

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._files.close(self._file)


def write_all(file: int, data: bytes, files: FileSystem = OS) -> None:
    """Writes all of `data`; after a failure, a part of `data` may have been written."""
    count = files.write(file, data)
    while count < len(data):
        count += files.write(file, memoryview(data)[count:])


def write_file(path: Path, data: bytes, files: FileSystem = OS) -> None:
    """Writes and syncs a file, which is created if needed; does not sync its folder, and so not its name."""
    with opened(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, files=files) as file:
        write_all(file, data, files)
        files.fsync(file)


def sync_file(path: Path, files: FileSystem = OS) -> None:
    """Makes a file's bytes durable, even bytes that another process wrote."""
    with opened(path, files=files) as file:
        files.fsync(file)


def remove(path: Path, files: FileSystem = OS) -> None:
    """Deletes a file if it exists."""
    with suppress(FileNotFoundError):
        files.unlink(path)


def read_bytes(path: str | Path, most: int = SMALL, files: FileSystem = OS) -> bytes:
    """Reads a whole file. Raises StorageError if it has more than `most` bytes, OSError if it cannot be read."""
    file = files.open(path)
    try:
        size = files.size(file)
        first = files.pread(file, min(_PIECE, most + 1), 0) if size <= most else b""
        if len(first) == size:  # One read was enough, as for most files.
            return first
        data, size = bytearray(first), max(size, len(first))
        while size <= most and (piece := files.pread(file, min(_PIECE, most + 1 - len(data)), len(data))):
            data += piece
            size = max(size, len(data))
    finally:
        files.close(file)
    if size > most:
        raise StorageError(f"{size:,} bytes are more than the {most:,} that such a file may have")
    return bytes(data)


def read_text(path: Path, most: int = SMALL, files: FileSystem = OS) -> str:
    """Reads a UTF-8 file as `read_bytes` does; a StorageError names the first line that is not UTF-8."""
    return text_of(read_bytes(path, most, files))


def text_of(data: bytes) -> str:
    """Decodes UTF-8; a StorageError names the first line that is not UTF-8."""
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise StorageError(f"line {line}: not UTF-8: {error.reason}") from None


@lru_cache(maxsize=64)
def _beside(path: Path) -> Path:
    """The path of a temporary file, cached: the same few files are replaced often, and creating a Path takes long."""
    return Path(f"{path}.tmp")


@lru_cache(maxsize=1024)
def path_in(folder: Path, name: str) -> Path:
    """Returns `folder / name` from a cache: a start uses the same names several times."""
    return folder / name


def write_atomically(path: Path, data: bytes, files: FileSystem = OS) -> None:
    """Replaces the file's content: after a crash at any moment the file has the old content, or all of `data`.

    As in Kafka, a temporary file is written, fsynced and renamed, and the folder is fsynced
    (Utils.atomicMoveWithFallback).
    """
    beside = _beside(path)
    file = files.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    try:
        try:
            write_all(file, data, files)
            files.fsync(file)
        finally:
            files.close(file)
        files.replace(beside, path)
    except BaseException:
        remove(beside, files)
        raise
    sync_folder(path.parent, files)


def sync_folder(folder: Path, files: FileSystem = OS) -> None:
    """Makes the names in a folder durable: a new file is durable only once its name is durable."""
    files.fsync_folder(folder)


def lock_directory(directory: Path, files: FileSystem = OS) -> int:
    """Locks a directory for this process until the returned descriptor is closed (FileLock, DataDirLock).

    Raises StorageError if another process has locked it.
    """
    descriptor = files.open(path_in(directory, LOCK), os.O_RDWR | os.O_CREAT, 0o644)
    try:
        if files.lock(descriptor):
            return descriptor
    except BaseException:
        files.close(descriptor)
        raise
    files.close(descriptor)
    raise StorageError(f"{directory}: another process uses it")
