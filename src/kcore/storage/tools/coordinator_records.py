"""Records of `__consumer_offsets` and `__transaction_state` as JSON, as kafka-dump-log's decoders show them.

A key has its type, an int16, and a message of version 0; a value has its version, an int16, and a message. A record
without a value deletes the state of its key (CoordinatorRecordSerde).
"""

from base64 import b64decode
from typing import Any, Final, NamedTuple

from kcore.errors import DecodeError, KcoreError
from kcore.schema.coordinators import groups as group
from kcore.schema.coordinators import share_groups as share
from kcore.schema.coordinators import streams_groups as streams
from kcore.schema.coordinators.transactions import TransactionLogKey, TransactionLogValue
from kcore.schema.group_protocol import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from kcore.schema.structure import Data
from kcore.wire.codec import decode_from
from kcore.wire.jsonform import to_json
from kcore.wire.records import Record

Types = dict[int, tuple[type[Data], type[Data]]]

TRANSACTIONS: Final[Types] = {0: (TransactionLogKey, TransactionLogValue)}
OFFSETS: Final[Types] = {
    0: (group.OffsetCommitKey, group.LegacyOffsetCommitValue),
    1: (group.OffsetCommitKey, group.OffsetCommitValue),
    2: (group.GroupMetadataKey, group.GroupMetadataValue),
    3: (group.GroupKey, group.ConsumerGroupMetadataValue),
    4: (group.GroupKey, group.ConsumerGroupPartitionMetadataValue),
    5: (group.MemberKey, group.ConsumerGroupMemberMetadataValue),
    6: (group.GroupKey, group.TargetAssignmentMetadataValue),
    7: (group.MemberKey, group.TargetAssignmentMemberValue),
    8: (group.MemberKey, group.ConsumerGroupCurrentMemberAssignmentValue),
    10: (group.MemberKey, share.ShareGroupMemberMetadataValue),
    11: (group.GroupKey, share.ShareGroupMetadataValue),
    12: (group.GroupKey, group.TargetAssignmentMetadataValue),
    13: (group.MemberKey, group.TargetAssignmentMemberValue),
    14: (group.MemberKey, share.ShareGroupCurrentMemberAssignmentValue),
    15: (group.GroupKey, share.ShareGroupStatePartitionMetadataValue),
    16: (group.ConsumerGroupRegularExpressionKey, group.ConsumerGroupRegularExpressionValue),
    17: (group.GroupKey, streams.StreamsGroupMetadataValue),
    19: (group.MemberKey, streams.StreamsGroupMemberMetadataValue),
    20: (group.GroupKey, group.TargetAssignmentMetadataValue),
    21: (group.MemberKey, streams.StreamsGroupTargetAssignmentMemberValue),
    22: (group.MemberKey, streams.StreamsGroupCurrentMemberAssignmentValue),
    23: (group.GroupKey, streams.StreamsGroupTopologyValue),
}
STATES: Final = (
    *("Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort", "Dead"),
    "PrepareEpochFence",
)
"""The names of a transaction's states, by number (TransactionState.stateName)."""
_CONSUMER: Final = "consumer"  # The protocol type whose member metadata and assignments can be decoded.


class DecodedRecord(NamedTuple):
    """A record's key and value as JSON; a value of None deletes the key's state."""

    key: dict[str, Any]
    value: dict[str, Any] | None


def coordinator_json(record: Record, types: Types) -> DecodedRecord | int:
    """The decoded record, or the number of its type if `types` lacks it. Raises DecodeError for invalid bytes."""
    if record.key is None:
        raise DecodeError("a record without a key", 0)
    number = _number(record.key, "key")
    if number not in types:
        return number
    key_type, value_type = types[number]
    key, _ = decode_from(key_type, 0, record.key, 2)
    key_json = {"type": str(number), "data": to_json(key, 0)}
    if record.value is None:
        return DecodedRecord(key_json, None)
    version = _number(record.value, "value")
    if version not in value_type.versions:
        raise DecodeError(f"{value_type.__name__} has versions {value_type.versions}, not {version}", 0)
    value, _ = decode_from(value_type, version, record.value, 2)
    return DecodedRecord(key_json, {"version": str(version), "data": to_json(value, version) | _more(value, version)})


def _more(value: Data, version: int) -> dict[str, Any]:
    """Fields that the message's own JSON lacks or shows otherwise.

    They are messages inside bytes of members, a struct in an unknown tag, and from 4.4.0 on the name of a state.
    """
    if isinstance(value, group.GroupMetadataValue) and value.protocol_type == _CONSUMER:
        members = to_json(value, version)["members"]
        for member in members:
            member["subscription"] = _protocol(member["subscription"], ConsumerProtocolSubscription)
            member["assignment"] = _protocol(member["assignment"], ConsumerProtocolAssignment)
        return {"members": members}
    if isinstance(value, group.ConsumerGroupMemberMetadataValue):
        tags = dict(value.unknown_tagged_fields)
        return {"classicMemberMetadata": _classic(tags[0])} if 0 in tags else {}
    if isinstance(value, TransactionLogValue):
        status = value.transaction_status
        return {"transactionStatus": STATES[status] if 0 <= status < len(STATES) else str(status)}
    return {}


def _classic(data: bytes) -> dict[str, Any] | None:
    if data[:1] == b"\0":
        return None
    message, _ = decode_from(group.ClassicMemberMetadata, 0, data, 1)
    return to_json(message, 0)


def _number(data: bytes, what: str) -> int:
    if len(data) < 2:
        raise DecodeError(f"the {what} ends inside its version", 0)
    return int.from_bytes(data[:2], signed=True)


def _protocol(base64: str, kind: type[Data]) -> Any:
    """A message inside a member's bytes as JSON; the unchanged text `base64` if it cannot be decoded."""
    data = b64decode(base64)
    try:
        version = _number(data, kind.__name__)
        message, _ = decode_from(kind, version, data, 2)
        return to_json(message, version)
    except KcoreError:
        return base64
