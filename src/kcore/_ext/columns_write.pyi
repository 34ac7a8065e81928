"""Columns to bytes, by a program of `kcore.wire.layout`."""

from typing import Any

import numpy.typing as npt

from kcore._ext.column_tables import Tables

class Writer:
    """Writes one message: `measure` checks the columns and sets `size`; then `fill` or `to_bytes`."""

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
        """The message as new bytes."""
