"""Two replicas of a partition differ: at which offset, and in which files."""

from pathlib import Path
from tempfile import TemporaryDirectory

import kcore


def write_replica(folder: Path, values: list[bytes]) -> Path:
    """A partition's folder with one segment, a batch a record."""
    folder.mkdir(parents=True)
    batches = [
        kcore.wire.encode_records([kcore.wire.Record(at, 1_700_000_000_000, None, v)]) for at, v in enumerate(values)
    ]
    (folder / "00000000000000000000.log").write_bytes(b"".join(batches))
    return folder


with TemporaryDirectory() as folder:
    one = write_replica(Path(folder) / "broker-1/orders-0", [b"a", b"b", b"c", b"d"])
    two = write_replica(Path(folder) / "broker-2/orders-0", [b"a", b"b", b"X", b"d"])
    found = kcore.files.diverge(one, two)
    assert found is not None and found.places is not None
    print(f"the first offset that differs: {found.offset} ({found.reason}: {found.detail})")
    for place in found.places:
        print(f"  {place.path.relative_to(folder)} at byte {place.position}")

# Prints:
# the first offset that differs: 2 (batch: )
#   broker-1/orders-0/00000000000000000000.log at byte 138
#   broker-2/orders-0/00000000000000000000.log at byte 138
