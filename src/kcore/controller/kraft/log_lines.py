"""Lines of the operator's log: a decision gets one line for each kind of event, however many records it has."""

import logging
import traceback
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

from kcore.constants import NO_LEADER_CHANGE, RECOVERING
from kcore.controller.kraft.brokers.heartbeats import OF_BROKERS
from kcore.controller.kraft.brokers.records import FENCE, UNFENCE
from kcore.controller.kraft.decision import Records, Versioned
from kcore.controller.kraft.outputs import LogLine, Output
from kcore.metadata.image.image import ClusterImage
from kcore.metadata.table.changes import KraftChanges
from kcore.metadata.table.partition_values import PartitionCreations
from kcore.schema import metadata_records_brokers as brokers
from kcore.schema import metadata_records_settings as settings
from kcore.schema.alter_partition import AlterPartitionRequest
from kcore.schema.broker_lifecycle import BrokerHeartbeatRequest
from kcore.schema.metadata_records_topics import RemoveTopicRecord
from kcore.schema.partitions import AlterPartitionReassignmentsRequest
from kcore.schema.structure import Message, MetadataRecord
from kcore.types import Bools
from kcore.wire.columns import Vectors
from kcore.wire.encoded_records import EncodedRecords

MOST_NAMES: Final = 5  # Topics that a line names; it counts the others.
ALL_CORDONED: Final = (
    "all log directories of all brokers are cordoned: no topic can be created. "
    "Set cordoned.log.dirs of a broker to an empty list"
)
EVERY_MS: Final = 1_000  # AlterPartition requests within this time share one line.
_SHOWN: Final = {
    *OF_BROKERS,
    brokers.RegisterControllerRecord,
    brokers.UnregisterControllerRecord,
    settings.FeatureLevelRecord,
}
_EFFECTS: Final = {  # The words for one partition, and for several.
    "moved": ("partition has another leader", "partitions have other leaders"),
    "offline": ("partition has no leader: it is offline", "partitions have no leader: they are offline"),
    "back": ("partition has a leader again", "partitions have leaders again"),
    "unclean": (
        "partition has a leader that was not in sync: records may be lost",
        "partitions have leaders that were not in sync: records may be lost",
    ),
    "begun": ("partition is being reassigned", "partitions are being reassigned"),
    "complete": ("reassignment is complete", "reassignments are complete"),
    "cancelled": ("reassignment is cancelled", "reassignments are cancelled"),
}


class Notice(NamedTuple):
    """The lines about a decision, which are written to the operator's log when the decision is committed."""

    lines: Sequence[str] = ()
    later: Counter[str] | None = None  # Effects of AlterPartition, which get one line a second.
    warnings: Sequence[str] = ()  # Lines that ask the operator to do something.


NO_NOTICE: Final = Notice()


class NoticeMaker:
    """Makes the notice of one decision. Callers add records before these change the image."""

    def __init__(self, image: ClusterImage, request: Message | None) -> None:
        """`request`: None for a periodic task."""
        self._image, self._request = image, request
        self._lines: list[str] = []
        self._warnings: list[str] = []
        self._removed: list[str] = []
        self._effects: Counter[str] = Counter()

    def add(self, records: Records | EncodedRecords) -> None:
        """Add one record of the decision, or several as columns."""
        if isinstance(records, Versioned):
            self._add_one(records.record)
        elif isinstance(records, PartitionCreations):
            self._lines += _created(records)
        elif not isinstance(records, EncodedRecords):
            changes = records if isinstance(records, KraftChanges) else records.records()
            by_request = isinstance(self._request, AlterPartitionReassignmentsRequest)
            _count_leaders(self._image, changes, self._effects)
            _count_moves(self._image, changes, self._effects, by_request=by_request)

    def _add_one(self, record: MetadataRecord) -> None:
        topics = self._image.topics
        if isinstance(record, RemoveTopicRecord):
            row = topics.row_of_id(record.topic_id)
            self._removed.append("?" if row is None else topics.names[row])
        elif type(record) in _SHOWN and (line := _line_of(self._image, record, self._request)) is not None:
            self._lines.append(line)
        if isinstance(record, brokers.BrokerRegistrationChangeRecord) and _cordons_the_last(self._image, record):
            self._warnings.append(ALL_CORDONED)

    def notice(self) -> Notice:
        """The notice about all added records."""
        lines = [*self._lines, *([f"{_names(self._removed)} deleted"] if self._removed else [])]
        if isinstance(self._request, AlterPartitionRequest):
            return Notice(lines, self._effects)
        return Notice([*lines, *_of_effects(self._effects)], warnings=self._warnings)


class Notices:
    """The lines of one controller's committed decisions."""

    def __init__(self) -> None:
        self._later: Counter[str] = Counter()  # Effects of AlterPartition without a line yet.
        self._last_ms: int | None = None  # The time of the last line about AlterPartition.

    def committed(self, notice: Notice, now_ms: int) -> list[str]:
        """The lines to write when a decision is committed."""
        if notice.later:
            self._later += notice.later
        return [*notice.lines, *self.due(now_ms)]

    def due(self, now_ms: int) -> list[str]:
        """The lines about the effects of AlterPartition requests, at most once a second; otherwise empty."""
        if not self._later or (self._last_ms is not None and now_ms < self._last_ms + EVERY_MS):
            return []
        self._last_ms = now_ms
        return self.rest()

    def rest(self) -> list[str]:
        """The lines about effects of AlterPartition requests that no line has reported yet."""
        later, self._later = self._later, Counter()
        return _of_effects(later)


def resigned_line(epoch: int, refused: int) -> str:
    """The line of a node that has stopped being the active controller."""
    text = f"this node is not the active controller any more, as of epoch {epoch}"
    return f"{text}: {refused} requests are answered NOT_CONTROLLER"


def fault_line(error: Exception) -> str:
    """The line about an exception in kcore's code, with the functions that led to it, the innermost first."""
    frames = reversed(traceback.extract_tb(error.__traceback__))
    places = " < ".join(f"{each.name} ({Path(each.filename).name}:{each.lineno})" for each in frames)
    return f"{type(error).__name__}: {error}; in {places}"


def log_lines(lines: Iterable[str], level: int = logging.INFO) -> list[Output]:
    """A LogLine for each text."""
    return [LogLine(level, line) for line in lines]


def _of_effects(effects: Counter[str]) -> list[str]:
    return [f"{effects[name]:,} {words[effects[name] > 1]}" for name, words in _EFFECTS.items() if effects[name]]


def _count_leaders(image: ClusterImage, changes: KraftChanges, effects: Counter[str]) -> None:
    if changes.leaders is None:
        return
    named = changes.leaders != NO_LEADER_CHANGE
    rows, after = changes.rows[named], changes.leaders[named]
    before = image.table.leader__p[rows]
    ids = np.append(image.brokers.ids, -1)  # Row -1 means no leader.
    others = ids[before] != after
    went, came = others & (after < 0), others & (before < 0)
    effects["offline"] += int(went.sum())
    effects["back"] += int(came.sum())
    effects["moved"] += int((others & ~went & ~came).sum())
    if changes.recovery is not None:
        effects["unclean"] += int((changes.recovery == RECOVERING).sum())


def _count_moves(image: ClusterImage, changes: KraftChanges, effects: Counter[str], *, by_request: bool) -> None:
    """Count reassignments that begin, complete or are cancelled.

    `by_request`: AlterPartitionReassignments made the changes, so a reassignment that ends was cancelled.
    """
    if changes.replicas is None:
        return
    valid = changes.replicas.valid
    has_replicas = np.ones(len(changes), np.bool_) if valid is None else valid
    begun = has_replicas & (_is_filled(changes.adding, len(changes)) | _is_filled(changes.removing, len(changes)))
    ended = changes.rows[has_replicas & ~begun].tolist()
    adding, removing = image.table.adding, image.table.removing
    cancelled = sum(row in adding or row in removing for row in ended) if by_request else 0
    effects["begun"] += int(begun.sum())
    effects["complete"] += len(ended) - cancelled
    effects["cancelled"] += cancelled


def _is_filled(lists: Vectors | None, count: int) -> Bools:
    """For each change, True if its list has members."""
    return np.zeros(count, np.bool_) if lists is None else np.diff(lists.offsets) > 0


def _created(created: PartitionCreations) -> Iterator[str]:
    is_new = np.asarray(created.is_new, np.bool_)
    topics = np.asarray(created.topics)
    for kind, verb in ((True, "created with"), (False, "extended by")):
        places = np.flatnonzero(is_new == kind).tolist()
        if places:
            count = int(np.isin(topics, places).sum())
            yield f"{_names([created.names[place] for place in places])} {verb} {count:,} partitions"


def _names(names: list[str]) -> str:
    shown = ", ".join(names[:MOST_NAMES])
    rest = f" and {len(names) - MOST_NAMES:,} more" if len(names) > MOST_NAMES else ""
    return f"topic{'s' if len(names) > 1 else ''} {shown}{rest}"


def _line_of(image: ClusterImage, record: MetadataRecord, request: Message | None) -> str | None:
    if isinstance(record, brokers.RegisterBrokerRecord):
        return f"broker {record.broker_id} registered, incarnation {record.incarnation_id}"
    if isinstance(record, brokers.UnregisterBrokerRecord):
        return f"broker {record.broker_id} unregistered"
    if isinstance(record, brokers.FenceBrokerRecord):
        is_fenced = image.brokers.fenced__b[image.brokers.row(record.id)]
        return None if is_fenced else f"broker {record.id} fenced: {_why_fenced(request)}"
    if isinstance(record, brokers.UnfenceBrokerRecord):
        return f"broker {record.id} unfenced"
    if isinstance(record, brokers.BrokerRegistrationChangeRecord):
        return _line_of_change(image, record, request)
    if isinstance(record, brokers.RegisterControllerRecord):
        return f"controller {record.controller_id} registered, incarnation {record.incarnation_id}"
    if isinstance(record, brokers.UnregisterControllerRecord):
        return f"controller {record.controller_id} unregistered"
    if isinstance(record, settings.FeatureLevelRecord):
        before = image.features.get(record.name, 0)
        return f"feature {record.name} is at level {record.feature_level}, it was at {before}"
    return None


def _line_of_change(
    image: ClusterImage, record: brokers.BrokerRegistrationChangeRecord, request: Message | None
) -> str | None:
    row = image.brokers.row(record.broker_id)
    parts = []
    if record.fenced == FENCE and not image.brokers.fenced__b[row]:  # A fenced broker may be fenced again.
        parts.append(f"fenced: {_why_fenced(request)}")
    if record.fenced == UNFENCE:
        parts.append("unfenced")
    if record.in_controlled_shutdown:
        parts.append("in controlled shutdown")
    if record.log_dirs:
        before = len(image.brokers.directories[row])
        parts.append(f"lost {before - len(record.log_dirs):,} of its {before:,} log directories")
    if record.cordoned_log_dirs is not None and (record.cordoned_log_dirs or image.brokers.cordoned_directories[row]):
        parts.append(f"has {len(record.cordoned_log_dirs):,} cordoned log directories")
    return f"broker {record.broker_id} {', '.join(parts)}" if parts else None


def _cordons_the_last(image: ClusterImage, record: brokers.BrokerRegistrationChangeRecord) -> bool:
    """True if the record cordons log directories, and all directories of all brokers are then cordoned (KIP-1066)."""
    if not record.cordoned_log_dirs:
        return False
    uuids, changed = image.directories.uuids, image.brokers.row(record.broker_id)
    for row in np.flatnonzero(image.brokers.registered__b).tolist():
        directories, known = image.brokers.directories[row], image.brokers.cordoned_directories[row]
        cordoned = set(record.cordoned_log_dirs) if row == changed else {uuids[each] for each in known or ()}
        if not directories or not {uuids[each] for each in directories} <= cordoned:
            return False
    return True


def _why_fenced(request: Message | None) -> str:
    if isinstance(request, BrokerHeartbeatRequest):
        return "it has shut down" if request.want_shut_down else "its heartbeat requested this"
    return "its session has ended"
