"""`kcore quorum describe`: asks a quorum for its state and prints it."""

import asyncio
import json as json_module
import time
from collections.abc import Callable
from random import Random
from typing import Annotated, Any, NoReturn

import typer

from kcore.cli.console import fail, say
from kcore.cli.options.command_config import CommandConfigOption, security_in
from kcore.cli.servers import quorum_tables
from kcore.cli.servers.server_process import address_of
from kcore.errors import KcoreError, TargetError
from kcore.measure.report.exits import Exit
from kcore.net.security.client_security import Security
from kcore.raft.membership.replicas import Address
from kcore.server.quorum_node.describe import QuorumDescription, describe_quorum


def command(
    bootstrap_controller: Annotated[
        str | None, typer.Option(metavar="HOST:PORT,...", help="Controllers, Kafka's or kcore's.")
    ] = None,
    bootstrap_server: Annotated[
        str | None, typer.Option(metavar="HOST:PORT,...", help="Brokers, which forward the request.")
    ] = None,
    status: Annotated[bool, typer.Option("--status", help="A short summary.")] = False,
    replication: Annotated[bool, typer.Option("--replication", help="One line per replica.")] = False,
    human_readable: Annotated[
        bool, typer.Option("--human-readable", help="With --replication: times as ages.")
    ] = False,
    seed_format: Annotated[bool, typer.Option("--seed-format", help="Use the format in KIP-595.")] = False,
    level: Annotated[str, typer.Option(help="The release whose tool is imitated: 4.3 or 3.9.")] = "4.3",
    json: Annotated[bool, typer.Option("--json", help="One object with the whole description.")] = False,
    command_config: CommandConfigOption = None,
    timeout: Annotated[int, typer.Option(metavar="MS", min=1, help="The time limit, retries included.")] = 30_000,
) -> None:
    """Describe a metadata quorum, as kafka-metadata-quorum.sh does.

    Exit code: 0 success, 1 no usable response within the time-out, 2 usage.
    """
    if (bootstrap_controller is None) == (bootstrap_server is None):
        fail("give either --bootstrap-controller or --bootstrap-server")
    if status + replication + json != 1:
        fail("give one of --status, --replication and --json")
    if human_readable and (not replication or seed_format):
        fail("--human-readable goes with --replication, and not with --seed-format")
    if level not in ("3.9", "4.3"):
        fail(f"--level {level}: give 3.9 or 4.3")
    option = "--bootstrap-server" if bootstrap_controller is None else "--bootstrap-controller"
    where = _addresses(option, bootstrap_controller or bootstrap_server or "")
    description = _describe(where, bootstrap_controller is not None, timeout, security_in(command_config))
    for line in _lines_of(description, status, human_readable, seed_format, level, json):
        say(line)


def _addresses(option: str, text: str) -> list[Address]:
    return [Address(*address_of(option, each.strip())) for each in text.split(",")]


def _describe(
    where: list[Address], controllers: bool, timeout_ms: int, security: Callable[[], Security] | None
) -> QuorumDescription:
    options: dict[str, Any] = {"controllers": controllers, "timeout_s": timeout_ms / 1000, "random": Random()}
    try:
        return asyncio.run(describe_quorum(where, security=security, **options))
    except KcoreError as error:
        _failed(str(error))


def _lines_of(
    description: QuorumDescription, status: bool, human_readable: bool, seed_format: bool, level: str, json: bool
) -> list[str]:
    try:
        if json:
            return [json_module.dumps(quorum_tables.as_json(description))]
        if seed_format:
            table = quorum_tables.seed_status if status else quorum_tables.seed_replication
            return table(description)
        if status:
            return quorum_tables.status(description, level)
        return quorum_tables.replication(description, time.time_ns() // 1_000_000 if human_readable else None)
    except TargetError as error:
        _failed(str(error))


def _failed(message: str) -> NoReturn:
    say(f"kcore: {message}", err=True)
    raise typer.Exit(Exit.FAILED)
