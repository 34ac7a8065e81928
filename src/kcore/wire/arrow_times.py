"""Converts Kafka's times to Arrow's timestamps."""

from typing import Final

import numpy as np

from kcore.extras import needs
from kcore.types import Int64s
from kcore.wire.record_batch import NO_TIMESTAMP

with needs("arrow"):
    import pyarrow as pa

UTC_TIME: Final = pa.timestamp("us", tz="UTC")  # The only resolution of Spark's timestamps.
_MOST_MS: Final = np.iinfo(np.int64).max // 1000


def utc_times(milliseconds: Int64s) -> pa.Array:
    """Milliseconds as UTC_TIME; null for Kafka's -1 and for times outside the range of these timestamps."""
    fits = (milliseconds != NO_TIMESTAMP) & (milliseconds >= -_MOST_MS) & (milliseconds <= _MOST_MS)
    if fits.all():
        return pa.array(milliseconds * 1000).view(UTC_TIME)
    return pa.array(np.where(fits, milliseconds, 0) * 1000, mask=~fits).view(UTC_TIME)
