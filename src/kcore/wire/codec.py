"""Encodes and decodes messages as objects: `decode`, `decode_from`, `encode` and `encode_parts`.

These are methods of the compiled codec, without a Python function around them: a call would take longer than a small
message.
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
    """The exceptions and types that the compiled codec needs: kernels cannot import them."""

    uuid: type[Uuid] = Uuid
    decode_error: type[DecodeError] = DecodeError
    encode_error: type[EncodeError] = EncodeError
    unsupported_version_error: type[UnsupportedVersionError] = UnsupportedVersionError
    not_bytes_error: type[NotBytesError] = NotBytesError
    argument_error: type[ArgumentError] = ArgumentError


def _plan_of(message: Any, version: int, dialect: str | None = None) -> StructPlan:
    """The plan of a message and version. The codec calls this once for each, and for wrong arguments."""
    if not isinstance(message, str) and not (isinstance(message, type) and issubclass(message, Message)):
        raise EncodeError(f"expected a message, its class or its name, not {message!r}")
    return plan(message_class(message, dialect), version, dialect)


def _codec_of(dialect: str) -> Codec:
    dialect_module(dialect)  # UnknownMessageError for an unknown dialect.
    return _codec_of_known(dialect)


@cache
def _codec_of_known(dialect: str) -> Codec:
    return Codec(partial(_plan_of, dialect=dialect), Words(), _codec_of)


_codec = Codec(_plan_of, Words(), _codec_of)
decode = _codec.decode
decode_from = _codec.decode_from
encode = _codec.encode
encode_parts = _codec.encode_parts
