"""The options of a simulated world, drawn from its seed, so that the worlds of different seeds differ in kind."""

from dataclasses import dataclass, replace
from random import Random
from typing import Any, Final

from kcore.sim.kernel.network import Links
from kcore.storage.raft.file_raft_log import SEGMENT_BYTES

RELEASES: Final = ("3.9", "4.3")
MIXED: Final = "mixed"  # Each process runs one of the releases; a later process of its machine may run another.
LEVELS: Final = (*RELEASES, MIXED)
MOST_VOTERS: Final = 5
MOST_OBSERVERS: Final = 5
FAULTS: Final = (
    *("kill", "power_cut", "outage", "trap", "stop", "pause", "one_way_cut", "isolate", "split", "slow_link"),
    *("lossy", "noisy", "slow_log", "slow_election", "clock_jump", "lost_disk", "resign", "mid_write", "full_disk"),
)
WEIGHTS: Final = {"kill": 2, "power_cut": 2, "trap": 4, "mid_write": 2, "pause": 2, "isolate": 2, "one_way_cut": 2}
DISK_FACTORS: Final = (1, 1, 1, 5, 30)  # Factors of fsync times, drawn for the log and the quorum-state of a machine.
MOST_REMEMBERED: Final = 4_096  # Observers and waiting fetches that a leader keeps; a flood of strangers exceeds this.
NO_LIMIT: Final = 8 << 20  # Bytes of a Fetch or FetchSnapshot: more than any simulated log has.

INDEX_SHARE: Final = 8  # One index entry per 1/8 segment.


@dataclass(frozen=True, slots=True)
class Options:
    """Times are simulated. Durations of faults, and intervals of clients, are means."""

    level: str  # A level of RaftConfig for all nodes, or MIXED.
    voters: int
    observers: int
    dynamic: bool  # The log names the voters, which may change (KIP-853).
    upgraded: bool  # kraft.version is upgraded in the middle of the run.
    auto_join: bool  # As in RaftConfig: observers ask to be voters.
    append_linger_ms: int | None  # As in RaftConfig.
    latency_us: int  # The least latency in one direction; a random addition is at most as large.
    lost: float  # Share of messages that never arrive.
    duplicated: float  # Share of messages that arrive twice.
    delayed: float  # Share of messages that arrive up to a second late, so that others overtake them.
    damaged: float  # Share of answers with records that arrive with damaged bytes.
    mistaken: float  # Share of a leader's answers with a wrong diverging epoch.
    log_fsync_us: int  # The disks of logs and of elections are slow or fast independently of each other.
    election_fsync_us: int
    drift: float  # The largest drift of a clock from true time.
    fault_every_us: int  # Mean interval between faults, in a storm.
    fault_lasts_us: int
    calm_us: int  # Mean duration of storms and of calms, which alternate; 0: no calms.
    faults: tuple[str, ...]
    append_every_us: int
    snapshot_every_us: int
    change_every_us: int  # Mean interval between changes of the voters.
    ask_every_us: int  # Mean interval between requests of administrators, and of strangers.
    flooded: bool  # Strangers flood the leader with requests once.
    fetch_max_bytes: int  # As in RaftConfig, like all options below.
    fetch_snapshot_max_bytes: int
    early_high_watermark: bool
    pipelined_fetch: bool
    endless_elections: bool
    elects_when_refused: bool

    @property
    def links(self) -> Links:
        """The settings of the network."""
        shares = self.lost, self.delayed, self.duplicated, self.damaged, self.mistaken
        return Links(self.latency_us, *shares)

    segment_bytes: int  # Maximum size of a log segment.
    codec_sample: float = 1 / 200  # Share of all messages that are encoded and decoded.


def draw(seed: int, **fixed: Any) -> Options:
    """The options of a seed. Values of `fixed` that are not None replace drawn values, and change no other option."""
    random = Random(f"options {seed}")
    level = random.choice(("3.9", "4.3", "4.3", MIXED))
    ways = ("configuration", "upgrade", "log") if level == "4.3" else ("configuration", "log", "log")
    voters_by = random.choice(ways)
    calm = random.random() < 0.1  # These worlds lose and damage no messages: no failure can come from the links.
    fault_every_us = random.choice((300_000, 1_000_000, 3_000_000))
    options = Options(
        level=level,
        voters=random.choice((1, 2, 3, 3, 3, 4, 5, 5)),
        observers=random.choice((0, 0, 1, 1, 2, 3, 5)),
        dynamic=voters_by == "log",
        upgraded=voters_by == "upgrade",
        auto_join=voters_by == "log" and level == "4.3" and random.random() < 0.2,
        append_linger_ms=random.choice((None, None, 0, 5, 25)),
        latency_us=random.choice((100, 500, 2_000, 10_000)),
        lost=0.0 if calm else random.choice((0.0, 0.001, 0.01, 0.05)),
        duplicated=0.0 if calm else random.choice((0.0, 0.001, 0.02)),
        delayed=0.0 if calm else random.choice((0.0, 0.001, 0.02)),
        damaged=0.0 if calm else random.choice((0.0, 0.0, 0.005, 0.05)),
        mistaken=0.0 if calm else random.choice((0.0, 0.0, 0.01, 0.1)),
        log_fsync_us=random.choice((50, 1_000, 5_000, 20_000)),
        election_fsync_us=random.choice((50, 1_000, 5_000, 20_000)),
        drift=random.choice((0.0, 0.0001, 0.01)),
        fault_every_us=fault_every_us,
        fault_lasts_us=int(fault_every_us * random.choice((0.3, 1.0, 3.0))),
        calm_us=random.choice((0, 3_000_000, 10_000_000)),
        faults=tuple(name for name in FAULTS if random.random() < 0.6) or ("kill",),
        append_every_us=random.choice((20_000, 50_000, 200_000, 3_000_000)),
        snapshot_every_us=random.choice((100_000, 500_000, 2_000_000, 10_000_000)),
        change_every_us=random.choice((100_000, 1_000_000, 3_000_000)),
        ask_every_us=random.choice((200_000, 1_000_000)),
        flooded=random.random() < 0.08,
        fetch_max_bytes=random.choice((NO_LIMIT, NO_LIMIT, 4_000, 1_000)),
        fetch_snapshot_max_bytes=random.choice((NO_LIMIT, NO_LIMIT, 300, 60)),
        early_high_watermark=random.random() < 0.3,
        pipelined_fetch=random.random() < 0.5,
        endless_elections=random.random() < 0.1,
        segment_bytes=random.choice((2_000, 10_000, SEGMENT_BYTES)),
        elects_when_refused=random.random() < 0.5,
    )
    return replace(options, **{name: value for name, value in fixed.items() if value is not None})
