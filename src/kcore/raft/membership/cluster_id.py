"""The state machine of a node that was formatted without a cluster id: the first leader writes an id to the log.

Source: KIP-595, "Cluster Bootstrapping". Kafka's released nodes get the id from `format` and do not start without one,
so this works only for quorums of kcore's nodes.
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

CLUSTER_ID_TAG: Final = 101  # The tag of a NoOpRecord's field with the cluster id; Kafka ignores unknown tags.


def encode_cluster_id(cluster_id: str) -> bytes:
    """The record that holds the cluster id."""
    return encode_metadata_record(NoOpRecord(unknown_tagged_fields=[(CLUSTER_ID_TAG, cluster_id.encode())]), 0)


def decode_cluster_id(value: bytes) -> str | None:
    """The cluster id in a record; None for every other record."""
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
    """A state machine whose state is the first cluster id in the log.

    A leader that finds no cluster id in the records before its own epoch generates one.
    """

    reads_batches: ClassVar = True
    is_at_work: ClassVar = False

    def __init__(self, draw: Callable[[], str]) -> None:
        self._draw = draw
        self._drawn: tuple[int, str] | None = None  # The offset and the id of this leader's uncommitted append.
        self.cluster_id: str | None = None

    def on_leader(self, epoch: int, offset: int) -> Sequence[Append]:
        if self.cluster_id is not None:
            return ()  # The cluster has an id.
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
        """Reads the snapshot up to the first cluster id; ignores damage, which the replay of the log reports."""
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
        """Takes the first cluster id in the batches.

        Skips compressed batches: no leader compresses this record, and their decompressed size has no bound. Skips
        damaged batches too; the replay of the log reports them.
        """
        for batch in batches:
            if batch.is_control or batch.is_compressed:
                continue
            records = decode_records(batch.data, check_crc=False, stop=True)
            found = (decode_cluster_id(record.value or b"") for record in records)
            self.cluster_id = next((each for each in found if each is not None), None)
            if self.cluster_id is not None:
                return
