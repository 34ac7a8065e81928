"""Changed bytes against every kernel that reads bytes; `ci/sanitize fuzz` has the kernels instrumented.

An input must be refused by an error of ours, or be read, written and read again as the same, in both views alike.
Anything else (a crash, another exception, bytes that differ, too much memory, a minute without an end) is a finding.
A finding ends the run with exit code 1 and a line that names the input. Kernels that read no messages are compared with
their slow twins. With --state an interrupted run continues at its last round.
"""

import argparse
import json
import math
import re
import resource
import sys
import time
from collections import Counter
from collections.abc import Callable
from functools import lru_cache
from mmap import mmap
from multiprocessing import connection, get_context
from os import cpu_count, getppid
from pathlib import Path
from typing import NoReturn

import fuzz_inputs
from fuzz_bytes import BYTES, bytes_input_of, bytes_rounds, size_of
from fuzz_inputs import A_ROUND, Input, batches, frames, messages, numbers
from fuzz_kernels import KERNEL_READERS, KERNELS, SEEDS_OF, kernel_input_of

import kcore
from kcore.wire.record_building import encode_batches
from wire.golden import put_back

MOST_BYTES = 1 << 21  # In the compressed records of one input.
MOST_GROWTH = 1 << 26  # The process's memory growth by one input, in bytes.
MOST_SECONDS = 60  # For one input.
SHOWN = 12  # Reasons a kind.
REPORT_INTERVAL_S = 30
KERNELS_EACH = 8  # One round in 8 tests the kernels that read no messages.
MIXES = {
    "all": "all: drawn changes, every decoder",
    "messages": "messages: those that read messages",
    "kernels": "kernels: the others",
    "bytes": "bytes: nothing drawn, every byte of every seed replaced by every other, and every byte put in before it",
}
FORK = get_context("fork")  # The inputs' seeds are shared.

Found = Counter[tuple[str, str, int, str]]  # Kind, name, version, and what became of such inputs.


def objects(given: Input) -> str:
    """Read, written, and read again as the same."""
    try:
        read = kcore.decode(given.name, given.version, given.data)
    except kcore.DecodeError as error:
        return refused(error, len(given.data))
    written = kcore.encode(read, given.version)
    assert kcore.encode(kcore.decode(given.name, given.version, written), given.version) == written
    return "read"


def columns(given: Input) -> str:
    """As `objects`, and the columns say the same."""
    outcome = objects(given)
    try:
        made = kcore.decode_columns(given.name, given.version, given.data)
    except kcore.DecodeError as error:
        assert outcome != "read"
        return refused(error, len(given.data))
    assert outcome == "read"
    written = kcore.encode(kcore.decode(given.name, given.version, given.data), given.version)
    assert kcore.encode_columns(made, given.version) == written
    return "read"


def views(given: Input) -> str:
    """As `columns`, and through JSON and back; Arrow finds nothing wrong with its arrays."""
    outcome = columns(given)
    if outcome == "read":
        kcore.decode_columns(given.name, given.version, given.data).to_arrow().validate(full=True)
        read = kcore.decode(given.name, given.version, given.data)
        text = json.dumps(kcore.to_json(read, given.version))
        again = kcore.from_json(given.name, given.version, json.loads(text))
        put_back(again, read)
        # JSON keeps that a value is NaN, but loses the bits of the NaN.
        same = kcore.encode(again, given.version) == kcore.encode(read, given.version)
        assert same or ("NaN" in text and json.dumps(kcore.to_json(again, given.version)) == text)
    return outcome


def framed(given: Input) -> str:
    """A metadata record in its frame, as `objects`."""
    try:
        record, version = kcore.wire.decode_metadata_record(given.data)
    except kcore.DecodeError as error:
        return refused(error, len(given.data))
    written = kcore.wire.encode_metadata_record(record, version)
    again, version_again = kcore.wire.decode_metadata_record(written)
    assert version_again == version
    assert kcore.wire.encode_metadata_record(again, version) == written
    return "read"


def record_batches(given: Input) -> str:
    """The CRC is not asked, so that what it covers is reached; what was read is built, and read with its CRC."""
    scanned = kcore.wire.scan_batches(given.data, stop=True, skip=True)
    assert 0 <= scanned.end <= len(given.data)
    try:
        records = kcore.wire.decode_records(given.data, check_crc=False, max_bytes=MOST_BYTES)
    except kcore.DecodeError as error:
        return refused(error, len(given.data))
    assert len(records.decompressed) <= MOST_BYTES
    records.to_arrow().validate()
    built = encode_batches(records, codec="none")
    assert encode_batches(kcore.wire.decode_records(built)) == built
    return "read"


READERS: dict[str, Callable[[Input], str]] = {
    "objects": objects,
    "columns": columns,
    "views": views,
    "frames": framed,
    "batches": record_batches,
    **KERNEL_READERS,
}


def input_of(round_: int, index: int) -> Input:
    if round_ >= BYTES:
        return bytes_input_of(round_, index)
    return (kernel_input_of if round_ >= KERNELS else fuzz_inputs.input_of)(round_, index)


def inputs_in(round_: int) -> int:
    return size_of(round_) if round_ >= BYTES else A_ROUND


def refused(error: kcore.DecodeError, length: int) -> str:
    """Why, once its offset is seen to lie within the bytes."""
    assert 0 <= error.offset <= length
    return reason(error.message)


@lru_cache(1 << 16)
def reason(message: str) -> str:
    """Without the field's path and without numbers."""
    return re.sub(r"\d+", "N", re.sub(r"^([\w.\[\]]+: )+", "", message))


def peak_bytes() -> int:
    """The most memory that this process has had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def check(given: Input, before: int) -> tuple[str, int]:
    """The outcome for the input: "read", or why it was refused; and the peak, `before` being that of before it.

    Raises for a finding.
    """
    outcome = READERS[given.kind](given)
    peak = peak_bytes()
    assert peak - before <= MOST_GROWTH, f"{peak - before:,} bytes of memory"
    return outcome, peak


class Worker:
    """A process with its rounds, the input that it is at, and what it found in the rounds that are done."""

    def __init__(self, rounds: list[int]) -> None:
        self.shared = mmap(-1, 16)  # Round and index: here they outlive a crash.
        self.at = memoryview(self.shared).cast("q")
        self.pipe, sender = FORK.Pipe(duplex=False)
        self.process = FORK.Process(target=self._run, args=(rounds, sender), daemon=True)
        self.process.start()
        sender.close()
        self.moved, self.last = time.monotonic(), (-1, -1)

    def _run(self, rounds: list[int], sender: connection.Connection) -> None:
        parent = getppid()
        for round_ in rounds:
            if getppid() != parent:
                return  # The parent process has ended.
            numbers.cache_clear()
            self.at[0], self.at[1] = round_, 0
            found: Found = Counter()
            peak = peak_bytes()
            for index in range(inputs_in(round_)):
                self.at[1] = index
                given = input_of(round_, index)
                outcome, peak = check(given, peak)
                found[given.kind, given.name, given.version, outcome] += 1
            sender.send((round_, found))

    def received(self) -> tuple[int, Found]:
        """A round that is done, and what came of it; EOFError after the last."""
        self.moved = time.monotonic()
        done: tuple[int, Found] = self.pipe.recv()
        return done

    def hangs(self) -> bool:
        if self.last != (now := tuple(self.at)):
            self.last, self.moved = now, time.monotonic()
        return time.monotonic() - self.moved > MOST_SECONDS


class Campaign:
    """Which rounds are done, and what was found in them; in a file, if there is one."""

    def __init__(self, path: Path | None) -> None:
        self.path, self.found = path, Counter[tuple[str, str, int, str]]()
        self.done: set[int] = set()
        self.seconds = 0.0
        if path is not None and path.exists():
            kept = json.loads(path.read_text())
            self.done, self.seconds = {*kept["rounds"]}, kept["seconds"]
            self.found.update({tuple(key): count for *key, count in kept["found"]})

    def keep(self) -> None:
        if self.path is not None:
            found = [[*key, count] for key, count in self.found.items()]
            kept = {"inputs": self.found.total(), "seconds": self.seconds, "rounds": sorted(self.done), "found": found}
            beside = self.path.with_suffix(".new")
            beside.write_text(json.dumps(kept))
            beside.replace(self.path)

    def run(self, rounds: list[int], jobs: int) -> None:
        """Those not done yet, in `jobs` processes; ends this one with exit code 1 at the first finding."""
        left = [each for each in rounds if each not in self.done]
        workers = {worker.pipe: worker for worker in (Worker(left[number::jobs]) for number in range(jobs))}
        before, began, reported_at = self.seconds, time.monotonic(), -math.inf
        done, all_ = self.found.total(), sum(map(inputs_in, {*rounds} | self.done))
        while workers:
            for pipe in connection.wait(list(workers), timeout=1):
                try:
                    round_, found = workers[pipe].received()
                except EOFError:
                    ended = workers.pop(pipe)
                    ended.process.join()
                    if ended.process.exitcode:
                        finding(ended, f"its process ended with {ended.process.exitcode}, see above")
                else:
                    self.found.update(found)
                    self.done.add(round_)
            for worker in workers.values():
                if worker.hangs():
                    worker.process.kill()
                    finding(worker, f"no end after {MOST_SECONDS} s")
            self.seconds = before + time.monotonic() - began
            if time.monotonic() - reported_at > REPORT_INTERVAL_S or not workers:
                reported_at = time.monotonic()
                self.keep()
                rate = (self.found.total() - done) / (reported_at - began)
                print(f"ci/fuzz: {self.found.total():,} of {all_:,} inputs, {rate:,.0f}/s", flush=True)


def finding(worker: Worker, what: str) -> NoReturn:
    round_, index = worker.at
    given = input_of(round_, index)
    print(f"ci/fuzz: FINDING: {what}\n{given.kind} {given.name} {given.version} {given.data.hex()}")
    print(f"again: ci/sanitize fuzz --again {round_}:{index}", flush=True)
    sys.exit(1)


def summary(found: Found) -> None:
    """For each kind how many, of how much, how many were read, and why the others were refused."""
    for kind in sorted({key[0] for key in found}):
        inputs = {key[1:]: times for key, times in found.items() if key[0] == kind}
        read = {key[:2] for key in inputs if key[2] == "read"}
        outcomes: Counter[str] = Counter()
        for (_, _, outcome), times in inputs.items():
            outcomes[outcome] += times
        what = "codecs" if kind == "batches" else "names and versions"
        print(f"{kind}: {outcomes.total():,} inputs of {len({key[:2] for key in inputs})} {what};")
        print(f"    {outcomes.pop('read', 0):>9,} read, of {len(read)}; refused:")
        for outcome, times in outcomes.most_common(SHOWN):
            print(f"    {times:>9,} {outcome}")
        if len(outcomes) > SHOWN:
            print(f"    {sum(sorted(outcomes.values())[:-SHOWN]):>9,} for {len(outcomes) - SHOWN} other reasons")


def rounds_of(count: int, seed: int, mix: str) -> list[int]:
    """So many inputs at least, or all there are of such a mix."""
    if mix == "bytes":
        return list(bytes_rounds(count))
    rounds = range(seed, seed + -(-count // A_ROUND))
    of_kernels = {"all": KERNELS_EACH, "kernels": 1, "messages": len(rounds) + 1}[mix]
    return [each + KERNELS * ((k + 1) % of_kernels == 0) for k, each in enumerate(rounds)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("count", type=int, nargs="?", default=10_000_000, help="inputs in all, in whole rounds")
    parser.add_argument("--seed", type=int, default=0, help=f"the first round; a round has {A_ROUND:,} inputs")
    parser.add_argument("--mix", choices=MIXES, default="all", help="; ".join(MIXES.values()))
    parser.add_argument("--jobs", type=int, default=cpu_count() or 1, help="processes")
    parser.add_argument("--state", type=Path, metavar="FILE", help="keeps what is done, to go on later")
    parser.add_argument("--again", metavar="ROUND:INDEX", help="one input, in this process")
    options = parser.parse_args()
    if options.again:
        print(check(input_of(*map(int, options.again.split(":"))), peak_bytes())[0])
        return
    for seeds in (messages, frames, batches, *SEEDS_OF.values()):
        seeds()  # Read once, before the processes part.
    for seed in messages()[:100]:
        views(Input("views", *seed))  # PyArrow and the like are loaded before memory is measured.
    campaign = Campaign(options.state)
    campaign.run(rounds_of(options.count, options.seed, options.mix), options.jobs)
    summary(campaign.found)
    print(f"ci/fuzz: {campaign.found.total():,} inputs, no finding, {campaign.seconds:,.0f} s")


if __name__ == "__main__":
    main()
