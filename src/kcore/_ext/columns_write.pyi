"""Columns to bytes, by a program of `kcore.wire.layout`."""

from typing import Any

import numpy as np
import numpy.typing as npt

class Writer:
    """Writes one message: `measure` checks the columns and sets `size`; then `fill` or `to_bytes`."""

    size: int
    def __init__(
        self,
        nodes: npt.NDArray[np.int64],
        ops: npt.NDArray[np.int64],
        arrays: list[npt.NDArray[Any] | None],
        rows: list[int],
        tag_counts: list[int],
    ) -> None:
        """ValueError for an array that is not C-contiguous."""

    def measure(self) -> tuple[str, int]:
        """Check offsets and texts and set `size`; (what is wrong or "", the column where)."""

    def fill(self, out: Any) -> None:
        """Write into `out`, which has room for `size` bytes; only after a `measure` without a problem."""

    def to_bytes(self) -> bytes:
        """The message as new bytes."""
