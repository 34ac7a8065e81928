"""The commands and their options."""

from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from kcore.cli import broker_command, controller_command, quorum_command, storm_options


class Commands(TyperGroup):
    """A command's name may be two words: `bench designs` stands beside `bench`, which takes a plan's name itself."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        two_words = " ".join(args[:2])
        if two_words in self.commands:
            args = [two_words, *args[2:]]
        return super().resolve_command(ctx, args)


app = typer.Typer(
    cls=Commands,
    help="The Kafka controller core: measure how controllers scale.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

app.add_typer(controller_command.app, name="controller")
app.add_typer(broker_command.app, name="broker")
app.add_typer(quorum_command.app, name="quorum")

Sizes = typer.Option(metavar="N,N,...", help="Instead of the plan's sizes, such as 10k,1M.")


@app.command()
def bench(
    plan: Annotated[str, typer.Argument(help="A plan file (TOML) or a built-in plan: default, smoke.")] = "default",
    master: Annotated[str, typer.Option(help="Spark's master URL.")] = "local[*]",
    partitions: Annotated[str | None, Sizes] = None,
    brokers: Annotated[str | None, Sizes] = None,
    repeat: Annotated[int | None, typer.Option(help="Repetitions of every cell.")] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of every cell.")] = None,
    cluster: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="A ZooKeeper dump or a raw request with its header, in place of generated clusters: "
            "as it is, or scaled up to --partitions and --brokers.",
        ),
    ] = None,
    out: Annotated[Path | None, typer.Option(metavar="DIR", help="For the results; default out/bench-<time>.")] = None,
    no_spark: Annotated[bool, typer.Option("--no-spark", help="Run the cells in this process.")] = False,
    json: Annotated[bool, typer.Option("--json", help="JSON lines on stdout, the rest on stderr.")] = False,
    print_plan: Annotated[bool, typer.Option("--print-plan", help="Show the plan as TOML and stop.")] = False,
) -> None:
    """Run a plan's workloads over Spark; print, keep and draw what was measured.

    Exit code: 0 good, 1 a cell failed, 2 usage, 3 a partial run or results that disagree.
    """
    from kcore.cli import bench_command

    wanted = bench_command.effective_plan(plan, partitions, brokers, repeat, seed, cluster)
    if print_plan:
        typer.echo(wanted.to_toml(), nl=False)
        return
    raise typer.Exit(bench_command.run(wanted, None if no_spark else master, out, json))


@app.command(name="bench designs")
def bench_designs(
    partitions: Annotated[str | None, typer.Option(metavar="N", help="Such as 10k, the default.")] = None,
    brokers: Annotated[int | None, typer.Option(help="Each with a session of its own; default 20.")] = None,
    repeat: Annotated[int | None, typer.Option(help="Repetitions of everything; default 1.")] = None,
    seed: Annotated[int | None, typer.Option(help="Of where the replicas are.")] = None,
    zookeeper: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT",
            help="One that runs and answers mntr; all is done below a znode that is removed again. "
            "Default: one that is started for the run.",
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="For the results; default out/designs-<time>.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="JSON lines on stdout, the rest on stderr.")] = False,
    quick: Annotated[bool, typer.Option("--quick", help="A small cluster, once: seconds.")] = False,
) -> None:
    """Measure the article's designs on a real ZooKeeper: watchers, znodes, reads, writes, time to new leaders.

    v1: leader znodes that replicas watch; v2: states that they watch, and queues; v3: a controller and direct requests;
    and v3 with an external view. Then state writes one by one, pipelined and by multi; a command by queue and direct.
    That a broker does not acknowledge in time is no part of it: `kcore controller zk` raises an alarm then.

    Exit code: 0 good, 1 a design failed, 2 usage, 3 a partial run.
    """
    from kcore.cli import designs_command

    plan = designs_command.plan_of(partitions, brokers, repeat, seed, quick)
    raise typer.Exit(designs_command.run(plan, zookeeper, out, json))


@app.command(name="bench quorum")
def bench_quorum(
    system: Annotated[
        list[str] | None, typer.Option(help="kafka-4.3.1, kafka-3.9.1 or kcore; default: the first and the last.")
    ] = None,
    rate: Annotated[list[int] | None, typer.Option(min=1, help="Records a second; default 1000 and 20000.")] = None,
    linger: Annotated[
        list[str] | None, typer.Option(metavar="MS", help="default: the system's own. If not given: default, and 0.")
    ] = None,
    record_bytes: Annotated[int, typer.Option(min=1, help="Of each record.")] = 256,
    seconds: Annotated[float, typer.Option(min=10, help="Measured, after half as many to get warm.")] = 60.0,
    json: Annotated[bool, typer.Option("--json", help="A line of JSON each.")] = False,
) -> None:
    """Measure three voters with fsync on loopback: kcore's beside Kafka's own (kafka.tools.TestRaftServer).

    One system at a time. Latency until the commit is counted from when a record was due (kcore) or appended (Kafka,
    whose tool counts up to 249 ms). Kafka 3.9.1's tool always appends 20,000 records of 256 bytes a second.

    Exit code: 0 good, 1 a node ended or nothing was committed, 2 usage.
    """
    from kcore.cli import bench_quorum_command

    systems, lingers = system or ["kafka-4.3.1", "kcore"], linger or ["default", "0"]
    rates = rate or [1_000, 20_000]
    raise typer.Exit(bench_quorum_command.command(systems, rates, lingers, record_bytes, seconds, json))


@app.command()
def compare(
    old: Annotated[Path, typer.Argument(help="A result folder, or its results.parquet or results.jsonl.")],
    new: Annotated[Path, typer.Argument(help="The same of the run to judge.")],
    threshold: Annotated[float, typer.Option(min=1.0, help="Slower by more than this ratio is a regression.")] = 1.25,
) -> None:
    """Tell which named cells became slower between two runs.

    Exit code: 0 none, 1 a regression, 2 usage, 3 cells are missing or their results differ.
    """
    from kcore.cli import compare_command

    raise typer.Exit(compare_command.run(old, new, threshold))


@app.command()
def storm(
    scenarios: storm_options.Scenarios = None,
    target: storm_options.Targets = None,
    brokers: storm_options.Brokers = "20",
    partitions: storm_options.Partitions = "10k",
    partitions_per_topic: storm_options.PerTopic = 100,
    replication_factor: storm_options.Factor = 3,
    racks: storm_options.Racks = 3,
    controllers: storm_options.Controllers = 1,
    heap: storm_options.Heap = "2g",
    mind: storm_options.Mind = "full",
    heartbeat_s: storm_options.Heartbeat = 2.0,
    seconds: storm_options.Seconds = 10.0,
    master: storm_options.Master = "",
    repeat: storm_options.Repeat = 1,
    seed: storm_options.Seed = 1,
    out: Annotated[Path | None, typer.Option(metavar="DIR", help="For the results; default out/storm-<time>.")] = None,
    json: Annotated[bool, typer.Option("--json", help="JSON lines on stdout, the rest on stderr.")] = False,
    names: storm_options.Names = False,
) -> None:
    """Put a real Kafka controller under the load of brokers that hold nothing; tell when the last one knows.

    Exit code: 0 good, 1 a scenario failed, 2 usage, 3 a partial run, or one whose load generator was late.
    """
    from kcore.cli import storm_command

    if names:
        storm_command.list_scenarios()
        return
    plan = storm_command.plan_of(
        brokers,
        partitions,
        targets=tuple(target or ["kafka-4.3.1"]),
        scenarios=tuple(scenarios or ()),
        partitions_per_topic=partitions_per_topic,
        replication_factor=replication_factor,
        racks=racks,
        controllers=controllers,
        heap=heap,
        mind=mind,
        heartbeat_s=heartbeat_s,
        seconds=seconds,
        master=master,
        repeat=repeat,
        seed=seed,
    )
    raise typer.Exit(storm_command.run(plan, out, json))


@app.command(name="sim raft")
def sim_raft(
    seeds: Annotated[int, typer.Option(min=1, metavar="N", help="How many worlds.")] = 100,
    first_seed: Annotated[int, typer.Option(min=0, metavar="N", help="Of the first of them.")] = 1,
    seed: Annotated[int | None, typer.Option(min=0, metavar="N", help="This one world alone: a replay.")] = None,
    events: Annotated[int, typer.Option(min=1, help="Of each world; then it is healed.")] = 20_000,
    level: Annotated[
        str | None, typer.Option(help="3.9, 4.3 or mixed in all worlds; drawn from the seed otherwise.")
    ] = None,
    voters: Annotated[int | None, typer.Option(min=1, max=5, help="So many in all worlds.")] = None,
    observers: Annotated[int | None, typer.Option(min=0, max=5, help="So many in all worlds.")] = None,
    planted: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Plant this bug; ends at the first seed that finds it. Or all, one by one."),
    ] = None,
    master: Annotated[str | None, typer.Option(help="Over Spark, at this master URL such as local[*].")] = None,
    processes: Annotated[int | None, typer.Option(min=1, help="Without Spark: default one a core.")] = None,
    out: Annotated[Path | None, typer.Option(metavar="DIR", help="For the results; default out/sim-<time>.")] = None,
    json: Annotated[bool, typer.Option("--json", help="A seed's JSON a line on stdout, the rest on stderr.")] = False,
    names: Annotated[bool, typer.Option("--names", help="List the bugs that can be planted, and stop.")] = False,
) -> None:
    """Simulate raft quorums: networks, disks and clocks that fail, invariants after every event.

    A world ends healed, and its quorum must then find a leader. A broken invariant is told with the last events and
    with the command that shows the same again.

    Exit code: 0 all held (with --planted: the bug was caught by the invariant that it names), 1 not, 2 usage.
    """
    from kcore.cli import sim_command
    from kcore.sim.campaign import Campaign

    if names:
        sim_command.list_planted()
        return
    sim_command.check(level, planted)
    chosen = range(first_seed, first_seed + seeds) if seed is None else range(seed, seed + 1)
    if planted == sim_command.ALL:
        raise typer.Exit(sim_command.run_planted(chosen, events, processes))
    fixed = {"level": level, "voters": voters, "observers": observers}
    raise typer.Exit(sim_command.run(Campaign(chosen, events, planted, fixed), master, processes, out, json))


@app.command()
def rivals(
    only: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[GROUP]...", help="codec, memory, election, divergence, messages, records; all if left out."
        ),
    ] = None,
    partitions: Annotated[int, typer.Option(min=1_000, help="Partitions of the cluster.")] = 100_000,
    repeat: Annotated[int, typer.Option(min=1, help="Turns that every peer has.")] = 5,
    out: Annotated[Path | None, typer.Option(metavar="DIR", help="For the results, if they are to be kept.")] = None,
) -> None:
    """Build the peers in bench/rivals and run them beside kcore, results compared before times.

    Exit code: 0 good, 1 results disagree, 2 usage, 3 a peer failed. A missing toolchain is a line, not a failure.
    """
    from kcore.cli import rivals_command

    raise typer.Exit(rivals_command.run(only or [], partitions, repeat, out))


@app.command()
def dump(
    path: Annotated[Path, typer.Argument(help="A segment, a snapshot, a file beside one, or a partition's folder.")],
    deep: Annotated[bool, typer.Option("--deep", help="A line a record, too.")] = False,
    records: Annotated[bool, typer.Option("--records", help="Keys and values of the records, too.")] = False,
    metadata: Annotated[bool, typer.Option("--metadata", help="Values as cluster metadata records.")] = False,
    offsets: Annotated[bool, typer.Option("--offsets", help="Records as those of __consumer_offsets.")] = False,
    transactions: Annotated[
        bool, typer.Option("--transactions", help="Records as those of __transaction_state.")
    ] = False,
    skip_record_metadata: Annotated[
        bool, typer.Option("--skip-record-metadata", help="Of records, their contents alone.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="A line of JSON for each batch, or for each record.")] = False,
    arrow: Annotated[Path | None, typer.Option(metavar="FILE", help="The same as an Arrow IPC file.")] = None,
) -> None:
    """Show what lies in a log, as kafka-dump-log prints it.

    Exit code: 0 good, 1 something in it is torn or broken (told with its position), 2 usage.
    """
    from kcore.cli import dump_command
    from kcore.storage.coordinator_records import OFFSETS, TRANSACTIONS
    from kcore.storage.dump import Detail

    if metadata + offsets + transactions > 1:
        raise typer.BadParameter("at most one of --metadata, --offsets and --transactions")
    coordinator = OFFSETS if offsets else TRANSACTIONS if transactions else None
    detail = Detail(deep, records, metadata, skip_record_metadata, coordinator)
    raise typer.Exit(dump_command.run(path, detail, json, arrow))


@app.command()
def diverge(
    a: Annotated[Path, typer.Argument(help="A replica's folder, or a log directory with many.")],
    b: Annotated[Path, typer.Argument(help="The other replica's folder, or the other log directory.")],
    read: Annotated[
        str, typer.Option(help="bytes: all that may be equal; headers: each batch's; epochs: from the last common one.")
    ] = "bytes",
    master: Annotated[
        str | None, typer.Option(help="Compare log directories over Spark, at this master URL such as local[*].")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="A line of JSON a partition.")] = False,
) -> None:
    """Find the first offset at which two replicas on disk differ.

    Exit code: 0 they do not, 1 they do, 2 usage.
    """
    from kcore.cli import diverge_command

    raise typer.Exit(diverge_command.run(a, b, read, master, json))


@app.command()
def image(
    path: Annotated[Path, typer.Argument(help="A metadata log's folder or segment, a snapshot, or a ZooKeeper dump.")],
    json: Annotated[bool, typer.Option("--json", help="The figures as JSON.")] = False,
    arrow: Annotated[Path | None, typer.Option(metavar="FILE", help="The partitions as an Arrow IPC file.")] = None,
) -> None:
    """Sum up a cluster: its brokers, topics and partitions, and which of those are in trouble.

    Exit code: 0 good, 1 the log could be read only in part, 2 usage.
    """
    from kcore.cli import image_command

    raise typer.Exit(image_command.run(path, json, arrow))


Header = Annotated[bool, typer.Option("--header", help="With the request's or response's header in front.")]
Dialect = Annotated[str | None, typer.Option(help="Another dialect than Kafka's own, such as kip590.")]


@app.command()
def decode(
    name: Annotated[str, typer.Argument(help="The message's name, such as FetchRequest.")],
    version: Annotated[int, typer.Argument(help="Its version.")],
    hex: Annotated[str | None, typer.Argument(help="Its bytes as hex; from stdin (hex or binary) if left out.")] = None,
    header: Header = False,
    dialect: Dialect = None,
) -> None:
    """Show a message's bytes as Kafka's JSON.

    Exit code: 0 good, 1 the bytes are not that message, 2 usage.
    """
    from kcore.cli import codec_command

    raise typer.Exit(codec_command.run_decode(name, version, hex, header, dialect))


@app.command()
def encode(
    name: Annotated[str, typer.Argument(help="The message's name, such as FetchRequest.")],
    version: Annotated[int, typer.Argument(help="Its version.")],
    json: Annotated[str | None, typer.Argument(help="Its JSON; from stdin if left out.")] = None,
    header: Header = False,
    dialect: Dialect = None,
    binary: Annotated[bool, typer.Option("--binary", help="The bytes themselves instead of hex.")] = False,
) -> None:
    """Write a message's bytes from Kafka's JSON.

    Exit code: 0 good, 1 the JSON is not that message, 2 usage.
    """
    from kcore.cli import codec_command

    raise typer.Exit(codec_command.run_encode(name, version, json, header, dialect, binary))


@app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def test(context: typer.Context) -> None:
    """Run the tests of a checkout; arguments go to pytest."""
    from kcore.cli import test_command

    raise typer.Exit(test_command.run(context.args))
