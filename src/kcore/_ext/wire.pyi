from collections.abc import Callable
from typing import Any, TypeVar, overload

from typing_extensions import Buffer

M = TypeVar("M")

class Codec:
    def __init__(self, plan_of: Callable[[Any, int], object]) -> None: ...
    @overload
    def decode(self, message: type[M], version: int, data: Buffer) -> M: ...
    @overload
    def decode(self, message: str, version: int, data: Buffer) -> Any: ...
    @overload
    def encode(self, message: object, version: int, out: None = None) -> bytes: ...
    @overload
    def encode(self, message: object, version: int, out: Buffer) -> int: ...
