"""The image from which Kafka's nodes write snapshots, with the entries that it has beyond the state
(MetadataBatchLoader).

Kafka applies the records of one commit as one delta. If a transaction is aborted within the delta and further records
follow, the aborted records stay in it ("aborted-records-return"). If a topic is created and deleted within the delta,
its settings stay in the image ("deleted-topics-settings"). If the last SCRAM credential of a mechanism is removed
within the delta, the credentials after it in the delta's hash table are lost ("lost-scram-credentials").
"""

from collections.abc import Collection, Iterator, Mapping
from typing import Final

from kcore.controller.kraft.departures import ABORTED_RECORDS, DELETED_SETTINGS, LOST_SCRAM
from kcore.java_hash import hash_map_order
from kcore.metadata.image.image import ClusterImage
from kcore.metadata.image.image_state import ConfigResource
from kcore.raft.log.batches import split_batches
from kcore.schema.configs import ConfigResourceType
from kcore.schema.metadata_records_log import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
)
from kcore.schema.metadata_records_security import RemoveUserScramCredentialRecord, UserScramCredentialRecord
from kcore.schema.metadata_records_settings import ConfigRecord
from kcore.schema.metadata_records_topics import RemoveTopicRecord, TopicRecord
from kcore.schema.structure import MetadataRecord
from kcore.wire.metadata_frames import decode_metadata_record
from kcore.wire.records import decode_records

TOPIC: Final = ConfigResourceType.TOPIC.value
_NONE, _OPEN, _ENDED, _ABORTED = range(4)  # TransactionState, without its state "just begun".


class PublishedImage:
    """`image`: the published state, and the replayed part of the present delta."""

    def __init__(self, kafka_way: Collection[str]) -> None:
        self._keeps_aborted = ABORTED_RECORDS in kafka_way
        self._keeps_settings = DELETED_SETTINGS in kafka_way
        self._loses_credentials = LOST_SCRAM in kafka_way
        self.held: int | None = None  # A snapshot needs the journal from this offset on.
        self.image = ClusterImage()
        self._transaction = _NONE
        self._begin_delta()
        self.begin(0)

    def begin(self, offset: int) -> None:
        """Begin with `image` as the state of a snapshot that ends at the offset."""
        self.image.end_offset = offset
        self.image.keep_journal()

    def hand_over(self, batches: bytes) -> None:
        """Apply committed batches that the raft layer returns together."""
        for batch in split_batches(batches, check_crc=False)[0]:
            for offset, record in records_of_batches(batch.data):
                self._replay(record, offset)
        if self._transaction == _ABORTED:
            self._forget_delta()
        if self._transaction != _OPEN:
            self._publish()
            self._transaction = _NONE

    def _begin_delta(self) -> None:
        self._begin: int | None = None  # The offset of the delta's first record.
        self._had_settings: dict[ConfigResource, bool] = {}  # Before the delta.
        self._had_users: dict[int, set[str]] = {}  # Users before the delta, by changed mechanism.
        self._changed_users: dict[int, dict[str, bool]] = {}  # By mechanism and user: True for a new credential.

    def _publish(self) -> None:
        if self._loses_credentials:
            self._lose_credentials()
        end = self.image.end_offset
        self.image.commit(end if self.held is None else min(end, self.held))
        self._begin_delta()

    def _forget_delta(self) -> None:
        if self._begin is not None:
            end = self.image.end_offset
            self.image.revert_to(self._begin)
            self.image.end_offset = end
            self._begin_delta()

    def _replay(self, record: MetadataRecord, offset: int) -> None:
        if isinstance(record, BeginTransactionRecord):
            self._publish()
            self._transaction = _OPEN
        elif isinstance(record, EndTransactionRecord):
            self._transaction = _ENDED
        elif isinstance(record, AbortTransactionRecord):
            self._transaction = _ABORTED
            if not self._keeps_aborted:
                self._forget_delta()
        else:
            self._transaction = _OPEN if self._transaction == _OPEN else _NONE
            self._apply(record, offset)
        self.image.end_offset = offset + 1

    def _apply(self, record: MetadataRecord, offset: int) -> None:
        if self._begin is None:
            self._begin = offset
            self.image.begin(offset)
        if isinstance(record, UserScramCredentialRecord | RemoveUserScramCredentialRecord):
            self._record_credential(record)
        resource = self._resource_of(record)
        kept: list[ConfigRecord] = []
        if resource is not None:
            had = self._had_settings.setdefault(resource, resource in self.image.configs)
            if isinstance(record, RemoveTopicRecord) and self._keeps_settings and not had:
                kept = _records_of(resource, self.image.configs.get(resource, {}))
        if isinstance(record, TopicRecord) and record.name in self.image.topics:
            # A topic of an aborted transaction has the name. Kafka's image has both topics, by their ids.
            topics = self.image.topics
            self.image.apply(RemoveTopicRecord(topic_id=topics.ids[topics.row(record.name)]), offset)
        for each in (record, *kept):
            self.image.apply(each, offset)

    def _record_credential(self, record: UserScramCredentialRecord | RemoveUserScramCredentialRecord) -> None:
        mechanism = record.mechanism
        if mechanism not in self._had_users:
            self._had_users[mechanism] = {name for kind, name in self.image.scram if kind == mechanism}
        changed = self._changed_users.setdefault(mechanism, {})
        changed[record.name] = isinstance(record, UserScramCredentialRecord)

    def _lose_credentials(self) -> None:
        """Source: ScramDelta.apply, which drops the table of a mechanism when it is empty, and continues to fill the
        dropped table.
        """
        for mechanism, changed in self._changed_users.items():
            users = set(self._had_users[mechanism])
            for name in hash_map_order(changed):
                users = users | {name} if changed[name] else users - {name}
                if not users:
                    self._drop_credentials(mechanism)
                    break

    def _drop_credentials(self, mechanism: int) -> None:
        for kind, name in [*self.image.scram]:
            if kind == mechanism:
                self.image.apply(RemoveUserScramCredentialRecord(name=name, mechanism=mechanism))

    def _resource_of(self, record: MetadataRecord) -> ConfigResource | None:
        """The resource whose settings the record changes, or None."""
        if isinstance(record, ConfigRecord):
            return record.resource_type, record.resource_name
        if isinstance(record, RemoveTopicRecord) and (row := self.image.topics.row_of_id(record.topic_id)) is not None:
            return TOPIC, self.image.topics.names[row]
        return None


def _records_of(resource: ConfigResource, settings: Mapping[str, str]) -> list[ConfigRecord]:
    return [
        ConfigRecord(resource_type=resource[0], resource_name=resource[1], name=name, value=value)
        for name, value in settings.items()
    ]


def records_of_batches(batches: bytes) -> Iterator[tuple[int, MetadataRecord]]:
    """The metadata records of whole batches, with their offsets."""
    for row in decode_records(batches):
        if row.control is None and row.value is not None:
            yield row.offset, decode_metadata_record(row.value)[0]
