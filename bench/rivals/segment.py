"""Writes the input of the group `records`: `segment.log`, 256 MiB of uncompressed batches of 16 KiB, made by kcore."""

import argparse
import random
from pathlib import Path
from typing import Final

from kcore.wire.record_building import encode_records
from kcore.wire.records import Record

SEGMENT_BYTES: Final = 256 << 20
RECORDS: Final = 136  # Per batch, 100 bytes each.
START_MS: Final = 1_750_000_000_000
SEED: Final = 380


def write(path: Path) -> None:
    """One batch again and again, each with its own base offset, which the CRC does not cover."""
    draw = random.Random(SEED)
    records = [Record(offset, START_MS, draw.randbytes(8), draw.randbytes(100)) for offset in range(RECORDS)]
    batch = encode_records(records)
    with path.open("wb") as out:
        for number in range(SEGMENT_BYTES // len(batch)):
            out.write((number * RECORDS).to_bytes(8, "big") + batch[8:])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", type=Path)
    write(parser.parse_args().directory / "segment.log")
