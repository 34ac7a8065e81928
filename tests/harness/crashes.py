"""Finds what a crash between two operations on files leaves: an order that is wrong only in the middle.

Tests that look at the end of an action cannot tell in which order it worked. This disk is a folder of the real file
system. It counts what the code asks of the operating system and ends the process before any one of these operations.
The folder is then as after a kill -9 or a power cut. A power cut is tried for each way in which a file system may keep
names and contents that no fsync has covered.

To test a new action, call `at_every_crash` with three functions: `prepare` writes the durable files, `act` runs the
action until CrashError, `check` asserts what must hold when the folder is opened again. Code that takes
a `FileSystem` can be run over `kcore.sim.kernel.file_system` as well, which tears writes, too.
"""

import os
import shutil
import stat
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from enum import Enum
from pathlib import Path
from typing import Any, Final
from unittest import mock


class CrashError(BaseException):
    """The process is gone: no `except Exception` goes on from here."""


class Fate(Enum):
    """The part of the unsynced data that survives a crash."""

    KILLED = "everything: the process alone is gone"
    ALL_LOST = "nothing"
    NAMES_KEPT = "the names, without the contents"
    CONTENTS_KEPT = "the contents, without the names"


_BY_FILE: Final = ("write", "ftruncate", "fsync")
_BY_PATH: Final = ("replace", "rename", "unlink", "mkdir", "rmdir")
NEVER: Final = -1


class Disk:
    """A folder, and what of it is durable."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.operations: list[str] = []
        self._real = {name: getattr(os, name) for name in (*_BY_FILE, *_BY_PATH, "open")}
        self._crash_at, self._has_crashed = NEVER, False
        self._contents: dict[int, bytes] = {}  # By inode, at the last fsync.
        self._names: dict[int, dict[str, int]] = {}  # By inode of the folder: inodes by name.
        self._kinds: dict[int, int] = {}
        self._held: list[int] = []  # One descriptor an inode, so that none is used again.

    def close(self) -> None:
        for file in self._held:
            os.close(file)
        self._held.clear()

    # While the process runs.

    @contextmanager
    def crashing(self, after: int = NEVER) -> Iterator[None]:
        """After so many operations the next one raises CrashError; NEVER: none does."""
        self._crash_at, self._has_crashed = after, False
        self.operations.clear()
        calls: dict[str, Callable[..., Any]] = {name: self._by_file(name) for name in _BY_FILE}
        calls |= {name: self._by_path(name) for name in _BY_PATH} | {"open": self._open}
        with mock.patch.multiple(os, **calls):
            yield

    def _before(self, name: str, path: str) -> None:
        if self._has_crashed or len(self.operations) == self._crash_at:
            self._has_crashed = True
            raise CrashError
        self.operations.append(f"{name} {os.path.relpath(path, self.root)}")

    def _is_here(self, path: str) -> bool:
        return path == str(self.root) or path.startswith(f"{self.root}/")

    def _by_file(self, name: str) -> Callable[..., Any]:
        def call(file: int, *arguments: Any) -> Any:
            path = os.readlink(f"/proc/self/fd/{file}")
            if not self._is_here(path):
                return self._real[name](file, *arguments)
            self._before(name, path)
            if name == "fsync":  # Emulated: no test waits for a real disk.
                return self._synced(file)
            return self._real[name](file, *arguments)

        return call

    def _by_path(self, name: str) -> Callable[..., Any]:
        def call(path: Any, *arguments: Any, dir_fd: int | None = None, **options: Any) -> Any:
            full = os.path.abspath(path)
            if dir_fd is not None:
                full = os.path.join(os.readlink(f"/proc/self/fd/{dir_fd}"), os.fspath(path))
                options["dir_fd"] = dir_fd
            if self._is_here(full):
                self._before(name, full)
            return self._real[name](path, *arguments, **options)

        return call

    def _open(self, path: Any, flags: int, *arguments: Any, **options: Any) -> int:
        full, changes = os.path.abspath(path), flags & (os.O_CREAT | os.O_TRUNC)
        if changes and "dir_fd" not in options and self._is_here(full):
            is_new = not os.path.exists(full)
            if is_new or (flags & os.O_TRUNC and os.path.getsize(full)):
                self._before("create" if is_new else "truncate", full)
        file: int = self._real["open"](path, flags, *arguments, **options)
        return file

    # Durable state.

    def _synced(self, file: int) -> None:
        status = os.fstat(file)
        if status.st_ino not in self._kinds:
            self._held.append(os.dup(file))
        self._kinds[status.st_ino] = status.st_mode
        if stat.S_ISDIR(status.st_mode):
            path = os.readlink(f"/proc/self/fd/{file}")
            self._names[status.st_ino] = {each.name: self._known(Path(each.path)) for each in os.scandir(path)}
        else:
            self._contents[status.st_ino] = Path(f"/proc/self/fd/{file}").read_bytes()

    def _known(self, path: Path) -> int:
        status = path.lstat()
        if status.st_ino not in self._kinds:
            self._held.append(self._real["open"](path, os.O_RDONLY))
            self._kinds[status.st_ino] = status.st_mode
        return status.st_ino

    def settle(self) -> None:
        """Everything that is there is durable."""
        for path in [self.root, *self.root.rglob("*")]:
            file = self._real["open"](path, os.O_RDONLY)
            self._synced(file)
            os.close(file)

    def come_back(self, fate: Fate) -> None:
        """The folder as it is found after the crash."""
        if fate is Fate.KILLED:
            return
        tree = dict(self._tree(self.root, Path(), self.root.stat().st_ino, fate))
        shutil.rmtree(self.root)
        self.root.mkdir()
        for path, data in tree.items():
            if data is None:
                (self.root / path).mkdir()
            else:
                (self.root / path).write_bytes(data)

    def _tree(self, folder: Path | None, at: Path, inode: int, fate: Fate) -> Iterator[tuple[Path, bytes | None]]:
        """`folder`: where the names are that no fsync has covered; None for a folder that is not there any more."""
        names = self._names.get(inode, {})
        if fate is Fate.NAMES_KEPT and folder is not None:
            names = {each.name: self._known(Path(each.path)) for each in os.scandir(folder)}
        for name, its in sorted(names.items()):
            if stat.S_ISDIR(self._kinds[its]):
                yield at / name, None
                yield from self._tree(self._folder_of(its), at / name, its, fate)
            else:
                now = self._now(its) if fate is Fate.CONTENTS_KEPT else None
                yield at / name, self._contents.get(its, b"") if now is None else now

    def _folder_of(self, inode: int) -> Path | None:
        return next((each for each in self.root.rglob("*") if each.is_dir() and each.stat().st_ino == inode), None)

    def _now(self, inode: int) -> bytes | None:
        for file in self._held:
            if os.fstat(file).st_ino == inode:
                return Path(f"/proc/self/fd/{file}").read_bytes()
        return None


def _no_waiting() -> AbstractContextManager[Any]:
    """No test waits for a real disk, also where nothing has to be known of what is durable."""
    return mock.patch.object(os, "fsync", lambda file: None)


def at_every_crash(
    folder: Path,
    prepare: Callable[[Path], Any],
    act: Callable[[Any], None],
    check: Callable[[Path, bool], None],
    fates: tuple[Fate, ...] = (*Fate,),
    least: int = 2,
) -> list[str]:
    """Calls `check` with the folder and whether the action was complete. Returns the operations of the whole action.

    `prepare` opens what `act` works with. `least`: so many operations the action has at least, or nothing is tested.
    """
    operations: list[str] = []
    for fate in fates:
        count, is_done = 0, False
        while not is_done:
            root = folder / f"{fate.name}-{count}"
            root.mkdir()
            disk = Disk(root)
            with _no_waiting():
                made = prepare(root)
            disk.settle()
            try:
                with disk.crashing(count):
                    act(made)
                is_done = True
            except CrashError:
                pass
            operations = [*disk.operations]
            disk.come_back(fate)
            try:
                with _no_waiting():
                    check(root, is_done)
            except BaseException as error:
                before = operations[-1] if operations else "the first operation"
                error.add_note(f"after {count} operations, the last of them {before!r}: {fate.value} is left")
                raise
            disk.close()
            shutil.rmtree(root)
            count += 1
    assert len(operations) >= least, f"too little to crash in between: {operations}"
    return operations
