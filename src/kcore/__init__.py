"""The Kafka controller core: codec, tables, decisions, and the tool that measures them."""

from kcore.errors import DecodeError as DecodeError
from kcore.errors import EncodeError as EncodeError
from kcore.errors import KcoreError as KcoreError
from kcore.errors import UnknownMessageError as UnknownMessageError
from kcore.errors import UnsupportedVersionError as UnsupportedVersionError
from kcore.schema import *  # noqa: F403
from kcore.wire.codec import decode as decode
from kcore.wire.codec import encode as encode
from kcore.wire.jsonform import from_json as from_json
from kcore.wire.jsonform import to_json as to_json
