"""The part of a trace that a replay plays: the state before it, its events, and the state after it."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Final

from kcore.errors import DecodeError, PlanError, TableError
from kcore.measure.storm.replay.causes import events_of
from kcore.measure.storm.replay.events import Consequence, Event, NotReplayed
from kcore.measure.storm.replay.trace import LogBatch, Trace
from kcore.metadata.image.image import ClusterImage
from kcore.schema.metadata_records_settings import FeatureLevelRecord

_AFTER: Final = re.compile(r"\+(?:([0-9]{1,15})h)?(?:([0-9]{1,15})m)?(?:([0-9]{1,15})s)?")
_SPEED: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?)x?")
LEAST_SPEED: Final = 0.01  # A session of 9 s then lasts 15 minutes.
MOST_SPEED: Final = 10_000.0
_MILLIS: Final = 1_000
_END_MS: Final = 253_402_300_800_000  # The end of the year 9999.


@dataclass(slots=True, eq=False)
class Recording:
    """The events between two times of a trace. `before` and `after` are the states at these times."""

    name: str
    from_ms: int
    to_ms: int
    before: ClusterImage
    after: ClusterImage
    batches: list[LogBatch] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)

    @property
    def levels(self) -> dict[str, int]:
        """The feature levels at the begin: of the state before it, or of the log's first records."""
        if self.before.features:
            return dict(self.before.features)
        for batch in self.batches:
            records = [record for _, record in batch.records if isinstance(record, FeatureLevelRecord)]
            if records:
                return {each.name: each.feature_level for each in records}
        return {}

    @property
    def causes(self) -> list[Event]:
        """The events that a replay does again."""
        return [each for each in self.events if not isinstance(each.what, Consequence | NotReplayed)]


def recording_of(trace: Trace, begin: str = "", end: str = "") -> Recording:
    """The part between `--from` and `--to`; without them, the whole trace.

    PlanError for an invalid or empty part, and for records that no metadata log has in this order.
    """
    try:
        return _recording_of(trace, begin, end)
    except (DecodeError, TableError) as error:
        raise PlanError(f"{trace.name}: its records are damaged, or it is no metadata log: {error}") from None


def _recording_of(trace: Trace, begin: str, end: str) -> Recording:
    image = trace.start.copy()
    batches = [*_in_time_order(trace.batches())]
    if not batches:
        raise PlanError(f"{trace.name}: no record of a cluster is in the log: there is nothing to replay")
    first_ms, last_ms = batches[0].time_ms, batches[-1].time_ms
    from_ms = time_of("--from", begin, first_ms) if begin else first_ms
    to_ms = time_of("--to", end, first_ms) if end else last_ms
    inside = [each for each in batches if from_ms <= each.time_ms <= to_ms]
    if not inside:
        raise PlanError(
            f"no record is between {text_of(from_ms)} and {text_of(to_ms)}: the trace is from {text_of(first_ms)} to "
            f"{text_of(last_ms)}"
        )
    for batch in batches:
        if batch.time_ms >= from_ms:
            break
        for offset, record in batch.records:
            image.apply(record, offset)
    before = image.copy()
    events = [*events_of(image, inside)]
    return Recording(trace.name, from_ms, to_ms, before, image, inside, events)


def time_of(option: str, text: str, first_ms: int) -> int:
    """A time in ms since 1970: an ISO time, in UTC unless it has a zone, or +1h30m10s after the trace's begin.

    PlanError for other texts, and for times before 1970 or after the year 9999.
    """
    time_ms = _time_of(option, text, first_ms)
    if not 0 <= time_ms < _END_MS:
        raise PlanError(f"{option} {text!r}: give a time from 1970 to 9999")
    return time_ms


def _time_of(option: str, text: str, first_ms: int) -> int:
    if (found := _AFTER.fullmatch(text)) and any(found.groups()):
        hours, minutes, seconds = (int(each or 0) for each in found.groups())
        return first_ms + ((hours * 60 + minutes) * 60 + seconds) * _MILLIS
    try:
        given = datetime.fromisoformat(text)
    except ValueError:
        raise PlanError(
            f"{option} {text!r}: give a time such as 2026-03-01T14:05:00, or +1h30m after the begin"
        ) from None
    return int((given if given.tzinfo else given.replace(tzinfo=UTC)).timestamp() * _MILLIS)


def speed_of(text: str) -> float:
    """How many times faster than recorded: "10x", "0.5". PlanError for anything else."""
    found = _SPEED.fullmatch(text)
    if not found or not LEAST_SPEED <= float(found[1]) <= MOST_SPEED:
        raise PlanError(f"--speed {text!r}: give a factor from {LEAST_SPEED} to {MOST_SPEED:,.0f}, such as 10x or 0.5")
    return float(found[1])


def text_of(time_ms: int, *, to_minute: bool = False) -> str:
    """A time in UTC, to the second or to the minute."""
    moment = datetime.fromtimestamp(time_ms / _MILLIS, UTC)
    return f"{moment:%Y-%m-%d %H:%M}" if to_minute else f"{moment:%Y-%m-%d %H:%M:%S}"


def _in_time_order(batches: Iterator[LogBatch]) -> Iterator[LogBatch]:
    """The batches with times that never decrease: a new controller's clock may be behind the old one's."""
    latest_ms = 0
    for batch in batches:
        latest_ms = max(latest_ms, batch.time_ms)
        yield replace(batch, time_ms=latest_ms)
