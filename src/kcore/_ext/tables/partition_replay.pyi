from typing import Any

import numpy.typing as npt

from kcore._ext.tables.partition_lookup import Arrays as Lookup
from kcore.types import Int16s, Int32s, Int64s, UInt8s

def run(
    data: memoryview,
    begins: Int64s,
    ends: Int64s,
    place: int,
    end: int,
    columns: tuple[npt.NDArray[Any] | None, ...],
    all_columns: tuple[npt.NDArray[Any], ...],
    lookup: Lookup,
    broker_rows: Int16s,
    topics_by_id: tuple[Int32s, UInt8s],
    directories: tuple[Int32s, UInt8s],
    fresh_topics: tuple[int, int, int],
    fresh_rows: Int32s,
    touched: tuple[Int32s, Int32s] | None,
    moved: tuple[Int32s, Int16s],
    moves: Int32s,
    images: tuple[Int32s, UInt8s] | None,
    images_used: int,
) -> tuple[int, int, int, int, int, int, int]: ...
