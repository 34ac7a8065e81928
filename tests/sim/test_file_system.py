"""The simulated file system: what each crash takes, and that without one it is as the operating system's."""

import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kcore.sim.kernel.file_system import FATES, NEVER, CrashError, SimFileSystem
from kcore.storage.files import OS, FileSystem, opened, read_bytes, write_all, write_atomically, write_file

ROOT = Path("/d")
LOG = ROOT / "log"
APPEND = os.O_WRONLY | os.O_CREAT | os.O_APPEND


def new_disk() -> SimFileSystem:
    """With a folder that is there for good."""
    disk = SimFileSystem()
    disk.mkdir(ROOT)
    disk.fsync_folder(ROOT.parent)
    return disk


def append(disk: SimFileSystem, *pieces: bytes, path: Path = LOG) -> None:
    """One write a piece."""
    with opened(path, APPEND, files=disk) as file:
        for piece in pieces:
            write_all(file, piece, disk)


def sync(disk: SimFileSystem, path: Path = LOG) -> None:
    with opened(path, files=disk) as file:
        disk.fsync(file)
    disk.fsync_folder(path.parent)


def content(disk: SimFileSystem, path: Path = LOG) -> bytes | None:
    return read_bytes(path, files=disk) if disk.is_there(path) else None


def left(make: Callable[[], SimFileSystem], path: Path = LOG, cuts: int = 200) -> dict[str, set[bytes | None]]:
    """The contents of the file after power cuts, by the fate that each reports."""
    found: dict[str, set[bytes | None]] = {}
    for seed in range(cuts):
        disk = make()
        fates = disk.cut_power(Random(seed))
        found.setdefault(fates[0] if fates else "", set()).add(content(disk, path))
        assert not disk.unsynced and disk.cut_power(Random(seed)) == [], "what is left is durable"
    return found


def with_tail() -> SimFileSystem:
    disk = new_disk()
    append(disk, b"old")
    sync(disk)
    append(disk, b"abc", b"de")
    return disk


def test_kill_keeps_all_that_was_written_and_makes_nothing_durable() -> None:
    disk = with_tail()
    disk.end_process()
    assert content(disk) == b"oldabcde"
    assert b"old" in {content for contents in left(with_tail).values() for content in contents}


def test_descriptors_end_with_their_process() -> None:
    disk = with_tail()
    file = disk.open(LOG)
    disk.end_process()
    with pytest.raises(OSError, match="Bad file descriptor"):
        disk.pread(file, 1, 0)


def test_a_power_cut_leaves_a_prefix_of_what_was_not_synced() -> None:
    found = left(with_tail)
    assert set(found) == set(FATES)
    assert found["tail lost"] == {b"old"} and found["tail kept"] == {b"oldabcde"}
    assert found["tail lost in part"] == {b"old", b"oldabc"}


def test_a_torn_write_is_its_beginning_or_its_size_without_its_bytes() -> None:
    found = left(with_tail)["torn write"]
    assert {b"old", b"olda", b"oldab", b"oldabc", b"oldabcd"} < found
    assert found - {b"old", b"olda", b"oldab", b"oldabc", b"oldabcd"} == {
        *(b"old\0\0\0", b"olda\0\0", b"oldab\0", b"oldabc\0\0", b"oldabcd\0")
    }


def test_a_bit_flips_in_what_was_not_synced_alone() -> None:
    for found in left(with_tail)["bit flip"]:
        assert found is not None and found[:3] == b"old" and len(found) in (6, 8)
        bits = int.from_bytes(found[3:]) ^ int.from_bytes(b"abcde"[: len(found) - 3])
        assert bits.bit_count() == 1


def test_a_bit_flips_where_it_may() -> None:
    def may_flip(name: str, data: bytes) -> list[range]:
        assert name == "log"
        return [range(2, 3)] if len(data) == 3 else []

    seen = set()
    for seed in range(60):
        disk = with_tail()
        [fate] = disk.cut_power(Random(seed), may_flip)
        if fate == "bit flip":
            found = content(disk)
            assert found is not None and found[:5] == b"oldab" and found[5] != b"c"[0]
            seen.add(found[6:])
    assert seen == {b"", b"de"}, "what was written behind it may be there"


def test_an_overwritten_byte_comes_back() -> None:
    def make() -> SimFileSystem:
        disk = new_disk()
        append(disk, b"old")
        sync(disk)
        write_file_unsynced(disk, b"new one")
        return disk

    found = left(make)
    assert found["tail lost"] == {b"old"} and found["tail kept"] == {b"new one"}
    assert b"" in found["tail lost in part"], "it was emptied first"


def write_file_unsynced(disk: SimFileSystem, data: bytes) -> None:
    with opened(LOG, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, files=disk) as file:
        write_all(file, data, disk)


def test_a_truncation_that_was_not_synced_comes_back() -> None:
    def make(*, is_synced: bool = False) -> SimFileSystem:
        disk = with_tail()
        sync(disk)
        with opened(LOG, os.O_WRONLY, files=disk) as file:
            disk.ftruncate(file, 4)
            if is_synced:
                disk.fsync(file)
        return disk

    assert set().union(*left(make).values()) == {b"oldabcde", b"olda"}
    assert left(lambda: make(is_synced=True)) == {"": {b"olda"}}


def test_an_fsync_through_a_duplicate_covers_what_was_there_when_it_was_made() -> None:
    disk = with_tail()
    file = disk.open(LOG, APPEND)
    twin = disk.dup(file)
    disk.write(file, b"later")
    disk.fsync(twin)
    assert disk.file(LOG).safe == len(b"oldabcde") and disk.unsynced
    disk.fsync(file)
    assert disk.file(LOG).safe == len(b"oldabcdelater") and not disk.unsynced


NAMES = ROOT / "a", ROOT / "b"


def names_left(*do: Callable[[SimFileSystem], None]) -> set[tuple[str, ...]]:
    found = set()
    for seed in range(60):
        disk = new_disk()
        write_file(NAMES[0], b"a", disk)
        disk.fsync_folder(ROOT)
        for each in do:
            each(disk)
        disk.cut_power(Random(seed))
        found.add(tuple(f"{name}={content(disk, ROOT / name)!r}" for name in sorted(disk.names(ROOT))))
    return found


def test_names_are_durable_with_their_folder() -> None:
    def made(disk: SimFileSystem) -> None:
        write_file(NAMES[1], b"b", disk)

    def renamed(disk: SimFileSystem) -> None:
        disk.replace(NAMES[1], NAMES[0])

    def removed(disk: SimFileSystem) -> None:
        disk.unlink(NAMES[0])

    def synced(disk: SimFileSystem) -> None:
        disk.fsync_folder(ROOT)

    a, b = "a=b'a'", "b=b'b'"
    assert names_left() == {(a,)}
    assert names_left(made) == {(a,), (a, b)} and names_left(made, synced) == {(a, b)}
    assert names_left(made, renamed) == {(a,), (a, b), ("a=b'b'",)}, "all at once, in the order of the changes"
    assert names_left(removed) == {(a,), ()} and names_left(removed, synced) == {()}
    assert names_left(made, synced, removed, renamed) == {(a, b), (b,), ("a=b'b'",)}


def test_a_folder_goes_with_its_name() -> None:
    found = set()
    for seed in range(20):
        disk = SimFileSystem()
        disk.mkdir(ROOT)
        append(disk, b"x")
        sync(disk)
        disk.cut_power(Random(seed))
        found.add(disk.is_there(LOG))
    assert found == {True, False}


def test_a_file_without_a_name_does_not_count() -> None:
    disk = with_tail()
    disk.unlink(LOG)
    assert disk.unsynced, "the name may come back"
    disk.fsync_folder(ROOT)
    assert not disk.unsynced and disk.cut_power(Random(1)) == []


def test_a_process_ends_between_two_operations() -> None:
    """And nothing that it then tidies up happens either."""
    steps = []
    for operations in range(6):
        disk = new_disk()
        write_atomically(LOG, b"old", disk)
        disk.crash_after(operations)
        try:
            write_atomically(LOG, b"new", disk)
        except CrashError as crash:
            assert crash.files is disk
        steps.append((sorted(disk.names(ROOT)), content(disk)))
        disk.end_process()
        append(disk, b"!")  # The next process goes on.
    both = ["log", "log.tmp"]
    assert steps == [(["log"], b"old"), (both, b"old"), (both, b"old"), (both, b"old"), *[(["log"], b"new")] * 2]
    disk.crash_after(3)
    disk.crash_after(NEVER)
    append(disk, *[b"!"] * 9)


def test_a_full_disk_takes_a_part_or_nothing_and_has_room_again() -> None:
    disk = with_tail()
    disk.is_full = True
    file = disk.open(LOG, APPEND)
    assert disk.write(file, b"123456") == 3
    with pytest.raises(OSError, match="No space left"):
        disk.write(file, b"1")
    assert disk.has_refused and content(disk) == b"oldabcde123"
    disk.is_full = False
    assert disk.write(file, b"1") == 1


# Without a crash: as the operating system's.

FILES = ("a", "b", "c")
FLAGS = {
    "read": os.O_RDONLY,
    "append": APPEND,
    "anew": os.O_WRONLY | os.O_CREAT | os.O_TRUNC,
    "over": os.O_RDWR | os.O_CREAT,
}
name = st.sampled_from(FILES)
handle = st.integers(0, 3)
OPERATIONS = st.one_of(
    st.tuples(st.just("open"), name, st.sampled_from(sorted(FLAGS))),
    st.tuples(st.sampled_from(("close", "dup", "size", "fsync", "lock")), handle),
    st.tuples(st.just("write"), handle, st.binary(max_size=12)),
    st.tuples(st.just("pread"), handle, st.integers(0, 20), st.integers(0, 20)),
    st.tuples(st.just("map"), handle, st.integers(1, 20)),
    st.tuples(st.just("ftruncate"), handle, st.integers(0, 20)),
    st.tuples(st.just("replace"), name, name),
    st.tuples(st.sampled_from(("unlink", "is_there", "size_of")), name),
    st.tuples(st.sampled_from(("names", "mkdir", "fsync_folder"))),
)


def outcomes(files: FileSystem, root: Path, operations: list[tuple[object, ...]]) -> list[object]:
    """The result of each operation (an error's kind if it fails), and the final files."""
    handles: list[int] = []
    found: list[object] = []
    for kind, *given_to in operations:
        try:
            found.append(_perform(files, root, handles, str(kind), *given_to))
        except (OSError, ValueError) as error:
            found.append(type(error))
    found.append({name: read_bytes(root / name, files=files) for name in sorted(files.names(root))})
    for each in handles:
        files.close(each)
    return found


def _perform(files: FileSystem, root: Path, handles: list[int], kind: str, *args: object) -> object:
    if kind == "open":
        handles.append(files.open(root / str(args[0]), FLAGS[str(args[1])]))
        return None
    if kind in ("names", "mkdir", "fsync_folder"):
        found = getattr(files, kind)(root)
        return sorted(found) if kind == "names" else None
    if kind in ("replace", "unlink", "is_there", "size_of"):
        return getattr(files, kind)(*(root / str(each) for each in args))
    if not handles:
        return None
    at = int(str(args[0])) % len(handles)
    if kind == "close":
        return files.close(handles.pop(at))
    if kind == "dup":
        return handles.append(files.dup(handles[at]))
    found = getattr(files, kind)(handles[at], *args[1:])
    return bytes(found[:]) if kind == "map" else found


@settings(max_examples=400, deadline=None)
@given(operations=st.lists(OPERATIONS, max_size=30))
@example([("open", "a", "anew"), ("write", 0, b"x"), ("open", "a", "anew"), ("write", 0, b"")])
@example([("open", "a", "anew"), ("dup", 0), ("write", 0, b"x"), ("write", 1, b"y")])
def test_without_a_crash_it_is_as_the_operating_systems(operations: list[tuple[object, ...]]) -> None:
    folder = Path(tempfile.mkdtemp())
    try:
        real = outcomes(OS, folder, operations)
    finally:
        shutil.rmtree(folder)
    assert outcomes(new_disk(), ROOT, operations) == real


@settings(max_examples=200, deadline=None)
@given(operations=st.lists(OPERATIONS, max_size=30), seed=st.integers(0, 1000))
def test_what_was_synced_outlives_any_power_cut(operations: list[tuple[object, ...]], seed: int) -> None:
    disk = new_disk()
    outcomes(disk, ROOT, operations)
    for each in disk.names(ROOT):
        with opened(ROOT / each, files=disk) as file:
            disk.fsync(file)
    disk.fsync_folder(ROOT)
    before = {each: content(disk, ROOT / each) for each in disk.names(ROOT)}
    safe = {each: disk.file(ROOT / each).safe for each in before}
    append(disk, b"more", path=ROOT / "a")
    disk.cut_power(Random(seed))
    for each, data in before.items():
        assert data is not None and safe[each] == len(data)
        assert (content(disk, ROOT / each) or b"")[: len(data)] == data
