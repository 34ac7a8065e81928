"""The tables of a program of `kcore.wire.layout`, for the column kernels."""

import numpy as np
import numpy.typing as npt

class Tables:
    """One program: a row for each struct, field and column; `program.pxd` names the numbers of a row."""

    def __init__(
        self, nodes: npt.NDArray[np.int64], ops: npt.NDArray[np.int64], extents: npt.NDArray[np.int64]
    ) -> None:
        """ValueError for tables of another width, or without a node."""
