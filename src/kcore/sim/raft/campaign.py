"""Runs many seeds on the cores of this machine; the result of each is a row."""

from collections.abc import Callable, Collection, Generator, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from multiprocessing import active_children, get_context
from os import sched_getaffinity
from signal import SIG_IGN, SIGINT, signal
from typing import Any, Final

from kcore.collector import rare_collections
from kcore.extras import needs
from kcore.sim.raft.coverage import never_seen
from kcore.sim.raft.run_world import COMMAND, EVENTS, Outcome, replay_command, run_seed

with needs("arrow"):
    import pyarrow as pa

Row = dict[str, Any]
SCHEMA: Final = pa.schema(
    [
        ("seed", pa.int64()),
        ("events", pa.int64()),
        ("simulated_ms", pa.int64()),
        ("seconds", pa.float64()),
        ("hash", pa.string()),
        ("committed", pa.int64()),
        ("acknowledged", pa.int64()),
        ("epochs", pa.int64()),
        ("healed_ms", pa.int64()),
        ("invariant", pa.string()),  # Null if all invariants held.
        ("text", pa.string()),
        ("story", pa.list_(pa.string())),
        ("coverage", pa.map_(pa.string(), pa.int64())),
        ("replay", pa.string()),
    ]
)


@dataclass(frozen=True, slots=True)
class Campaign:
    """Seeds to run, the number of events of each, and the options that all worlds have in common (`fixed`).

    `run` runs one seed; `command` is the command line that replays a seed. Tests of planted bugs pass their own `run`.
    `missing` lists what the worlds should have seen and have not.
    """

    seeds: range
    events: int = EVENTS
    fixed: dict[str, Any] = field(default_factory=dict)
    run: Callable[..., Outcome] = run_seed
    command: str = COMMAND
    missing: Callable[[Collection[str]], list[str]] = never_seen

    @property
    def name(self) -> str:
        """The name of the command."""
        return self.command.rpartition("/")[2]

    def row(self, seed: int) -> Row:
        """Runs one seed; returns its row of `SCHEMA`."""
        outcome = asdict(self.run(seed, self.events, **self.fixed))
        command = replay_command(seed, self.events, self.command, **self.fixed)
        return outcome | {"coverage": list(outcome["coverage"].items()), "replay": command}


def cores() -> int:
    return len(sched_getaffinity(0))


def rows(campaign: Campaign, processes: int) -> Generator[Row, None, None]:
    """Runs all seeds; yields their rows in order of the seeds. If the caller stops iterating, the campaign stops."""
    with rare_collections():
        if processes == 1 or len(campaign.seeds) == 1:
            yield from map(campaign.row, campaign.seeds)
            return
        with worker_processes(min(processes, len(campaign.seeds))) as pool:
            yield from pool.map(campaign.row, campaign.seeds)


@contextmanager
def worker_processes(count: int) -> Iterator[ProcessPoolExecutor]:
    """A pool of `count` processes, which ignore a terminal's Ctrl-C. An exception in the `with` block ends them."""
    others = set(active_children())
    pool = ProcessPoolExecutor(count, get_context("fork"), initializer=signal, initargs=(SIGINT, SIG_IGN))
    try:
        yield pool
    except BaseException:  # GeneratorExit: the caller has stopped iterating.
        for process in set(active_children()) - others:
            process.terminate()
        raise
    finally:
        pool.shutdown(cancel_futures=True)


def table_of(found: Sequence[Row]) -> pa.Table:
    return pa.Table.from_pylist(list(found), schema=SCHEMA)
