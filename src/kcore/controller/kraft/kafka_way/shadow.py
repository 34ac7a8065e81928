"""The state of Kafka's controller that the image does not have, as far as switched-back departures need it."""

from collections import deque
from collections.abc import Collection, Iterable, Iterator
from copy import deepcopy
from typing import Final

from kcore.controller.kraft.departures import (
    ABORTED_RECORDS,
    DELETED_SETTINGS,
    LOST_SCRAM,
    REFUSED_KRAFT_VERSION,
    SNAPSHOT_ENDS,
    STALE_ELIGIBLE,
)
from kcore.controller.kraft.kafka_way.faults import ControllerFaultError
from kcore.java_hash import hash_map_order
from kcore.metadata.image.image import ClusterImage
from kcore.metadata.image.image_state import ConfigResource
from kcore.metadata.image.replay import replay
from kcore.raft.log.batches import StoredBatch, split_batches
from kcore.schema import metadata_records_log as log_records
from kcore.schema.configs import ConfigResourceType
from kcore.schema.metadata_records_log import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
)
from kcore.schema.metadata_records_security import RemoveUserScramCredentialRecord, UserScramCredentialRecord
from kcore.schema.metadata_records_settings import ConfigRecord
from kcore.schema.metadata_records_topics import (
    ClearElrRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from kcore.schema.structure import MetadataRecord
from kcore.types import Uuid
from kcore.wire.metadata_frames import decode_metadata_record
from kcore.wire.records import decode_records

TOPIC: Final = ConfigResourceType.TOPIC.value
_NONE, _OPEN, _ENDED, _ABORTED = range(4)  # TransactionState; _OPEN: STARTED or CONTINUED.


class PublishedImage:
    """The image from which Kafka's nodes write snapshots, which may differ from the controller's state.

    Kafka applies the records of one commit as one delta. If a transaction is aborted within the delta and further
    records follow, the aborted records stay in the delta ("aborted-records-return"). If a topic is created and deleted
    within the delta, its settings stay in the image ("deleted-topics-settings"). If the last SCRAM credential of a
    mechanism is removed within the delta, the credentials that follow in the delta's hash table are lost
    ("lost-scram-credentials"). `image`: the published state with the records of the present delta so far. Source:
    MetadataBatchLoader.
    """

    def __init__(self, kafka_way: Collection[str]) -> None:
        self._keeps_aborted = ABORTED_RECORDS in kafka_way
        self._keeps_settings = DELETED_SETTINGS in kafka_way
        self._loses_credentials = LOST_SCRAM in kafka_way
        self.held: int | None = None  # A snapshot that is being written needs the journal from this offset on.
        self.image = ClusterImage()
        self._transaction = _NONE
        self._begin_delta()
        self.begin(0)

    def begin(self, offset: int) -> None:
        """Begin to follow the log at `offset`, the end of the snapshot that `image` was loaded from."""
        self.image.end_offset = offset
        self.image.keep_journal()

    def hand_over(self, batches: bytes) -> None:
        """Apply committed batches that the raft layer passes on together."""
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
        self._had_settings: dict[ConfigResource, bool] = {}  # True if the resource had settings before the delta.
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
                settings = self.image.configs.get(resource, {})
                kind, owner = resource
                kept = [
                    ConfigRecord(resource_type=kind, resource_name=owner, name=name, value=value)
                    for name, value in settings.items()
                ]
        if isinstance(record, TopicRecord) and record.name in self.image.topics:
            # An aborted transaction created a topic of this name. Kafka's image keeps both topics, by id.
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
        """Drop the credentials that ScramDelta.apply loses.

        Kafka drops the table of a mechanism when the table is empty, and puts further credentials into the dropped
        table.
        """
        for mechanism, changed in self._changed_users.items():
            users = set(self._had_users[mechanism])
            for name in hash_map_order(changed):
                users = users | {name} if changed[name] else users - {name}
                if not users:
                    for _, user in [key for key in self.image.scram if key[0] == mechanism]:
                        self.image.apply(RemoveUserScramCredentialRecord(name=user, mechanism=mechanism))
                    break

    def _resource_of(self, record: MetadataRecord) -> ConfigResource | None:
        """The resource whose settings the record changes, or None."""
        if isinstance(record, ConfigRecord):
            return record.resource_type, record.resource_name
        if isinstance(record, RemoveTopicRecord) and (row := self.image.topics.row_of_id(record.topic_id)) is not None:
            return TOPIC, self.image.topics.names[row]
        return None


def records_of_batches(batches: bytes) -> Iterator[tuple[int, MetadataRecord]]:
    """The metadata records of whole batches, with their offsets."""
    for row in decode_records(batches):
        if row.control is None and row.value is not None:
            yield row.offset, decode_metadata_record(row.value)[0]


_Elrs = dict[int, list[int]]  # ELRs by partition.


class EligibleIndex:
    """Kafka's index of partitions by the brokers in their ELRs, with its faults (BrokersToElrs).

    A ClearElrRecord empties ELRs but not the index. So a broker that was in a cleared ELR stays in the index, even
    after the topic is deleted. When the broker enters and leaves this ELR again, the index may list partition 0 in
    place of the partition.
    """

    def __init__(self) -> None:
        self._partitions: dict[int, dict[Uuid, list[int]]] = {}  # Partitions by broker and topic.
        self._elrs: dict[Uuid, _Elrs] = {}  # The ELRs with members, by topic.
        self._topics: dict[str, Uuid] = {}
        self._before: EligibleIndex | None = None  # The state before the open transaction.

    def of_broker(self, broker_id: int) -> Iterator[tuple[Uuid, int]]:
        """Topic and partition of each entry of the broker; entries may be duplicates, or name deleted topics."""
        for topic_id, partitions in self._partitions.get(broker_id, {}).items():
            for partition in partitions:
                yield topic_id, partition

    def replay(self, record: MetadataRecord) -> None:
        """Apply one record of any type."""
        if isinstance(record, TopicRecord):
            self._topics[record.name] = record.topic_id
        elif isinstance(record, PartitionRecord | PartitionChangeRecord):
            if record.eligible_leader_replicas is not None:
                self._change(record.topic_id, record.partition_id, record.eligible_leader_replicas)
        elif isinstance(record, RemoveTopicRecord):
            self._remove_topic(record.topic_id)
        elif isinstance(record, ClearElrRecord):
            for topic_id in [self._topics[record.topic_name]] if record.topic_name else list(self._elrs):
                self._elrs.pop(topic_id, None)
        elif isinstance(record, log_records.BeginTransactionRecord):
            self._before = deepcopy(self)
        elif isinstance(record, log_records.EndTransactionRecord):
            self._before = None
        elif isinstance(record, log_records.AbortTransactionRecord) and self._before is not None:
            vars(self).update(vars(self._before))

    def _change(self, topic_id: Uuid, partition: int, elr: Iterable[int]) -> None:
        elrs = self._elrs.setdefault(topic_id, {})
        before, after = {*elrs.pop(partition, ())}, {*elr}
        if after:
            elrs[partition] = [*after]
        for broker_id in sorted(before - after):
            self._remove(broker_id, topic_id, partition)
        for broker_id in sorted(after - before):
            self._partitions.setdefault(broker_id, {}).setdefault(topic_id, []).append(partition)

    def _remove(self, broker_id: int, topic_id: Uuid, partition: int) -> None:
        by_topic = self._partitions[broker_id]
        listed = by_topic.pop(topic_id)
        rest = [each for each in listed if each != partition]
        rest += [0] * (len(listed) - 1 - len(rest))  # Kafka's new array has one entry less, and zeros at its end.
        if rest:
            by_topic[topic_id] = rest

    def _remove_topic(self, topic_id: Uuid) -> None:
        for elr in self._elrs.pop(topic_id, {}).values():
            for broker_id in elr:
                self._partitions.get(broker_id, {}).pop(topic_id, None)
        self._topics = {name: each for name, each in self._topics.items() if each != topic_id}


_OF_IMAGES: Final = frozenset({ABORTED_RECORDS, DELETED_SETTINGS, LOST_SCRAM})
_NEEDED_BY: Final = _OF_IMAGES | {REFUSED_KRAFT_VERSION, SNAPSHOT_ENDS, STALE_ELIGIBLE}


class Shadow:
    """The shadow if no switched-back departure needs Kafka's state: its methods keep no state."""

    eligible: EligibleIndex | None = None

    def kraft_version_to_write(self, requested: int | None, *, has_records: bool) -> int | None:
        """The kraft.version that raft writes before the records of a decision; None for no change."""
        return requested if has_records else None

    def read_snapshot(self, batches: bytes) -> None:
        """Read a slice of the snapshot from which the controller starts."""

    def end_snapshot(self, offset: int) -> None:
        """The whole snapshot, which ends at `offset`, has been read."""

    def snapshot_image(self, image: ClusterImage) -> ClusterImage:
        """The image that snapshots are written from. `image`: the controller's state."""
        return image

    def hold(self, offset: int | None) -> None:
        """A snapshot of the state at `offset` is being written. None: no snapshot is being written."""

    def on_replayed(self, batches: bytes) -> None:
        """A standby is about to replay these committed batches."""

    def on_written(self, batches: bytes) -> None:
        """The active controller has decided and replayed these batches."""

    def on_committed(self, end_offset: int) -> None:
        """The batches of `on_written` below the offset are committed."""

    def on_reverted(self, offset: int) -> None:
        """The batches of `on_written` from the offset on are reverted."""


def shadow_of(kafka_way: frozenset[str]) -> Shadow:
    """A KafkaShadow if a switched-back departure needs one."""
    return KafkaShadow(kafka_way) if kafka_way & _NEEDED_BY else Shadow()


class KafkaShadow(Shadow):
    """Keeps the state of Kafka's controller. ControllerFaultError for a log at which Kafka's controller halts."""

    def __init__(self, kafka_way: frozenset[str]) -> None:
        self._way = kafka_way
        self._requested_kraft_version: int | None = None  # From a refused request: written with the next records.
        self.eligible = EligibleIndex() if STALE_ELIGIBLE in kafka_way else None
        self._committed_eligible = deepcopy(self.eligible)
        self.published = PublishedImage(kafka_way) if kafka_way & _OF_IMAGES else None
        self._written: deque[StoredBatch] = deque()  # Batches of this node that are not committed.
        self._snapshot_end: int | None = None

    def kraft_version_to_write(self, requested: int | None, *, has_records: bool) -> int | None:
        wanted = self._requested_kraft_version if requested is None else requested
        self._requested_kraft_version = None if has_records else wanted
        return wanted if has_records else None

    # Snapshots.

    def read_snapshot(self, batches: bytes) -> None:
        if self.published is not None:
            replay(self.published.image, decode_records(batches))
        self._follow_elrs(batches)

    def end_snapshot(self, offset: int) -> None:
        self._snapshot_end = offset
        if self.published is not None:
            self.published.begin(offset)

    def snapshot_image(self, image: ClusterImage) -> ClusterImage:
        return image if self.published is None else self.published.image

    def hold(self, offset: int | None) -> None:
        if self.published is not None:
            self.published.held = offset

    # The log.

    def on_replayed(self, batches: bytes) -> None:
        for offset, record in records_of_batches(batches):
            begins = isinstance(record, BeginTransactionRecord)
            if begins and offset == self._snapshot_end and SNAPSHOT_ENDS in self._way:
                raise ControllerFaultError(f"a transaction begins at {offset}, where the snapshot ends")
        self._follow_elrs(batches)
        if self.published is not None:
            self.published.hand_over(batches)

    def _follow_elrs(self, batches: bytes) -> None:
        _replay(self.eligible, batches)
        _replay(self._committed_eligible, batches)

    def on_written(self, batches: bytes) -> None:
        self._written += split_batches(batches, check_crc=False)[0]
        _replay(self.eligible, batches)

    def on_committed(self, end_offset: int) -> None:
        # Kafka's leader publishes each batch as one delta.
        while self._written and self._written[0].last_offset < end_offset:
            data = self._written.popleft().data
            _replay(self._committed_eligible, data)
            if self.published is not None:
                self.published.hand_over(data)

    def on_reverted(self, offset: int) -> None:
        while self._written and self._written[-1].base_offset >= offset:
            self._written.pop()
        self._requested_kraft_version = None
        self.eligible = deepcopy(self._committed_eligible)
        for each in self._written:
            _replay(self.eligible, each.data)


def _replay(index: EligibleIndex | None, batches: bytes) -> None:
    if index is not None:
        for _, record in records_of_batches(batches):
            index.replay(record)
