"""Builds and reads the control records of a metadata log (KIP-595, KIP-853, KIP-630).

A node decodes every control record before it stores it, with `control_messages`, which also decodes it at the next
start. So a node stores no record that it cannot load. For a record of a newer release the node exits with a message
and stores nothing, so that the newer release can continue in its directory.
"""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Final

import numpy as np

from kcore.errors import DecodeError, NewerReleaseError, RaftLogError
from kcore.raft.log.batches import StoredBatch, split_batches
from kcore.raft.log.raft_log import RaftLog
from kcore.raft.membership.voters import MAX_KRAFT_VERSION, VoterHistory, VoterSet
from kcore.replication.raft_log import OffsetAndEpoch
from kcore.schema.control_records import (
    KRaftVersionRecord,
    LeaderChangeMessage,
    LeaderChangeMessageVoter,
    SnapshotFooterRecord,
    SnapshotHeaderRecord,
    VotersRecord,
)
from kcore.schema.structure import Data, Message
from kcore.wire.codec import encode
from kcore.wire.record_batch import CONTROL, HEADER_END, scan_batches
from kcore.wire.record_building import encode_control
from kcore.wire.records import CONTROL_TYPES, Record, control_message, records_of

READ_BYTES: Final = 1 << 20  # Size of a read of the log or a snapshot.
FEW_BATCHES_BYTES: Final = 1 << 12  # Up to this size of a read, single headers are read faster than columns.
FEW_BYTES: Final = 1 << 10  # Decoded control batches of at most so many bytes are cached; small quorums' batches are.
# Bounds of a control batch. A real one is much smaller: a leader writes three records, with some 100 bytes per voter.
MOST_CONTROL_BYTES: Final = 1 << 20
MOST_CONTROL_RECORDS: Final = 1_000
# Bounds of a voter's endpoints in a request: every response that describes the voters repeats these endpoints.
MOST_LISTENERS: Final = 100
MOST_LISTENER_BYTES: Final = 4096  # Bytes of all names and hosts.
TYPES: Final[dict[type[Message], int]] = {
    LeaderChangeMessage: CONTROL_TYPES.index("LEADER_CHANGE"),
    SnapshotHeaderRecord: CONTROL_TYPES.index("SNAPSHOT_HEADER"),
    SnapshotFooterRecord: CONTROL_TYPES.index("SNAPSHOT_FOOTER"),
    KRaftVersionRecord: CONTROL_TYPES.index("KRAFT_VERSION"),
    VotersRecord: CONTROL_TYPES.index("KRAFT_VOTERS"),
}
NEWEST: Final = {number: kind.versions.highest for kind, number in TYPES.items()}  # The newest version by type.
TRANSACTIONS: Final = CONTROL_TYPES[:2]  # ABORT and COMMIT occur only in partitions that producers write to.


def control_batch(messages: Sequence[Data], base_offset: int, epoch: int, now_ms: int) -> bytes:
    """Encodes a batch of control records; a record's key is a version, 0, and the type."""
    records = [(TYPES[type(message)].to_bytes(4), encode(message, 0)) for message in messages]
    return encode_control(records, base_offset=base_offset, timestamp=now_ms, partition_leader_epoch=epoch)


def leader_change(leader_id: int, voters: VoterSet, granting_voters: Iterable[int]) -> LeaderChangeMessage:
    """The first record of a leader's epoch; always version 0, as brokers fail on version 1."""
    return LeaderChangeMessage(
        version=0,
        leader_id=leader_id,
        voters=[LeaderChangeMessageVoter(voter_id=voter_id) for voter_id in voters.voters],
        granting_voters=[LeaderChangeMessageVoter(voter_id=voter_id) for voter_id in granting_voters],
    )


def snapshot_header(
    epoch: int, last_contained_log_timestamp: int, kraft_version: int, voters: VoterSet | None, now_ms: int
) -> tuple[bytes, int]:
    """The first batch of a snapshot, with kraft.version and voters, and the number of records in the batch."""
    header: list[Data] = [
        SnapshotHeaderRecord(version=0, last_contained_log_timestamp=last_contained_log_timestamp),
    ]
    if kraft_version > 0:
        header.append(kraft_version_record(kraft_version))
        header += [voters.to_record()] if voters else []
    return control_batch(header, 0, epoch, now_ms), len(header)


def snapshot_footer(epoch: int, offset: int, now_ms: int) -> bytes:
    """The last batch of a snapshot."""
    return control_batch([SnapshotFooterRecord(version=0)], offset, epoch, now_ms)


def kraft_version_record(kraft_version: int) -> KRaftVersionRecord:
    return KRaftVersionRecord(version=0, kraft_version=kraft_version)


def replay_batches(
    history: VoterHistory, batches: Iterable[StoredBatch], at: int | None = None, begin: int = 0
) -> None:
    """Adds the kraft.versions and voters of control batches to the history; ignores batches of data.

    For a snapshot, `at` is the offset under which all its records are added. Records below `begin` are skipped: the
    history has them from a snapshot. Raises DecodeError and NewerReleaseError as `control_messages` does.
    """
    for batch in batches:
        if not batch.is_control:
            continue
        for record_offset, value in _cached_changes(batch) if len(batch.data) <= FEW_BYTES else _changes(batch):
            if record_offset < begin:
                continue
            offset = record_offset if at is None else at
            if isinstance(value, VoterSet):
                history.voters.add(offset, value)
            else:
                history.kraft_versions.add(offset, value)


def _changes(batch: StoredBatch) -> Sequence[tuple[int, int | VoterSet]]:
    """The kraft.versions and the voters in a control batch, with the offsets of their records."""
    found: list[tuple[int, int | VoterSet]] = []
    for offset, message in control_messages(batch):
        if isinstance(message, KRaftVersionRecord):
            found.append((offset, message.kraft_version))
        elif isinstance(message, VotersRecord):
            found.append((offset, VoterSet.from_record(message)))
    return tuple(found)


@lru_cache(maxsize=256)
def _cached_changes(batch: StoredBatch) -> Sequence[tuple[int, int | VoterSet]]:
    """Returns the result of `_changes` from a cache, for the same reason as `_cached_read`."""
    return _changes(batch)


def control_messages(batch: StoredBatch) -> Sequence[tuple[int, Message]]:
    """The offset and the message of each record of a control batch, whose CRC the caller has checked.

    Checks the batch's size before it decodes the records, and refuses a compressed batch: Kafka's leaders do not
    compress control batches. Raises DecodeError for records that no leader writes, NewerReleaseError for records that
    only a newer release can read. Source: RecordsIterator, ControlRecord.of, KRaftVersion.fromFeatureLevel.
    """
    return _cached_read(batch) if len(batch.data) <= FEW_BYTES else _read(batch)


@lru_cache(maxsize=256)
def _cached_read(batch: StoredBatch) -> Sequence[tuple[int, Message]]:
    """Returns the result of `_read` from a cache: a node decodes a batch before it stores it, and for each replay."""
    return _read(batch)


def _read(batch: StoredBatch) -> Sequence[tuple[int, Message]]:
    where = f"the control batch at offset {batch.base_offset}"
    if batch.is_compressed:
        raise DecodeError(f"{where} is compressed", HEADER_END)
    if len(batch.data) > MOST_CONTROL_BYTES or batch.record_count > MOST_CONTROL_RECORDS:
        raise DecodeError(f"{where} has {batch.record_count} records and {len(batch.data)} bytes", HEADER_END)
    records = records_of(batch.data)
    offsets = [batch.base_offset + k for k in range(batch.record_count)]
    if not offsets or offsets[-1] != batch.last_offset or offsets != [record.offset for record in records]:
        raise DecodeError(f"{where} has records of other offsets than its header says", HEADER_END)
    return tuple([(record.offset, _message_of(record)) for record in records])


def why_no_voters(voters: VoterSet) -> str | None:
    """The reason why a leader must not write these voters: followers could not load the record. None if they can.

    The voters come from requests, which may have any number of listeners and invalid version ranges.
    """
    for voter in voters.voters.values():
        texts = [text.encode() for name, address in voter.endpoints.items() for text in (name, address.host)]
        if len(voter.endpoints) > MOST_LISTENERS or sum(map(len, texts)) > MOST_LISTENER_BYTES:
            most = f"{MOST_LISTENERS} listeners with {MOST_LISTENER_BYTES:,} bytes of names and hosts"
            return f"voter {voter.key.id} has more than {most}"
    header: list[Data] = [SnapshotHeaderRecord(version=0), kraft_version_record(MAX_KRAFT_VERSION), voters.to_record()]
    try:
        control_messages(split_batches(control_batch(header, 0, 0, 0), check_crc=False)[0][0])
    except DecodeError as error:
        return str(error)
    return None


def _message_of(record: Record) -> Message:
    where = f"the control record at offset {record.offset}"
    name, number = record.control, record.control_type
    if number is None or name in TRANSACTIONS or number < 0:
        raise DecodeError(f"{where} is of type {number}, which no metadata log has", HEADER_END)
    newest = NEWEST.get(number)
    if newest is None:
        raise NewerReleaseError(f"{where} is of type {number}, which a newer release has written")
    version = int.from_bytes((record.value or b"")[:2], signed=True)
    if version > newest:
        raise NewerReleaseError(f"{where} is a {name} of version {version}: this release reads {newest} at most")
    message = control_message(record)
    assert message is not None  # Checked above: the type is known.
    if isinstance(message, KRaftVersionRecord):
        _check_kraft_version(message.kraft_version, where)
    elif isinstance(message, VotersRecord):
        _check_voters(message, where)
    return message


def _check_kraft_version(version: int, where: str) -> None:
    if version < 0:
        raise DecodeError(f"{where} has kraft.version {version}", HEADER_END)
    if version > MAX_KRAFT_VERSION:
        raise NewerReleaseError(f"{where} has kraft.version {version}: this release knows {MAX_KRAFT_VERSION} at most")


def _check_voters(record: VotersRecord, where: str) -> None:
    ids = [voter.voter_id for voter in record.voters]
    if not ids or min(ids) < 0 or len({*ids}) < len(ids):
        raise DecodeError(f"{where} has the voters {ids}: a voter set has distinct ids from 0 on", HEADER_END)
    ranges = [voter.kraft_version_feature for voter in record.voters]
    if any(not 0 <= each.min_supported_version <= each.max_supported_version for each in ranges):
        raise DecodeError(f"{where} has a voter without a valid range of kraft.version", HEADER_END)


def replay_log(history: VoterHistory, log: RaftLog) -> None:
    """Replaces the voter history by the history in the latest snapshot and the log after the snapshot.

    Raises RaftLogError if the log has records that no node stores, NewerReleaseError for records of a newer release.
    """
    history.clear()
    try:
        _replay(history, log)
    except DecodeError as error:
        raise RaftLogError(f"the log or its latest snapshot cannot be loaded: {error}") from error


def _replay(history: VoterHistory, log: RaftLog) -> None:
    offset = log.start_offset
    if log.latest_snapshot is not None:
        replay_snapshot(history, log, log.latest_snapshot)
        offset = max(offset, log.latest_snapshot.offset)
    while offset < log.end_offset:
        data = log.read(offset, READ_BYTES, log.end_offset)
        if len(data) <= FEW_BATCHES_BYTES:
            few, problem = split_batches(data)
            if problem is not None or not few:
                raise problem or DecodeError("a record batch that is cut off", 0)
            replay_batches(history, [batch for batch in few if batch.last_offset >= offset], begin=offset)
            offset = few[-1].last_offset + 1
            continue
        batches = scan_batches(data)
        if (bad := np.flatnonzero(~batches.crc_matches)).size:
            raise DecodeError("a record batch that is damaged", int(batches.position[bad[0]]))
        last_offset = batches.last_offset
        rows = np.flatnonzero((batches.attributes & CONTROL != 0) & (last_offset >= offset))
        fields = batches.base_offset, last_offset, batches.partition_leader_epoch, batches.position, batches.size
        for first, last, epoch, begin, size in zip(*(field[rows].tolist() for field in fields), strict=True):
            replay_batches(history, (StoredBatch(first, last, epoch, True, data[begin : begin + size]),), begin=offset)
        offset = int(last_offset[-1]) + 1


def replay_snapshot(history: VoterHistory, log: RaftLog, snapshot: OffsetAndEpoch) -> None:
    """Adds a snapshot's kraft.version and voters, which precede its first batch of data, to the history."""
    data, position, limit = b"", 0, READ_BYTES
    while (piece := log.snapshot_piece(snapshot, position, limit)) and piece.data:
        data += piece.data
        position += len(piece.data)
        batches, problem = split_batches(data)
        if problem:
            raise problem
        replay_batches(history, batches, at=snapshot.offset - 1)
        if any(not batch.is_control for batch in batches):
            return
        data = data[sum(len(batch.data) for batch in batches) :]


def last_contained_log_timestamp(log: RaftLog, snapshot: OffsetAndEpoch) -> int | None:
    """The time (ms since 1970) of the last record in a snapshot, from its header; None without a readable header."""
    piece = log.snapshot_piece(snapshot, 0, READ_BYTES)
    batches, _ = split_batches(piece.data) if piece is not None else ([], None)
    if not batches or not batches[0].is_control:
        return None
    try:
        _, header = control_messages(batches[0])[0]
    except (DecodeError, NewerReleaseError):
        return None
    return header.last_contained_log_timestamp if isinstance(header, SnapshotHeaderRecord) else None
