"""Records of the coordinators' topics: their bytes by hand, every type written and read, and what is none."""

import json
import struct
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kcore.errors import DecodeError
from kcore.schema.coordinators.groups import GroupMetadataKey, GroupMetadataValue, MemberMetadata
from kcore.schema.coordinators.transactions import TransactionLogValue
from kcore.schema.group_protocol import ConsumerProtocolSubscription
from kcore.schema.structure import Data
from kcore.storage.tools.coordinator_records import OFFSETS, TRANSACTIONS, DecodedRecord, coordinator_json
from kcore.storage.tools.dump import Detail, dump_lines
from kcore.wire.codec import encode
from kcore.wire.jsonform import to_json
from kcore.wire.plan import plan
from kcore.wire.record_building import encode_records
from kcore.wire.records import Record
from wire.strategies import messages

KEY = b"\0\1\0\1g\0\1t\0\0\0\3"  # An offset of group g, of t-3.
VALUE = b"\0\3" + struct.pack(">qi", 42, 7) + b"\0\2me" + struct.pack(">q", 1000)
TXN_KEY = b"\0\0\0\2tx"
TXN_VALUE = (
    b"\0\1" + struct.pack(">qhib", 9, 1, 60_000, 1) + b"\2\2t\2\0\0\0\5\0" + struct.pack(">qq", 11, 10)
    + b"\2\0\x08" + struct.pack(">q", 8) + b"\2\2" + struct.pack(">h", 2)
)  # fmt: skip


# Kafka's CoordinatorRecordType.
NAMES = {
    0: "LegacyOffsetCommit", 1: "OffsetCommit", 2: "GroupMetadata", 3: "ConsumerGroupMetadata",
    4: "ConsumerGroupPartitionMetadata", 5: "ConsumerGroupMemberMetadata", 6: "ConsumerGroupTargetAssignmentMetadata",
    7: "ConsumerGroupTargetAssignmentMember", 8: "ConsumerGroupCurrentMemberAssignment",
    10: "ShareGroupMemberMetadata", 11: "ShareGroupMetadata", 12: "ShareGroupTargetAssignmentMetadata",
    13: "ShareGroupTargetAssignmentMember", 14: "ShareGroupCurrentMemberAssignment",
    15: "ShareGroupStatePartitionMetadata", 16: "ConsumerGroupRegularExpression", 17: "StreamsGroupMetadata",
    19: "StreamsGroupMemberMetadata", 20: "StreamsGroupTargetAssignmentMetadata",
    21: "StreamsGroupTargetAssignmentMember", 22: "StreamsGroupCurrentMemberAssignment", 23: "StreamsGroupTopology",
}  # fmt: skip


def test_types_have_kafka_s_numbers() -> None:
    assert OFFSETS.keys() == NAMES.keys()
    for number, (key, value) in OFFSETS.items():
        assert f"{NAMES[number]}Value".endswith(value.__name__)
        assert key.__name__ in (f"{NAMES[number]}Key", "GroupKey", "MemberKey", "OffsetCommitKey")
        assert (key.__name__ == "MemberKey") == ("Member" in NAMES[number])


def record(key: bytes | None, value: bytes | None) -> Record:
    return Record(5, 0, key, value)


def test_a_streams_group_of_4_4() -> None:
    """The value's bytes and its JSON are those of Kafka 4.4.0's own StreamsGroupMetadataValue (KIP-1331)."""
    value = bytes.fromhex("0000000000070000000000000008020204fffffffe030400000005")
    fields = {
        "epoch": 7,
        "metadataHash": 8,
        "storedDescriptionTopologyEpoch": -2,
        "failedDescriptionTopologyEpoch": 5,
    }
    printed = coordinator_json(record(b"\0\x11\0\1g", value), OFFSETS)
    assert isinstance(printed, DecodedRecord) and printed.value == {"version": "0", "data": fields}


def test_a_committed_offset() -> None:
    printed = coordinator_json(record(KEY, VALUE), OFFSETS)
    assert printed == DecodedRecord(
        {"type": "1", "data": {"group": "g", "topic": "t", "partition": 3}},
        {"version": "3", "data": {"offset": 42, "leaderEpoch": 7, "metadata": "me", "commitTimestamp": 1000}},
    )


def test_a_transaction() -> None:
    printed = coordinator_json(record(TXN_KEY, TXN_VALUE), TRANSACTIONS)
    assert isinstance(printed, DecodedRecord) and printed.key == {"type": "0", "data": {"transactionalId": "tx"}}
    assert printed.value == {
        "version": "1",
        "data": {
            "producerId": 9, "previousProducerId": 8, "producerEpoch": 1, "transactionTimeoutMs": 60_000,
            "transactionStatus": "Ongoing", "transactionPartitions": [{"topic": "t", "partitionIds": [5]}],
            "transactionLastUpdateTimestampMs": 11, "transactionStartTimestampMs": 10, "clientTransactionVersion": 2,
        },
    }  # fmt: skip


@pytest.mark.parametrize(("status", "shown"), [(0, "Empty"), (7, "PrepareEpochFence"), (8, "8"), (-1, "-1")])
def test_states_of_transactions_have_names(status: int, shown: str) -> None:
    """As from 4.4.0 on; an unknown state is a number in quotes."""
    value = b"\0\0" + encode(TransactionLogValue(transaction_status=status), 0)
    printed = coordinator_json(record(TXN_KEY, value), TRANSACTIONS)
    assert isinstance(printed, DecodedRecord) and printed.value is not None
    assert printed.value["data"]["transactionStatus"] == shown


def test_what_a_consumer_s_bytes_say_is_shown() -> None:
    subscription = b"\0\1" + encode(ConsumerProtocolSubscription(topics=["a"]), 1)
    members = [MemberMetadata(subscription=subscription, assignment=b"\0"), MemberMetadata()]
    for protocol_type, shown in (("consumer", {"topics": ["a"], "userData": None, "ownedPartitions": []}), ("x", None)):
        value = b"\0\3" + encode(GroupMetadataValue(protocol_type=protocol_type, members=members), 3)
        printed = coordinator_json(record(b"\0\2" + encode(GroupMetadataKey(group="g"), 0), value), OFFSETS)
        assert isinstance(printed, DecodedRecord) and printed.value
        first, second = printed.value["data"]["members"]
        assert (first["subscription"] == shown) == (shown is not None)
        assert (first["assignment"], second["subscription"]) == ("AA==", "")  # No such messages: as they are.


@pytest.mark.parametrize(
    ("tags", "shown"),
    [
        ("00", []),
        ("01000100", [None]),
        (
            "01000c010000000502026102010000",
            [{"sessionTimeoutMs": 5, "supportedProtocols": [{"name": "a", "metadata": "AQ=="}]}],
        ),
    ],
)
def test_a_classic_member_of_a_consumer_group(tags: str, shown: list[Any]) -> None:
    value = bytes.fromhex("0000010101010101ffffffff01" + tags)
    printed = coordinator_json(record(b"\0\5\0\1g\0\1m", value), OFFSETS)
    assert isinstance(printed, DecodedRecord) and printed.value
    assert [printed.value["data"]["classicMemberMetadata"]] == shown if shown else "classic" not in str(printed)


TYPES = [
    (types, number, version)
    for types in (OFFSETS, TRANSACTIONS)
    for number, (_, value) in types.items()
    if number != 5 or types is TRANSACTIONS  # Below: its tag 0 is read apart.
    for version in range(value.versions.lowest, value.versions.highest + 1)
]


@pytest.mark.parametrize(
    ("types", "number", "version"),
    TYPES,
    ids=lambda value: str(value) if isinstance(value, int) else f"{len(value)}-types",
)
@settings(max_examples=4, deadline=None)
@given(data=st.data())
def test_every_type_is_read_as_it_was_written(types: Any, number: int, version: int, data: st.DataObject) -> None:
    key_type, value_type = types[number]
    key: Data = data.draw(messages(plan(key_type, 0)))
    value: Data = data.draw(messages(plan(value_type, version)))
    front = number.to_bytes(2)
    written = record(front + encode(key, 0), version.to_bytes(2) + encode(value, version))
    printed = coordinator_json(written, types)
    assert isinstance(printed, DecodedRecord) and printed.key == {"type": str(number), "data": to_json(key, 0)}
    if number != 2:  # The members' bytes may be shown as messages.
        assert printed.value is not None and printed.value["version"] == str(version)
        differing = {each for each, shown in to_json(value, version).items() if printed.value["data"][each] != shown}
        assert differing <= {"transactionStatus"}  # Its name is shown.
    assert coordinator_json(record(written.key, None), types) == DecodedRecord(printed.key, None)


@pytest.mark.parametrize(
    ("key", "value", "why"),
    [
        (None, VALUE, "without a key"),
        (b"\0", VALUE, "the key ends inside its version"),
        (KEY[:-1], VALUE, "the bytes end inside a value"),
        (KEY, b"", "the value ends inside its version"),
        (KEY, b"\0\5" + VALUE[2:], "OffsetCommitValue has versions 0-4, not 5"),
        (KEY, b"\xff\xff" + VALUE[2:], "not -1"),
        (KEY, VALUE[:-1], "the bytes end inside a value"),
    ],
)
def test_what_is_none(key: bytes | None, value: bytes, why: str) -> None:
    with pytest.raises(DecodeError, match=why):
        coordinator_json(record(key, value), OFFSETS)


def test_lines_are_as_kafka_s(tmp_path: Path) -> None:
    path = tmp_path / f"{0:020}.log"
    rows = [Record(0, 0, KEY, VALUE), Record(1, 0, KEY, None), Record(2, 0, b"\0\x63", b""), Record(3, 0, b"\0", b"")]
    path.write_bytes(encode_records(rows))
    lines = list(dump_lines(path, Detail(coordinator=OFFSETS, skip_record_metadata=True)))[2:]
    key = '| key: {"type":"1","data":{"group":"g","topic":"t","partition":3}} payload: '
    assert lines == [
        key + '{"version":"3","data":{"offset":42,"leaderEpoch":7,"metadata":"me","commitTimestamp":1000}}',
        key + "<DELETE>",
        "| key: Unknown record type 99 at offset 2, skipping.",
        "| key: Error at offset 3, skipping. the key ends inside its version (at offset 0)",
    ]
    assert json.loads(lines[0].partition("payload: ")[2])["data"]["offset"] == 42
