"""The slow twin of `kcore._ext.tables.record_values`: records as objects, encoded one by one."""

from typing import Any

from kcore.metadata.image.image import ClusterImage
from kcore.metadata.table.changes import KraftChanges
from kcore.schema import PartitionChangeRecord, PartitionRecord, TopicRecord
from kcore.wire.columns import Vectors
from kcore.wire.metadata_frames import encode_metadata_record

FIELDS = {
    "isr": "isr",
    "replicas": "replicas",
    "removing": "removing_replicas",
    "adding": "adding_replicas",
    "elr": "eligible_leader_replicas",
    "last_known_elr": "last_known_elr",
}


def change_records(image: ClusterImage, changes: KraftChanges) -> list[PartitionChangeRecord]:
    """A record a change, with the fields that it sets."""
    table, records = image.table, []
    for k, row in enumerate(changes.rows.tolist()):
        record = PartitionChangeRecord(
            topic_id=table.topics.ids[table.topic_row__p[row]], partition_id=int(table.partition_index__p[row])
        )
        for ours, theirs in FIELDS.items():
            setattr(record, theirs, said(getattr(changes, ours), k))
        directories = said(changes.directories, k)
        record.directories = None if directories is None else [image.directories.uuids[each] for each in directories]
        if changes.leaders is not None:
            record.leader = int(changes.leaders[k])
        if changes.recovery is not None:
            record.leader_recovery_state = int(changes.recovery[k])
        records.append(record)
    return records


def said(lists: Vectors | None, k: int) -> list[int] | None:
    """List k; None if it is not set."""
    found = None if lists is None else lists[k]
    return None if found is None else found.tolist()


def topic_records(image: ClusterImage, name: str, version: int, elr: bool) -> list[bytes]:
    """A topic's record and those of its partitions, by number."""
    table = image.table
    topic_id = table.topics.ids[table.topics.row(name)]
    values = [encode_metadata_record(TopicRecord(name=name, topic_id=topic_id), 0)]
    for row in table.rows_of_topic(name).tolist():
        found = table.registration(row)
        record: Any = PartitionRecord(
            partition_id=int(table.partition_index__p[row]),
            topic_id=topic_id,
            replicas=[*found.replicas],
            isr=[*found.isr],
            removing_replicas=[*found.removing_replicas],
            adding_replicas=[*found.adding_replicas],
            leader=found.leader,
            leader_recovery_state=found.leader_recovery_state,
            leader_epoch=found.leader_epoch,
            partition_epoch=found.partition_epoch,
        )
        if version >= 1:
            record.directories = [*found.directories]
        if elr and found.elr:
            record.eligible_leader_replicas = [*found.elr]
        if elr and found.last_known_elr:
            record.last_known_elr = [*found.last_known_elr]
        values.append(encode_metadata_record(record, version))
    return values
