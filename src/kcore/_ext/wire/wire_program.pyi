from collections.abc import Callable
from enum import IntEnum
from typing import Any

from kcore._ext.wire.object_codec import Words

class Kind(IntEnum):
    BOOL = 0
    INT8 = 1
    INT16 = 2
    UINT16 = 3
    INT32 = 4
    UINT32 = 5
    INT64 = 6
    FLOAT64 = 7
    UUID = 8
    STRING = 9
    BYTES = 10
    RECORDS = 11
    STRUCT = 12
    ARRAY = 13

def explain_calls(
    metaclass: type, explain: Callable[[Any, tuple[Any, ...], dict[str, Any] | None], Exception | None]
) -> None: ...

class Program:
    words: Words
    def __init__(self, plan: object, words: Words) -> None: ...
