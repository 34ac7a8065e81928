from typing import Any

import numpy.typing as npt

from kcore.types import Int32s, Int64s, UInt8s

def save(columns: tuple[npt.NDArray[Any], ...], rows: Int32s, images: UInt8s, first: int) -> None: ...
def restore(columns: tuple[npt.NDArray[Any], ...], rows: Int32s, images: UInt8s, layout: Int64s) -> None: ...
