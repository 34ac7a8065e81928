"""Bytes to columns, by a program of `kcore.wire.layout`."""

from typing import Any

import numpy as np
import numpy.typing as npt

from kcore._ext.columns.column_tables import Tables

class Reader:
    """Reads messages of one kind: `measure`, `arrange` their columns in an arena, make that room, then `fill`.

    `spans__mx`: where message m begins in `data`, and ends; they must lie in it. None: it is one message.
    """

    def __init__(
        self,
        tables: Tables,
        data: Any,
        spans__mx: npt.NDArray[np.int64] | None,
    ) -> None: ...
    def measure(self) -> tuple[str, int]:
        """Count rows by node and elements by column; (what is wrong or "", the offset where)."""

    def arrange(self) -> tuple[list[int], list[int], list[int], int]:
        """(rows a node, values a column, first byte a column, bytes); only after a `measure` without a problem."""

    def fill(self, arena: npt.NDArray[np.uint8]) -> None:
        """Fill the columns, once, in an arena of the bytes that `arrange` has told; ValueError for a smaller one."""
