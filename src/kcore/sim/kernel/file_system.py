"""A machine's disk as its file system shows it, and what a crash leaves of it (`kcore.storage.files.FileSystem`).

Every file records its changes since the last fsync, every folder its unsynced names. Each change keeps the bytes that
it replaced, so that a power cut can undo the change. Crashes and a full disk behave as follows:

- kill -9 ends the process, closes its descriptors and releases its lock. All writes and names stay; a later power cut
  may still lose the unsynced ones.
- A power cut keeps a prefix of each file's unsynced changes, in the order of the writes. It may also keep the
  beginning of the next change (a torn write), or the next change with one bit flipped. A folder keeps a prefix of its
  changes of names. Files and folders are independent of each other.
- The process, or the machine, may crash between any two operations (`crash_after`).
- A full disk takes the first half of a write, and refuses a write of one byte.

There are only regular files and folders: no links and no permissions.
"""

import errno
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from random import Random
from typing import Any, Final, NamedTuple

Spans = Sequence[range]
MayFlip = Callable[[str, bytes], Spans]  # Takes a file's name and a write; returns the bytes that may flip.
NEVER: Final = -1
ALL_LOST, ALL_KEPT, PART, TORN, FLIPPED = "tail lost", "tail kept", "tail lost in part", "torn write", "bit flip"
READ, WRITE = 1, 2  # Bits: operations that a descriptor refuses.
FATES: Final = (ALL_LOST, ALL_KEPT, PART, TORN, FLIPPED)


class CrashError(BaseException):
    """The simulated machine crashes at a file operation. As a BaseException it passes every `except Exception`."""

    def __init__(self, files: "SimFileSystem") -> None:
        super().__init__("crashed")
        self.files = files


class Change(NamedTuple):
    """`size` bytes at `position` replaced `before`."""

    position: int
    before: bytes
    size: int


class SimFile:
    """The bytes of a file under any of its names. `safe`: the length of the prefix that no crash can change."""

    __slots__ = ("cache", "count_synced", "data", "safe", "unsynced")

    def __init__(self) -> None:
        self.data = bytearray()
        self.cache: Any = None  # A cache that a user of this file keeps, such as the parsed batches.
        self.unsynced: list[Change] = []
        self.count_synced = 0  # The number of durable changes, all older than `unsynced`.
        self.safe = 0

    def append(self, data: bytes | memoryview) -> None:
        """Appends `data`."""
        self.unsynced.append(Change(len(self.data), b"", len(data)))
        self.data += data

    def change(self, position: int, before: bytes, data: bytes | memoryview) -> None:
        """Replaces `before`, which begins at `position`, by `data`."""
        self.data[position : position + len(before)] = data
        self.unsynced.append(Change(position, before, len(data)))
        if position < self.safe:
            self.safe = position

    def sync(self, count: int) -> None:
        """Makes the first `count` changes ever made durable."""
        done = count - self.count_synced
        if done == len(self.unsynced):
            self.settle()
        elif done > 0:
            del self.unsynced[:done]
            self.count_synced = count
            self.safe = min([change.position for change in self.unsynced])

    def lose(self, kept: int) -> bytes:
        """Undoes the unsynced changes after the first `kept`; returns the bytes of the first undone one."""
        written = b""
        for change in reversed(self.unsynced[kept:]):
            end = change.position + change.size
            written = bytes(self.data[change.position : end])
            self.data[change.position : end] = change.before
        del self.unsynced[kept:]
        return written

    def settle(self) -> None:
        """Makes all present bytes durable."""
        self.count_synced += len(self.unsynced)
        self.unsynced.clear()
        self.safe = len(self.data)


class SimFolder:
    """The names in a folder and their files, in order of creation."""

    __slots__ = ("entries", "unsynced")

    def __init__(self) -> None:
        self.entries: dict[str, SimFile | SimFolder] = {}
        self.unsynced: list[list[tuple[str, SimFile | SimFolder | None]]] = []  # Each name, and its entry before.

    def change(self, *names: tuple[str, "SimFile | SimFolder | None"]) -> None:
        """Binds these names to other files at once; None removes a name."""
        self.unsynced.append([(name, self.entries.get(name)) for name, _ in names])
        self._put(names)

    def _put(self, names: Sequence[tuple[str, "SimFile | SimFolder | None"]]) -> None:
        for name, entry in names:
            if entry is None:
                self.entries.pop(name, None)
            else:
                self.entries[name] = entry

    def lose(self, kept: int) -> None:
        """Undoes the unsynced changes after the first `kept`."""
        for names in reversed(self.unsynced[kept:]):
            self._put(names)
        self.unsynced.clear()

    def has_new_folders(self) -> bool:
        """Whether a power cut may remove or restore a folder."""
        names = [(self.entries.get(name), before) for names in self.unsynced for name, before in names]
        return any(isinstance(entry, SimFolder) for pair in names for entry in pair)

    def unsynced_names(self) -> set[str]:
        return {name for names in self.unsynced for name, _ in names}


@lru_cache(maxsize=1024)
def _above_and_name(path: str | Path) -> tuple[str, str]:
    above, _, name = str(path).rpartition("/")
    return above, name


class _Position:
    """The position of the next write, which a descriptor shares with its duplicates."""

    __slots__ = ("bytes",)

    def __init__(self) -> None:
        self.bytes = 0


class _Descriptors(dict[int, "_Descriptor"]):
    """The open descriptors by number; a lookup of a closed one raises EBADF."""

    def __missing__(self, file: int) -> "_Descriptor":
        raise _bad_descriptor()


def _bad_descriptor() -> OSError:
    """The error for a descriptor that is closed, or whose mode forbids the read or write."""
    return OSError(errno.EBADF, "Bad file descriptor")


class _Descriptor:
    __slots__ = ("covers", "file", "flags", "position", "refuses")

    def __init__(self, file: SimFile, flags: int, position: _Position) -> None:
        self.file, self.flags, self.position = file, flags, position
        self.refuses = READ if flags & os.O_WRONLY else 0 if flags & os.O_RDWR else WRITE
        self.covers = NEVER  # An fsync makes this number of changes durable; NEVER: all earlier changes.


class SimFileSystem:
    """One disk, and the descriptors of the one process that uses it. It raises OSError as an operating system does."""

    def __init__(self) -> None:
        self.root = SimFolder()
        self.count = 0  # Operations that change something, so far.
        self.unsynced: dict[SimFile, None] = {}  # Files that a power cut would change.
        self.is_full = False
        self.has_refused = False  # Whether an operation has failed for lack of space since this was last reset.
        self._crash_at = NEVER
        # A cache; `cut_power` empties it if the cut may remove or restore a folder.
        self._folders_by_path: dict[str | Path, SimFolder] = {}
        self._parents: dict[
            str | Path, tuple[SimFolder, str]
        ] = {}  # A cache by path: the folder with the path's last name, and that name.
        self._open = _Descriptors()
        self._next = 3

    # Crashes.

    def crash_after(self, operations: int) -> None:
        """Makes a change fail with CrashError after `operations` more changes; NEVER: no change fails."""
        self._crash_at = NEVER if operations == NEVER else self.count + operations

    def _before_change(self) -> None:
        if self.count == self._crash_at:
            raise CrashError(self)  # Later changes raise it too, such as those of a `finally` or an `except`.
        self.count += 1

    def end_process(self) -> None:
        """Ends the process, by kill -9 or otherwise: its descriptors and its lock are gone."""
        self._open.clear()
        self._crash_at = NEVER

    def cut_power(self, random: Random, may_flip: MayFlip = lambda _, data: (range(len(data)),)) -> list[str]:
        """Ends the process and loses unsynced changes; returns the fate of each file that had unsynced changes."""
        self.end_process()
        folders = [*self._folders(self.root)]
        found = self._files(folders) if self.unsynced else []
        fates = [self._lose_of(name, file, random, may_flip) for name, file in found if file.unsynced]
        for folder in folders:
            if folder.unsynced:
                if folder.has_new_folders():
                    self._folders_by_path.clear()
                    self._parents.clear()
                folder.lose(random.randint(0, len(folder.unsynced)))
        self.unsynced.clear()
        return fates

    def _lose_of(self, name: str, file: SimFile, random: Random, may_flip: MayFlip) -> str:
        fate, changes = random.choice(FATES), file.unsynced
        kept = {ALL_LOST: 0, ALL_KEPT: len(changes)}.get(fate, -1)
        if kept < 0:
            kept = random.randrange(len(changes))
            change = changes[kept]
            if fate == FLIPPED:
                fate = self._flip(name, file, kept, random, may_flip)
            elif fate == TORN and change.size:
                self._tear(file, kept, random)
                kept += 1
            else:
                fate = PART
        file.lose(kept)
        file.settle()
        return fate

    def _tear(self, file: SimFile, row: int, random: Random) -> None:
        """Keeps only the first bytes of the change `row`. Sometimes zeros stand for the lost bytes of the change."""
        change, written = file.unsynced[row], file.lose(row)
        left = bytearray(written[: random.randrange(len(written))])
        if random.random() < 0.3:
            left += bytes(len(written) - len(left))
        left += change.before[len(left) :]
        file.data[change.position : change.position + len(change.before)] = left

    def _flip(self, name: str, file: SimFile, row: int, random: Random, may_flip: MayFlip) -> str:
        """Flips a bit of the change `row`, and may lose later changes; returns FLIPPED, or PART if no bit may flip."""
        change, behind = file.unsynced[row], file.unsynced[row + 1 :]
        end = change.position + change.size
        spans = [span for span in may_flip(name, bytes(file.data[change.position : end])) if span]
        if not spans or any(other.position < end for other in behind):
            file.lose(row)
            return PART
        at = change.position + random.choice(random.choice(spans))
        file.data[at] ^= 1 << random.randrange(8)
        if behind and random.random() < 0.5:
            file.lose(row + 1)
        file.settle()
        return FLIPPED

    def _folders(self, folder: SimFolder) -> Iterator[SimFolder]:
        yield folder
        seen = [*folder.entries.values()]
        if folder.unsynced:
            seen += [before for names in folder.unsynced for _, before in names if before is not None]
        for entry in seen:
            if type(entry) is SimFolder:
                yield from self._folders(entry)

    def _files(self, folders: Iterable[SimFolder]) -> list[tuple[str, SimFile]]:
        """The files in the folders that have a name, or had one that a power cut may restore."""
        found: dict[SimFile, str] = {}
        for folder in folders:
            before = [pair for names in folder.unsynced for pair in names]
            for name, entry in [*folder.entries.items(), *before]:
                if isinstance(entry, SimFile):
                    found.setdefault(entry, name)
        return [(name, file) for file, name in found.items()]

    # For tests and checkers.

    def file(self, path: Path) -> SimFile:
        """The file at the path; FileNotFoundError if there is none."""
        entry = self._find(path)
        if not isinstance(entry, SimFile):
            raise FileNotFoundError(errno.ENOENT, "no file", str(path))
        return entry

    def folder(self, path: str | Path) -> SimFolder:
        found = self._folders_by_path.get(path)
        if found is None:
            entry = self._find(path)
            if not isinstance(entry, SimFolder):
                raise FileNotFoundError(errno.ENOENT, "no folder", str(path))
            found = self._folders_by_path[path] = entry
        return found

    def _find(self, path: str | Path) -> SimFile | SimFolder | None:
        try:
            folder, name = self._parents.get(path) or self._parent(path)
        except FileNotFoundError:
            return None
        return folder.entries.get(name) if name else folder

    def _parent(self, path: str | Path) -> tuple[SimFolder, str]:
        found = self._parents.get(path)
        if found is None:
            above, name = _above_and_name(path)
            found = self._parents[path] = self.folder(above) if above else self.root, name
        return found

    # Operations on files, as in `kcore.storage.files.FileSystem`.

    def open(self, path: str | Path, flags: int = os.O_RDONLY, mode: int = 0o666) -> int:
        folder, name = self._parents.get(path) or self._parent(path)
        file = folder.entries.get(name)
        if file is None:
            if not flags & os.O_CREAT:
                raise FileNotFoundError(errno.ENOENT, "No such file or directory", str(path))
            self._before_change()
            file = SimFile()
            folder.change((name, file))
        elif isinstance(file, SimFolder):
            raise IsADirectoryError(errno.EISDIR, "a folder, not a regular file", str(path))
        if flags & os.O_TRUNC and file.data:
            self._before_change()
            self._change(file, 0, bytes(file.data), b"")
        self._open[self._next] = _Descriptor(file, flags, _Position())
        self._next += 1
        return self._next - 1

    def _to(self, do: int, file: int) -> _Descriptor:
        """The open descriptor; raises EBADF if the descriptor does not permit the operation `do`."""
        found = self._open[file]
        if found.refuses & do:
            raise _bad_descriptor()
        return found

    def close(self, file: int) -> None:
        if self._open.pop(file, None) is None:
            raise _bad_descriptor()

    def dup(self, file: int) -> int:
        """Duplicates a descriptor. An fsync of the copy syncs only earlier changes, as a slow fsync does."""
        found = self._open[file]
        twin = _Descriptor(found.file, found.flags, found.position)
        twin.covers = found.file.count_synced + len(found.file.unsynced)
        self._open[self._next] = twin
        self._next += 1
        return self._next - 1

    def size(self, file: int) -> int:
        return len(self._open[file].file.data)

    def pread(self, file: int, size: int, position: int) -> bytes:
        data = self._to(READ, file).file.data
        return bytes(data[position : position + size])

    def map(self, file: int, size: int) -> bytes:
        found = self._open[file]
        if len(found.file.data) < size:
            raise ValueError(f"cannot map {size} bytes of a file of {len(found.file.data)}")
        if found.flags & os.O_WRONLY:
            raise PermissionError(errno.EACCES, "Permission denied")
        data = found.file.data
        return bytes(data if len(data) == size else data[:size])

    def write(self, file: int, data: bytes | memoryview) -> int:
        found = self._to(WRITE, file)
        self._before_change()
        if self.is_full:
            self.has_refused = True
            if len(data) < 2:
                raise OSError(errno.ENOSPC, "No space left on device")
            data = data[: len(data) // 2]
        if not data:
            return 0
        written, size = found.file.data, len(data)
        end = len(written)
        at = end if found.flags & os.O_APPEND else found.position.bytes
        if at == end:
            found.file.append(data)
            self.unsynced[found.file] = None
        else:
            self._change(found.file, at, bytes(written[at : at + size]), data)
        found.position.bytes = at + size
        return size

    def _change(self, file: SimFile, position: int, before: bytes, data: bytes | memoryview) -> None:
        if position > len(file.data):  # A hole.
            data, position = bytes(position - len(file.data)) + bytes(data), len(file.data)
        file.change(position, before, data)
        self.unsynced[file] = None

    def ftruncate(self, file: int, size: int) -> None:
        found = self._to(WRITE, file).file
        self._before_change()
        if size < len(found.data):
            self._change(found, size, bytes(found.data[size:]), b"")
        elif size > len(found.data):
            self._change(found, len(found.data), b"", bytes(size - len(found.data)))

    def protect(self, file: int) -> None:
        """Does nothing: the simulated files have no permissions."""

    def fsync(self, file: int) -> None:
        self._before_change()
        found = self._open[file]
        if found.covers == NEVER:
            found.file.settle()
        else:
            found.file.sync(found.covers)
        if not found.file.unsynced:
            self.unsynced.pop(found.file, None)

    def lock(self, file: int) -> bool:
        """Always True: only one process uses the disk."""
        self._to(WRITE, file)
        return True

    # Names.

    def is_there(self, path: Path) -> bool:
        return self._find(path) is not None

    def names(self, folder: Path) -> list[str]:
        return [*self.folder(folder).entries]

    def size_of(self, path: Path) -> int:
        return len(self.file(path).data)

    def replace(self, source: Path, target: Path) -> None:
        folder, name = self._parent(source)
        other, new_name = self._parent(target)
        entry = folder.entries.get(name)
        if entry is None:
            raise FileNotFoundError(errno.ENOENT, "No such file or directory", str(source))
        if folder is not other:
            raise OSError(errno.EXDEV, "files are renamed only within their folder")
        self._before_change()
        if name != new_name:
            folder.change((new_name, entry), (name, None))

    def unlink(self, path: Path) -> None:
        folder, name = self._parent(path)
        entry = folder.entries.get(name)
        if entry is None:
            raise FileNotFoundError(errno.ENOENT, "No such file or directory", str(path))
        if isinstance(entry, SimFolder):
            raise IsADirectoryError(errno.EISDIR, "Is a directory", str(path))
        self._before_change()
        folder.change((name, None))

    def mkdir(self, folder: Path) -> None:
        parent = self.root
        for name in str(folder).split("/"):
            if name:
                entry = parent.entries.get(name)
                if entry is None:
                    self._before_change()
                    entry = SimFolder()
                    parent.change((name, entry))
                elif isinstance(entry, SimFile):
                    raise FileExistsError(errno.EEXIST, "File exists", str(folder))
                parent = entry

    def fsync_folder(self, folder: Path) -> None:
        self._before_change()
        found = self.folder(folder)
        replaced = [entry for names in found.unsynced for _, entry in names if entry in self.unsynced]
        found.unsynced.clear()
        for entry in replaced:
            if isinstance(entry, SimFile) and entry not in found.entries.values():
                self.unsynced.pop(entry, None)  # No power cut can restore the replaced file.
