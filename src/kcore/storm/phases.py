"""The time of a scenario in parts: waiting for sessions to end, and what the controller did with the rest."""

from dataclasses import dataclass

from kcore.hollow.histograms import NOT_KNOWN
from kcore.storm.report_rows import Row


@dataclass(frozen=True, slots=True)
class Phases:
    """Of one scenario, in ms one behind the other; together they are `last_ms`."""

    session: float  # until the sessions of lost brokers ended, or while registrations were refused because of one
    decided: float  # until the controller wrote the first change, by the time stamp of its batch
    first: float  # until the first broker knew that change
    spread: float  # until the last broker knew the last change

    @property
    def work(self) -> float:
        """All but the session: the controller, the log and the brokers' fetches."""
        return self.decided + self.first + self.spread


def phases_of(row: Row) -> Phases | None:
    """None where nothing changed."""
    last = float(row["last_ms"])
    if last == NOT_KNOWN:
        return None
    session = min(last, max(0.0, row["session_ms"]))
    first = min(last, max(session, row["first_ms"]))
    gap = row["append_gap_ms"]  # Negative where the controller's clock is ahead of ours: then it tells nothing.
    written = max(session, row["first_ms"] - gap) if gap >= 0 else first
    written = min(first, written)
    return Phases(session, written - session, first - written, last - first)


def work_ms(row: Row) -> float:
    """`Phases.work`, or -1."""
    phases = phases_of(row)
    return NOT_KNOWN if phases is None else phases.work


def knew_after_ms(row: Row) -> list[float]:
    """When each broker knew the last change, without the time that the session took."""
    session = max(0.0, float(row["session_ms"]))
    return [max(0.0, known - session) for known in row["known_ms"]]
