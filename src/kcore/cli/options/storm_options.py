"""The options of `kcore storm`."""

from typing import Annotated

import typer

Scenarios = Annotated[
    list[str] | None,
    typer.Argument(metavar="[SCENARIO]...", help="Names that --list gives; all that a target allows if left out."),
]
Targets = Annotated[
    list[str] | None,
    typer.Option(
        metavar="HOST:PORT,... | kafka-4.3.1 | kcore-kraft | kafka-3.9.1-zk | kcore-zk",
        help="Controllers that run already; or those of a release of Kafka or of kcore, started for the run; or one in "
        "ZooKeeper mode. Default kafka-4.3.1. Several --target: one report side by side.",
    ),
]
Brokers = Annotated[str, typer.Option(metavar="N,N,...", help="Hollow brokers; each count is a run.")]
Partitions = Annotated[
    str, typer.Option(metavar="N,N,...", help="Partitions, such as 10k,1M; each with each of --brokers.")
]
Paired = Annotated[
    bool,
    typer.Option(
        "--paired", help="The first count of --brokers with the first of --partitions and so on, not each with each."
    ),
]
PerTopic = Annotated[int, typer.Option(help="Partitions of a topic.")]
Factor = Annotated[int, typer.Option(help="Replicas of a partition.")]
Racks = Annotated[int, typer.Option(help="Racks that the brokers are spread over; 0 for none.")]
Controllers = Annotated[int, typer.Option(help="1 or 3, where they are started for the run.")]
Heap = Annotated[str, typer.Option(help="The -Xmx of each controller of Kafka; kcore's have no such limit.")]
Metadata = Annotated[
    str, typer.Option(help="full: each broker keeps the partitions; count: it only counts the records of the log.")
]
OldMetadata = Annotated[str | None, typer.Option("--mind", hidden=True, help="The old name of --metadata.")]
Heartbeat = Annotated[float, typer.Option(help="Seconds between a broker's heartbeats.")]
Seconds = Annotated[float, typer.Option(help="How long the scenario heartbeat lasts.")]
LostShare = Annotated[float, typer.Option(help="Which share of a broker's replicas dir-lost loses, up to 1.")]
LostReplicas = Annotated[
    str,
    typer.Option(
        metavar="N", help="How many of a broker's replicas dir-lost loses, at every size; 0: as --lost-share has it."
    ),
]
Master = Annotated[
    str, typer.Option(metavar="URL", help="Spark's master, whose executors run the brokers; default: this process.")
]
Repeat = Annotated[int, typer.Option(help="Runs of everything; on Kafka of ours each with a fresh one.")]
SessionTimeout = Annotated[
    int,
    typer.Option(
        metavar="MS", help="broker.session.timeout.ms of controllers that run already; 0: the active one is asked."
    ),
]
Pids = Annotated[
    list[int] | None,
    typer.Option(
        "--pid",
        metavar="PID",
        help="A controller that runs already, whose CPU and memory are measured; default: found by its port, if here. "
        "One --pid a controller.",
    ),
]
Profile = Annotated[
    bool, typer.Option("--profile", help="Sample the controllers: where their CPU time went, by layer and by event.")
]
Seed = Annotated[int, typer.Option(help="Which broker is lost, and all other choices.")]
Names = Annotated[bool, typer.Option("--list", help="Name the scenarios, a line each, and stop.")]
