"""The options of `kcore storm`."""

from typing import Annotated

import typer

from kcore.cli.console import say
from kcore.measure.processes.target import KAFKA

Scenarios = Annotated[
    list[str] | None,
    typer.Argument(metavar="[SCENARIO]...", help="Names from --list; default: all scenarios that the target supports."),
]
Targets = Annotated[
    list[str] | None,
    typer.Option(
        metavar="[LABEL=]TARGET",
        help=f"HOST:PORT,... of running controllers, or controllers to start for the run: a release as {KAFKA}, "
        f"kafka:DIR with Kafka's jars, kcore-kraft; in ZooKeeper mode kafka-3.9.1-zk, kafka-zk:DIR, kcore-zk. Default "
        f"{KAFKA}. Several --target: one report compares them, by their labels.",
    ),
]
Brokers = Annotated[
    str | None,
    typer.Option(
        metavar="N,N,...", help="Hollow brokers; each count is a run of its own. Default 20, or those of --cluster."
    ),
]
Partitions = Annotated[
    str | None,
    typer.Option(
        metavar="N,N,...",
        help="Partitions, such as 10k,1M; each count runs with each count of --brokers. Default 10k, or those of "
        "--cluster.",
    ),
]
Cluster = Annotated[
    str | None,
    typer.Option(
        metavar="SOURCE",
        help="Brokers, racks and topics of a real cluster: a metadata log, snapshot, ZooKeeper dump or shape file, "
        "zk://HOST:PORT, or HOST:PORT,... of brokers. --partitions and --brokers scale it.",
    ),
]
Paired = Annotated[
    bool,
    typer.Option("--paired", help="Run the first count of --brokers with the first of --partitions only, and so on."),
]
PerTopic = Annotated[int, typer.Option(help="Partitions of a topic.")]
Factor = Annotated[int, typer.Option(help="Replicas of a partition.")]
Racks = Annotated[int, typer.Option(help="Racks that the brokers are spread over; 0 for none.")]
Controllers = Annotated[int, typer.Option(help="The number of controllers to start for the run: 1 or 3.")]
Heap = Annotated[str, typer.Option(help="The -Xmx of each controller of Kafka; kcore's controllers have no limit.")]
Metadata = Annotated[
    str, typer.Option(help="full: each broker keeps all partitions; count: it counts the log's records only.")
]


def _rename(value: str | None) -> str | None:
    if value is not None:
        say("kcore: --mind is called --metadata now.", err=True)
    return value


OldMetadata = Annotated[
    str | None, typer.Option("--mind", hidden=True, help="The old name of --metadata.", callback=_rename)
]
Heartbeat = Annotated[float, typer.Option(help="Seconds between a broker's heartbeats.")]
Seconds = Annotated[float, typer.Option(help="The duration of the scenario heartbeat.")]
LostShare = Annotated[
    float, typer.Option(help="dir-lost: the share of a broker's replicas in the failing directory, up to 1.")
]
LostReplicas = Annotated[
    str,
    typer.Option(metavar="N", help="dir-lost: replicas in the failing directory, for all sizes; 0: use --lost-share."),
]
Master = Annotated[
    str,
    typer.Option(metavar="URL", help="Spark's master, whose executors run the hollow brokers; default: this machine."),
]
Repeat = Annotated[int, typer.Option(help="Repetitions of all scenarios; each repetition starts new controllers.")]
SessionTimeout = Annotated[
    int,
    typer.Option(metavar="MS", help="broker.session.timeout.ms of running controllers; 0: ask the active controller."),
]
Pids = Annotated[
    list[int] | None,
    typer.Option(
        "--pid",
        metavar="PID",
        help="The process of a running controller, to measure its CPU and memory; one --pid for each. "
        "Default: the process that listens at its port on this machine.",
    ),
]
Profile = Annotated[
    bool,
    typer.Option("--profile", help="Sample the controllers to show where their CPU time goes, by layer and by event."),
]
Secure = Annotated[
    bool,
    typer.Option(
        "--secure",
        help="Run each KRaft target that the run starts twice: in plaintext, and with certificates and users that are "
        "made for the run.",
    ),
]
SECURE_WITH = "SASL_SSL"
SecureWith = Annotated[
    str | None,
    typer.Option(
        metavar="PROTOCOL",
        help="The security protocol of --secure: SSL with client certificates; SASL_SSL or SASL_PLAINTEXT with SCRAM. "
        "Default SASL_SSL.",
    ),
]
Seed = Annotated[int, typer.Option(help="The seed of all random choices, such as the broker that is lost.")]
Names = Annotated[bool, typer.Option("--list", help="List the scenarios, one per line, and stop.")]
