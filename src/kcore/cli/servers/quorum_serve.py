"""`kcore quorum serve`: runs a raft node with the options' settings, until a signal stops it."""

from collections.abc import Callable
from dataclasses import MISSING, fields
from functools import partial
from pathlib import Path
from random import SystemRandom
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple

import typer

from kcore.cli.console import fail, say
from kcore.cli.options.answer_loop_option import AnswerLoopOption
from kcore.cli.options.audit_option import AuditOption, audit_log
from kcore.cli.options.files_option import SharedFilesOption
from kcore.cli.options.finite import finite
from kcore.cli.options.metrics_option import QUORUM, MetricsOption, metrics_page
from kcore.cli.options.properties_option import option_value, read_quorum_listener_settings
from kcore.cli.options.set_aside_option import SetAsideOption
from kcore.cli.servers.server_process import Work, address_of, begin_server, run_until_stopped
from kcore.errors import StorageError
from kcore.measure.report.exits import Exit
from kcore.metadata.newer_records import check_batches
from kcore.raft.log.memory_log import MemoryLog
from kcore.raft.log.raft_log import RaftLog
from kcore.raft.membership.replicas import Address, Voter
from kcore.raft.raft_config import RaftConfig
from kcore.releases.known import NEWEST
from kcore.releases.release import LOG_LEVELS
from kcore.server.metrics.watched_loop import run_watched
from kcore.server.properties.definitions import DEFINITIONS
from kcore.server.quorum_node.answer_loop import AnswerLoopKind
from kcore.server.quorum_node.elections import Elections, MemoryElections
from kcore.server.quorum_node.quorum_listener_settings import QuorumListenerSettings
from kcore.server.quorum_node.quorum_server import QuorumServer
from kcore.server.quorum_node.static_voters import static_voters
from kcore.server.quorum_node.workload import AppendWorkload, Stats
from kcore.server.security.audit import AuditLog
from kcore.storage.log.segmented_log import Settings
from kcore.storage.raft.file_raft_log import SEGMENT_BYTES
from kcore.storage.raft.raft_dir import DirectoryElections, RaftDirectory
from kcore.types import ZERO_UUID, Uuid

if TYPE_CHECKING:
    from kcore.server.metrics.page import MetricsPage

SecurityOption = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="A controller's server.properties: its listener's TLS and SASL, super.users."),
]
PREFIX: Final = "controller.quorum."
METADATA: Final = "metadata_"  # The prefix of fields from MetadataLogConfig, whose names do not begin with PREFIX.
ANY_PORT_OF_LOOPBACK: Final = Address("127.0.0.1", 0)


class Plan(NamedTuple):
    """The values of the command's options."""

    node_id: int
    data: Path | None
    voters: str | None
    bootstrap: str | None
    listen: str | None
    advertise: str | None
    listener: str
    level: str
    cluster_id: str | None
    settings: list[str]
    listener_settings: QuorumListenerSettings = QuorumListenerSettings()
    set_aside: bool = False


class Opened(NamedTuple):
    """The durable state of a node: its ids, its log and its election state."""

    cluster_id: str | None
    directory_id: Uuid
    log: RaftLog
    elections: Elections
    close: Callable[[], None] = lambda: None
    store_cluster_id: Callable[[str], None] | None = None


def command(
    id: Annotated[int, typer.Option(min=0, help="As node.id; if no voter has this id, the node is an observer.")],
    data: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="As metadata.log.dir, formatted. Without it, an observer keeps no state."),
    ] = None,
    voters: Annotated[
        str | None, typer.Option(metavar="ID@HOST:PORT,...", help="Static voters, as controller.quorum.voters.")
    ] = None,
    bootstrap_controller: Annotated[
        str | None, typer.Option(metavar="HOST:PORT,...", help="Addresses of voters of a dynamic quorum (KIP-853).")
    ] = None,
    listen: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="Default: its address in --voters, or any port of loopback.")
    ] = None,
    advertise: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="The address that other nodes use, if not --listen.")
    ] = None,
    listener_name: Annotated[str, typer.Option(help="The first of controller.listener.names.")] = "CONTROLLER",
    level: Annotated[str, typer.Option(help="The release whose protocol is used: 4.3 or 3.9.")] = "4.3",
    cluster_id: Annotated[str | None, typer.Option(help="The cluster id of an observer without --data.")] = None,
    config: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="Kafka's settings, such as controller.quorum.append.linger.ms=0."),
    ] = None,
    security: SecurityOption = None,
    append: Annotated[
        float,
        typer.Option(metavar="RATE", min=0, callback=finite, help="Records to append per second while the node leads."),
    ] = 0.0,
    record_bytes: Annotated[int, typer.Option(metavar="N", min=4, help="The size of each no-op record.")] = 256,
    audit: AuditOption = None,
    metrics: MetricsOption = None,
    answer_loop: AnswerLoopOption = "compiled",
    set_aside: SetAsideOption = False,
    verbose: Annotated[bool, typer.Option("--verbose", help="Log more events.")] = False,
    shared_files: SharedFilesOption = False,
) -> None:
    """Run a voter or an observer of a quorum of controllers; with --append, measure how fast the quorum commits.

    A leader appends the records that raft requires and those of --append; it controls no brokers. SIGTERM and Ctrl-C
    stop the node cleanly. Exit code: 0 stopped cleanly, 1 it failed, 2 usage, or the address or the directory is not
    available.
    """
    begin_server(verbose=verbose, shared_files=shared_files)
    listener = QuorumListenerSettings() if security is None else read_quorum_listener_settings(security, listener_name)
    where = (id, data, voters, bootstrap_controller, listen, advertise, listener_name)
    plan = Plan(*where, level, cluster_id, config or [], listener, set_aside)
    raise typer.Exit(run(plan, append, record_bytes, metrics_page(metrics), answer_loop, audit_log(audit)))


def run(
    plan: Plan,
    rate: float,
    record_bytes: int,
    page: "MetricsPage | None" = None,
    answer_loop: AnswerLoopKind = "compiled",
    audit: AuditLog | None = None,
) -> Exit:
    """Runs the node until a signal or a failure ends it; returns the exit code."""
    if plan.level not in LOG_LEVELS:
        fail(f"--level {plan.level}: give {' or '.join(LOG_LEVELS)}")
    if (plan.voters is None) == (plan.bootstrap is None):
        fail("give either --voters or --bootstrap-controller")
    voters = _voters(plan.voters, plan.listener) if plan.voters else ()
    settings = _settings(plan.settings)
    own = next((each.endpoints[plan.listener] for each in voters if each.key.id == plan.node_id), None)
    where = Address(*address_of("--listen", plan.listen)) if plan.listen else own or ANY_PORT_OF_LOOPBACK
    advertised = Address(*address_of("--advertise", plan.advertise)) if plan.advertise else where
    if advertised.port == 0 and plan.data is not None:
        fail("others must be able to reach a node that may vote: give --listen or --advertise with a port")
    opened = _open(plan, [each.key.id for each in voters], is_voter=own is not None)
    config = RaftConfig(
        opened.cluster_id,
        plan.node_id,
        opened.directory_id,
        {plan.listener: advertised} if advertised.port else {},
        SystemRandom().randrange,
        voters=voters,
        bootstrap_servers=tuple(_addresses(plan.bootstrap)) if plan.bootstrap else (),
        listener=plan.listener,
        level=plan.level,
        can_become_voter=plan.data is not None,
        check_data=partial(check_batches, release=NEWEST),
        elects_when_refused=True,
        **settings,
    )
    workload = AppendWorkload(rate, record_bytes, _report) if rate else None
    make = partial(_server, config, opened, where, workload, answer_loop, plan.listener_settings, audit)
    began = f"node {plan.node_id} listens at {where.host}:"

    def work(server: QuorumServer) -> Work:
        return () if workload is None else [workload.run(server.runtime.submit)]

    try:
        return run_watched(run_until_stopped(make, began, page, QUORUM, work))
    finally:
        _close(opened)


def _close(opened: Opened) -> None:
    try:
        opened.close()
    except StorageError as error:
        fail(str(error))


def _voters(text: str, listener: str) -> tuple[Voter, ...]:
    try:
        return static_voters(text.split(","), listener)
    except ValueError as error:
        fail(f"--voters {text!r}: {error}")


def _addresses(text: str) -> list[Address]:
    return [Address(*address_of("--bootstrap-controller", each.strip())) for each in text.split(",")]


def _settings(given: list[str]) -> dict[str, Any]:
    """Fields of RaftConfig from settings with Kafka's names; ends the command for an invalid setting."""
    kinds = {
        each.name: bool if each.type is bool else int
        for each in fields(RaftConfig)
        if each.default is not MISSING and each.type in (int, int | None, bool)
    }
    settings: dict[str, Any] = {}
    for line in given:
        name, _, text = line.partition("=")
        field, text = name.strip().removeprefix(PREFIX).replace(".", "_"), text.strip()
        kind = kinds.get(field)
        if kind is not None and (kafka_name := _name_of(field)) in DEFINITIONS:
            settings[field] = option_value(kafka_name, text)
        elif kind is bool and text in ("true", "false"):
            settings[field] = text == "true"
        elif kind is int and text.isdecimal() and len(text) < 20:
            settings[field] = int(text)
        else:
            known = ", ".join(f"{_name_of(each)} ({kind.__name__})" for each, kind in kinds.items())
            fail(f"--config {line}: it takes NAME=VALUE of {known}")
    return settings


def _name_of(field: str) -> str:
    """Kafka's name of the setting of a field of RaftConfig."""
    return ("" if field.startswith(METADATA) else PREFIX) + field.replace("_", ".")


def _open(plan: Plan, voters: list[int], *, is_voter: bool) -> Opened:
    if plan.data is None:
        if is_voter:
            fail("a voter must not forget its vote: give --data DIR")
        if plan.cluster_id is None:
            fail("an observer without --data needs --cluster-id")
        return Opened(plan.cluster_id, ZERO_UUID, MemoryLog(LOG_LEVELS[plan.level]), MemoryElections())
    try:
        directory = RaftDirectory(plan.data, node_id=plan.node_id, cluster_id=plan.cluster_id, voters=voters)
        log, election = directory.open(Settings(SEGMENT_BYTES, set_aside=plan.set_aside), level=LOG_LEVELS[plan.level])
    except StorageError as error:
        fail(str(error))
    elections = DirectoryElections(directory, election)
    return Opened(directory.cluster_id, directory.directory_id, log, elections, log.close, directory.store_cluster_id)


def _server(
    config: RaftConfig,
    opened: Opened,
    where: Address,
    workload: AppendWorkload | None,
    answer_loop: AnswerLoopKind,
    listener_settings: QuorumListenerSettings,
    audit: AuditLog | None,
) -> QuorumServer:
    return QuorumServer(
        config,
        opened.log,
        opened.elections,
        host=where.host,
        port=where.port,
        machine=workload,
        store_cluster_id=opened.store_cluster_id,
        answer_loop=answer_loop,
        security=listener_settings.security,
        super_users=listener_settings.super_users,
        limits=listener_settings.limits,
        audit=audit,
    )


def _report(stats: Stats) -> None:
    say(str(stats))
