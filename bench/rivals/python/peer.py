"""Shared by all Python peers: answers the harness line by line, as bench/rivals/README.md specifies."""

import gc
import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

MIN_ROUNDS = 1
REPEATS = {"small": 200, "big": 1}  # Runs of a round in the group `messages`: a small one is too short for the clock.
MIB = 1 << 20
FIELDS = ("isr", "replicas", "adding_replicas", "removing_replicas", "offline_replicas")


class Case:
    """One measured case."""

    gc_off = False  # Whether the collector rests while this case is timed.

    def check(self) -> bytes:
        """The result as bytes, to be compared with the other peers' before any time is believed."""
        raise NotImplementedError

    def run(self, round_: int) -> int:
        """The work to be timed; returns how many partitions (or messages) it handled."""
        raise NotImplementedError

    def keep(self) -> object:
        """The object that the memory figure keeps alive."""
        raise NotImplementedError


def read_lists(message: Any) -> None:
    """Asks for every list of every partition: kcore makes lists of numbers when they are asked for, kio before."""
    partition = message.topic_states[0].partition_states[0]
    names = [name for name in FIELDS if hasattr(partition, name)]
    for topic in message.topic_states:
        for partition in topic.partition_states:
            for name in names:
                getattr(partition, name)


class Message(Case):
    """One case of the group `messages`; `call` is timed as it is, `result` gives the decoded message's bytes."""

    def __init__(self, shape: str, call: Callable[[], object], result: Callable[[], bytes]) -> None:
        self.repeats, self.call, self.result = REPEATS[shape], call, result

    def check(self) -> bytes:
        return self.result()

    def run(self, round_: int) -> int:
        call = self.call
        for _ in range(self.repeats):
            call()
        return self.repeats


def serve(make: Callable[[str, Path], Case | None]) -> None:
    """Read commands from standard input until it ends; `make` gives the case of a name, or None if it has none."""
    directory = Path(sys.argv[-1])
    made: dict[str, Case | None] = {}  # The case at hand only: what others keep alive would cost collections.
    for line in sys.stdin:
        try:
            reply = _answer(line.split(), directory, make, made)
        except Exception as error:  # The harness prints it and goes on with the other peers.
            reply = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(reply), flush=True)


def _answer(
    words: list[str], directory: Path, make: Callable[[str, Path], Case | None], made: dict[str, Case | None]
) -> dict[str, Any]:
    command, name, *rest = words
    if name not in made:
        made.clear()
        made[name] = make(name, directory)
    case = made[name]
    if case is None:
        return {"skip": "not supported"}
    if command == "check":
        Path(rest[0]).write_bytes(case.check())
        return {}
    if command == "time":
        return {"ns": _time(case, float(rest[0]))}
    return {"mib": _memory(case)}


def _time(case: Case, seconds: float) -> list[float]:
    """Rounds for so long; for no seconds one round, as a program would come to it: nothing is collected before."""
    if seconds:
        gc.collect()
    ns: list[float] = []
    left = seconds * 1e9
    with _collector(case.gc_off):
        while left > 0 or len(ns) < MIN_ROUNDS:
            start = time.perf_counter_ns()
            partitions = case.run(len(ns))
            took = time.perf_counter_ns() - start
            left -= max(took, 1)
            ns.append(round(took / partitions, 4))
    return ns


@contextmanager
def _collector(off: bool) -> Iterator[None]:
    if off:
        gc.disable()
    try:
        yield
    finally:
        gc.enable()


def _memory(case: Case) -> float:
    gc.collect()
    before = _resident_bytes()
    kept = case.keep()
    gc.collect()
    grown = _resident_bytes() - before
    del kept
    return round(grown / MIB, 1)


def _resident_bytes() -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise OSError("no VmRSS")
