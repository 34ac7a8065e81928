"""Finds records of the metadata log that only a newer release of Kafka can read.

A record is newer than a release if kcore has no such type or version, or if it sets a feature to a level that the
release does not know. A node that must load such a record ends: it could not be the active controller, or replay what
follows. A tool that only shows records leaves it out and says so. Source: FeatureControlManager.replay,
MetadataVersion.fromFeatureLevel, MetadataRecordType.fromId.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from kcore.errors import DecodeError, NewerReleaseError
from kcore.metadata.image.image import ClusterImage
from kcore.metadata.image.replay import replay
from kcore.metadata.metadata_version import FEATURE_NAME, MetadataVersion, name_of_level
from kcore.releases.known import NEWEST, RELEASES
from kcore.releases.release import Release
from kcore.schema.index import METADATA_RECORDS
from kcore.schema.metadata_records_settings import FeatureLevelRecord
from kcore.types import Bools
from kcore.wire.buffers import bytes_of
from kcore.wire.metadata_frames import (
    FRAME_BYTES,
    FRAME_VERSION,
    HIGHEST,
    decode_metadata_record,
    frame_columns,
    frame_header,
)
from kcore.wire.records import Records, decode_records, values_of
from kcore.wire.same import counted

MOST_TYPE: Final = max(METADATA_RECORDS)
# The highest version by type. Types that no release has are below MOST_TYPE, too: decoding refuses them.
_HIGHEST: Final = np.full(MOST_TYPE + 1, HIGHEST, np.int32)
_HIGHEST[[*METADATA_RECORDS]] = [each.versions.highest for each in METADATA_RECORDS.values()]
_HIGHEST_OF_USUAL: Final = {
    number: each.versions.highest for number, each in METADATA_RECORDS.items() if each is not FeatureLevelRecord
}
FEW_BYTES: Final = 1 << 12  # Up to this size of data, single values are read faster than columns.


class NewerRecord(NamedTuple):
    """A record that only a newer release can read."""

    offset: int
    text: str  # The type, version or level, and the release that has it.
    is_readable: bool  # True for a level of a feature: the record can be decoded.

    def __str__(self) -> str:
        return f"the record at offset {self.offset} {self.text}"


@dataclass(slots=True)
class SkippedRecords:
    """Counts the records that a reader skips, and keeps the first skipped record and the first newer level."""

    count: int = 0
    first: NewerRecord | None = None  # The first skipped record.
    first_level: NewerRecord | None = None  # The first level of a feature that no release here has; it is not skipped.

    def take(self, found: NewerRecord) -> None:
        """Count a record."""
        if found.is_readable:
            self.first_level = self.first_level or found
        else:
            self.count += 1
            self.first = self.first or found

    def replay(self, image: ClusterImage, records: Records, start_offset: int = 0) -> None:
        """Replay the records that can be read; errors are those of `replay`."""
        found = [*newer_records(records, start_offset=start_offset)]
        for each in found:
            self.take(each)
        replay(image, records, start_offset, [each.offset for each in found if not each.is_readable])

    def __str__(self) -> str:
        """A warning in one line; empty if nothing is newer."""
        texts = [] if self.first_level is None else [str(self.first_level)]
        if self.first is not None:
            is_skipped = "is skipped" if self.count == 1 else "are skipped, the first"
            texts.insert(0, f"{counted(self.count, 'record')} of a newer release {is_skipped}: {self.first}")
        return "; ".join(texts)


class Newer(NamedTuple):
    """Why a value is newer than a release."""

    text: str
    is_readable: bool


def check_batches(batches: Sequence[bytes], where: str, *, release: Release) -> None:
    """NewerReleaseError for the first record in these batches of data that is newer than the release.

    A batch that cannot be decoded is left to its reader. `where`: the log or snapshot, for the message.
    """
    if sum(map(len, batches)) > FEW_BYTES:
        records = decode_records(b"".join(batches), check_crc=False, stop=True)
        check_records(records, release, where)
        if records.problem is None:
            return  # Otherwise the batches behind the problem are read one by one.
    for batch in batches:
        if len(batch) > FEW_BYTES:
            check_records(decode_records(batch, check_crc=False, stop=True), release, where)
            continue
        try:
            values = values_of(batch)
        except DecodeError:
            continue
        for offset, value in values.items():
            if not _is_usual(value or b"") and (found := newer_than(release, value or b"")):
                raise _error(where, NewerRecord(offset, *found))


def _is_usual(value: bytes) -> bool:
    """True for the usual frame of a record that no release can be too old for, except by the record's own level."""
    return len(value) >= FRAME_BYTES and value[0] == FRAME_VERSION and value[2] <= _HIGHEST_OF_USUAL.get(value[1], -1)


def _error(where: str, found: NewerRecord) -> NewerReleaseError:
    return NewerReleaseError(f"{where} needs a newer release: {found}")


def check_records(records: Records, release: Release = NEWEST, where: str = "the log", start_offset: int = 0) -> None:
    """NewerReleaseError for the first record from `start_offset` on that is newer than the release."""
    for found in newer_records(records, release, start_offset):
        raise _error(where, found)


def newer_records(records: Records, release: Release = NEWEST, start_offset: int = 0) -> Iterator[NewerRecord]:
    """The data records from `start_offset` on that are newer than the release, in the order of the log."""
    rows = np.flatnonzero(~records.is_control & (records.offset >= start_offset))
    plain = len(records.data)
    begins, lengths = records.value_offset[rows], records.value_length[rows]
    is_plain, places = begins < plain, [np.empty(0, np.int64)]
    for buffer, chosen, shift in ((records.data, is_plain, 0), (records.decompressed, ~is_plain, plain)):
        if chosen.any():
            types, versions = frame_columns(buffer, begins[chosen] - shift, lengths[chosen])
            places.append(np.flatnonzero(chosen)[_is_unusual(types, versions)])
    for place in np.sort(np.concatenate(places)).tolist():
        row = int(rows[place])
        found = newer_than(release, records.span(int(records.value_offset[row]), int(records.value_length[row])) or b"")
        if found is not None:
            yield NewerRecord(int(records.offset[row]), *found)


def _is_unusual(types: np.ndarray, versions: np.ndarray) -> Bools:
    """True for frames that only `newer_than` can judge."""
    is_known = (types >= 0) & (types <= MOST_TYPE)
    highest = _HIGHEST[np.where(is_known, types, 0)]
    unusual: Bools = ~is_known | (versions > highest) | (types == FeatureLevelRecord.api_key)
    return unusual


def newer_than(release: Release, value: bytes) -> Newer | None:
    """Why a record's value is newer than the release; None if it is not, or is damaged."""
    try:
        header = frame_header(bytes_of(value))
        if header.api_key > MOST_TYPE:
            return Newer(f"is of type {header.api_key}: Kafka {NEWEST.name} has types up to {MOST_TYPE}", False)
        kind = METADATA_RECORDS.get(header.api_key)
        if kind is None:
            return None
        if header.version > kind.versions.highest:
            text = f"is a {kind.__name__} of version {header.version}"
            return Newer(f"{text}: Kafka {NEWEST.name} has versions up to {kind.versions.highest}", False)
        if kind is FeatureLevelRecord:
            record, _ = decode_metadata_record(value)
            assert isinstance(record, FeatureLevelRecord)
            return _newer_level(record.name, record.feature_level, release)
    except DecodeError:
        pass
    return None


def _newer_level(feature: str, level: int, release: Release) -> Newer | None:
    """Why a feature's level is newer than the release."""
    most = _highest_level(feature, release)
    if level <= most:
        return None
    name = f" ({name_of_level(level)})" if feature == FEATURE_NAME and name_of_level(level) != str(level) else ""
    newer = next((name for name, each in RELEASES.items() if (_own_level(feature, each) or 0) >= level), None)
    has_it = "no release that kcore knows has" if newer is None else f"Kafka {newer} has"
    newest = f" ({release.versions.newest})" if feature == FEATURE_NAME else ""
    own = f"has levels up to {most}{newest}" if most else "has no such feature"
    return Newer(f"sets {feature} to level {level}{name}, which {has_it}: Kafka {release.name} {own}", True)


def _highest_level(feature: str, release: Release) -> int:
    """The highest level of a feature that a release knows, stable or not; 0 if there is no such feature."""
    own = _own_level(feature, release)  # 3.9.1 knows features that are not yet stable, and its tables do not.
    return (_own_level(feature, NEWEST) or 0) if own is None else own


def _own_level(feature: str, release: Release) -> int | None:
    """The highest level of a feature in the release's own tables; None if they do not have the feature."""
    if feature == FEATURE_NAME:
        return MetadataVersion.parse(f"{release.versions.newest}@{release.name}").feature_level
    if feature not in release.features and feature not in release.known_features:
        return None
    return max(release.features.get(feature, (0, 0))[1], release.known_features.get(feature, 0))
