"""Columns to bytes, by a program of `kcore.wire.layout`."""

from typing import Any

import numpy as np
import numpy.typing as npt

from kcore._ext.columns.column_tables import Tables

class Writer:
    """Writes a message for each row of the first node. `measure` checks the columns and sets `size`; then `fill`,
    `to_bytes` or `to_bytes_each` writes the messages, one after the other.
    """

    size: int
    def __init__(
        self,
        tables: Tables,
        arrays: list[npt.NDArray[Any] | None],
        rows: list[int],
        tag_counts: list[int],
    ) -> None:
        """ValueError for an array that is not C-contiguous."""

    def measure(self) -> tuple[str, int]:
        """Check offsets and texts and set `size`. Returns (the problem or "", its column)."""

    def fill(self, out: Any) -> None:
        """Write to `out`, after a `measure` without a problem. ValueError if `out` is smaller than `size`."""

    def to_bytes(self) -> bytes:
        """The messages as new bytes, one after the other."""

    def to_bytes_each(self, ends: npt.NDArray[np.int64]) -> bytes:
        """As `to_bytes`; also stores the end of each message in `ends`. ValueError if `ends` is too short."""
