from collections.abc import Callable, Iterator
from typing import Any, Protocol, TypeVar, overload

from typing_extensions import Buffer

M = TypeVar("M")

class Words(Protocol):
    """The exceptions and the Uuid of higher layers, which kernels must not import."""

    @property
    def uuid(self) -> type[bytes]: ...
    @property
    def decode_error(self) -> Callable[[str, int], Exception]: ...
    @property
    def encode_error(self) -> Callable[[str], Exception]: ...
    @property
    def not_bytes_error(self) -> Callable[[str], Exception]: ...
    @property
    def argument_error(self) -> Callable[[str], Exception]: ...
    @property
    def unsupported_version_error(self) -> Callable[[str], Exception]: ...

class Codec:
    def __init__(
        self, plan_of: Callable[[Any, int], object], words: Words, codec_of: Callable[[str], Codec]
    ) -> None: ...
    @overload
    def decode(self, message: type[M], version: int, data: Buffer, dialect: str | None = None) -> M: ...
    @overload
    def decode(self, message: str, version: int, data: Buffer, dialect: str | None = None) -> Any: ...
    @overload
    def decode_from(
        self,
        message: type[M],
        version: int,
        data: Buffer,
        offset: int = 0,
        dialect: str | None = None,
        most_values: int = ...,
        gives_way: bool = ...,
    ) -> tuple[M, int]: ...
    @overload
    def decode_from(
        self,
        message: str,
        version: int,
        data: Buffer,
        offset: int = 0,
        dialect: str | None = None,
        most_values: int = ...,
        gives_way: bool = ...,
    ) -> tuple[Any, int]: ...
    @overload
    def encode(self, message: object, version: int, out: None = None, dialect: str | None = None) -> bytes: ...
    @overload
    def encode(self, message: object, version: int, out: Buffer, dialect: str | None = None) -> int: ...
    def encode_parts(self, message: object, version: int) -> Iterator[bytes]: ...
