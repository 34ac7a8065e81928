"""The difference of two replicas as a row: a JSON line of `kcore diverge`, a row of Spark's DataFrame."""

from typing import Any

from kcore.storage.tools.diverge import Divergence


def divergence_row(topic: str | None, partition: int | None, found: Divergence) -> dict[str, Any]:
    """One partition as a row; its columns are `kcore.spark.divergence.SCHEMA`."""
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
