"""Messages of attackers: false sender, epoch, cluster or incarnation, decompression bombs, excessive counts."""

import struct
import zlib
from collections.abc import Collection, Iterator
from functools import cache
from random import Random
from typing import Any

from hostile.frames import MOST_ENTRIES, Frame, framed
from hostile.largest import one_of_each
from hostile.servers import TOPIC_NAME, Target
from kcore.constants import METADATA_TOPIC
from kcore.schema.acls import CreateAclsRequest
from kcore.schema.cluster_metadata import MetadataRequest, MetadataRequestTopic
from kcore.schema.configs import IncrementalAlterConfigsRequest
from kcore.schema.envelope import EnvelopeRequest
from kcore.schema.index import message_class
from kcore.schema.kinds import FieldType, Kind
from kcore.schema.principal import DefaultPrincipalData
from kcore.server.zk_node.document_routing import PRINCIPAL_NAME
from kcore.types import Uuid
from kcore.wire.codec import encode
from kcore.wire.metadata_frames import varint
from kcore.wire.record_batch import crc32c
from kcore.wire.record_building import encode_records
from kcore.wire.records import Record
from net.hostile_messages import Hostile

MAX_EPOCH, MAX_OFFSET = 2**31 - 1, 2**63 - 1
MOST_BATCH = 1_000_000  # Below message.max.bytes: a larger batch is refused by its size.
FAR_TOO_MANY = 900_000
MUTATIONS = (
    *("CreateTopics", "DeleteTopics", "CreateAcls", "DeleteAcls", "IncrementalAlterConfigs", "AlterClientQuotas"),
    *("AlterUserScramCredentials", "UpdateFeatures", "CreatePartitions", "AlterPartitionReassignments"),
    *("UnregisterBroker", "AddRaftVoter", "RemoveRaftVoter", "UpdateRaftVoter", "AssignReplicasToDirs"),
)
OF_EPOCHS = (
    *("Vote", "BeginQuorumEpoch", "EndQuorumEpoch", "Fetch", "FetchSnapshot", "UpdateRaftVoter"),
    *("AlterPartition", "LeaderAndIsr", "StopReplica", "UpdateMetadata", "AllocateProducerIds"),
)
OF_CLUSTERS = (
    "Vote",
    "BeginQuorumEpoch",
    "EndQuorumEpoch",
    "Fetch",
    "FetchSnapshot",
    "AddRaftVoter",
    "UpdateRaftVoter",
)
OF_REPLAYS = (
    *("BrokerRegistration", "BrokerHeartbeat", "ControllerRegistration", "AllocateProducerIds", "AlterPartition"),
    *("ControlledShutdown", "LeaderAndIsr", "StopReplica", "UpdateMetadata", "AssignReplicasToDirs"),
)


def filled(kind: Any, version: int, known: dict[str, Any]) -> Any:
    """A message whose arrays have one element each; a field is what `known` says of its name, or its default."""

    def value(type_: FieldType, name: str) -> Any:
        if name in known:
            return known[name]
        if type_.kind is Kind.ARRAY:
            assert type_.element is not None
            return [value(type_.element, "")]
        return None if type_.struct is None else filled(type_.struct, version, known)

    made: dict[str, Any] = {}
    for each in kind.__fields__:
        if version in each.options.versions or version in each.options.tagged:
            found = value(each.type, each.name)
            if found is not None and found != [None]:
                made[each.name] = found
    return kind(**made)


def _of(target: Target, names: tuple[str, ...], *, needs: Collection[str] = (), **known: Any) -> list[Frame]:
    """Requests of `names` that the server has, in the oldest and newest version with one of the fields in `needs`."""
    fields = {
        **{name: METADATA_TOPIC for name in ("topic_name", "topic", "name")},
        **{"broker_id": 1, "controller_id": 9, "replicas": [1], "isr": [1], "new_isr": [1], "leader": 1},
        **{"cluster_id": target.cluster_id or None, "incarnation_id": Uuid(b"i" * 16), "timeout_ms": 1000},
        **{"host": "127.0.0.1", "port": 9, "is_kraft_controller": False, "type": 0},
        **known,
    }
    found = []
    for name in names:
        lowest, highest = target.apis.get(name, (0, -1))
        kind = message_class(f"{name}Request")
        versions = [each for each in range(lowest, highest + 1) if not needs or _has(kind, each, needs)]
        for version in sorted({*versions[:1], *versions[-1:]}):
            found.append(framed(filled(kind, version, fields), version))
    return found


def _has(kind: Any, version: int, names: Collection[str]) -> bool:
    """Whether the message has one of these fields, at whatever depth."""
    for each in kind.__fields__:
        if version in each.options.versions or version in each.options.tagged:
            inner = each.type.element if each.type.kind is Kind.ARRAY else each.type
            if each.name in names or (inner.struct is not None and _has(inner.struct, version, names)):
                return True
    return False


def forged(target: Target, dice: Random) -> list[Frame]:
    """Mutations by a stranger: as itself, in an Envelope and by tag 0 as those of User:admin."""
    principal = b"\0\0" + bytes(encode(DefaultPrincipalData(type="User", name="admin"), 0))
    frames = _of(target, MUTATIONS, name="stolen", topic_name="stolen", topic="stolen", topic_names=["stolen"])
    inside = framed(CreateAclsRequest(creations=[]), 2).data
    envelopes = [
        EnvelopeRequest(request_data=data, request_principal=who, client_host_address=where)
        for data in (inside, b"", frames[0].data if frames else inside)
        for who in (principal, b"", None, b"\0\0garbage")
        for where in (bytes([127, 0, 0, 1]), b"", bytes(5))
    ]
    tag = b"\x06admin"
    mutation = filled(IncrementalAlterConfigsRequest, 1, {"resource_type": 2, "resource_name": "stolen", "name": "n"})
    routed = framed(mutation, 1, unknown_tagged_fields=[(PRINCIPAL_NAME, tag)])
    # The version that only the document's form has: laid out as the one before.
    bumped = Frame(IncrementalAlterConfigsRequest, 2, routed.data[:2] + b"\0\2" + routed.data[4:])
    return [*frames, *(framed(each, 0) for each in envelopes), routed, bumped]


def epochs(target: Target, dice: Random) -> list[Frame]:
    """All epochs the largest that there is."""
    at_end = {name: MAX_EPOCH for name in ("leader_epoch", "controller_epoch", "partition_epoch", "replica_epoch")}
    raft = {"last_offset_epoch": MAX_EPOCH, "last_offset": MAX_OFFSET, "leader_id": 5, "replica_id": 5}
    broker = {"broker_epoch": MAX_OFFSET, "current_leader_epoch": MAX_EPOCH, "last_fetched_epoch": MAX_EPOCH}
    fetch = {"fetch_offset": MAX_OFFSET, "max_bytes": MAX_EPOCH, "partition_max_bytes": MAX_EPOCH, "max_wait_ms": 0}
    voter = {"voter_id": 1, "voter_directory_id": Uuid(b"v" * 16)}
    return _of(
        target,
        OF_EPOCHS,
        needs={*at_end, "broker_epoch", "current_leader_epoch"},
        **at_end,
        **raft,
        **broker,
        **fetch,
        **voter,
    )


def clusters(target: Target, dice: Random) -> list[Frame]:
    """Requests that carry another cluster's id."""
    foreign = {"cluster_id": "Zm9yZWlnbi1jbHVzdGVyLQ", "max_wait_ms": 0, "replica_id": 5, "leader_id": 5}
    return _of(target, OF_CLUSTERS, needs=["cluster_id"], **foreign)


def replays(target: Target, dice: Random) -> list[Frame]:
    """The requests of brokers and controllers of a former life."""
    frames = []
    for epoch in (-1, 0, 1, dice.randrange(2**40)):
        former = {"broker_epoch": epoch, "controller_epoch": 0, "incarnation_id": Uuid(dice.randbytes(16))}
        frames += _of(target, OF_REPLAYS, **former, name="CONTROLLER", topic_name=TOPIC_NAME, features=[])
    return frames


def messages(target: Target, dice: Random) -> list[Frame]:
    """Requests of every API: well encoded but hostile, garbled, with counts of 2^31 - 1, with the most entries."""
    hostile, frames = Hostile(dice, {"name": TOPIC_NAME, "topic_name": TOPIC_NAME, "max_wait_ms": 0}), []
    for name, (lowest, highest) in target.apis.items():
        kind = message_class(f"{name}Request")
        for version in sorted({lowest, highest}):
            made = framed(hostile.message(kind, version), version)
            garbled = made._replace(data=made.data[:20] + hostile.garbled(made.data[20:]))
            for count in (b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff\x07", b"\xff" * 12):
                frames.append(Frame(kind, version, made.data[:24] + count + made.data[24:]))
            frames += [made, garbled]
    return [*frames, *_many(target, dice)]


def _many(target: Target, dice: Random) -> Iterator[Frame]:
    """As many entries as may be, of each API, and far more; lists in lists."""
    yield from (each.frame for each in one_of_each(target, dice))
    if "Metadata" in target.apis:
        [empty] = _of(target, ("Metadata",), topics=[])[-1:]
        for count in (MOST_ENTRIES, FAR_TOO_MANY):
            topics = varint(count + 1) + bytes(18 * count)  # Each a topic id of zeros, no name and no tag.
            yield Frame(empty.kind, empty.version, empty.data[:-4] + topics + bytes(3))
        names = [MetadataRequestTopic(name=str(number)) for number in range(MOST_ENTRIES)]
        yield framed(MetadataRequest(topics=names), empty.version)
    if "CreateTopics" in target.apis:
        kind, (_, version) = message_class("CreateTopicsRequest"), target.apis["CreateTopics"]
        topic = filled(kind, version, {"name": "n", "broker_ids": [1] * 100}).topics[0]
        topic.assignments *= 100
        yield framed(kind(topics=[topic] * 50, timeout_ms=1000), version)


# Bombs: a batch of a megabyte that would be gigabytes.


@cache
def bombs() -> dict[str, bytes]:
    """By codec, whole batches with their CRC; the count of records is a lie that the zeros bear out."""
    raw = {"gzip": _gzip(), "zstd": _zstd()}
    made = {codec: _batch(codec, data) for codec, data in raw.items()}
    for codec, size in (("lz4", 200 << 20), ("snappy", 18 << 20)):
        made[codec] = bytes(encode_records([Record(0, 0, None, bytes(size))], codec=codec))
    made["count"] = _batch("gzip", zlib.compress(bytes(1 << 20), 9, 31))
    return made


def _gzip() -> bytes:
    """A stream whose pieces stand for themselves, so that one can be repeated; its end is missing."""
    stream, piece = zlib.compressobj(9, zlib.DEFLATED, 31), bytes(1 << 22)
    first, again = (stream.compress(piece) + stream.flush(zlib.Z_FULL_FLUSH) for _ in range(2))
    return first + again * ((MOST_BATCH - len(first)) // len(again) - 1)


def _zstd() -> bytes:
    """A frame of blocks of 128 KiB of one byte each: three bytes of header, one of content."""
    blocks = MOST_BATCH // 4 - 100
    header = b"\x28\xb5\x2f\xfd" + bytes([0, 0x38])  # No checksum; a window of 128 KiB.
    block = (1 << 17 << 3 | 1 << 1).to_bytes(3, "little") + b"\0"
    last = (1 << 17 << 3 | 1 << 1 | 1).to_bytes(3, "little") + b"\0"
    return header + block * blocks + last


def _batch(codec: str, records: bytes) -> bytes:
    code = {"gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}[codec]
    body = struct.pack(">hiqqqhii", code, MAX_EPOCH - 1, 0, 0, -1, -1, -1, MAX_EPOCH) + records
    head = struct.pack(">qiib", 0, len(body) + 9, 0, 2)
    return head + struct.pack(">I", crc32c(body)) + body


def bomb_frames(target: Target, dice: Random) -> list[Frame]:
    """Each bomb in a Produce of its own; of a server without Produce none."""
    if "Produce" not in target.apis:
        return []
    kind, version = message_class("ProduceRequest"), 9
    made = []
    for batch in bombs().values():
        known = {"records": batch, "name": TOPIC_NAME, "acks": 1, "timeout_ms": 1000, "index": 1}
        made.append(framed(filled(kind, version, known), version))
    return made


PAYLOADS = {
    "messages": messages,
    "forged": forged,
    "replays": replays,
    "clusters": clusters,
    "epochs": epochs,
    "bombs": bomb_frames,
}
