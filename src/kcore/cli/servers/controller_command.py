"""`kcore controller zk`: runs a controller in ZooKeeper mode as a process, until a signal stops it."""

import asyncio
import logging
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kcore.cli.console import fail
from kcore.cli.options.audit_option import AuditOption, audit_log
from kcore.cli.options.files_option import SharedFilesOption
from kcore.cli.options.forwarding_option import Forwarding, ForwardingOption, routing_of
from kcore.cli.options.metrics_option import ZOOKEEPER, MetricsOption, metrics_page
from kcore.cli.options.properties_option import option_value, read_listener_settings
from kcore.cli.servers.server_process import address_of, begin_server, serving, stop_signal
from kcore.collector import rare_collections
from kcore.controller.zk.requests.versions import request_versions
from kcore.controller.zk.zk_controller_config import ControllerConfig
from kcore.errors import ElectionRefusedError, KcoreError, UnsupportedVersionError
from kcore.measure.report.exits import Exit
from kcore.net.durations import Duration
from kcore.net.request_context import PLAINTEXT
from kcore.node.zk.acls import AUTHORIZER_NAMES, acl_authorizer_settings
from kcore.protocol_errors import ApiException
from kcore.server.metrics.watched_loop import run_watched
from kcore.server.properties.definitions import DEFINITIONS
from kcore.server.properties.values import CONTROL_PLANE, TOKEN_KEY
from kcore.server.zk_controller.zk_controller_listener_settings import OPEN, ZkControllerSettings, endpoints_at
from kcore.server.zk_controller.zk_controller_metrics import ControllerMetrics
from kcore.server.zk_controller.zk_controller_server import ControllerServer

if TYPE_CHECKING:
    from kcore.server.metrics.page import MetricsPage

SecurityOption = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="A broker's server.properties: listeners' TLS and SASL, authorizer, tokens."),
]
NO_SETTINGS = {  # Fields of ControllerConfig that have an option of their own, or belong to the authorizer.
    *("broker_id", "endpoints", "rack", "inter_broker_protocol", "inter_broker_listener_name"),
    *("control_plane_listener_name", "authorizer", "delegation_token_secret_key"),
}


def command(
    zookeeper: Annotated[
        str, typer.Option(metavar="HOST:PORT,...[/CHROOT]", help="As the brokers' zookeeper.connect.")
    ] = "127.0.0.1:2181",
    listen: Annotated[
        str, typer.Option(metavar="HOST:PORT", help="The address that the controller listens at; port 0: any.")
    ] = "127.0.0.1:9090",
    advertise: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="The address that clients and brokers use, if not --listen.")
    ] = None,
    broker_id: Annotated[int, typer.Option(min=0, help="The controller's id, which no broker may have.")] = 1000,
    listener_name: Annotated[
        str | None, typer.Option(help="The brokers' inter.broker.listener.name; PLAINTEXT without --security.")
    ] = None,
    inter_broker_protocol: Annotated[
        str, typer.Option(help="The brokers' inter.broker.protocol.version, such as 2.1 or 3.9.")
    ] = "3.9",
    session_timeout: Annotated[
        int, typer.Option(metavar="MS", min=1, help="As zookeeper.session.timeout.ms.")
    ] = 18_000,
    take_over: Annotated[
        bool,
        typer.Option("--take-over", help="Take control from any broker that has it, but never from another kcore."),
    ] = False,
    config: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="Kafka's settings, such as auto.leader.rebalance.enable=false."),
    ] = None,
    security: SecurityOption = None,
    forwarding: ForwardingOption = Forwarding.RELEASED,
    audit: AuditOption = None,
    metrics: MetricsOption = None,
    verbose: Annotated[bool, typer.Option("--verbose", help="Also log a line for every event.")] = False,
    shared_files: SharedFilesOption = False,
) -> None:
    """Take part in the controller election in ZooKeeper, and control real Kafka brokers up to 3.9.

    The controller runs without a broker and stores no partitions. It relays requests that it does not handle to a live
    broker. SIGTERM and Ctrl-C stop it cleanly. It does not take control if a broker has its id, if a KRaft quorum is
    migrating the cluster, or if a znode is unreadable. Exit code: 0 stopped by a signal, 1 it failed or must not
    control any more, 2 usage, or the cluster, ZooKeeper or the address is not available.
    """
    begin_server(verbose=verbose, shared_files=shared_files)
    where, found = address_of("--listen", listen), _listener_settings_of(security, listener_name)
    made = _config_of(broker_id, inter_broker_protocol, found, advertise, config or [])
    page, options = metrics_page(metrics), {"session_timeout_ms": session_timeout, "take_over": take_over}
    others: dict[str, Any] = {**options, "audit": audit_log(audit), "listener_settings": found.listener_settings}
    others["routing"] = routing_of(forwarding)
    raise typer.Exit(run_watched(_run(made, zookeeper, where, page, **others)))


def _listener_settings_of(path: Path | None, listener_name: str | None) -> ZkControllerSettings:
    """The security settings of the listener; without a file, all clients may connect."""
    if path is None:
        return ZkControllerSettings(listener_name or PLAINTEXT, None, OPEN, {}, None)
    found = read_listener_settings(path)
    if listener_name not in (None, found.listener):
        fail(f"--listener-name {listener_name}: {path} names {found.listener}")
    return found


def _settings(given: list[str], listener_settings: ZkControllerSettings) -> dict[str, Any]:
    """Fields of ControllerConfig from settings with Kafka's names, first those of the file, then the given ones."""
    kinds = {each.name: each.type for each in fields(ControllerConfig) if each.name not in NO_SETTINGS}
    settings: dict[str, Any] = {
        "control_plane_listener_name": listener_settings.control_plane,
        "delegation_token_secret_key": listener_settings.token_key,
    }
    of_authorizer: dict[str, str] = {}
    for line in (*(f"{name}={text}" for name, text in listener_settings.others.items()), *given):
        name, _, text = line.partition("=")
        if name.strip() in AUTHORIZER_NAMES:
            of_authorizer[name.strip()] = text.strip()
            continue
        if name.strip() == TOKEN_KEY and text.strip().startswith("@"):
            settings["delegation_token_secret_key"] = _secret_in(Path(text.strip()[1:]))
            continue
        if name.strip() == CONTROL_PLANE and text.strip():
            settings["control_plane_listener_name"] = text.strip()
            continue
        field = name.strip().replace(".", "_")
        kind, text = kinds.get(field), text.strip()
        if kind in (bool, int) and name.strip() in DEFINITIONS:
            settings[field] = option_value(name.strip(), text)
        elif kind is int and text.isdecimal() and len(text) < 10:
            settings[field] = int(text)
        else:
            known = ", ".join(f"{each.replace('_', '.')} ({kinds[each].__name__})" for each in kinds)  # type: ignore[union-attr]
            others = ", ".join((CONTROL_PLANE, *AUTHORIZER_NAMES, f"{TOKEN_KEY}=@PATH"))
            fail(f"--config {line if name != TOKEN_KEY else name}: it takes NAME=VALUE of {known}, {others}")
    try:
        settings["authorizer"] = acl_authorizer_settings(of_authorizer)
    except ApiException as error:
        fail(f"--config {error}")
    return settings


def _secret_in(path: Path) -> str:
    try:
        found = path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        fail(f"--config {TOKEN_KEY}: {path} cannot be read: {type(error).__name__}")
    return found or fail(f"--config {TOKEN_KEY}: {path} is empty")


def _config_of(
    broker_id: int, protocol: str, listener_settings: ZkControllerSettings, advertise: str | None, given: list[str]
) -> ControllerConfig:
    settings = _settings(given, listener_settings)
    try:
        request_versions(protocol)
    except UnsupportedVersionError as error:
        fail(f"--inter-broker-protocol: {error}")
    config = ControllerConfig(
        broker_id, inter_broker_protocol=protocol, inter_broker_listener_name=listener_settings.listener, **settings
    )
    if advertise is None:
        return config
    where = address_of("--advertise", advertise)
    return replace(
        config, endpoints=endpoints_at(*where, config, listener_settings.listener_settings.security.protocol)
    )


async def _run(
    config: ControllerConfig, zookeeper: str, listen: tuple[str, int], page: "MetricsPage | None", **options: Any
) -> Exit:
    """Runs the controller until a signal or a failure ends it; returns the exit code."""
    stopped = stop_signal()
    host, port = listen
    try:
        with rare_collections():  # A full collection took longer than all the work after the loss of a broker.
            server = ControllerServer(config, zookeeper, host=host, port=port, **options)
            async with server, serving(page, ZOOKEEPER, server):
                logging.info(
                    "controller %s listens at %s:%s, over ZooKeeper %s", config.broker_id, host, server.port, zookeeper
                )
                ends = [asyncio.create_task(stopped.wait()), asyncio.create_task(server.wait_failed())]
                [_, failed] = ends
                await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
                logging.info("stopping")
    except (OSError, KcoreError) as error:
        fail(str(error))
    for line in _summary(server.metrics):
        logging.info(line)
    if failed.done() and not failed.cancelled() and (fault := failed.exception()) is not None:
        if isinstance(fault, ElectionRefusedError):
            logging.error("controller %s must not control this cluster: %s", config.broker_id, fault)
        else:
            logging.error("the controller failed", exc_info=fault)
        return Exit.FAILED
    return Exit.GOOD


def _summary(metrics: ControllerMetrics) -> list[str]:
    def line_of(what: str, name: str, duration: Duration) -> str:
        mean_ms = duration.total_s / duration.count * 1e3
        return (
            f"{what} {name}: {duration.count:,}, {mean_ms:,.1f} ms each, {duration.longest_s * 1e3:,.1f} ms the longest"
        )

    return [
        *(line_of("event", name, duration) for name, duration in sorted(metrics.events.items())),
        *(line_of("request", name, duration) for name, duration in sorted(metrics.requests.items())),
        f"{metrics.request_retries:,} requests sent again, {metrics.relayed:,} relayed, {metrics.alarms:,} alarms",
    ]
