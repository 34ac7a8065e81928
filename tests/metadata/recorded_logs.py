"""Metadata logs that a real controller wrote, from its recorded stories, as folders on disk."""

from functools import cache
from pathlib import Path
from typing import Any

import cases
import kcore
from kcore.schema.index import METADATA_RECORDS
from kcore.schema.metadata_records_log import NoOpRecord
from kcore.wire.metadata_frames import encode_metadata_record
from kcore.wire.record_building import encode_records
from kcore.wire.records import Record

TIME_MS = 1_795_248_000_000
_RECORDS = {each.__name__: each for each in METADATA_RECORDS.values()}


def log_of_story(name: str, folder: Path, codec: str = "none") -> Path:
    """Writes the log of a story such as "4.4.0-142" to a metadata log's folder; control records become NoOpRecords."""
    story = _stories(name.partition("-")[0])[name]
    path = folder / "__cluster_metadata-0"
    path.mkdir(parents=True)
    batches = [
        encode_records([*map(_record, batch)], codec=codec, partition_leader_epoch=1) for batch in _batches(story)
    ]
    (path / f"{0:020}.log").write_bytes(b"".join(batches))
    return path


@cache
def _stories(release: str) -> dict[str, Any]:
    return {each["story"]: each for each in cases.load(f"controller_stories_{release}")}


def _record(found: dict[str, Any]) -> Record:
    record, version = NoOpRecord(), 0
    if found["type"] in _RECORDS:
        version = found["version"]
        record = kcore.from_json(_RECORDS[found["type"]], version, found["json"])
    return Record(found["offset"], TIME_MS + found["offset"], None, encode_metadata_record(record, version))


def _batches(found: Any) -> list[list[dict[str, Any]]]:
    """The lists of records in a story, in the order of their offsets; a story has some of them twice."""
    batches: dict[int, list[dict[str, Any]]] = {}

    def walk(part: Any) -> None:
        if isinstance(part, dict) and "baseOffset" in part:
            batches[part["baseOffset"]] = part["records"]
        elif isinstance(part, dict | list):
            for each in part.values() if isinstance(part, dict) else part:
                walk(each)

    walk(found)
    return [records for _, records in sorted(batches.items())]
