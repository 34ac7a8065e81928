"""The id of a cluster that was formatted without one: the first leader makes it, the log brings it to all.

Source: KIP-595, "Cluster Bootstrapping". In Kafka as it became, `format` gives the id; Kafka's own nodes do not start
without one, so that this is for quorums of kcore's alone.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import ClassVar, Final, NamedTuple

from kcore.errors import DecodeError
from kcore.raft.log.batches import StoredBatch, split_batches
from kcore.raft.state_machine import AnyAppend, Append, SnapshotReader
from kcore.schema.metadata_records_log import NoOpRecord
from kcore.wire.metadata_frames import decode_metadata_record, encode_metadata_record
from kcore.wire.records import decode_records

CLUSTER_ID_TAG: Final = 101  # Of a no-op record, which other readers ignore.


def encode_cluster_id(cluster_id: str) -> bytes:
    """The record that holds the cluster id."""
    return encode_metadata_record(NoOpRecord(unknown_tagged_fields=[(CLUSTER_ID_TAG, cluster_id.encode())]), 0)


def decode_cluster_id(value: bytes) -> str | None:
    """None for every other record, whatever it is."""
    try:
        record, _ = decode_metadata_record(value)
        tags = dict(record.unknown_tagged_fields) if isinstance(record, NoOpRecord) else {}
        return tags[CLUSTER_ID_TAG].decode() if CLUSTER_ID_TAG in tags else None
    except (DecodeError, UnicodeDecodeError):
        return None


class ClusterIdKnown(NamedTuple):
    """The cluster id is committed; `ClusterIdMaker` has nothing more to do."""

    cluster_id: str


class ClusterIdMaker:
    """The state machine of a node without a cluster id: its state is the first cluster id in the log.

    A leader that finds none in the records before its own epoch generates one.
    """

    reads_batches: ClassVar = True
    is_at_work: ClassVar = False

    def __init__(self, draw: Callable[[], str]) -> None:
        self._draw = draw
        self._drawn: tuple[int, str] | None = None  # Appended by this leader, and at which offset; not committed.
        self.cluster_id: str | None = None

    def on_leader(self, epoch: int, offset: int) -> Sequence[Append]:
        if self.cluster_id is not None:
            return ()  # Another leader makes no other one.
        return self._append(self._draw(), epoch, offset)

    def _append(self, cluster_id: str, epoch: int, offset: int) -> Sequence[Append]:
        self._drawn = offset, cluster_id
        return (Append((encode_cluster_id(cluster_id),), epoch, offset),)

    def on_refused(self, append: AnyAppend, next_offset: int) -> Sequence[Append]:
        assert self._drawn is not None
        return self._append(self._drawn[1], append.epoch, next_offset)

    def on_committed(self, batches: bytes, end_offset: int) -> Sequence[ClusterIdKnown]:
        if self.cluster_id is not None:
            return ()
        self._look(split_batches(batches, check_crc=False)[0])
        if self._drawn is not None and self._drawn[0] < end_offset:
            self.cluster_id = self._drawn[1]
        return self._found()

    def on_resigned(self, epoch: int) -> Sequence[Append]:
        self._drawn = None
        return ()

    def on_snapshot(self, reader: SnapshotReader) -> Sequence[ClusterIdKnown]:
        """None in a damaged snapshot: the replay of the log reports the damage."""
        self.cluster_id = None
        with suppress(DecodeError):
            for batches in reader:
                self._look(split_batches(batches, check_crc=False)[0])
                if self.cluster_id is not None:
                    break
        reader.close()
        return self._found()

    def _found(self) -> Sequence[ClusterIdKnown]:
        return () if self.cluster_id is None else (ClusterIdKnown(self.cluster_id),)

    def _look(self, batches: Sequence[StoredBatch]) -> None:
        """Compressed batches are skipped: no leader compresses this record, and they may hold any number of bytes.

        Damaged batches are skipped too; the replay of the log reports them.
        """
        for batch in batches:
            if batch.is_control or batch.is_compressed:
                continue
            records = decode_records(batch.data, check_crc=False, stop=True)
            found = (decode_cluster_id(record.value or b"") for record in records)
            self.cluster_id = next((each for each in found if each is not None), None)
            if self.cluster_id is not None:
                return
