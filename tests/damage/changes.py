"""Makes damaged copies of a file: a hole, cut, repetition, swap, zeros or flipped bit at every border.

A file is parts between borders: the batches of a segment or a snapshot, the entries of an index, the lines of a
checkpoint.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from kcore.wire.record_batch import scan_batches

ENTRIES: Final = {".index": 8, ".timeindex": 12, ".txnindex": 34}
# Where a flip of a batch hits: the name of the field, and its first byte.
FIELDS: Final = {
    "baseOffset": 7,
    "batchLength": 11,
    "partitionLeaderEpoch": 15,
    "magic": 16,
    "crc": 17,
    "attributes": 22,
    "lastOffsetDelta": 26,
    "records": 66,
}
WHOLE: Final = "whole file"


class Change(NamedTuple):
    """One change of one file. `part` counts from 0; of changes of all of the file it is 0."""

    file: str
    kind: str
    part: int

    def __str__(self) -> str:
        return f"{self.file} {self.kind} {self.part}"


def parts_of(path: Path) -> list[bytes]:
    """The file from border to border."""
    data = path.read_bytes()
    if path.suffix in (".log", ".checkpoint"):
        found = scan_batches(data)
        ends = (found.position + found.size).tolist()
    elif path.suffix in ENTRIES:
        ends = list(range(ENTRIES[path.suffix], len(data) + 1, ENTRIES[path.suffix]))
    else:
        ends = [at + 1 for at, byte in enumerate(data) if byte == ord("\n")]
    return [data[begin:end] for begin, end in zip([0, *ends], [*ends, len(data)], strict=True) if end > begin]


def _hole(parts: list[bytes], at: int) -> None:
    del parts[at]


def _cut(parts: list[bytes], at: int) -> None:
    del parts[at:]


def _torn(parts: list[bytes], at: int) -> None:
    parts[at:] = [parts[at][: len(parts[at]) // 2]]


def _twice(parts: list[bytes], at: int) -> None:
    parts.insert(at, parts[at])


def _swap(parts: list[bytes], at: int) -> None:
    parts[at : at + 2] = parts[at : at + 2][::-1]


def _zeros(parts: list[bytes], at: int) -> None:
    parts[at] = bytes(len(parts[at]))


def _flip(place: int) -> Callable[[list[bytes], int], None]:
    def change(parts: list[bytes], at: int) -> None:
        part = bytearray(parts[at])
        part[min(place, len(part) - 1)] ^= 2
        parts[at] = bytes(part)

    return change


KINDS: Final[dict[str, Callable[[list[bytes], int], None]]] = {
    "hole": _hole,
    "cut": _cut,
    "torn": _torn,
    "twice": _twice,
    "swap": _swap,
    "zeros": _zeros,
    **{f"flip of {name}": _flip(place) for name, place in FIELDS.items()},
}
FLIP: Final = "flip of "


def changes_of(folder: Path) -> Iterator[Change]:
    """All changes of all files of a folder and of those below it."""
    for path in sorted(each for each in folder.rglob("*") if each.is_file() and each.name != ".lock"):
        name, count = str(path.relative_to(folder)), len(parts_of(path))
        has_batches = path.suffix in (".log", ".checkpoint")
        for kind in KINDS:
            if has_batches or not kind.startswith(FLIP) or kind == "flip of baseOffset":
                yield from (Change(name, kind, part) for part in range(count - (kind == "swap")))
        if path.suffix == ".log":
            yield Change(name, WHOLE, 0)


def apply(folder: Path, change: Change) -> None:
    """Does it to a copy of the folder."""
    path = folder / change.file
    if change.kind == WHOLE:
        path.unlink()
        return
    parts = parts_of(path)
    KINDS[change.kind](parts, change.part)
    path.chmod(0o644)
    path.write_bytes(b"".join(parts))
