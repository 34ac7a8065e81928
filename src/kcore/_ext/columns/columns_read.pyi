"""Bytes to columns, by a program of `kcore.wire.layout`."""

from typing import Any

import numpy as np
import numpy.typing as npt

from kcore._ext.columns.column_tables import Tables

class Reader:
    """Reads messages of one kind: call `measure`, then `arrange`, allocate an arena for the columns, then call `fill`.
    `spans__mx` has the begin and the end of each message m in `data`, and must lie in `data`. None: one message.
    """

    def __init__(
        self,
        tables: Tables,
        data: Any,
        spans__mx: npt.NDArray[np.int64] | None,
    ) -> None: ...
    def measure(self) -> tuple[str, int]:
        """Check the bytes, and count rows and elements. Returns (the problem or "", its offset)."""

    def arrange(self) -> tuple[list[int], list[int], list[int], int]:
        """Rows by node, values by column, first byte by column, and the arena's bytes. Only after a good `measure`."""

    def fill(self, arena: npt.NDArray[np.uint8]) -> None:
        """Fill the columns, once, in an arena of the size that `arrange` returned; ValueError for a smaller arena."""
