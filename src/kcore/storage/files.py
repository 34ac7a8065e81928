"""All file access: only regular files are opened, and no more of one is read than its format allows.

Small files are read whole, with their path in every error, and written so that a crash leaves the old or the new one.
What a log and its directory ask of an operating system is `FileSystem`: `OS` is the real one, and a simulated one
(`kcore.sim.kernel.file_system`) loses at a power cut what was not synced.
"""

import errno
import fcntl
import mmap
import os
import stat
from contextlib import suppress
from functools import lru_cache
from io import FileIO
from pathlib import Path
from types import TracebackType
from typing import Final, Protocol

from kcore.errors import ArgumentError, FileKindError, StorageError

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


class FileSystem(Protocol):
    """What storage asks of an operating system, under the names of `os`; files are descriptors. OSError as there.

    A file's bytes are durable after `fsync`, its name after `fsync_folder` of its folder: a power cut takes the rest.
    """

    def open(self, path: str | Path, flags: int = os.O_RDONLY, mode: int = 0o666) -> int:
        """Of a regular file. FileKindError for anything else, which opening or reading could hang on."""

    def close(self, file: int) -> None: ...
    def dup(self, file: int) -> int: ...
    def size(self, file: int) -> int: ...
    def pread(self, file: int, size: int, position: int) -> bytes: ...
    def map(self, file: int, size: int) -> mmap.mmap | bytes:
        """The first `size` bytes, more than none, to be read. ValueError if the file has fewer."""

    def write(self, file: int, data: bytes | memoryview) -> int:
        """How many bytes of `data` were written."""

    def ftruncate(self, file: int, size: int) -> None: ...
    def protect(self, file: int) -> None:
        """Nobody may write to it from now on; whoever may read it still may."""

    def fsync(self, file: int) -> None: ...
    def lock(self, file: int) -> bool:
        """Holds the file for this process until it is closed; False if another process does."""

    def is_there(self, path: Path) -> bool:
        """Whether the folder has that name. A link to nothing counts: it is no reason to begin anew."""

    def names(self, folder: Path) -> list[str]: ...
    def size_of(self, path: Path) -> int: ...
    def replace(self, source: Path, target: Path) -> None: ...
    def unlink(self, path: Path) -> None: ...
    def mkdir(self, folder: Path) -> None:
        """With those above it; nothing happens if it is there."""

    def fsync_folder(self, folder: Path) -> None: ...


class OsFileSystem:
    """The operating system's own."""

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
        path.unlink()

    def mkdir(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)

    def fsync_folder(self, folder: Path) -> None:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


OS: Final = OsFileSystem()


class naming:  # Reads as a verb; a class, for a generator costs more than what is done in it.
    """`with` it: adds the file's path to a StorageError raised inside."""

    __slots__ = ("_path",)

    def __init__(self, path: str | Path) -> None:
        self._path = path

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if isinstance(error, StorageError):
            raise StorageError(f"{self._path}: {error}") from None


def checked_path(path: str | Path) -> Path:
    """A path from outside; ArgumentError for what can be none: another type, a NUL, surrogates."""
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
    """Whether the folder has that name. A dangling link counts as existing: the file must not be created again."""
    return files.is_there(path)


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


class opened:  # As `naming`.
    """`with` it: a descriptor, closed in the end."""

    __slots__ = ("_file", "_files")

    def __init__(self, path: Path, flags: int = os.O_RDONLY, *, files: FileSystem = OS) -> None:
        self._files = files
        self._file = files.open(path, flags)

    def __enter__(self) -> int:
        return self._file

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._files.close(self._file)


def write_all(file: int, data: bytes, files: FileSystem = OS) -> None:
    """All of `data`; what was written of it stays if that fails."""
    count = files.write(file, data)
    while count < len(data):
        count += files.write(file, memoryview(data)[count:])


def write_file(path: Path, data: bytes, files: FileSystem = OS) -> None:
    """A file of these bytes, made if need be, synced; its name is not."""
    with opened(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, files=files) as file:
        write_all(file, data, files)
        files.fsync(file)


def sync_file(path: Path, files: FileSystem = OS) -> None:
    """What is in it, whoever wrote that, is durable when this returns."""
    with opened(path, files=files) as file:
        files.fsync(file)


def remove(path: Path, files: FileSystem = OS) -> None:
    """The name, if it is there."""
    with suppress(FileNotFoundError):
        files.unlink(path)


def read_bytes(path: str | Path, most: int = SMALL, files: FileSystem = OS) -> bytes:
    """A whole file; StorageError if it has more than `most` bytes. OSError if it cannot be read."""
    file = files.open(path)
    try:
        size = files.size(file)
        first = files.pread(file, min(_PIECE, most + 1), 0) if size <= most else b""
        if len(first) == size:  # As mostly.
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
    """As `read_bytes`, of a file that is UTF-8; StorageError with the line that is not."""
    return text_of(read_bytes(path, most, files))


def text_of(data: bytes) -> str:
    """UTF-8 bytes as text; StorageError with the line that is not."""
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise StorageError(f"line {line}: not UTF-8: {error.reason}") from None


@lru_cache(maxsize=64)
def _beside(path: Path) -> Path:
    """Kept, since the same few files are replaced again and again, and making a path takes longer than a write."""
    return Path(f"{path}.tmp")


@lru_cache(maxsize=1024)
def path_in(folder: Path, name: str) -> Path:
    """`folder / name`, kept as `_beside` is: a start looks at the same names several times."""
    return folder / name


def write_atomically(path: Path, data: bytes, files: FileSystem = OS) -> None:
    """Replaces the file: after a crash at any moment it holds what it did, or all of `data`.

    As Kafka does: a file beside it is written and fsynced, renamed over it, and the folder is fsynced
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
    """Makes names in the folder last: a file is durable only once its name is."""
    files.fsync_folder(folder)


def lock_directory(directory: Path, files: FileSystem = OS) -> int:
    """Holds a directory for this process, as Kafka does, until the descriptor is closed (FileLock, DataDirLock).

    StorageError if another process has it.
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
