"""The small types that Kafka's schemas and our signatures share."""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import TYPE_CHECKING, Any, Final, NewType, TypeAlias, TypeGuard

import numpy as np
import numpy.typing as npt

from kcore.errors import EncodeError

if TYPE_CHECKING:
    from uuid import UUID

_WHOLE: Final = (int, np.integer)


def is_whole(value: object) -> TypeGuard[int]:
    """Whether it is an int, or an integer of NumPy's; True and False are not."""
    return isinstance(value, _WHOLE) and not isinstance(value, bool)


BrokerId = NewType("BrokerId", int)
BrokerRow = NewType("BrokerRow", int)  # The broker's place in a BrokerTable; ours, never on the wire.

Int8s: TypeAlias = npt.NDArray[np.int8]
Int16s: TypeAlias = npt.NDArray[np.int16]
Int32s: TypeAlias = npt.NDArray[np.int32]
Int64s: TypeAlias = npt.NDArray[np.int64]
UInt8s: TypeAlias = npt.NDArray[np.uint8]
UInt16s: TypeAlias = npt.NDArray[np.uint16]
Bools: TypeAlias = npt.NDArray[np.bool_]


class Uuid(bytes):
    """Kafka's 16-byte Uuid; prints as its 22 characters of URL-safe base64."""

    __slots__ = ()

    def __new__(cls, value: "bytes | str | UUID" = bytes(16)) -> "Uuid":
        """From 16 bytes, the printed form or a uuid.UUID; EncodeError, a ValueError, for anything else."""
        try:
            raw = urlsafe_b64decode(value + "==") if isinstance(value, str) else bytes(memoryview(_raw(value)))
        except (ValueError, TypeError, BufferError):
            raise EncodeError(f"a Uuid is 16 bytes or 22 characters of base64, not {value!r:.60}") from None
        if len(raw) != 16:
            raise EncodeError(f"a Uuid has 16 bytes, not {len(raw)}")
        return super().__new__(cls, raw)

    @classmethod
    def many(cls, raw: bytes) -> "list[Uuid]":
        """One for every 16 bytes; several times as fast as one by one."""
        make = bytes.__new__
        return [make(cls, raw[at : at + 16]) for at in range(0, len(raw), 16)]

    def __str__(self) -> str:
        return urlsafe_b64encode(self).rstrip(b"=").decode("ascii")

    def __repr__(self) -> str:
        return f"Uuid('{self}')"


def _raw(value: "bytes | UUID") -> Any:
    return getattr(value, "bytes", value)  # A uuid.UUID has its bytes as an attribute.


ZERO_UUID = Uuid()
METADATA_TOPIC_ID = Uuid(bytes(15) + b"\x01")  # Uuid.METADATA_TOPIC_ID
