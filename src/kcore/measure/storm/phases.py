"""Divides the time of a scenario, in both modes: into the wait for sessions to end, and the controller's work.

A session ends when its time-out is over (KRaft), or when ZooKeeper removes the broker's znode. A KRaft controller
checks sessions periodically: the time from the session's end to the first record of the fencing is a separate phase.
The work begins with that record, or with the znode's removal, and ends when the last broker knows the last change.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kcore.measure.hollow.histograms import NOT_KNOWN


@dataclass(frozen=True, slots=True)
class Phases:
    """The consecutive phases of one scenario, in ms; their sum is `last_ms`."""

    # Until the sessions of lost brokers ended, if this is known. Otherwise the total time of all brokers for which the
    # controller refused registrations because the brokers' old sessions had not ended.
    session: float
    noticed: float  # after a session: until the controller wrote the first change, by the time stamp of its batch
    decided: float  # without a session: until the controller wrote the first change
    first: float  # until the first broker knew the first change
    spread: float  # until the last broker knew the last change

    @property
    def work(self) -> float:
        """The time that the controller, the log and the fetches took.

        It begins with the first record of a fencing, or at the intended moment if there was no session to wait for.
        """
        return self.decided + self.first + self.spread


def phases_of(row: Mapping[str, Any]) -> Phases | None:
    """The phases of a row; None if nothing changed, or if work and wait cannot be separated.

    A row of several repetitions has its phases already.
    """
    if "phases" in row:
        known: Phases | None = row["phases"]
        return known
    last = float(row["last_ms"])
    if last == NOT_KNOWN or row.get("work_unknown"):  # Results of older versions do not have the reason.
        return None
    session = min(last, max(0.0, row["session_ms"]))
    seen, gap = row["first_ms"] or 0.0, row["append_gap_ms"]
    first = min(last, max(session, seen))
    # A negative gap is not used: the controller's clock is ahead of ours, or the time is not known.
    is_written = gap is not None and gap >= 0
    written = min(first, max(session, seen - gap)) if is_written else first
    if not session:
        return Phases(0.0, 0.0, written, first - written, last - first)
    if not is_written:  # ZooKeeper mode: the session ends with the znode's removal.
        return Phases(session, 0.0, first - session, 0.0, last - first)
    return Phases(session, written - session, 0.0, first - written, last - first)


def work_ms(row: Mapping[str, Any]) -> float:
    """The controllers' work in a row in ms (`Phases.work`), or NOT_KNOWN."""
    phases = phases_of(row)
    return NOT_KNOWN if phases is None else phases.work


def knew_after_ms(row: Mapping[str, Any]) -> list[float]:
    """For each broker, the time from the beginning of the work until it knew the last change; empty if not known."""
    phases = phases_of(row)
    if phases is None:
        return []
    return [max(0.0, known - phases.session - phases.noticed) for known in row["known_ms"]]
