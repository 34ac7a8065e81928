"""Writes an image as the records of a snapshot, which replay to the same image (Kafka's MetadataImage.write).

The order is Kafka's: features, brokers and controllers, each topic with its partitions, settings, quotas, producer ids,
ACLs, SCRAM credentials, delegation tokens. Where Kafka uses the order of hash tables, records are ordered by name or
id: equal images are written as equal bytes.

A value for which a metadata.version has no field is a loss: `on_loss` refuses it or drops it. Records come in slices,
each a few milliseconds of work, and the image may change between them.
"""

from collections.abc import Callable, Generator, Iterator
from itertools import pairwise
from typing import Final

import numpy as np

from kcore.constants import ELR_VERSION
from kcore.errors import LevelError, TableError, UnwritableMetadataError
from kcore.metadata.image.image import ClusterImage
from kcore.metadata.image.image_records import brokers, controllers, features, security, settings
from kcore.metadata.metadata_version import FEATURE_NAME, MetadataVersion
from kcore.metadata.table.arrays import Array
from kcore.metadata.table.directory_table import MIGRATING
from kcore.metadata.table.partition_values import TopicSlice, encode_topics
from kcore.schema.structure import MetadataRecord
from kcore.types import Bools, Int32s, Int64s
from kcore.wire.encoded_records import EncodedRecords
from kcore.wire.metadata_frames import encode_metadata_record

_STEP_BYTES: Final = 8 << 20
_PAGE: Final = 4096


class Freezer:
    """Memory for the columns of an image, and the image copied into it.

    Copying the columns of a million partitions takes a few milliseconds if their memory is allocated and touched.
    Allocating and touching it takes longer, so this is done beforehand, in steps.
    """

    def __init__(self, image: ClusterImage) -> None:
        self._image = image
        self._room: dict[str, Array] = {}

    def prepare(self) -> Iterator[None]:
        """Allocate and touch the memory, a step at a time; the image may change meanwhile."""
        for name, array in self._image.table.columns_in_use().items():
            room = np.empty((len(array) + len(array) // 16 + 64, *array.shape[1:]), array.dtype)
            flat = room.reshape(-1).view(np.uint8)
            for begin in range(0, len(flat), _STEP_BYTES):
                flat[begin : begin + _STEP_BYTES : _PAGE] = 0
                yield
            self._room[name] = room

    def freeze(self, offset: int | None = None) -> Generator[None, None, ClusterImage]:
        """Copy the image at the first step; with `offset`, revert the copy to before the batch at `offset`.

        The image's journal reverts the later records, in steps. The copy is read-only. TableError if the journal does
        not reach back that far.
        """
        image = self._image
        twin = image.copy(self._room)
        if offset is None:
            return twin
        if image.journal is not None:  # Also at `end_offset`: a partly applied batch may begin there.
            yield from image.journal.revert_copy(twin, offset)
        elif offset < image.end_offset:
            raise TableError(f"without a journal, an image at {image.end_offset} cannot go back to {offset}")
        twin.end_offset = min(twin.end_offset, offset)
        return twin


AT_ONCE: Final = 500  # Records in a slice, where each record is encoded by itself.
PARTITIONS_AT_ONCE: Final = 1 << 14
TOPICS_AT_ONCE: Final = 1 << 11
_NOTHING: Final = EncodedRecords.of([])

OnLoss = Callable[[UnwritableMetadataError], None]


def refuse(loss: UnwritableMetadataError) -> None:
    """The default `on_loss`: raise an error."""
    raise loss


def records_of(
    image: ClusterImage,
    version: MetadataVersion | str | None = None,
    *,
    on_loss: OnLoss = refuse,
    offset: int | None = None,
    release: str | None = None,
) -> Iterator[EncodedRecords]:
    """Slices of records; replaying all of them gives the image, without the losses that `on_loss` accepted.

    `version`: as for MetadataVersion.parse; by default the image's own at `offset`, by the rules of `release` (default:
    the newest). `offset`: write the image as it was before the batch at this offset, by its journal; by default as it
    is after the first slices, which are empty. Records of an open transaction are left out. LevelError without a
    metadata.version, UnwritableMetadataError by default for a loss.
    """
    freezer = Freezer(image)
    for _ in freezer.prepare():
        yield _NOTHING
    frozen = yield from _pausing(freezer.freeze(offset))
    level = _level_of(frozen, version, release)
    yield _NOTHING

    def report_loss(what: str) -> None:
        on_loss(UnwritableMetadataError(level.name, what))

    yield from _encoded(features(frozen, level, report_loss))
    yield from _encoded(brokers(frozen, level, report_loss))
    yield from _encoded(controllers(frozen, level, report_loss))
    yield from _topics(frozen, level, report_loss)
    yield from _encoded(settings(frozen))
    yield from _encoded(security(frozen, level, report_loss))


def _pausing(parts: Generator[None, None, ClusterImage]) -> Generator[EncodedRecords, None, ClusterImage]:
    """Yield an empty slice after each part."""
    while True:
        try:
            next(parts)
        except StopIteration as done:
            image: ClusterImage = done.value
            return image
        yield _NOTHING


def _level_of(image: ClusterImage, version: MetadataVersion | str | None, release: str | None) -> MetadataVersion:
    if isinstance(version, MetadataVersion):
        return version
    if version is not None:
        return MetadataVersion.parse(version)
    if FEATURE_NAME not in image.features:
        raise LevelError("the image has no metadata.version: one must be given")
    return MetadataVersion.of_level(image.features[FEATURE_NAME], release)


def _encoded(records: Iterator[tuple[MetadataRecord, int]]) -> Iterator[EncodedRecords]:
    values: list[bytes] = []
    for record, version in records:
        values.append(encode_metadata_record(record, version))
        if len(values) == AT_ONCE:
            yield EncodedRecords.of(values)
            values = []
    if values:
        yield EncodedRecords.of(values)


def _topics(
    image: ClusterImage, level: MetadataVersion, report_loss: Callable[[str], None]
) -> Iterator[EncodedRecords]:
    table = image.table
    has_elr = level.elr_supported and (not level.rules.elr_is_a_feature or image.features.get(ELR_VERSION, 0) > 0)
    columns = (
        *(table.topic_row__p, table.partition_index__p, table.replicas__ps, table.isr__pi, table.leader__p),
        *(table.leader_epoch__p, table.partition_epoch__p, table.leader_recovery_state__p),
        table.directories__ps if level.directories_supported else None,
        table.elr__pi if has_elr else None,
        table.last_known_elr__pi if has_elr else None,
    )
    topic_ids = image.topics.by_id
    ids = image.brokers.ids, topic_ids.ids, image.directories.index.ids
    for piece in _slices(image):
        if not level.directories_supported:
            _report_directories(image, piece.rows, report_loss)
        yield encode_topics(columns, ids, level, piece, table.adding, table.removing)


def _report_directories(image: ClusterImage, rows: Int32s, report_loss: Callable[[str], None]) -> None:
    """Call `on_loss` once for each partition, as Kafka does."""
    if (directories := image.table.directories__ps) is None:
        return
    for _ in range(int((directories[rows] != MIGRATING).any(axis=1).sum())):
        report_loss("the directory assignment state of one or more replicas")


def _slices(image: ClusterImage) -> Iterator[TopicSlice]:
    """All topics by id, with their partitions by number: whole topics, or parts of a topic that is too large."""
    names = image.topics.names
    for topic_rows in _in_order(image):
        rows, starts = image.table.lookup.rows_of_topics(topic_rows)
        for begin, end in pairwise(_cuts(starts)):
            first = int(np.searchsorted(starts[:-1], begin))
            first -= bool(first and starts[first] > begin)  # The previous topic continues.
            last = int(np.searchsorted(starts[:-1], end)) if end < starts[-1] else len(topic_rows)
            chosen = topic_rows[first:last]
            yield TopicSlice(
                rows[begin:end],
                np.clip(starts[first : last + 1], begin, end) - begin,
                chosen,
                [names[row] for row in chosen.tolist()],
                starts[first:last] >= begin,
            )


def _cuts(starts: Int64s) -> list[int]:
    """Where the topics' partitions are divided into slices."""
    end = int(starts[-1])
    return [*range(0, end, PARTITIONS_AT_ONCE), end] if end else [0, 0]


def _in_order(image: ClusterImage) -> Iterator[Int32s]:
    """The rows of topics by id, a few at a time: ids with the same first bits are sorted together."""
    ids = image.topics.by_id.ids[: len(image.topics)]
    heads = np.ascontiguousarray(ids[:, :8]).view(">u8").ravel().astype(np.uint64)
    tails = np.ascontiguousarray(ids[:, 8:]).view(">u8").ravel().astype(np.uint64)
    bits = min(max(len(ids) // TOPICS_AT_ONCE, 1).bit_length(), 16)
    groups = heads >> np.uint64(64 - bits)
    for group in range(1 << bits):
        found = np.flatnonzero(groups == group)
        lives: Bools = np.array([bool(image.topics.names[row]) for row in found.tolist()], np.bool_)
        found = found[lives] if len(found) else found
        if len(found):
            yield found[np.lexsort((tails[found], heads[found]))].astype(np.int32)
