"""The Kafka controller core: codec, tables, decisions, and the tool that measures them."""

from kcore import schema as schema
from kcore.errors import DecodeError as DecodeError
from kcore.errors import EncodeError as EncodeError
from kcore.errors import KcoreError as KcoreError
from kcore.errors import UnknownMessageError as UnknownMessageError
from kcore.errors import UnsupportedVersionError as UnsupportedVersionError
from kcore.wire.codec import decode as decode
from kcore.wire.codec import encode as encode
from kcore.wire.column_codec import decode_columns as decode_columns
from kcore.wire.column_codec import encode_columns as encode_columns
from kcore.wire.columns import Columns as Columns
from kcore.wire.columns import Rows as Rows
from kcore.wire.columns import Strings as Strings
from kcore.wire.columns import Vectors as Vectors
from kcore.wire.jsonform import from_json as from_json
from kcore.wire.jsonform import to_json as to_json
