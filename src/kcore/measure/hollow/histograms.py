"""The histograms of durations that the loop of hollow brokers keeps, and their percentiles."""

from typing import Final

import numpy as np
import numpy.typing as npt

from kcore._ext import hollow as kernel
from kcore.types import Int64s

NOT_KNOWN: Final = -1.0  # Stands for milliseconds that were not measured.


def histogram(counts: bytes) -> Int64s:
    """Converts the bytes of `Loop.histograms` to counts by bucket."""
    return np.frombuffer(counts, np.int64)


def percentile_ms(counts: npt.NDArray[np.int64], share: float) -> float:
    """The percentile `share` (0 to 1) of the durations: the upper bound of its bucket. NOT_KNOWN without durations."""
    total = int(counts.sum())
    if not total:
        return NOT_KNOWN
    bucket = int(np.searchsorted(np.cumsum(counts), share * total))
    octave, step = divmod(bucket, 1 << kernel.STEP_BITS)
    if octave == 0:
        return step / 1e6
    return float((step + 1 + (1 << kernel.STEP_BITS)) << octave - 1) / 1e6
