"""`kcore broker kraft run`: runs a broker of a KRaft cluster as a process, until a signal stops it."""

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from kcore.cli.options.audit_option import AuditOption, audit_log
from kcore.cli.options.files_option import SharedFilesOption
from kcore.cli.options.metrics_option import KRAFT_BROKER, MetricsOption, metrics_page
from kcore.cli.options.properties_option import read_broker_settings
from kcore.cli.options.release_option import ReleaseOption
from kcore.cli.options.set_aside_option import SetAsideOption
from kcore.cli.servers.server_process import begin_server, run_until_stopped
from kcore.releases.known import DEFAULT_RELEASE
from kcore.server.kraft_broker.kraft_broker_server import KraftBrokerServer
from kcore.server.metrics.watched_loop import run_watched
from kcore.server.properties.honoured import BY_BROKERS, warn_of_others
from kcore.server.properties.nodes import OF_AUTHORIZER


def command(
    config: Annotated[Path, typer.Option("--config", "-c", metavar="FILE", help="Kafka's server.properties.")],
    release: ReleaseOption = DEFAULT_RELEASE,
    metrics: MetricsOption = None,
    audit: AuditOption = None,
    set_aside: SetAsideOption = False,
    verbose: Annotated[bool, typer.Option("--verbose", help="Log more events.")] = False,
    shared_files: SharedFilesOption = False,
) -> None:
    """Run a broker beside real Kafka brokers, in a KRaft cluster of Kafka's or kcore's controllers.

    The broker leads and follows partitions, and serves stock producers and consumers that assign partitions to
    themselves. It forwards administrators' requests to the active controller. It coordinates no groups and no
    transactions, compacts no logs, and enforces no quotas. Its log directories are cordoned unless cordoned.log.dirs is
    set, so that partitions of internal topics go to other brokers. The directories must be formatted.

    SIGTERM and Ctrl-C stop it cleanly, after its partitions have new leaders. Exit code: 0 stopped cleanly, 1 the
    broker or its disks failed, or no controller has registered it, 2 usage, or the address or the directories are not
    available.
    """
    begin_server(verbose=verbose, shared_files=shared_files)
    settings = read_broker_settings(config, release)
    settings = settings._replace(logs=settings.logs._replace(set_aside=set_aside))
    warn_of_others(settings.static, BY_BROKERS, OF_AUTHORIZER)
    page, audit_writer = metrics_page(metrics), audit_log(audit)
    make = partial(KraftBrokerServer, settings, audit_writer)
    began = f"broker {settings.node_id} listens at port "
    raise typer.Exit(run_watched(run_until_stopped(make, began, page, KRAFT_BROKER)))
