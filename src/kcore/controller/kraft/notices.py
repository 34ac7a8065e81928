"""What the log tells an operator: a line for each thing that happened, whatever the number of records."""

from collections.abc import Iterator
from typing import Final

import numpy as np

from kcore.constants import NO_LEADER_CHANGE
from kcore.controller.kraft.decision import Decision, Versioned
from kcore.metadata.changes import KraftChanges
from kcore.metadata.image import ClusterImage
from kcore.metadata.partition_values import PartitionCreations
from kcore.schema import metadata_records_brokers as brokers
from kcore.schema import metadata_records_settings as settings
from kcore.schema.metadata_records_topics import RemoveTopicRecord
from kcore.schema.structure import MetadataRecord
from kcore.wire.encoded_records import EncodedRecords

MOST_NAMES: Final = 5
FENCED, UNFENCED = 1, -1  # BrokerRegistrationFencingChange


def lines_of(image: ClusterImage, decision: Decision) -> Iterator[str]:
    """Of a decision that has not taken effect yet."""
    moved = offline = back = reassigned = 0
    removed: list[str] = []
    for each in decision.records:
        if isinstance(each, Versioned):
            if isinstance(each.record, RemoveTopicRecord):
                row = image.topics.row_of_id(each.record.topic_id)
                removed.append("?" if row is None else image.topics.names[row])
            elif (line := _line_of(image, each.record)) is not None:
                yield line
        elif isinstance(each, PartitionCreations):
            yield from _created(each)
        elif not isinstance(each, EncodedRecords):
            changes = each if isinstance(each, KraftChanges) else each.records()
            counts = _counts(image, changes)
            moved, offline, back, reassigned = (
                sum(pair) for pair in zip((moved, offline, back, reassigned), counts, strict=True)
            )
    if removed:
        yield f"{_names(removed)} deleted"
    for count, what in ((moved, "other leaders"), (offline, "no leader: offline"), (back, "a leader again")):
        if count:
            yield f"{count:,} partitions have {what}"
    if reassigned:
        yield f"replicas of {reassigned:,} partitions are reassigned"


def _counts(image: ClusterImage, changes: KraftChanges) -> tuple[int, int, int, int]:
    """Partitions with another leader, with none any more, with one again, and with other replicas."""
    reassigned = 0 if changes.replicas is None else len(changes)
    if changes.replicas is not None and changes.replicas.valid is not None:
        reassigned = int(changes.replicas.valid.sum())
    if changes.leaders is None:
        return 0, 0, 0, reassigned
    named = changes.leaders != NO_LEADER_CHANGE
    rows, after = changes.rows[named], changes.leaders[named]
    before = image.table.leader__p[rows]
    ids = np.append(image.brokers.ids, -1)  # Row -1 is nobody.
    others = ids[before] != after
    went, came = others & (after < 0), others & (before < 0)
    return int((others & ~went & ~came).sum()), int(went.sum()), int(came.sum()), reassigned


def _created(created: PartitionCreations) -> Iterator[str]:
    is_new = np.asarray(created.is_new, np.bool_)
    topics = np.asarray(created.topics)
    for kind, what in ((True, "created with"), (False, "extended by")):
        places = np.flatnonzero(is_new == kind).tolist()
        if places:
            count = int(np.isin(topics, places).sum())
            yield f"{_names([created.names[place] for place in places])} {what} {count:,} partitions"


def _names(names: list[str]) -> str:
    shown = ", ".join(names[:MOST_NAMES])
    rest = f" and {len(names) - MOST_NAMES:,} more" if len(names) > MOST_NAMES else ""
    return f"topic{'s' if len(names) > 1 else ''} {shown}{rest}"


def _line_of(image: ClusterImage, record: MetadataRecord) -> str | None:
    if isinstance(record, brokers.RegisterBrokerRecord):
        return f"broker {record.broker_id} registered, incarnation {record.incarnation_id}"
    if isinstance(record, brokers.UnregisterBrokerRecord):
        return f"broker {record.broker_id} unregistered"
    if isinstance(record, brokers.FenceBrokerRecord):
        return f"broker {record.id} fenced"
    if isinstance(record, brokers.UnfenceBrokerRecord):
        return f"broker {record.id} unfenced"
    if isinstance(record, brokers.BrokerRegistrationChangeRecord):
        fencing = {FENCED: "fenced", UNFENCED: "unfenced"}.get(record.fenced)
        leaving = "in controlled shutdown" if record.in_controlled_shutdown else None
        parts = [part for part in (fencing, leaving) if part]
        return f"broker {record.broker_id} {', '.join(parts) or 'changed its directories'}"
    if isinstance(record, brokers.RegisterControllerRecord):
        return f"controller {record.controller_id} registered, incarnation {record.incarnation_id}"
    if isinstance(record, settings.FeatureLevelRecord):
        before = image.features.get(record.name, 0)
        return f"feature {record.name} is at level {record.feature_level}, it was at {before}"
    return None
