"""Reads and writes checkpoint files: a version, a count, and one entry per line (Kafka's CheckpointFile).

Each partition's folder has a `leader-epoch-checkpoint`. A log directory has `replication-offset-checkpoint`,
`recovery-point-offset-checkpoint`, `log-start-offset-checkpoint` and `cleaner-offset-checkpoint`.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Final, NamedTuple

from kcore.errors import StorageError
from kcore.replication.epochs import EpochEntry
from kcore.storage.files import OS, FileSystem, naming, read_text, write_atomically

LEADER_EPOCHS: Final = "leader-epoch-checkpoint"
OFFSETS: Final = (
    "replication-offset-checkpoint",
    "recovery-point-offset-checkpoint",
    "log-start-offset-checkpoint",
    "cleaner-offset-checkpoint",
)
VERSION: Final = 0
MOST_EPOCHS_BYTES: Final = 1 << 24  # Size limit of a leader-epoch-checkpoint, enough for half a million epochs.
MOST_OFFSETS_BYTES: Final = 1 << 26  # Size limit of an offset checkpoint: 200,000 partitions with the longest names.
FEW_LETTERS: Final = 1 << 14  # Parsed files of at most so many characters are cached.
INT32: Final = 32
INT64: Final = 64
_LINE_END: Final = re.compile(r"\r\n|\r|\n")  # As BufferedReader.readLine; str.splitlines knows more line ends.
# Matches files as kcore and Kafka write them, which are then parsed in one step; others are parsed line by line.
_PLAIN_EPOCHS: Final = re.compile(r"0\n([0-9]{1,9})\n((?:[0-9]{1,9} [0-9]{1,18}\n)*)")
_BLANKS: Final = re.compile(r"[ \t\n\x0b\f\r]+")  # Java's \s


class TopicPartition(NamedTuple):
    """A partition, by its topic's name and its index."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


def parse_leader_epochs(text: str) -> list[EpochEntry]:
    """The entries of a leader-epoch-checkpoint in the file's order; a StorageError quotes an invalid line."""
    if plain := _PLAIN_EPOCHS.fullmatch(text):
        numbers = [*map(int, plain[2].split())]
        if len(numbers) == 2 * int(plain[1]):
            return [*map(EpochEntry, numbers[::2], numbers[1::2])]
    return [
        EpochEntry(_natural(epoch, INT32, line), _natural(offset, INT64, line))
        for line, (epoch, offset) in _entries(text, 2)
    ]


def parse_offsets(text: str) -> dict[TopicPartition, int]:
    """Offsets by partition, in the file's order; a StorageError quotes an invalid line."""
    return {
        TopicPartition(topic, _integer(partition, INT32, line)): _integer(offset, INT64, line)
        for line, (topic, partition, offset) in _entries(text, 3)
    }


def format_offsets(offsets: Mapping[tuple[str, int], int]) -> str:
    """The content of an offset checkpoint, in the mapping's order; StorageError for a topic that is no valid field."""
    for topic, _ in offsets:
        if not topic or _BLANKS.search(topic):
            raise StorageError(f"{topic!r} is no topic's name")
    return _format(f"{topic} {partition} {offset}" for (topic, partition), offset in offsets.items())


def read_leader_epochs(path: Path, files: FileSystem = OS) -> list[EpochEntry]:
    """Reads a leader-epoch-checkpoint, as `parse_leader_epochs` does."""
    with naming(path):
        text = read_text(path, MOST_EPOCHS_BYTES, files)
        return parse_leader_epochs(text) if len(text) > FEW_LETTERS else [*_few_leader_epochs(text)]


def write_leader_epochs(path: Path, entries: Iterable[tuple[int, int]], files: FileSystem = OS) -> None:
    """Replaces a leader-epoch-checkpoint atomically; `entries` are (epoch, start offset) pairs."""
    write_atomically(path, _format(f"{epoch} {start_offset}" for epoch, start_offset in entries).encode(), files)


def read_offsets(path: Path, files: FileSystem = OS) -> dict[TopicPartition, int]:
    """Reads an offset checkpoint, as `parse_offsets` does."""
    with naming(path):
        text = read_text(path, MOST_OFFSETS_BYTES, files)
        return parse_offsets(text) if len(text) > FEW_LETTERS else {**_few_offsets(text)}


def write_offsets(path: Path, offsets: Mapping[tuple[str, int], int], files: FileSystem = OS) -> None:
    """Replaces an offset checkpoint atomically; `offsets` are by topic and partition."""
    write_atomically(path, format_offsets(offsets).encode(), files)


@lru_cache(maxsize=64)
def _few_leader_epochs(text: str) -> Sequence[EpochEntry]:
    """Returns the result of `parse_leader_epochs` from a cache: a start reads the same short files several times."""
    return parse_leader_epochs(text)


@lru_cache(maxsize=64)
def _few_offsets(text: str) -> Mapping[TopicPartition, int]:
    """Returns the result of `parse_offsets` from a cache, for the same reason as `_few_leader_epochs`."""
    return parse_offsets(text)


def lines_of(text: str) -> Iterator[str]:
    """The lines as Java's BufferedReader returns them, without line ends; the last line may have none."""
    begin = 0
    for end in _LINE_END.finditer(text):
        yield text[begin : end.start()]
        begin = end.end()
    if begin < len(text):
        yield text[begin:]


def fields_of(line: str) -> list[str]:
    """The fields as Java's split returns them: a leading blank makes an empty field, trailing blanks make none."""
    fields = _BLANKS.split(line)
    while fields and not fields[-1]:
        fields.pop()
    return fields


def _entries(text: str, width: int) -> Iterator[tuple[int, list[str]]]:
    """The line number and the fields of every entry of a checkpoint; each entry must have `width` fields."""
    lines = lines_of(text)
    if (version := next(lines, None)) is None:
        return  # Kafka creates an empty file before it writes entries.
    if _integer(version, INT32, 1) != VERSION:
        raise StorageError(f"line 1: version {version:.60}, not {VERSION}")
    if (promised := next(lines, None)) is None:
        return
    count, found = _integer(promised, INT32, 2), 0
    for found, line in enumerate(lines, start=1):
        fields = fields_of(line)
        if len(fields) != width:
            raise StorageError(f"line {found + 2}: {len(fields)} fields, not {width}: {line[:60]!r}")
        yield found + 2, fields
    if found != count:
        raise StorageError(f"line 2: {count} entries are promised, {found} follow")


def _integer(text: str, bits: int, line: int) -> int:
    """Parses a number of `bits` bits as Java's Integer.parseInt or Long.parseLong does."""
    if len(text) <= 40 and re.fullmatch(r"[+-]?[0-9]+", text):
        value = int(text)
        if -(1 << bits - 1) <= value < 1 << bits - 1:
            return value
    raise StorageError(f"line {line}: {text[:60]!r} is no int{bits}")


def _natural(text: str, bits: int, line: int) -> int:
    """Parses a number as `_integer` does; raises StorageError if it is negative."""
    if (value := _integer(text, bits, line)) < 0:
        raise StorageError(f"line {line}: {value} is negative")
    return value


def _format(entries: Iterable[str]) -> str:
    lines = list(entries)
    return "".join(f"{line}\n" for line in (VERSION, len(lines), *lines))
