"""Reads the stack samples of py-spy and async-profiler: lines of the form `thread;outermost;...;innermost count`."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

_PY_SPY_THREAD: Final = re.compile(r"thread \((\d+)\)(?:: (.*))?")
_ASYNC_THREAD: Final = re.compile(r"\[(.*?) ?tid=(\d+)\]")
_COMPILED: Final = re.compile(r"_\[[0-9ijkc]\]$")  # async-profiler: how the JVM had compiled a frame.
_HIDDEN: Final = re.compile(
    r"(\$\$Lambda)(?:\$\d+)?(?:[./]0x[0-9a-f]+)?"
)  # A lambda's class: its number and address differ run by run.


@dataclass(frozen=True, slots=True)
class Sample:
    """A stack in which a thread was seen `count` times. The outermost frame is the first."""

    tid: int
    thread: str
    frames: tuple[str, ...]
    count: int


def samples_of_py_spy(text: str) -> Iterator[Sample]:
    """Reads the output of `py-spy record --threads --format raw`; frames: such as `encode (kcore/wire/codec.py)`."""
    for frames, count in _stacks(text):
        found = _PY_SPY_THREAD.match(frames[0])
        if found:
            yield Sample(int(found[1]), found[2] or "", tuple(map(_shortened, frames[1:])), count)


def samples_of_async_profiler(text: str) -> Iterator[Sample]:
    """Reads the output of `jfr-converter --threads --dot --output collapsed`; frames: like `java.lang.Thread.run`."""
    for frames, count in _stacks(text):
        found = _ASYNC_THREAD.match(frames[0])
        if found:
            rest = (_HIDDEN.sub(r"\1", _COMPILED.sub("", frame)).replace("/", ".") for frame in frames[1:])
            yield Sample(int(found[2]), found[1], tuple(rest), count)


def _stacks(text: str) -> Iterator[tuple[list[str], int]]:
    for line in text.splitlines():
        stack, _, count = line.rpartition(" ")
        if stack and count.isdecimal():
            yield stack.split(";"), int(count)


def _shortened(frame: str) -> str:
    """The frame without this machine's folders: the path begins at `kcore/`, or has only its last two parts."""
    name, _, place = frame.rpartition(" (")
    parts = place.rstrip(")").split("/")
    if "kcore" in parts:
        parts = parts[len(parts) - 1 - parts[::-1].index("kcore") :]
    return f"{name} ({'/'.join(parts if parts[0] == 'kcore' else parts[-2:])})"


def folded(stacks: Iterable[tuple[tuple[str, ...], int]]) -> str:
    """Stacks in the text format of tools for flame graphs; the counts are microseconds of CPU time."""
    lines = (f"{';'.join(frame.replace(';', ',') for frame in frames)} {count}\n" for frames, count in stacks if count)
    return "".join(lines)
