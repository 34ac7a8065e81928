"""The options of `kcore whatif`."""

from pathlib import Path
from typing import Annotated

import typer

from kcore.cli.files.cluster_file import SOURCES

Source = Annotated[str, typer.Argument(help=SOURCES)]
Brokers = Annotated[list[int] | None, typer.Option(metavar="ID", help="Lose this broker; repeat.")]
Racks = Annotated[list[str] | None, typer.Option(metavar="NAME", help="Lose this rack; repeat.")]
Directories = Annotated[
    list[str] | None, typer.Option(metavar="UUID", help="Lose this log directory, by its directory.id; repeat.")
]
Each = Annotated[
    str | None, typer.Option(metavar="KIND", help="Lose each broker (the default), rack or directory by itself.")
]
Pairs = Annotated[bool, typer.Option("--pairs", help="Lose each pair of brokers.")]
Scenarios = Annotated[Path | None, typer.Option(metavar="FILE", help="Lose each scenario of a JSON file.")]
Restart = Annotated[
    bool, typer.Option("--restart-plan", help="The risks of restarts, and a rolling restart with the fewest steps.")
]
Reassignment = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Ask after this reassignment, JSON of kafka-reassign-partitions."),
]
Partitions = Annotated[
    str | None, typer.Option(metavar="N", help="Ask about a cluster with so many partitions, such as 1M.")
]
ScaledBrokers = Annotated[
    str | None, typer.Option(metavar="N", help="Ask about a cluster with so many brokers; at least those it has.")
]
Seed = Annotated[int, typer.Option(metavar="N", min=0, help="Draws the topics of --partitions.")]
Release = Annotated[str | None, typer.Option(help="The rules that decide, such as 3.9.1 (ZooKeeper mode) or 4.3.1.")]
Unclean = Annotated[
    bool | None, typer.Option("--unclean/--clean", help="unclean.leader.election.enable of all topics.")
]
MinIsr = Annotated[int | None, typer.Option(min=1, max=2**31 - 1, help="min.insync.replicas of all topics.")]
Master = Annotated[str | None, typer.Option(help="Ask about pairs on Spark, at this master URL.")]
Out = Annotated[Path | None, typer.Option(metavar="DIR", help="Write Parquet, JSON lines and a report.")]
Json = Annotated[bool, typer.Option("--json", help="One line of JSON per row.")]
