"""Bytes to columns, by a program of `kcore.wire.layout`."""

from typing import Any

import numpy as np
import numpy.typing as npt

class Reader:
    """Reads one message: `measure`, make room by `rows` and `totals`, then `fill`."""

    def __init__(
        self,
        nodes: npt.NDArray[np.int64],
        ops: npt.NDArray[np.int64],
        rows: npt.NDArray[np.int64],
        totals: npt.NDArray[np.int64],
        data: Any,
    ) -> None: ...
    def measure(self) -> tuple[str, int]:
        """Count rows by node and elements by column; (what is wrong or "", the offset where)."""

    def fill(self, arena: npt.NDArray[np.uint8], places: npt.NDArray[np.int64]) -> None:
        """Fill the columns, column k at byte places[k] of the arena; only after a `measure` without a problem."""
