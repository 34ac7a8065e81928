"""Messages, columns and records as bytes, and back. The names below are public.

A class and a version become a plan of steps. Objects, columns and JSON all follow that plan; compiled kernels run it
for objects and columns. The modules in reading order:

- `plan.py`: the steps that read and write one version of a message.
- `codec.py`: messages as objects.
- `columns.py`, `layout.py`, `column_codec.py`, `gather.py`: an array for each field, and the program of the kernels.
- `grouping.py`, `fanout.py`, `frame_places.py`: requests grouped by topic, and one body for many brokers.
- `jsonform.py`: the JSON of Kafka's own converters.
- `record_batch.py`, `records.py`, `record_columns.py`, `record_building.py`, `encoded_records.py`: record batches of
  magic 2.
- `legacy_codecs.py`, `message_sets.py`, `log_formats.py`: messages of magic 0 and 1, and logs with batches of every
  magic.
- `metadata_frames.py`: the frames of metadata records in a log.
- `arrow.py`, `record_arrow.py`, `record_from_arrow.py`: columns and records as Apache Arrow, and records from it.
- `same.py`, `buffers.py`: equality of columns, and buffers that other threads may change.
"""

from kcore.errors import DecodeError as DecodeError
from kcore.errors import EncodeError as EncodeError
from kcore.errors import UnknownMessageError as UnknownMessageError
from kcore.errors import UnsupportedVersionError as UnsupportedVersionError
from kcore.schema.catalogue import messages as messages
from kcore.schema.structure import Message as Message
from kcore.schema.structure import Struct as Struct
from kcore.types import Uuid as Uuid
from kcore.wire.codec import decode as decode
from kcore.wire.codec import decode_from as decode_from
from kcore.wire.codec import encode as encode
from kcore.wire.column_codec import decode_columns as decode_columns
from kcore.wire.column_codec import encode_columns as encode_columns
from kcore.wire.columns import Columns as Columns
from kcore.wire.columns import Rows as Rows
from kcore.wire.columns import Strings as Strings
from kcore.wire.columns import Vectors as Vectors
from kcore.wire.fanout import Fanout as Fanout
from kcore.wire.fanout import encode_fanout as encode_fanout
from kcore.wire.jsonform import from_json as from_json
from kcore.wire.jsonform import to_json as to_json
from kcore.wire.message_sets import decode_message_sets as decode_message_sets
from kcore.wire.message_sets import scan_message_sets as scan_message_sets
from kcore.wire.metadata_frames import decode_metadata_record as decode_metadata_record
from kcore.wire.metadata_frames import encode_metadata_record as encode_metadata_record
from kcore.wire.record_batch import RecordBatches as RecordBatches
from kcore.wire.record_batch import scan_batches as scan_batches
from kcore.wire.record_building import encode_records as encode_records
from kcore.wire.records import Record as Record
from kcore.wire.records import Records as Records
from kcore.wire.records import decode_records as decode_records
