"""Slow twin of `kcore.metadata.image.replay`: every record of the log decoded as an object and applied by itself."""

from kcore.errors import DecodeError, TableError
from kcore.metadata.image.image import ClusterImage
from kcore.wire.metadata_frames import decode_metadata_record
from kcore.wire.records import Records


def replay(image: ClusterImage, records: Records, start_offset: int = 0) -> None:
    """Applies the records of data from `start_offset` on, one by one."""
    for row, record in enumerate(records):
        if record.control is not None or record.offset < start_offset:
            continue
        try:
            image.apply(decode_metadata_record(record.value or b"")[0])
        except DecodeError as error:
            place = int(records.value_offset[row]) + error.offset
            raise DecodeError(f"record {record.offset}: {error.message}", place) from None
        except TableError as error:
            raise TableError(f"record {record.offset}: {error}") from None
