"""Bytes to columns, by a program of `kcore.wire.layout`."""

from typing import Any

import numpy as np
import numpy.typing as npt

from kcore._ext.columns.column_tables import Tables

class Reader:
    """Reads messages of one kind: call `measure`, `arrange` their columns in an arena, allocate the arena, then `fill`.
    `spans__mx` holds the begin and the end of message m in `data`; the spans must lie in `data`. None: one message.
    """

    def __init__(
        self,
        tables: Tables,
        data: Any,
        spans__mx: npt.NDArray[np.int64] | None,
    ) -> None: ...
    def measure(self) -> tuple[str, int]:
        """Count rows by node and elements by column. Returns (the problem or "", its offset)."""

    def arrange(self) -> tuple[list[int], list[int], list[int], int]:
        """(rows a node, values a column, first byte a column, bytes). Only after a `measure` without a problem."""

    def fill(self, arena: npt.NDArray[np.uint8]) -> None:
        """Fill the columns, once, in an arena of the size that `arrange` returned; ValueError for a smaller one."""
