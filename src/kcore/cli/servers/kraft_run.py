"""`kcore controller kraft run`: runs a KRaft controller as a process, until a signal stops it."""

from functools import partial
from pathlib import Path
from random import SystemRandom
from typing import Annotated

import typer

from kcore.cli.console import fail
from kcore.cli.options.answer_loop_option import AnswerLoopOption
from kcore.cli.options.audit_option import AuditOption, audit_log
from kcore.cli.options.files_option import SharedFilesOption
from kcore.cli.options.metrics_option import KRAFT, MetricsOption, metrics_page
from kcore.cli.options.properties_option import read_settings
from kcore.cli.options.release_option import ReleaseOption
from kcore.cli.options.set_aside_option import SetAsideOption
from kcore.cli.servers.server_process import begin_server, run_until_stopped
from kcore.controller.kraft.activation import Bootstrap
from kcore.controller.kraft.decision import Versioned
from kcore.controller.kraft.departures import KAFKA_WAY
from kcore.controller.kraft.kraft_controller_config import KraftControllerConfig
from kcore.errors import DecodeError, NewerReleaseError, StorageError
from kcore.metadata.metadata_version import FEATURE_NAME, MetadataVersion
from kcore.metadata.newer_records import check_records
from kcore.raft.raft_config import RaftConfig
from kcore.releases.known import DEFAULT_RELEASE, RELEASES
from kcore.server.kraft_controller.kraft_controller_server import KraftServer
from kcore.server.kraft_controller.kraft_controller_settings import KraftSettings
from kcore.server.metrics.watched_loop import run_watched
from kcore.server.properties.honoured import BY_CONTROLLERS, warn_of_others
from kcore.server.properties.nodes import OF_AUTHORIZER
from kcore.server.quorum_node.answer_loop import AnswerLoopKind
from kcore.server.quorum_node.elections import Elections
from kcore.server.security.audit import AuditLog
from kcore.storage.files import is_there
from kcore.storage.raft.file_raft_log import DiskRaftLog
from kcore.storage.raft.raft_dir import DirectoryElections, RaftDirectory
from kcore.storage.raft.snapshot import BOOTSTRAP, read_snapshot
from kcore.suggestions import did_you_mean
from kcore.wire.metadata_frames import decode_metadata_record

Parts = tuple[DiskRaftLog, Elections, Bootstrap]


def command(
    config: Annotated[Path, typer.Option("--config", "-c", metavar="FILE", help="Kafka's server.properties.")],
    release: ReleaseOption = DEFAULT_RELEASE,
    kafka_way: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="The name of a departure from Kafka's rules to switch off, or `all`."),
    ] = None,
    audit: AuditOption = None,
    metrics: MetricsOption = None,
    answer_loop: AnswerLoopOption = "compiled",
    set_aside: SetAsideOption = False,
    verbose: Annotated[bool, typer.Option("--verbose", help="Log more events.")] = False,
    shared_files: SharedFilesOption = False,
) -> None:
    """Run a KRaft controller: a voter of the quorum that controls real Kafka brokers while it leads.

    The directory must be formatted. SIGTERM and Ctrl-C stop the controller cleanly. Exit code: 0 stopped cleanly, 1 it
    failed, 2 usage, or the address or the directory is not available.
    """
    begin_server(verbose=verbose, shared_files=shared_files)
    settings = read_settings(config, release)
    warn_of_others(settings.node["static_configs"], BY_CONTROLLERS, OF_AUTHORIZER)
    departures = departures_of(kafka_way or [])
    page, audit_writer = metrics_page(metrics), audit_log(audit)
    controller, directory, parts = _open(settings, release, departures, set_aside=set_aside)
    raft = RaftConfig(
        directory.cluster_id,
        settings.node_id,
        directory.directory_id,
        {settings.listener: settings.advertised},
        SystemRandom().randrange,
        voters=settings.voters,
        bootstrap_servers=settings.bootstrap,
        listener=settings.listener,
        level=RELEASES[release].raft_level,
        **settings.raft,
    )
    make = partial(_server, controller, raft, settings, parts, answer_loop, audit_writer)
    began = f"controller {settings.node_id} listens at {settings.listen[0]}:"
    try:
        code = run_watched(run_until_stopped(make, began, page, KRAFT))
    finally:
        parts[0].close()
    raise typer.Exit(code)


def _server(
    config: KraftControllerConfig,
    raft: RaftConfig,
    settings: KraftSettings,
    parts: Parts,
    answer_loop: AnswerLoopKind,
    audit: AuditLog | None,
) -> KraftServer:
    host, port = settings.listen
    return KraftServer(
        *(config, raft, *parts),
        host=host or "0.0.0.0",
        port=port,
        answer_loop=answer_loop,
        security=settings.security,
        limits=settings.limits,
        audit=audit,
    )


def _open(
    settings: KraftSettings, release: str, departures: frozenset[str], *, set_aside: bool
) -> tuple[KraftControllerConfig, RaftDirectory, Parts]:
    """Opens the controller's directory: its config, the directory, and log, elections and bootstrap records.

    Ends the command if the directory is not formatted for this node, or damaged.
    """
    try:
        voters = [each.key.id for each in settings.voters]
        directory = RaftDirectory(settings.directory, node_id=settings.node_id, voters=voters)
        bootstrap = _bootstrap(settings.directory, release)
        if directory.cluster_id is None:
            fail(f"{settings.directory}: there is no cluster.id yet")
        log_settings = settings.metadata_log._replace(set_aside=set_aside)
        log, election = directory.open(log_settings, level=RELEASES[release].log_level)
    except (StorageError, DecodeError, NewerReleaseError) as error:
        fail(str(error))
    config = settings.controller_config(directory.cluster_id, release, departures)
    return config, directory, (log, DirectoryElections(directory, election), bootstrap)


def departures_of(names: list[str]) -> frozenset[str]:
    """The departures of these names, for --kafka-way; ends the command if a name is unknown."""
    if names == ["all"]:
        return KAFKA_WAY
    for name in names:
        if name not in KAFKA_WAY:
            known = ("all", *sorted(KAFKA_WAY))
            close = did_you_mean(name, known, f"there are {', '.join(known)}")
            fail(f"--kafka-way {name}: no such departure{close}")
    return frozenset(names)


def _bootstrap(directory: Path, release: str) -> Bootstrap:
    """The bootstrap records in the formatted directory, for the first active controller.

    Without the file, a record of the release's own metadata.version. NewerReleaseError for records of newer releases.
    """
    path = directory / BOOTSTRAP
    if not is_there(path):
        level = MetadataVersion.parse(release).feature_level
        return Bootstrap.of_features({FEATURE_NAME: level}, "the default of the release")
    snapshot = read_snapshot(path)
    check_records(snapshot.records, RELEASES[release], str(path))
    records = [Versioned(*decode_metadata_record(value)) for value in snapshot]
    return Bootstrap(records, f"the binary bootstrap metadata file {path}")
