"""Mutated messages and record batches against every decoder: `ci/sanitize fuzz` runs it on the instrumented kernels.

Seeds are the recorded bytes of tests/data. A mutant must be refused by an error of ours or be read, written and read
again as the same; anything else (a crash, another exception, bytes that differ) ends the run with what replays it.
"""

import argparse
import random
import sys
import time
from collections import Counter
from functools import cache
from multiprocessing import Pool
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

import cases  # noqa: E402
import kcore  # noqa: E402
from wire.golden import vectors  # noqa: E402

EXTREMES = (
    b"\xff\xff\xff\xff",
    b"\x7f\xff\xff\xff",
    b"\x80\x00\x00\x00",
    b"\xff\xff\xff\xff\x0f",
    b"\x00",
    b"\xff\xfe",
)
COLUMNS_EVERY = 16  # Columns take ten times as long as objects: so often they read the mutant too.
BATCHES_EVERY = 8
A_ROUND = 2_000
MOST_BYTES = 1 << 22  # Of a mutant's compressed records.


def mutated(dice: random.Random, data: bytes, other: bytes) -> bytes:
    """One to three changes: a bit, a byte, a length's extreme, a cut, a piece repeated, or another's tail."""
    made = bytearray(data)
    for _ in range(dice.choice((1, 1, 1, 2, 3))):
        at, kind = dice.randrange(len(made) + 1), dice.randrange(6)
        if kind == 0 and made:
            made[at % len(made)] ^= 1 << dice.randrange(8)
        elif kind == 1 and made:
            made[at % len(made)] = dice.randrange(256)
        elif kind == 2:
            extreme = dice.choice(EXTREMES)
            made[at : at + len(extreme)] = extreme
        elif kind == 3:
            del made[at:]
        elif kind == 4:
            made[at:at] = made[at : at + dice.randrange(1, 9)]
        else:
            made[at:] = other[at:]
    return bytes(made)


def message(name: str, version: int, data: bytes, with_columns: bool) -> str:
    """What became of one mutant: "read" or "refused"."""
    try:
        read = kcore.decode(name, version, data)
    except kcore.DecodeError as error:
        assert 0 <= error.offset <= len(data)
        read = None
    if read is not None:
        written = kcore.encode(read, version)
        assert kcore.encode(kcore.decode(name, version, written), version) == written
    if with_columns:
        try:
            columns = kcore.decode_columns(name, version, data)
        except kcore.DecodeError:
            assert read is None
        else:
            assert read is not None
            assert kcore.encode_columns(columns, version) == written
    return "refused" if read is None else "read"


def batches(data: bytes) -> str:
    """The same for record batches; the CRC is not asked, so that what it covers is reached."""
    scanned = kcore.scan_batches(data, stop=True, skip=True)
    assert 0 <= scanned.end <= len(data)
    try:
        records = kcore.decode_records(data, check_crc=False, max_bytes=MOST_BYTES)
    except kcore.DecodeError as error:
        assert 0 <= error.offset <= len(data)
        return "batches refused"
    list(records)
    return "batches read"


@cache
def record_files() -> list[bytes]:
    return [bytes.fromhex(case["hex"]) for case in cases.load("records")]


def fuzz(task: tuple[int, int]) -> Counter[str]:
    """One round: the seed says all of it."""
    seed, count = task
    dice = random.Random(seed)
    found: Counter[str] = Counter()
    known, files = vectors(), record_files()
    for k in range(count):
        try:
            if k % BATCHES_EVERY == 0:
                data = mutated(dice, dice.choice(files), dice.choice(files))
                found[batches(data)] += 1
                continue
            name, case = dice.choice(known)
            data = mutated(dice, bytes.fromhex(case["hex"]), bytes.fromhex(dice.choice(known)[1]["hex"]))
            found[message(name, case["version"], data, k % COLUMNS_EVERY == 1)] += 1
        except BaseException:
            print(f"ci/fuzz: seed {seed}, input {k}: {data.hex()}", file=sys.stderr, flush=True)
            raise
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("count", type=int, nargs="?", default=10_000_000, help="inputs in all")
    parser.add_argument("--seed", type=int, default=0, help=f"of the first round; a round has {A_ROUND:,} inputs")
    options = parser.parse_args()
    tasks = [(options.seed + k, min(A_ROUND, options.count - k * A_ROUND)) for k in range(-(-options.count // A_ROUND))]
    found: Counter[str] = Counter()
    began = last = time.monotonic()
    with Pool() as pool:
        for result in pool.imap_unordered(fuzz, tasks):
            found += result
            if time.monotonic() - last > 10:
                last = time.monotonic()
                print(f"ci/fuzz: {found.total():,} of {options.count:,} inputs, {last - began:.0f} s", flush=True)
    print(f"ci/fuzz: {found.total():,} inputs, no finding: {dict(found)}")


if __name__ == "__main__":
    main()
