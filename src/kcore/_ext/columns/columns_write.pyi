"""Columns to bytes, by a program of `kcore.wire.layout`."""

from typing import Any

import numpy as np
import numpy.typing as npt

from kcore._ext.columns.column_tables import Tables

class Writer:
    """Writes messages, one a row of the first node: `measure` checks the columns and sets `size`; then `fill`,
    `to_bytes` or `to_bytes_each`.
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
        """Check offsets and texts and set `size`; (what is wrong or "", the column where)."""

    def fill(self, out: Any) -> None:
        """Write into `out`; only after a `measure` without a problem. ValueError where `size` bytes have no room."""

    def to_bytes(self) -> bytes:
        """The messages as new bytes, one behind the other."""

    def to_bytes_each(self, ends: npt.NDArray[np.int64]) -> bytes:
        """As `to_bytes`; `ends` gets where each message ends. ValueError where it has no room for that."""
