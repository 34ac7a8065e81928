"""The options of `kcore bench` that change its plan, each in all workloads, and the options of the storm at its end."""

from pathlib import Path
from typing import Annotated

import typer

from kcore.measure.bench.plan_rules import MOST_SECONDS
from kcore.measure.workloads.cell import ISRS

Partitions = Annotated[
    str | None,
    typer.Option(metavar="N,N,...", help="Numbers of partitions, such as 10k,1M, in place of the plan's."),
]
Brokers = Annotated[
    str | None, typer.Option(metavar="N,N,...", help="Numbers of brokers, such as 100,1000, in place of the plan's.")
]
Factor = Annotated[int | None, typer.Option(metavar="N", help="Replicas of a partition.")]
Topics = Annotated[str | None, typer.Option(metavar="N", help="Topics of the cluster, such as 10k.")]
PerTopic = Annotated[int | None, typer.Option(metavar="N", help="Partitions of a topic, in place of --topics.")]
Racks = Annotated[int | None, typer.Option(metavar="N", help="Racks that the brokers are spread over; 0 for none.")]
Isr = Annotated[str | None, typer.Option(metavar="STATE", help=f"The state of the ISRs: {' or '.join(ISRS)}.")]
Gone = Annotated[float | None, typer.Option(metavar="SHARE", help="Share of the brokers that are gone, such as 0.1.")]
Repeat = Annotated[int | None, typer.Option(metavar="N", help="Repetitions of every cell.")]
Seed = Annotated[int | None, typer.Option(metavar="N", help="Seed of every cell.")]
WarmUp = Annotated[
    float | None,
    typer.Option(metavar="S", help=f"Seconds that an operation runs before it is sampled, up to {MOST_SECONDS}."),
]
Duration = Annotated[
    float | None,
    typer.Option(metavar="S", help="Seconds of sampling; 0: until 0.3 s have passed or 200 samples are taken."),
]
Cluster = Annotated[
    str | None,
    typer.Option(
        metavar="SOURCE",
        help="A real cluster in place of generated ones: a metadata log, snapshot, ZooKeeper dump, raw request or "
        "shape file, zk://HOST:PORT, or HOST:PORT,... of brokers. --partitions and --brokers scale it.",
    ),
]
Resume = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR",
        help="Continue the unfinished run in this results folder, of the same plan, options and kcore: run the cells "
        "that it lacks.",
    ),
]
Storm = Annotated[
    bool | None,
    typer.Option(
        "--with-storm/--no-storm",
        show_default=False,
        help="End with a storm of kcore's KRaft controller: 20 hollow brokers, 10,000 partitions, one broker is lost. "
        "Without either option only the default plan, unchanged and on this machine, ends with a storm.",
    ),
]
WithKafka = Annotated[
    bool,
    typer.Option(
        "--with-kafka", help="The same storm of Kafka's controller, too. Needs Java; fetches Kafka's jars once (44 MB)."
    ),
]
Names = Annotated[
    bool, typer.Option("--list", help="List the workloads and their operations, with --json as JSON, and stop.")
]
