"""What was found between replicas as rows: the JSON lines of `kcore diverge`, and Spark's DataFrame."""

from typing import Any

import pyarrow as pa

from kcore.storage.diverge import Divergence

SCHEMA = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),  # Null: none differs.
        ("reason", pa.string()),
        ("detail", pa.string()),
        ("epochOffset", pa.int64()),  # Where the leader epochs part, if they do.
        ("places", pa.list_(pa.struct([("file", pa.string()), ("position", pa.int64())]))),  # None, or one of each.
        ("bytesRead", pa.int64()),
    ]
)


def divergence_row(topic: str | None, partition: int | None, found: Divergence) -> dict[str, Any]:
    """One partition as a row of SCHEMA."""
    return {
        "topic": topic,
        "partition": partition,
        "offset": found.offset,
        "reason": found.reason,
        "detail": found.detail,
        "epochOffset": found.epoch_offset,
        "places": [{"file": str(place.path), "position": place.position} for place in found.places or ()],
        "bytesRead": found.bytes_read,
    }
