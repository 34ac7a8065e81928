"""Records that only a newer release can read are found by type, version and level, and no others are."""

import pytest

from kcore.errors import NewerReleaseError
from kcore.metadata.image.image import ClusterImage
from kcore.metadata.newer_records import FEW_BYTES, SkippedRecords, check_batches, check_records, newer_records
from kcore.releases.known import NEWEST, RELEASES
from kcore.schema.index import METADATA_RECORDS
from kcore.wire.record_building import encode_records
from kcore.wire.records import Record, decode_records
from releases.newer import KNOWN, LEVEL, SAYS, TYPE, UNKNOWN, VERSION, batch, batches, level, topic

MANY = [KNOWN] * (FEW_BYTES // len(KNOWN))  # A batch that is read as columns.
UP_TO_31 = "Kafka 4.3.1 has levels up to 31 (4.4-IV0)"
UP_TO_23 = "Kafka 3.9.1 has levels up to 23 (4.0-IV1)"


@pytest.mark.parametrize("kind", UNKNOWN)
@pytest.mark.parametrize("before", [[], MANY], ids=["few", "many"])
@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_each_kind_is_told_with_its_offset(kind: str, before: list[bytes], codec: str) -> None:
    values = [*before, KNOWN, UNKNOWN[kind], TYPE]
    rows = [Record(5 + k, 0, None, value) for k, value in enumerate(values)]
    data = batch(0, KNOWN), encode_records(rows, partition_leader_epoch=1, codec=codec)
    text = f"the log needs a newer release: the record at offset {5 + len(before) + 1} {SAYS[kind]}"
    with pytest.raises(NewerReleaseError) as raised:
        check_batches(data, "the log", release=NEWEST)
    assert str(raised.value).startswith(text)
    with pytest.raises(NewerReleaseError) as raised:
        check_records(decode_records(data[1]), NEWEST)
    assert str(raised.value).startswith(text)


@pytest.mark.parametrize("before", [1, FEW_BYTES], ids=["few", "many"])
def test_newer_data_is_found_behind_a_batch_that_cannot_be_decoded(before: int) -> None:
    """Small batches are decoded together, but the damaged batch is left to its reader."""
    damaged = bytearray(batch(before, KNOWN))
    damaged[22] |= 4  # zstd, which the bytes are not.
    data = [*(batch(offset, KNOWN) for offset in range(before)), bytes(damaged), batch(before + 1, TYPE)]
    check_batches(data[:-1], "the log", release=NEWEST)
    with pytest.raises(NewerReleaseError, match=f"the record at offset {before + 1} is of type 40"):
        check_batches(data, "the log", release=NEWEST)


def test_all_are_found_in_order_from_an_offset_on() -> None:
    records = decode_records(batches(TYPE, KNOWN, LEVEL, VERSION))
    found = [(each.offset, each.is_readable) for each in newer_records(records, start_offset=1)]
    assert found == [(2, True), (3, False)]


def test_types_of_more_than_a_byte_are_newer() -> None:
    records = decode_records(batch(0, bytes([1, 0xC8, 1, 0]), bytes([1, 2, 0x80, 1])))
    assert [each.text.partition(":")[0] for each in newer_records(records)] == [
        "is of type 200",
        "is a TopicRecord of version 128",
    ]


@pytest.mark.parametrize("value", [b"", b"\1", b"\2\x28\0", b"\1\x06\0", b"\1\xff", b"\1\x0c\0\xff", b"abc"])
def test_what_no_release_writes_is_not_newer(value: bytes) -> None:
    """Damage, an unused type, another version of frames: decoding says what is wrong."""
    for data in (batch(0, value), batch(0, *MANY, value)):
        check_batches([data], "the log", release=NEWEST)
        assert list(newer_records(decode_records(data))) == []


def test_every_version_of_every_known_record_is_no_newer() -> None:
    frames = [bytes([1, number, version]) for number, each in METADATA_RECORDS.items() for version in each.versions]
    check_batches([batch(0, *frames), batch(0, *MANY, *frames)], "the log", release=NEWEST)


@pytest.mark.parametrize(
    ("release", "feature", "number", "text"),
    [
        ("4.3.1", "metadata.version", 31, None),
        ("4.3.1", "metadata.version", 32, "32 (4.4-IV1), which Kafka 4.4.0 has: " + UP_TO_31),
        ("4.3.1", "metadata.version", 33, "33 (4.4-IV2), which Kafka 4.4.0 has: " + UP_TO_31),
        ("4.4.0", "metadata.version", 34, None),
        ("3.9.1", "metadata.version", 24, "24 (4.0-IV2), which Kafka 4.1.2 has: " + UP_TO_23),
        ("3.9.1", "transaction.version", 2, None),
        ("4.3.1", "share.version", 2, "2, which Kafka 4.4.0 has: Kafka 4.3.1 has levels up to 1"),
        ("4.4.0", "share.version", 2, None),
        ("4.4.0", "a.version", 0, None),
        ("4.4.0", "a.version", 1, "1, which no release that kcore knows has: Kafka 4.4.0 has no such feature"),
    ],
)
def test_the_release_that_has_a_level_is_named(release: str, feature: str, number: int, text: str | None) -> None:
    found = [*newer_records(decode_records(batch(0, level(number, feature))), RELEASES[release])]
    assert [each.text for each in found] == ([] if text is None else [f"sets {feature} to level {text}"])


def test_who_goes_on_skips_and_counts() -> None:
    skipped, image = SkippedRecords(), ClusterImage()
    assert str(skipped) == ""
    skipped.replay(image, decode_records(batches(topic("a"), TYPE, topic("b"))))
    assert str(skipped) == f"1 record of a newer release is skipped: the record at offset 1 {SAYS['type']}"
    skipped.replay(image, decode_records(batches(topic("a"), TYPE, topic("b"), LEVEL, VERSION)), 3)
    assert [*image.topic_ids] == ["a", "b"] and image.features == {"metadata.version": 99}
    first = f"2 records of a newer release are skipped, the first: the record at offset 1 {SAYS['type']}"
    assert str(skipped).startswith(f"{first}; the record at offset 3 {SAYS['level']}")
