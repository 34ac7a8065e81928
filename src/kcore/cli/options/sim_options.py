"""The options of `kcore sim raft`."""

from pathlib import Path
from typing import Annotated

import typer

from kcore.cli.console import fail
from kcore.sim.raft.options import MOST_OBSERVERS, MOST_VOTERS


def _refuse_planted(given: bool) -> None:
    if given:
        fail("planted bugs are part of kcore's tests: in a clone, ci/sim --planted NAME|all; ci/sim --names lists them")


Seeds = Annotated[int, typer.Option(min=1, metavar="N", help="How many worlds.")]
FirstSeed = Annotated[int, typer.Option(min=0, metavar="N", help="The seed of the first world.")]
Seed = Annotated[int | None, typer.Option(min=0, metavar="N", help="This one world alone: a replay.")]
Events = Annotated[int, typer.Option(min=1, help="The events of each world; then all faults end.")]
Level = Annotated[str | None, typer.Option(help="3.9, 4.3 or mixed in all worlds; drawn from the seed otherwise.")]
Voters = Annotated[int | None, typer.Option(min=1, max=MOST_VOTERS, help="So many in all worlds.")]
Observers = Annotated[int | None, typer.Option(min=0, max=MOST_OBSERVERS, help="So many in all worlds.")]
Master = Annotated[str | None, typer.Option(help="Over Spark, at this master URL such as local[*].")]
Processes = Annotated[int | None, typer.Option(min=1, help="Without Spark: default one a core.")]
Out = Annotated[Path | None, typer.Option(metavar="DIR", help="For the results; default out/sim-<time>.")]
Json = Annotated[bool, typer.Option("--json", help="A seed's JSON a line on stdout, the rest on stderr.")]
Planted = Annotated[bool, typer.Option("--planted", "--names", hidden=True, callback=_refuse_planted)]
