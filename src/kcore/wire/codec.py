"""Messages as objects: `decode`, `decode_from`, `encode` and `encode_parts`.

They are the compiled codec's own methods, with no Python function between: a small message takes less than a call.
"""

from functools import cache, partial
from typing import Any, NamedTuple

from kcore._ext.wire.object_codec import Codec
from kcore.errors import ArgumentError, DecodeError, EncodeError, NotBytesError, UnsupportedVersionError
from kcore.schema.index import dialect_module, message_class
from kcore.schema.structure import Message
from kcore.types import Uuid
from kcore.wire.plan import StructPlan, plan


class Words(NamedTuple):
    """What the compiled codec needs of the package: kernels know none of it."""

    uuid: type[Uuid] = Uuid
    decode_error: type[DecodeError] = DecodeError
    encode_error: type[EncodeError] = EncodeError
    unsupported_version_error: type[UnsupportedVersionError] = UnsupportedVersionError
    not_bytes_error: type[NotBytesError] = NotBytesError
    argument_error: type[ArgumentError] = ArgumentError


def _plan_of(message: Any, version: int, dialect: str | None = None) -> StructPlan:
    """Asked once a message and version; a wrong argument ends here too."""
    if not isinstance(message, str) and not (isinstance(message, type) and issubclass(message, Message)):
        raise EncodeError(f"expected a message, its class or its name, not {message!r}")
    return plan(message_class(message, dialect), version, dialect)


def _codec_of(dialect: str) -> Codec:
    dialect_module(dialect)  # UnknownMessageError for what is no dialect.
    return _codec_of_known(dialect)


@cache
def _codec_of_known(dialect: str) -> Codec:
    return Codec(partial(_plan_of, dialect=dialect), Words(), _codec_of)


_codec = Codec(_plan_of, Words(), _codec_of)
decode = _codec.decode
decode_from = _codec.decode_from
encode = _codec.encode
encode_parts = _codec.encode_parts
