"""What a scenario gave: one row of the storm's report."""

from dataclasses import asdict, dataclass, field
from typing import Any

from kcore.measure.hollow.histograms import NOT_KNOWN


@dataclass(slots=True)
class ScenarioResult:
    """Times in milliseconds from the intended moment, -1 where there was nothing to time."""

    scenario: str
    brokers: int  # live ones, which must have the records
    partitions: int
    controllers: int
    seconds: float = 0.0  # the scenario in all
    answered_ms: float = NOT_KNOWN  # the controller's last answer to what was asked of it
    first_ms: float = NOT_KNOWN  # the first change at the first broker
    last_ms: float = NOT_KNOWN  # the last change at the last broker
    p50_ms: float = NOT_KNOWN  # over brokers: the last change at each
    p99_ms: float = NOT_KNOWN
    p999_ms: float = NOT_KNOWN
    # Of all this, what was spent waiting for sessions of brokers to end: from the intended moment until the last lost
    # broker's session was over, or while registrations were refused because of the session before.
    session_ms: float = NOT_KNOWN
    # Of what comes in several waves: until the last broker knew each one's last change, from that wave's beginning.
    waves_ms: dict[str, float] = field(default_factory=dict)
    known_ms: list[float] = field(default_factory=list)  # until each broker knew the last change, one by one
    append_gap_ms: float = NOT_KNOWN  # the first change's time at the first broker, behind the controller's own
    changes: int = 0  # records of the kinds that the scenario is about
    expected_least: int = 0  # changes, by the state before
    expected_most: int = 0
    records: dict[str, int] = field(default_factory=dict)  # all records by type
    log_begin: int = 0  # the part of the metadata log that all this is about
    log_end: int = 0
    log_bytes: int = 0
    heartbeat_p50_ms: float = NOT_KNOWN
    heartbeat_p99_ms: float = NOT_KNOWN
    heartbeat_p999_ms: float = NOT_KNOWN
    heartbeat_max_ms: float = NOT_KNOWN
    heartbeats: list[int] = field(default_factory=list)  # counts by bucket, as `percentile_ms` takes them
    lag_max_ms: float = NOT_KNOWN  # by which our own heartbeats went out late
    clock_ms: float = 0.0  # the largest possible clock difference, where brokers run in other processes
    false_fencings: int = 0
    errors: dict[str, int] = field(default_factory=dict)
    requests: int = 0
    controller_cpu_s: float = NOT_KNOWN  # where it can see the process
    controller_rss_mb: float = NOT_KNOWN
    own_cpu_s: float = 0.0
    end_state: str = ""  # In ZooKeeper mode: a digest of what the scenario left in ZooKeeper.
    profiled: bool = False  # Samplers took CPU time, too.
    work_unknown: str = ""  # why work and the wait for a session cannot be separated
    valid: bool = True  # Figures of an invalid repetition are in no median.
    invalid: str = ""  # why it is
    note: str = ""  # what a scenario has found

    def invalidate(self, reason: str) -> None:
        """The repetition does not count; several reasons are all named."""
        self.valid, self.invalid = False, f"{self.invalid}; {reason}" if self.invalid else reason

    def as_row(self) -> dict[str, Any]:
        """Plain values by name."""
        return asdict(self)
