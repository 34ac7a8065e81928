from typing import Any

import numpy.typing as npt

from kcore.types import Int8s, Int16s, Int32s, Int64s, UInt8s

def changes(
    rows: Int32s,
    topic_row__p: Int32s,
    partition_index__p: Int32s,
    topic_ids: UInt8s,
    leaders: Int32s | None,
    recovery: Int8s | None,
    lists: tuple[tuple[Int32s, Int32s, UInt8s | None] | None, ...],
    directories: tuple[Int32s, Int32s, UInt8s | None] | None,
    directory_ids: UInt8s,
    version: int,
    out: UInt8s,
    offsets: Int64s,
) -> None: ...
def topics(
    columns: tuple[npt.NDArray[Any] | None, ...],
    ids: tuple[Int32s, UInt8s, UInt8s],
    version: int,
    rows__k: Int32s,
    starts__j: Int64s,
    topic_rows__j: Int32s,
    names: UInt8s,
    name_offsets__j: Int64s,
    writes_topic__j: UInt8s,
    adding: tuple[Int32s, Int16s],
    removing: tuple[Int32s, Int16s],
    out: UInt8s,
    offsets: Int64s,
) -> int: ...
