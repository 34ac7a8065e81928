"""Recorded stories as batches of a trace: requests to a real controller, with the records that it appended."""

import gzip
import json
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, Final

import cases
import kcore
from kcore.measure.storm.replay.trace import LogBatch
from kcore.schema.index import METADATA_RECORDS
from kcore.schema.metadata_records_log import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
    NoOpRecord,
)

_LEFT_OUT: Final = (NoOpRecord, BeginTransactionRecord, EndTransactionRecord, AbortTransactionRecord)
_RECORDS: Final = {each.__name__: each for each in METADATA_RECORDS.values() if each not in _LEFT_OUT}


def stories(release: str, count: int) -> list[dict[str, Any]]:
    """The first stories of a release."""
    path = cases.DATA / f"stories/controller_stories_{release}-public.jsonl.gz"
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in islice(lines, count)]


def batches_of(found: Iterable[dict[str, Any]]) -> Iterator[LogBatch]:
    """The batches of a step."""
    for batch in found:
        records = tuple(
            (each["offset"], kcore.from_json(_RECORDS[each["type"]], each["version"], each["json"]))
            for each in batch["records"]
            if each["type"] in _RECORDS
        )
        if records:
            yield LogBatch(records[-1][0], 0, records)
