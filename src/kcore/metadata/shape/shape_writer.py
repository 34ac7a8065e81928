"""Writes an image as the document of a shape, and a document as text with one line for each broker and partition."""

import json
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any, Final

from kcore.constants import NO_LEADER, RECOVERED
from kcore.metadata.image import image_records
from kcore.metadata.image.image import ClusterImage
from kcore.metadata.metadata_version import MetadataVersion
from kcore.metadata.shape import FORMAT, SECRETS, SECTIONS, VERSION, Document
from kcore.metadata.table.partition_table import PartitionTable
from kcore.releases.known import NEWEST
from kcore.schema.metadata_records_settings import FeatureLevelRecord
from kcore.schema.structure import MetadataRecord
from kcore.types import ZERO_UUID
from kcore.wire.jsonform import to_json

_AS_RECORDS: Final = MetadataVersion.parse(NEWEST.versions.newest)  # It has a field for every value.


def shape_of(image: ClusterImage) -> Document:
    """The document of an image; it has no keys of SCRAM users, no delegation tokens and no controllers."""
    table = image.table
    brokers = image_records.brokers(image, _AS_RECORDS, _no_loss)
    registered = dict(zip(sorted(image.brokers), brokers, strict=True))
    by_section: dict[str, list[Any]] = {name: [] for name in SECTIONS}
    names = {record: name for name, record in SECTIONS.items()}
    settings = chain(image_records.settings(image), image_records.security(image, _AS_RECORDS, _no_loss))
    levels = (FeatureLevelRecord(name=name, feature_level=level) for name, level in sorted(image.features.items()))
    for record in chain(levels, _records(settings)):
        if (section := names.get(type(record))) is not None:
            data = to_json(record, 0)
            by_section[section].append({key: value for key, value in data.items() if key not in SECRETS})
    return {
        "format": FORMAT,
        "version": VERSION,
        "directories": [str(each) for each in image.directories.uuids],
        "brokers": [
            to_json(*registered[each]) if each in registered else {"brokerId": each, "registered": False}
            for each in image.brokers.ids.tolist()
        ],
        "topics": list(_topics(table)),
        **by_section,
    }


def _records(written: Iterable[tuple[MetadataRecord, int]]) -> Iterator[MetadataRecord]:
    return (record for record, _ in written)


def _no_loss(what: str) -> None:
    raise AssertionError(f"the newest metadata.version has no field for {what}")


def _topics(table: PartitionTable) -> Iterator[dict[str, Any]]:
    for name, topic_id in zip(table.topics.names, table.topics.ids, strict=True):
        if name:
            known = {} if topic_id == ZERO_UUID else {"topicId": str(topic_id)}
            yield {"name": name, **known, "partitions": list(_partitions(table, name))}


def _partitions(table: PartitionTable, name: str) -> Iterator[dict[str, Any]]:
    """The partitions of a topic, without values that `image_of` supplies for a healthy new partition."""
    rows = table.rows_of_topic(name)
    directories = table.directories__ps
    for at, (row, state) in enumerate(zip(rows.tolist(), table.states(rows), strict=True)):
        usual = {
            "partition": at,
            "isr": state.replicas,
            "leader": state.replicas[0] if state.replicas else NO_LEADER,
            "leaderEpoch": 0,
            "partitionEpoch": 0,
            "controllerEpoch": 0,
            "leaderRecoveryState": RECOVERED,
            "adding": (),
            "removing": (),
        }
        values = (*(state.partition, state.isr, state.leader, state.leader_epoch, state.partition_epoch),
                  *(state.controller_epoch, state.leader_recovery_state, state.adding, state.removing))  # fmt: skip
        given = {key: value for (key, default), value in zip(usual.items(), values, strict=True) if value != default}
        lists = {key: list(value) if isinstance(value, tuple) else value for key, value in given.items()}
        found: dict[str, Any] = {"replicas": list(state.replicas), **lists}
        if directories is not None and any(places := directories[row, : len(state.replicas)].tolist()):
            found["directories"] = places
        for key, column in (("elr", table.elr__pi), ("lastKnownElr", table.last_known_elr__pi)):
            if column is not None and (members := [each for each in column[row].tolist() if each >= 0]):
                found[key] = table.brokers.ids[members].tolist()
        yield found


def shape_text(document: Document) -> Iterator[str]:
    """The document as the pieces of a text: a line for each broker, topic, partition and record."""
    yield "{\n"
    for nth, (key, value) in enumerate(document.items()):
        yield ",\n" if nth else ""
        yield f"{_dumps(key)}: "
        if key == "topics":
            yield from _list(map(_topic, value))
        else:
            yield from _list(map(_dumps, value)) if isinstance(value, list) else (_dumps(value),)
    yield "\n}\n"


def _topic(topic: dict[str, Any]) -> str:
    head = {key: value for key, value in topic.items() if key != "partitions"}
    return "".join((_dumps(head)[:-1], ', "partitions": ', *_list(map(_dumps, topic["partitions"])), "}"))


def _list(items: Iterable[str]) -> Iterator[str]:
    yield "["
    for nth, item in enumerate(items):
        yield f",\n{item}" if nth else f"\n{item}"
    yield "]"


def _dumps(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
