"""The tables of a program of `kcore.wire.layout`, for the column kernels."""

import numpy as np
import numpy.typing as npt

class Tables:
    """One program: a row for each struct, field and column. `program.pxd` describes the numbers of a row."""

    def __init__(
        self, nodes: npt.NDArray[np.int64], ops: npt.NDArray[np.int64], extents: npt.NDArray[np.int64]
    ) -> None:
        """ValueError if a table has the wrong number of columns, or if there is no node."""
