"""The result of a handler: records and a response, as data. Nothing has changed yet.

Records are values on their way to the log: single ones as objects, changes and creations of partitions as columns, so
that a million of them cost no object each. `encoded` turns all of them into bytes, in order.
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
    """A record and the version to write it in (ApiMessageAndVersion)."""

    record: MetadataRecord
    version: int = 0


Records: TypeAlias = Versioned | KraftChanges | KraftElections | PartitionCreations


@dataclass(slots=True)
class Decision:
    """The decision about one request or one periodic task."""

    response: Message | None = None  # None: the connection is closed, or nobody asked.
    records: Sequence[Records] = field(default_factory=tuple)
    is_atomic: bool = True  # All records or none: a transaction, if they do not fit one batch.
    has_more: bool = False  # Of a periodic task: it has more to do at once, even if it wrote nothing.
    kraft_version: int | None = None  # The level that the raft layer is to write, with the voters, before the records.
    rest: "Rest | None" = None  # Decided once this is answered, so that the answer's commit does not wait for it.


class Rest(NamedTuple):
    """More of a decision, upon the state behind its records; `name` is what its time is counted as."""

    name: str
    decide: Callable[[], "Decision | Steps"]


AT_ONCE: Final = 1_000  # Topics or partitions of a request, in one part of a decision.
SINGLES_AT_ONCE: Final = 10 * AT_ONCE  # Records as objects, in one part of their encoding.
Steps: TypeAlias = Generator[None, None, Decision]
"""A long decision, part by part, a few milliseconds each. Between two parts the state stays what it is."""


def pause_if_many(count: int) -> Generator[None, None, None]:
    """Ends a part of a decision for so many topics or partitions, unless all of it is one."""
    if count >= AT_ONCE:
        yield


def all_parts(parts: Generator[None, None, T]) -> T:
    """The result of something that is made part by part, at once."""
    while True:
        try:
            next(parts)
        except StopIteration as done:
            result: T = done.value
            return result


def encoded(image: ClusterImage, records: Sequence[Records], level: MetadataVersion) -> Iterator[EncodedRecords]:
    """The values of records, in their order, part by part; `image` is the state that they were decided upon."""
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
