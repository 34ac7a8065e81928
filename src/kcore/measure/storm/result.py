"""The result of a scenario: one row of the storm's report."""

from dataclasses import asdict, dataclass, field
from typing import Any

from kcore.measure.hollow.histograms import NOT_KNOWN


@dataclass(slots=True)
class ScenarioResult:
    """The result of one scenario. Times are ms from the intended moment, its beginning; -1 if nothing was timed."""

    scenario: str
    brokers: int  # live brokers, which must read the changes
    partitions: int
    controllers: int
    seconds: float = 0.0  # the whole scenario
    answered_ms: float = NOT_KNOWN  # the controller's last response to the scenario's requests
    first_ms: float = NOT_KNOWN  # the first change at the first broker
    last_ms: float = NOT_KNOWN  # the last change at the last broker
    p50_ms: float = NOT_KNOWN  # over brokers: the last change at each
    p99_ms: float = NOT_KNOWN
    p999_ms: float = NOT_KNOWN
    # The time spent on waiting for brokers' sessions to end: from the intended moment until the last
    # lost broker's session ended, or while the controller refused registrations because of an old session.
    session_ms: float = NOT_KNOWN
    # Each wave's time, from its beginning until the last broker had read the wave's last change.
    waves_ms: dict[str, float] = field(default_factory=dict)
    known_ms: list[float] = field(default_factory=list)  # for each broker, until it knew the last change
    append_gap_ms: float = NOT_KNOWN  # from the first change's time stamp until the first broker had it
    changes: int = 0  # records of the types that the scenario counts
    expected_least: int = 0  # the bounds of `changes`, from the state before the scenario
    expected_most: int = 0
    records: dict[str, int] = field(default_factory=dict)  # all records by type
    log_begin: int = 0  # offsets: the scenario's part of the metadata log
    log_end: int = 0
    log_bytes: int = 0
    heartbeat_p50_ms: float = NOT_KNOWN
    heartbeat_p99_ms: float = NOT_KNOWN
    heartbeat_p999_ms: float = NOT_KNOWN
    heartbeat_max_ms: float = NOT_KNOWN
    heartbeats: list[int] = field(default_factory=list)  # counts by bucket, as `percentile_ms` takes them
    lag_max_ms: float = NOT_KNOWN  # the longest delay with which the load generator sent a heartbeat
    clock_ms: float = 0.0  # the largest possible clock difference, if brokers run in other processes
    false_fencings: int = 0
    errors: dict[str, int] = field(default_factory=dict)
    requests: int = 0
    # The CPU time of the running controllers in the scenario, added up, and their peak memory so far. Both are unknown
    # if the processes are not on this machine, or if the sum of the CPU times fell because a process was replaced.
    controller_cpu_s: float = NOT_KNOWN
    controller_rss_mb: float = NOT_KNOWN
    own_cpu_s: float = 0.0
    end_state: str = ""  # In ZooKeeper mode: a digest of what the scenario left in ZooKeeper.
    profiled: bool = False  # Samplers took CPU time, too.
    work_unknown: str = ""  # why the work cannot be separated from the wait for a session
    valid: bool = True  # Figures of an invalid repetition are in no median.
    invalid: str = ""  # why the repetition is invalid
    note: str = ""  # a finding of the scenario, in words

    def invalidate(self, reason: str) -> None:
        """Marks the repetition as invalid; further reasons are appended."""
        self.valid, self.invalid = False, f"{self.invalid}; {reason}" if self.invalid else reason

    def as_row(self) -> dict[str, Any]:
        """Plain values by name."""
        return asdict(self)
