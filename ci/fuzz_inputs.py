"""The inputs of ci/fuzz.py: recorded bytes of tests/data, changed. Round and index determine an input.

Every message in every version, every metadata frame and every codec has its share, drawn for a whole round at once.
"""

import sys
import zlib
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

import cases  # noqa: E402
import kcore  # noqa: E402
from kcore.wire.record_building import CODECS, encode_batches  # noqa: E402
from wire.golden import vectors  # noqa: E402

A_ROUND = 2_000
# In turn. Kinds that take longer than objects come less often.
KINDS = (
    *("objects", "columns", "objects", "batches", "objects", "frames", "objects", "objects"),
    *("objects", "objects", "objects", "batches", "objects", "objects", "objects", "objects"),
) * 3 + (
    *("objects", "columns", "objects", "batches", "objects", "frames", "objects", "objects"),
    *("objects", "views", "objects", "batches", "objects", "objects", "objects", "objects"),
)
NUMBERS = 13  # Drawn for one input: two seeds, how many changes, what of batches, three changes of three numbers each.
EXTREMES = (
    b"\xff\xff\xff\xff",
    b"\x7f\xff\xff\xff",
    b"\x80\x00\x00\x00",
    b"\xff\xff\xff\xff\x0f",
    b"\xff\xff\xff\xff\x1f",
    b"\x80\x80\x80\x80\x80\x01",
    b"\x00",
    b"\xff\xfe",
    b"\x7f\xff",
)
BATCH_HEADER = 61


class Seed(NamedTuple):
    """Recorded bytes; `name` is the message, or the codec of record batches."""

    name: str
    version: int
    data: bytes


class Input(NamedTuple):
    """`kind` is what reads it: objects, columns, views (JSON and Arrow), frames, batches."""

    kind: str
    name: str
    version: int
    data: bytes


@cache
def messages() -> list[Seed]:
    return [Seed(name, case["version"], bytes.fromhex(case["hex"])) for name, case in vectors()]


@cache
def frames() -> list[Seed]:
    return [Seed(name, case["version"], bytes.fromhex(case["framed"])) for name, case in vectors() if "framed" in case]


@cache
def batches() -> list[Seed]:
    """As recorded, and built again with each codec."""
    recorded = [bytes.fromhex(case["hex"]) for case in cases.load("records")]
    again = [kcore.wire.decode_records(data) for data in recorded]
    built = [Seed(codec, 2, encode_batches(records, codec=codec)) for records in again for codec in CODECS]
    inside = [Seed("gzip, changed inside", 2, seed.data) for seed in built if seed.name == "none"]
    return [*(Seed("as recorded", 2, data) for data in recorded), *built, *inside]


SEEDS_OF = {"batches": batches, "frames": frames}


@cache
def numbers(round_: int) -> list[list[int]]:
    return np.random.Generator(np.random.PCG64(round_)).integers(0, 2**32, (A_ROUND, NUMBERS)).tolist()


def input_of(round_: int, index: int) -> Input:
    """One input: its kind follows from the index, everything else is drawn."""
    dice, kind = numbers(round_)[index], KINDS[index % len(KINDS)]
    seeds = SEEDS_OF.get(kind, messages)()
    seed, other = seeds[dice[0] % len(seeds)], seeds[dice[1] % len(seeds)].data
    data = changed_batches(dice[2:], seed, other) if kind == "batches" else changed(dice[2:], seed.data, other)
    return Input(kind, seed.name, seed.version, data)


def changed(dice: list[int], data: bytes, other: bytes) -> bytes:
    """One to three changes: a bit, a byte, a length's extreme, a cut, a piece repeated, or another's tail."""
    made = bytearray(data)
    for number in range((1, 1, 1, 2, 3)[dice[0] % 5]):
        place, kind, value = dice[2 + 3 * number : 5 + 3 * number]
        at = place % (len(made) + 1)
        kind %= 6
        if kind == 0 and made:
            made[at % len(made)] ^= 1 << value % 8
        elif kind == 1 and made:
            made[at % len(made)] = value % 256
        elif kind == 2:
            extreme = EXTREMES[value % len(EXTREMES)]
            made[at : at + len(extreme)] = extreme
        elif kind == 3:
            del made[at:]
        elif kind == 4:
            made[at:at] = made[at : at + 1 + value % 9]
        else:
            made[at:] = other[at:]
    return bytes(made)


def changed_batches(dice: list[int], seed: Seed, other: bytes) -> bytes:
    """Changed anywhere, or in its records alone; the first batch's length is put right in three of four."""
    data, of_records = seed.data, dice[1] % 2
    if seed.name.endswith("inside"):
        end = int.from_bytes(data[8:12]) + 12  # The end of the first batch; later batches are dropped.
        body = zlib.compress(changed(dice, data[BATCH_HEADER:end], other[BATCH_HEADER:]), 1, 31)
        made = data[:22] + bytes([data[22] & 0xF8 | CODECS.index("gzip")]) + data[23:BATCH_HEADER] + body
    elif of_records:
        made = data[:BATCH_HEADER] + changed(dice, data[BATCH_HEADER:], other[BATCH_HEADER:])
    else:
        made = changed(dice, data, other)
    if dice[1] % 8 < 6 and BATCH_HEADER <= len(made) != len(data):
        made = made[:8] + (len(made) - 12).to_bytes(4) + made[12:]
    return made
