"""The control records of a metadata log: built by its leader, read by all (KIP-595, KIP-853, KIP-630)."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from kcore.raft.accumulator import Accumulator
from kcore.raft.batches import StoredBatch, split_batches
from kcore.raft.log import RaftLog
from kcore.raft.voters import VoterHistory, VoterSet
from kcore.replication.raft_log import OffsetAndEpoch
from kcore.schema.control_records import (
    KRaftVersionRecord,
    LeaderChangeMessage,
    LeaderChangeMessageVoter,
    SnapshotFooterRecord,
    SnapshotHeaderRecord,
    VotersRecord,
)
from kcore.schema.structure import Data
from kcore.wire.codec import encode
from kcore.wire.record_building import encode_records
from kcore.wire.records import CONTROL_TYPES, Record, control_message, decode_records

READ_BYTES: Final = 1 << 20
TYPES: Final = {
    LeaderChangeMessage: CONTROL_TYPES.index("LEADER_CHANGE"),
    SnapshotHeaderRecord: CONTROL_TYPES.index("SNAPSHOT_HEADER"),
    SnapshotFooterRecord: CONTROL_TYPES.index("SNAPSHOT_FOOTER"),
    KRaftVersionRecord: CONTROL_TYPES.index("KRAFT_VERSION"),
    VotersRecord: CONTROL_TYPES.index("KRAFT_VOTERS"),
}


def control_batch(messages: Sequence[Data], base_offset: int, epoch: int, now_ms: int) -> bytes:
    """One batch of control records; the key is a version, 0, and the type."""
    rows = [
        Record(base_offset + k, now_ms, TYPES[type(message)].to_bytes(4), encode(message, 0))
        for k, message in enumerate(messages)
    ]
    return encode_records(rows, control=True, partition_leader_epoch=epoch)


def leader_change(leader_id: int, voters: VoterSet, granting_voters: Iterable[int]) -> LeaderChangeMessage:
    """What a leader writes first; version 0 always: brokers do not survive version 1."""
    return LeaderChangeMessage(
        version=0,
        leader_id=leader_id,
        voters=[LeaderChangeMessageVoter(voter_id=voter_id) for voter_id in voters.voters],
        granting_voters=[LeaderChangeMessageVoter(voter_id=voter_id) for voter_id in granting_voters],
    )


def snapshot_batches(
    epoch: int,
    values: Iterable[bytes],
    last_contained_log_timestamp: int,
    kraft_version: int,
    voters: VoterSet | None,
    now_ms: int,
) -> Iterator[bytes]:
    """A snapshot: its header with the version and the voters, the records, its footer; offsets from 0 on."""
    header: list[Data] = [
        SnapshotHeaderRecord(version=0, last_contained_log_timestamp=last_contained_log_timestamp),
    ]
    if kraft_version > 0:
        header.append(kraft_version_record(kraft_version))
        header += [voters.to_record()] if voters else []
    yield control_batch(header, 0, epoch, now_ms)
    filling = Accumulator(len(header))
    for value in values:
        if not filling.has_room([value]):
            yield filling.drain(epoch)
        filling.add([value], now_ms, 0)
    if filling.records:
        yield filling.drain(epoch)
    yield control_batch([SnapshotFooterRecord(version=0)], filling.next_offset, epoch, now_ms)


def kraft_version_record(kraft_version: int) -> KRaftVersionRecord:
    return KRaftVersionRecord(version=0, kraft_version=kraft_version)


def replay_batches(history: VoterHistory, batches: Iterable[StoredBatch], at: int | None = None) -> None:
    """Takes versions and voters out of control batches; `at`: the offset where all of them count, for a snapshot's.

    DecodeError for a control record that is none.
    """
    for batch in batches:
        if not batch.is_control:
            continue
        for record in decode_records(batch.data, check_crc=False):
            message = control_message(record)
            offset = record.offset if at is None else at
            if isinstance(message, KRaftVersionRecord):
                history.kraft_versions.add(offset, message.kraft_version)
            elif isinstance(message, VotersRecord):
                history.voters.add(offset, VoterSet.from_record(message))


def replay_log(history: VoterHistory, log: RaftLog) -> None:
    """All that the latest snapshot and the log behind it say, in place of what was known before."""
    history.clear()
    offset = log.start_offset
    if log.latest_snapshot is not None:
        replay_snapshot(history, log, log.latest_snapshot)
        offset = max(offset, log.latest_snapshot.offset)
    while offset < log.end_offset:
        batches, problem = split_batches(log.read(offset, READ_BYTES, log.end_offset))
        if problem:
            raise problem
        replay_batches(history, [batch for batch in batches if batch.base_offset >= offset])
        offset = batches[-1].last_offset + 1


def replay_snapshot(history: VoterHistory, log: RaftLog, snapshot: OffsetAndEpoch) -> None:
    """What a snapshot says before its first record of data."""
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
    """The time of the last record in a snapshot, as its header has it; None where there is no header to be read."""
    piece = log.snapshot_piece(snapshot, 0, READ_BYTES)
    batches, _ = split_batches(piece.data) if piece is not None else ([], None)
    if not batches or not batches[0].is_control:
        return None
    header = control_message(next(iter(decode_records(batches[0].data, check_crc=False))))
    return header.last_contained_log_timestamp if isinstance(header, SnapshotHeaderRecord) else None
