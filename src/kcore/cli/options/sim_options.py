"""The options of `kcore sim raft` and `kcore sim cluster`."""

from pathlib import Path
from typing import Annotated

import typer

from kcore.cli.console import fail
from kcore.sim.cluster.options import LEAST_BROKERS, MOST_BROKERS
from kcore.sim.raft.options import MOST_OBSERVERS, MOST_VOTERS


def _refuse_planted(given: bool) -> None:
    if given:
        fail("planted bugs are part of kcore's tests: in a clone, ci/sim --planted NAME|all; ci/sim --names lists them")


Seeds = Annotated[int, typer.Option(min=1, metavar="N", help="The number of worlds.")]
FirstSeed = Annotated[int, typer.Option(min=0, metavar="N", help="The seed of the first world.")]
Seed = Annotated[int | None, typer.Option(min=0, metavar="N", help="Replay only the world of this seed.")]
Events = Annotated[int, typer.Option(min=1, help="The events of each world, after which all faults end.")]
Level = Annotated[str | None, typer.Option(help="3.9, 4.3 or mixed, for all worlds; default: drawn from the seed.")]
Voters = Annotated[int | None, typer.Option(min=1, max=MOST_VOTERS, help="Voters of each world.")]
Observers = Annotated[int | None, typer.Option(min=0, max=MOST_OBSERVERS, help="Observers of each world.")]
Controllers = Annotated[
    int | None, typer.Option(metavar="N", help="1, 3 or 5 controllers; default: drawn from the seed.")
]
Brokers = Annotated[
    int | None,
    typer.Option(
        metavar="N", min=LEAST_BROKERS, max=MOST_BROKERS, help="Brokers of each world; default: drawn from the seed."
    ),
]
Release = Annotated[
    str | None,
    typer.Option(help="A known release of Kafka, whose rules all nodes follow; default: drawn from the seed."),
]
Master = Annotated[str | None, typer.Option(help="Run on Spark, at this master URL, such as local[*].")]
Processes = Annotated[int | None, typer.Option(min=1, help="Processes without Spark; default: one per core.")]
Out = Annotated[Path | None, typer.Option(metavar="DIR", help="Results folder; default out/sim-<time>.")]
Json = Annotated[bool, typer.Option("--json", help="One JSON line per seed on stdout, all else on stderr.")]
RequireCoverage = Annotated[
    bool,
    typer.Option("--require-coverage", help="Fail if some fault, state, action or record was never seen; list these."),
]
Shrink = Annotated[
    int | None,
    typer.Option(min=0, metavar="SEED", help="Find few faults and requests after which this seed still fails."),
]
Steps = Annotated[
    str | None,
    typer.Option(metavar="N,...", help="With --seed: perform only these faults and requests, which --shrink prints."),
]
Planted = Annotated[bool, typer.Option("--planted", "--names", hidden=True, callback=_refuse_planted)]
