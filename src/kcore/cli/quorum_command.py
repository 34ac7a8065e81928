"""`kcore quorum`: a node of a KRaft quorum as a process, its directory, and what a quorum says of itself."""

import asyncio
import json as json_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from kcore.cli.console import fail
from kcore.cli.processes import address_of, begin_log, use_all_descriptors
from kcore.report.exits import Exit

if TYPE_CHECKING:
    from kcore.raft.replicas import Address
    from kcore.server.quorum.describe import QuorumDescription

app = typer.Typer(
    help="Take part in a KRaft quorum of Kafka's controllers or of kcore's, or ask one how it is.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback()
def quorum() -> None:
    """Take part in a KRaft quorum of Kafka's controllers or of kcore's, or ask one how it is."""


@app.command()
def serve(
    id: Annotated[int, typer.Option(min=0, help="As node.id; of no voter: it observes.")],
    data: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="As metadata.log.dir, formatted. Without one an observer remembers nothing."),
    ] = None,
    voters: Annotated[
        str | None, typer.Option(metavar="ID@HOST:PORT,...", help="Static voters, as controller.quorum.voters.")
    ] = None,
    bootstrap_controller: Annotated[
        str | None,
        typer.Option(metavar="HOST:PORT,...", help="Where voters are that the log names (KIP-853)."),
    ] = None,
    listen: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="Default: as the voters name it, or any port of loopback.")
    ] = None,
    advertise: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="What others are told, if it is another address.")
    ] = None,
    listener_name: Annotated[str, typer.Option(help="The first of controller.listener.names.")] = "CONTROLLER",
    level: Annotated[str, typer.Option(help="The release whose protocol it speaks: 4.3 or 3.9.")] = "4.3",
    cluster_id: Annotated[str | None, typer.Option(help="Of an observer without --data.")] = None,
    config: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="Kafka's settings, such as controller.quorum.append.linger.ms=0."),
    ] = None,
    append: Annotated[
        float, typer.Option(metavar="RATE", min=0, help="While it leads: append so many records a second.")
    ] = 0.0,
    record_bytes: Annotated[int, typer.Option(metavar="N", min=4, help="Of each of them; they are no-ops.")] = 256,
    verbose: Annotated[bool, typer.Option("--verbose", help="More of what happens.")] = False,
) -> None:
    """Be a voter or an observer of a quorum of controllers; with --append measure how fast it commits.

    As a leader it appends what a leader must, and these records; it controls no brokers. SIGTERM and Ctrl-C stop it
    cleanly. Exit code: 0 stopped so, 1 it failed, 2 usage, or the address or the directory cannot be had.
    """
    from kcore.cli import quorum_serve

    begin_log(verbose=verbose)
    use_all_descriptors()
    plan = quorum_serve.Plan(
        id, data, voters, bootstrap_controller, listen, advertise, listener_name, level, cluster_id, config or []
    )
    raise typer.Exit(quorum_serve.run(plan, append, record_bytes))


@app.command(name="format")
def format_directory(
    id: Annotated[int, typer.Option(min=0, help="As node.id.")],
    data: Annotated[Path, typer.Option(metavar="DIR", help="As metadata.log.dir; it is made if it is not there.")],
    cluster_id: Annotated[str | None, typer.Option(help="The cluster's uuid; default: a new one.")] = None,
    no_cluster_id: Annotated[
        bool, typer.Option("--no-cluster-id", help="The first leader makes it (KIP-595): of kcore's nodes alone.")
    ] = False,
    directory_id: Annotated[str | None, typer.Option(help="The directory's uuid; default: a new one.")] = None,
    initial_controllers: Annotated[
        str | None,
        typer.Option(metavar="ID@HOST:PORT:DIRECTORY,...", help="The voters that a dynamic quorum begins with."),
    ] = None,
    standalone: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="A dynamic quorum that begins with this node alone.")
    ] = None,
    listener_name: Annotated[str, typer.Option(help="The first of controller.listener.names.")] = "CONTROLLER",
    level: Annotated[str, typer.Option(help="The release whose features a new cluster gets: 4.3 or 3.9.")] = "4.3",
) -> None:
    """Make a directory that `kcore quorum serve`, or a controller of Kafka, takes as its own; prints its ids.

    Neither --initial-controllers nor --standalone: for static voters, or one that joins a dynamic quorum later.
    Exit code: 0 good, 2 usage, or the directory is formatted already.
    """
    from kcore.cli import quorum_format

    quorum_format.run(
        id,
        data,
        cluster_id=cluster_id,
        no_cluster_id=no_cluster_id,
        directory_id=directory_id,
        initial_controllers=initial_controllers,
        standalone=standalone,
        listener=listener_name,
        level=level,
    )


@app.command()
def describe(
    bootstrap_controller: Annotated[
        str | None, typer.Option(metavar="HOST:PORT,...", help="Controllers, Kafka's or kcore's.")
    ] = None,
    bootstrap_server: Annotated[
        str | None, typer.Option(metavar="HOST:PORT,...", help="Brokers, which pass the question on.")
    ] = None,
    status: Annotated[bool, typer.Option("--status", help="A short summary.")] = False,
    replication: Annotated[bool, typer.Option("--replication", help="A line a replica.")] = False,
    human_readable: Annotated[
        bool, typer.Option("--human-readable", help="With --replication: how long ago, not when.")
    ] = False,
    seed_format: Annotated[bool, typer.Option("--seed-format", help="As KIP-595 drew it.")] = False,
    level: Annotated[str, typer.Option(help="The release whose tool is followed: 4.3 or 3.9.")] = "4.3",
    json: Annotated[bool, typer.Option("--json", help="One object with all of it.")] = False,
    timeout: Annotated[int, typer.Option(metavar="MS", min=1, help="For the answer, tries included.")] = 30_000,
) -> None:
    """Describe a metadata quorum, as kafka-metadata-quorum.sh does it.

    Exit code: 0 good, 1 no answer within the time-out, or none that can be told, 2 usage.
    """
    if (bootstrap_controller is None) == (bootstrap_server is None):
        fail("give either --bootstrap-controller or --bootstrap-server")
    if status + replication + json != 1:
        fail("give one of --status, --replication and --json")
    if human_readable and (not replication or seed_format):
        fail("--human-readable goes with --replication, and not with --seed-format")
    if level not in ("3.9", "4.3"):
        fail(f"--level {level}: 3.9 or 4.3")
    option = "--bootstrap-server" if bootstrap_controller is None else "--bootstrap-controller"
    where = _addresses(option, bootstrap_controller or bootstrap_server or "")
    description = _asked(where, bootstrap_controller is not None, timeout)
    for line in _told(description, status, human_readable, seed_format, level, json):
        typer.echo(line)


def _addresses(option: str, text: str) -> list["Address"]:
    from kcore.raft.replicas import Address

    return [Address(*address_of(option, each.strip())) for each in text.split(",")]


def _asked(where: list["Address"], controllers: bool, timeout_ms: int) -> "QuorumDescription":
    from random import Random

    from kcore.errors import KcoreError
    from kcore.server.quorum.describe import describe_quorum

    asking = describe_quorum(where, controllers=controllers, timeout_s=timeout_ms / 1000, random=Random())
    try:
        return asyncio.run(asking)
    except KcoreError as error:
        _failed(str(error))


def _told(
    description: "QuorumDescription", status: bool, human_readable: bool, seed_format: bool, level: str, json: bool
) -> list[str]:
    import time

    from kcore.cli import quorum_tables
    from kcore.errors import TargetError

    try:
        if json:
            return [json_module.dumps(quorum_tables.as_json(description))]
        if seed_format:
            told = quorum_tables.seed_status if status else quorum_tables.seed_replication
            return told(description)
        if status:
            return quorum_tables.status(description, level)
        return quorum_tables.replication(description, time.time_ns() // 1_000_000 if human_readable else None)
    except TargetError as error:
        _failed(str(error))


def _failed(message: str) -> NoReturn:
    typer.echo(f"kcore: {message}", err=True)
    raise typer.Exit(Exit.FAILED)
