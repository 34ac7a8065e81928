"""Metadata records in the frame of the log."""

import pytest

import kcore
from kcore.schema.index import METADATA_RECORDS
from kcore.schema.structure import MetadataRecord
from kcore.wire.metadata_frames import decode_metadata_record, encode_metadata_record
from wire.golden import vectors


@pytest.mark.recorded
def test_every_vector() -> None:
    framed = [(name, case) for name, case in vectors() if "framed" in case]
    assert framed
    for name, case in framed:
        data = bytes.fromhex(case["framed"])
        record, version = decode_metadata_record(data)
        assert (type(record).__name__, version) == (name, case["version"])
        assert record == kcore.decode(name, version, bytes.fromhex(case["hex"]))
        assert encode_metadata_record(record, version) == data


@pytest.mark.recorded
def test_every_metadata_vector_has_a_frame() -> None:
    assert all(("framed" in case) == (case["type"] == "metadata") for _, case in vectors())


def test_types_are_numbered_as_the_classes_are() -> None:
    for number, record in METADATA_RECORDS.items():
        assert issubclass(record, MetadataRecord) and record.api_key == number


def test_any_bytes_like_object() -> None:
    data = encode_metadata_record(kcore.schema.NoOpRecord(), 0)
    assert data == b"\1\x14\0\0"
    for other in (bytearray(data), memoryview(b"x" + data)[1:]):
        assert decode_metadata_record(other) == (kcore.schema.NoOpRecord(), 0)


def test_a_long_type_number_is_refused_by_its_place() -> None:
    with pytest.raises(kcore.DecodeError, match="no metadata record is of type 300"):
        decode_metadata_record(b"\1\xac\2\0")


@pytest.mark.parametrize(
    ("data", "why", "offset"),
    [
        (b"", "the bytes end inside a varint", 0),
        (b"\0\x14\0\0", "a frame of version 0, not 1", 0),
        (b"\2\x14\0\0", "a frame of version 2, not 1", 0),
        (b"\1\x06\0\0", "no metadata record is of type 6", 1),
        (b"\1\xff\xff\x7f\0", "2097151 is more than a short", 1),
        (b"\1\x14\x01\0", "NoOpRecord has versions 0, not 1", 2),
        (b"\1\x14\x80", "the bytes end inside a varint", 2),
        (b"\1\x80\x80\x80\x80\x80\0\0", "a varint is too long", 1),
        (b"\1\x14\0", "NoOpRecord: the bytes end inside a varint", 3),
        (b"\1\x14\0\0\0", "NoOpRecord: bytes are left over", 4),
        (b"\1\x08\0\0\0\0\7\0\0", "UnfenceBrokerRecord: epoch: the bytes end inside a value", 7),
    ],
)
def test_what_is_wrong_and_where(data: bytes, why: str, offset: int) -> None:
    with pytest.raises(kcore.DecodeError) as error:
        decode_metadata_record(data)
    assert error.value.message.startswith(why)
    assert error.value.offset == offset


def test_what_is_no_metadata_record() -> None:
    with pytest.raises(kcore.EncodeError, match="expected a metadata record, not ResponseHeader"):
        encode_metadata_record(kcore.schema.ResponseHeader(), 0)  # type: ignore[arg-type]
    with pytest.raises(kcore.UnsupportedVersionError):
        encode_metadata_record(kcore.schema.NoOpRecord(), 1)
