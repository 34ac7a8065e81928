"""The result of a handler: records and a response, as data. A decision has changed nothing yet.

Single records are objects; changes and creations of partitions are columns, so that a million records need no object
each. `encoded` turns all records into bytes, in order.
"""

from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeAlias, TypeVar

from kcore.metadata.image.image import ClusterImage
from kcore.metadata.metadata_version import MetadataVersion
from kcore.metadata.table.changes import KraftChanges
from kcore.metadata.table.partition_values import PartitionCreations, records_of_changes, records_of_creation
from kcore.replication.kraft_results import KraftElections
from kcore.schema.structure import Message, MetadataRecord
from kcore.wire.encoded_records import EncodedRecords
from kcore.wire.metadata_frames import encode_metadata_record

T = TypeVar("T")


class Versioned(NamedTuple):
    """A record and the version in which it is written (ApiMessageAndVersion)."""

    record: MetadataRecord
    version: int = 0


Records: TypeAlias = Versioned | KraftChanges | KraftElections | PartitionCreations


@dataclass(slots=True)
class Decision:
    """The decision about one request or one periodic task."""

    response: Message | None = None  # None closes the connection; a periodic task has no response.
    records: Sequence[Records] = field(default_factory=tuple)
    is_atomic: bool = True  # All records are written or none: in a transaction if one batch cannot hold them.
    has_more: bool = False  # True if the periodic task must run again soon, even if it wrote nothing.
    kraft_version: int | None = None  # The raft layer writes this level, with the voters, before the records.
    rest: "Rest | None" = None  # The rest of the decision, made after the answer, so that no client waits for it.


class Rest(NamedTuple):
    """The rest of a decision.

    The controller calls `decide` after the answer, on a state that has the decision's first records. `name`: the name
    of this work in the metrics.
    """

    name: str
    decide: Callable[[], "Decision | Steps"]


AT_ONCE: Final = 1_000  # Most topics or partitions in one part of a decision.
SINGLES_AT_ONCE: Final = 2 * AT_ONCE  # Most records that are objects in one part of the encoding.
Steps: TypeAlias = Generator[None, None, Decision]
"""A long decision in parts of a few milliseconds. The state does not change between the parts."""


def pause_if_many(count: int) -> Generator[None, None, None]:
    """Ends the present part of a decision about `count` items if these are AT_ONCE or more.

    The items are topics, partitions or resources. A decision about fewer items goes on without a pause.
    """
    if count >= AT_ONCE:
        yield


def encoded(image: ClusterImage, records: Sequence[Records], level: MetadataVersion) -> Iterator[EncodedRecords]:
    """The values of the records, in order and in parts. `image`: the state on which the records were decided."""
    singles: list[bytes] = []
    for each in records:
        if isinstance(each, Versioned):
            singles.append(encode_metadata_record(each.record, each.version))
            if len(singles) == SINGLES_AT_ONCE:
                yield EncodedRecords.of(singles)
                singles = []
            continue
        if singles:
            yield EncodedRecords.of(singles)
            singles = []
        if isinstance(each, PartitionCreations):
            yield records_of_creation(image.brokers, each, level)
        else:
            changes = each.records() if isinstance(each, KraftElections) else each
            yield records_of_changes(image.table, changes, level)
    if singles:
        yield EncodedRecords.of(singles)
