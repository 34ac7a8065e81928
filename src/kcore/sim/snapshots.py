"""Snapshots of the simulated state machine: what it knows is a checksum over all that is committed."""

from collections.abc import Sequence
from typing import Final

from kcore.raft.log import RaftLog
from kcore.raft.replicas import Voter
from kcore.raft.voters import VoterSet
from kcore.replication.raft_log import OffsetAndEpoch
from kcore.schema.control_records import KRaftVersionRecord, SnapshotFooterRecord, SnapshotHeaderRecord
from kcore.schema.structure import Data
from kcore.wire.codec import encode
from kcore.wire.record_building import encode_records
from kcore.wire.records import CONTROL_TYPES, Record

FIRST: Final = OffsetAndEpoch(0, 0)
PAD_BYTES: Final = 300  # So that a piece may be less than the whole.


def first_snapshot(log: RaftLog, voters: Sequence[Voter]) -> None:
    """What a dynamic quorum begins with: its version and its voters (KIP-853)."""
    store(log, FIRST, snapshot_bytes(FIRST, None, VoterSet.of(voters)))


def store(log: RaftLog, snapshot: OffsetAndEpoch, data: bytes) -> None:
    """A snapshot of the node's own."""
    log.begin_snapshot(snapshot)
    log.append_snapshot(snapshot, data)
    log.freeze_snapshot(snapshot)


def snapshot_bytes(snapshot: OffsetAndEpoch, checksum: int | None, voters: VoterSet | None) -> bytes:
    """The same bytes wherever it is made; no record of data without a checksum, no voters where nobody names them."""
    begin: list[tuple[str, Data]] = [
        ("SNAPSHOT_HEADER", SnapshotHeaderRecord(version=0, last_contained_log_timestamp=0))
    ]
    if voters is not None:
        begin.append(("KRAFT_VERSION", KRaftVersionRecord(version=0, kraft_version=1)))
        begin.append(("KRAFT_VOTERS", voters.to_record()))
    data = _batch([(_key(name), encode(message, 0)) for name, message in begin], 0, snapshot.epoch, control=True)
    offset = len(begin)
    if checksum is not None:
        data += _batch([(None, checksum.to_bytes(4) + bytes(PAD_BYTES))], offset, snapshot.epoch, control=False)
        offset += 1
    footer = encode(SnapshotFooterRecord(version=0), 0)
    return data + _batch([(_key("SNAPSHOT_FOOTER"), footer)], offset, snapshot.epoch, control=True)


def _batch(rows: Sequence[tuple[bytes | None, bytes]], offset: int, epoch: int, *, control: bool) -> bytes:
    records = [Record(offset + k, 0, key, value) for k, (key, value) in enumerate(rows)]
    return encode_records(records, control=control, partition_leader_epoch=epoch)


def _key(name: str) -> bytes:
    return CONTROL_TYPES.index(name).to_bytes(4)
