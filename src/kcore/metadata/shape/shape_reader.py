"""Reads the text of a shape, and makes an image of its document. TableError names the place of an invalid value."""

import json
from collections.abc import Iterable, Sequence
from typing import Any, Final

import numpy as np

from kcore.constants import NO_LEADER
from kcore.errors import EncodeError, TableError
from kcore.metadata.image.image import ClusterImage
from kcore.metadata.metadata_version import MetadataVersion
from kcore.metadata.shape import FORMAT, LISTS, NUMBERS, SECRETS, SECTIONS, VERSION, Document
from kcore.metadata.table.arrays import padded_lists
from kcore.metadata.table.broker_table import BrokerTable
from kcore.metadata.table.directory_table import MIGRATING
from kcore.metadata.table.partition_table import PartitionTable
from kcore.metadata.table.topic_table import TopicTable
from kcore.metadata.topic_names import MAX_LENGTH
from kcore.printable import json_flaw
from kcore.releases.known import NEWEST
from kcore.schema.metadata_records_brokers import RegisterBrokerRecord
from kcore.schema.metadata_records_topics import TopicRecord
from kcore.schema.structure import MetadataRecord
from kcore.types import ZERO_UUID, Uuid
from kcore.wire.codec import encode
from kcore.wire.jsonform import from_json

_BROKER_VERSION: Final = MetadataVersion.parse(NEWEST.versions.newest).register_broker_record_version
_KEYS: Final = ("format", "version", "directories", "brokers", "topics", *SECTIONS)
_OF_PARTITIONS: Final = {"partition", "replicas", "directories", *LISTS, *NUMBERS}


def parse_shape(text: str) -> Document:
    """The document in a text; TableError for another format or version, and for unknown or repeated keys."""
    try:
        document = json.loads(text, object_pairs_hook=_object)
    except TableError:
        raise
    except (ValueError, RecursionError) as error:
        raise TableError(f"it is not JSON: {json_flaw(error)}") from None
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise TableError(f"it is JSON, but no shape of a cluster: 'format' is not {FORMAT!r}")
    version = document.get("version")
    if type(version) is not int or version != VERSION:
        raise TableError(f"version {version!r:.20} of the format is unknown: this kcore reads {VERSION}")
    for key in document.keys() - {*_KEYS}:
        raise TableError(f"a shape has no {key!r:.60}, only {', '.join(_KEYS)}")
    return document


def _object(pairs: list[tuple[str, Any]]) -> Document:
    """A JSON object; TableError if a key occurs twice, because readers differ in the value that they take."""
    found = dict(pairs)
    if len(found) < len(pairs):
        keys = [key for key, _ in pairs]
        raise TableError(f"key {next(key for key in keys if keys.count(key) > 1)!r:.60} occurs twice in one object")
    return found


def image_of(document: Document) -> ClusterImage:
    """The image that the document describes; rows of brokers and topics are in the document's order.

    TableError names the place of an invalid value, such as topics[3].partitions[0].isr.
    """
    registrations = ClusterImage()
    directories = registrations.directories.name(_uuids(_list(document, "directories", ""), "directories"))
    if len({*directories}) < len(directories):
        raise TableError("directories: one is given twice")
    for place, broker in _items(document, "brokers"):
        _add_broker(registrations, broker, place)
    arrays = _Topics(directories)
    for place, topic in _items(document, "topics"):
        arrays.add(topic, place)
    image = ClusterImage(arrays.table(registrations.brokers))
    for section, record in SECTIONS.items():
        for place, data in _items(document, section):
            _apply(image, record, data | dict.fromkeys(SECRETS, "") if section == "scram" else data, place)
    return image


def _add_broker(image: ClusterImage, broker: Document, place: str) -> None:
    broker_id = broker.get("brokerId")
    if type(broker_id) is int and broker_id in image.brokers:
        raise TableError(f"{place}: broker {broker_id} is given twice")
    if broker.get("registered", True) is not False:
        _apply(image, RegisterBrokerRecord, broker, place, _BROKER_VERSION)
        return
    if type(broker_id) is not int or broker.keys() != {"brokerId", "registered"} or not 0 <= broker_id < 2**31:
        raise TableError(f"{place}: a broker that is not registered has a brokerId and nothing else: {broker!r:.80}")
    image.brokers.name(broker_id)


def _apply(image: ClusterImage, record: type[MetadataRecord], data: Document, place: str, version: int = 0) -> None:
    try:
        image.apply(_record(record, data, version))
    except (EncodeError, TableError) as error:
        raise TableError(f"{place}: {error}") from None


def _record(record: type[MetadataRecord], data: Document, version: int = 0) -> MetadataRecord:
    """The record with this data. EncodeError for data that no record has, such as a text that is not UTF-8."""
    made = from_json(record, version, data)
    assert isinstance(made, MetadataRecord)
    encode(made, version)
    return made


class _Topics:
    """Collects the columns of all partitions, each list flat."""

    def __init__(self, directories: Sequence[int]) -> None:
        self._directory_rows = directories
        self._names: dict[str, Uuid] = {}
        self._topic_ids: set[Uuid] = set()
        self._topic_rows: list[int] = []
        self._columns: dict[str, list[Any]] = {name: [] for name in ("partition", *NUMBERS)}
        self._lists: dict[str, list[Sequence[int]]] = {name: [] for name in ("replicas", "isr", "elr", "lastKnownElr")}
        self._moves: dict[str, dict[int, Sequence[int]]] = {"adding": {}, "removing": {}}
        self._directories: list[Sequence[int]] = []

    def add(self, topic: Document, place: str) -> None:
        """Adds a topic with its partitions."""
        named = {"name": topic.get("name"), "topicId": topic.get("topicId", str(ZERO_UUID))}
        try:
            record: Any = _record(TopicRecord, named)
        except EncodeError as error:
            raise TableError(f"{place}.{error}") from None
        if unknown := topic.keys() - {"name", "topicId", "partitions"}:
            raise TableError(f"{place}: a topic has no {min(unknown)!r:.60}")
        if not record.name:
            raise TableError(f"{place}.name: a topic has a name, and this one is empty")
        if len(record.name) > MAX_LENGTH:
            raise TableError(f"{place}.name: longer than {MAX_LENGTH} characters: {record.name!r:.60}")
        if record.topic_id != ZERO_UUID and record.topic_id in self._topic_ids:
            raise TableError(f"{place}: topicId {record.topic_id} is given twice")
        if record.name in self._names:
            raise TableError(f"{place}: topic {record.name!r:.260} is given twice")
        row = len(self._names)
        self._names[record.name] = record.topic_id
        self._topic_ids.add(record.topic_id)
        for at, (where, partition) in enumerate(_items(topic, "partitions", f"{place}.")):
            self._add_partition(partition, row, at, where)

    def _add_partition(self, given: Document, topic_row: int, at: int, place: str) -> None:
        if not given.keys() <= _OF_PARTITIONS:
            raise TableError(f"{place}: a partition has no {min(given.keys() - _OF_PARTITIONS)!r:.60}")
        row, replicas = len(self._topic_rows), _integers(given, "replicas", place)
        self._topic_rows.append(topic_row)
        usual = {"partition": at, "leader": replicas[0] if replicas else NO_LEADER}
        for name, column in self._columns.items():
            value = given.get(name, usual.get(name, 0))
            if type(value) is not int or not -(2**31) <= value < 2**31:
                raise TableError(f"{place}.{name}: {value!r:.40} is no 32-bit integer")
            column.append(value)
        for name, lists in self._lists.items():
            usual_list = replicas if name in ("replicas", "isr") else ()
            lists.append(_integers(given, name, place) if name in given else usual_list)
        _check_members(place, replicas, self._lists["isr"][-1], self._columns["leader"][-1])
        for name, moves in self._moves.items():
            if name in given:
                moves[row] = _integers(given, name, place)
        self._directories.append(self._places(given, len(replicas), place))

    def _places(self, given: Document, count: int, place: str) -> list[int]:
        """The rows of the directories of a partition's replicas."""
        if "directories" not in given:
            return [MIGRATING] * count
        places = _integers(given, "directories", place)
        if len(places) != count or not all(each < len(self._directory_rows) for each in places):
            raise TableError(f"{place}.directories: {places!r:.60}: one place in the shape's directories a replica")
        return [self._directory_rows[each] for each in places]

    def table(self, brokers: BrokerTable) -> PartitionTable:
        """The partition table; TableError for values that contradict each other, such as an unknown broker."""
        numbers = {name: np.array(column, np.int32) for name, column in self._columns.items()}
        lists = {name: padded_lists(values) for name, values in self._lists.items()}
        directories = padded_lists(self._directories)
        return PartitionTable.from_arrays(
            lists["replicas"],
            isr=lists["isr"],
            leaders=numbers["leader"],
            leader_epochs=numbers["leaderEpoch"],
            partition_epochs=numbers["partitionEpoch"],
            controller_epochs=numbers["controllerEpoch"],
            leader_recovery_states=numbers["leaderRecoveryState"],
            topics=TopicTable(list(self._names), list(self._names.values())),
            topic_rows=np.array(self._topic_rows, np.int32),
            partition_indexes=numbers["partition"],
            brokers=brokers,
            adding=self._moves["adding"],
            removing=self._moves["removing"],
            directories=np.where(directories < 0, 0, directories) if (directories > 0).any() else None,
            elr=lists["elr"] if lists["elr"].shape[1] else None,
            last_known_elr=lists["lastKnownElr"] if lists["lastKnownElr"].shape[1] else None,
        )


def _check_members(place: str, replicas: Sequence[int], isr: Sequence[int], leader: int) -> None:
    """TableError for an ISR or a leader outside the replicas."""
    named = {"isr": () if isr is replicas else isr, "leader": () if leader == NO_LEADER else (leader,)}
    for name, brokers in named.items():
        if outside := [each for each in brokers if each not in replicas]:
            raise TableError(f"{place}.{name}: broker {outside[0]} is none of the replicas {replicas!r:.60}")


def _items(document: Document, name: str, before: str = "") -> Iterable[tuple[str, Document]]:
    """The objects of a list, each with its place."""
    for at, item in enumerate(_list(document, name, before)):
        place = f"{before}{name}[{at}]"
        if not isinstance(item, dict):
            raise TableError(f"{place}: expected an object, not {item!r:.60}")
        yield place, item


def _list(document: Document, name: str, before: str) -> list[Any]:
    found = document.get(name, [])
    if not isinstance(found, list):
        raise TableError(f"{before}{name}: expected a list, not {found!r:.60}")
    return found


def _integers(given: Document, name: str, place: str) -> list[int]:
    found = given.get(name)
    if not isinstance(found, list) or not all(type(each) is int and 0 <= each < 2**31 for each in found):
        raise TableError(f"{place}.{name}: expected a list of broker ids, not {found!r:.60}")
    return found


def _uuids(texts: list[Any], place: str) -> list[Uuid]:
    if not all(isinstance(each, str) for each in texts):
        raise TableError(f"{place}: expected texts, not {texts!r:.60}")
    try:
        return [Uuid(each) for each in texts]
    except EncodeError as error:
        raise TableError(f"{place}: {error}") from None
