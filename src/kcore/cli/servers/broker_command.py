"""`kcore broker zk`: runs a broker in ZooKeeper mode as a process, until a signal stops it."""

import asyncio
from collections.abc import Callable
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from kcore.broker.replicas.broker_config import BrokerConfig
from kcore.cli.console import fail
from kcore.cli.options.audit_option import AuditOption, audit_log
from kcore.cli.options.files_option import SharedFilesOption
from kcore.cli.options.forwarding_option import Forwarding, ForwardingOption, routing_of
from kcore.cli.options.properties_option import option_value, read_broker_listener_settings
from kcore.cli.options.set_aside_option import SetAsideOption
from kcore.cli.servers.server_process import address_of, begin_server, run_until_stopped
from kcore.controller.zk.requests.versions import request_versions
from kcore.errors import UnsupportedVersionError
from kcore.net.request_context import PLAINTEXT
from kcore.node.zk.acls import AUTHORIZER_NAMES, AclAuthorizerSettings, acl_authorizer_settings
from kcore.protocol_errors import ApiException
from kcore.raft.membership.replicas import Address
from kcore.server.broker.topic_creation import ORDINARY_NAMES, OrdinaryTopics, ordinary_topics_of
from kcore.server.properties.definitions import DEFINITIONS
from kcore.server.properties.listeners import BrokerListener, BrokerListeners
from kcore.server.properties.values import SettingsError
from kcore.server.zk_broker.migration_settings import ENABLE, MigrationSettings, feature_level, migration_settings_of
from kcore.server.zk_broker.migration_settings import NAMES as MIGRATION_NAMES
from kcore.server.zk_broker.zk_broker_listener_settings import ZkBrokerListenerSettings
from kcore.server.zk_broker.zk_broker_server import ZkBrokerServer
from kcore.storage.log.live_log import Settings

# Fields of BrokerConfig that have an option of their own.
NO_SETTINGS = {"broker_id", "inter_broker_protocol", "protocol"}


ListenOption = Annotated[
    str | None,
    typer.Option(metavar="HOST:PORT", help="The address that this broker listens at; default 127.0.0.1:9092."),
]
SecurityOption = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE", help="server.properties, in place of options: listeners, TLS, SASL, authorizer, tokens."
    ),
]


def command(
    broker_id: Annotated[int, typer.Option(min=0, help="The broker's id, which no other broker may have.")],
    log_dir: Annotated[list[Path], typer.Option(metavar="PATH", help="As log.dirs; repeatable.")],
    zookeeper: Annotated[
        str, typer.Option(metavar="HOST:PORT,...[/CHROOT]", help="As the brokers' zookeeper.connect.")
    ] = "127.0.0.1:2181",
    listen: ListenOption = None,
    advertise: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="The address that clients and brokers use, if not --listen.")
    ] = None,
    listener_name: Annotated[
        str | None, typer.Option(help="The name of a plaintext listener, by default PLAINTEXT.")
    ] = None,
    control_plane: Annotated[
        str | None, typer.Option(metavar="NAME://HOST:PORT", help="A listener for controllers only.")
    ] = None,
    security: SecurityOption = None,
    rack: Annotated[str | None, typer.Option(help="As broker.rack.")] = None,
    inter_broker_protocol: Annotated[str, typer.Option(help="The brokers' inter.broker.protocol.version.")] = "3.9",
    session_timeout: Annotated[
        int, typer.Option(metavar="MS", min=1, help="As zookeeper.session.timeout.ms.")
    ] = 18_000,
    config: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="Kafka's settings, such as replica.lag.time.max.ms=10000."),
    ] = None,
    forwarding: ForwardingOption = Forwarding.RELEASED,
    audit: AuditOption = None,
    set_aside: SetAsideOption = False,
    verbose: Annotated[bool, typer.Option("--verbose", help="Log more events.")] = False,
    shared_files: SharedFilesOption = False,
) -> None:
    """Run a broker beside real Kafka brokers up to 3.9, over ZooKeeper.

    The broker serves stock producers and consumers, but coordinates no groups and no transactions. It stops on SIGTERM
    or Ctrl-C once its partitions have new leaders. Exit code: 0 stopped, 1 it or its disks failed, 2 it cannot start.
    """
    begin_server(verbose=verbose, shared_files=shared_files)
    others, authorizer = _authorizer_of(config or [])
    others, ordinary = _ordinary_topics_of(others)
    others, migration = _migration_of(others, inter_broker_protocol, len(log_dir))
    listener_settings = _listener_settings_of(security, listen, advertise, listener_name, control_plane, authorizer)
    if migration is not None and listener_settings.listeners.of_brokers.security.protocol != PLAINTEXT:
        fail(f"--config {ENABLE}=true: brokers that migrate are plaintext among themselves, as their controllers are")
    made = _config_of(broker_id, inter_broker_protocol, others)
    server = partial(ZkBrokerServer, made, zookeeper, log_dir, rack=rack, migration=migration, ordinary_topics=ordinary)
    server = partial(server, listener_settings=listener_settings, session_timeout_ms=session_timeout)
    server = partial(server, settings=Settings(set_aside=set_aside), routing=routing_of(forwarding))
    make = partial(server, audit=audit_log(audit))
    raise typer.Exit(asyncio.run(run_until_stopped(make, f"broker {broker_id} listens at port ")))


def _split(given: list[str], is_own: Callable[[str], bool]) -> tuple[dict[str, str], list[str]]:
    """Splits settings NAME=VALUE: a dict of those whose name satisfies `is_own`, and all other lines unchanged."""
    names = [(line.partition("=")[0].strip(), line) for line in given]
    own = {name: line.partition("=")[2].strip() for name, line in names if is_own(name)}
    return own, [line for name, line in names if name not in own]


def _authorizer_of(given: list[str]) -> tuple[list[str], AclAuthorizerSettings | None]:
    """The settings that are not the authorizer's, and the authorizer's settings parsed."""
    own, others = _split(given, AUTHORIZER_NAMES.__contains__)
    try:
        return others, acl_authorizer_settings(own)
    except ApiException as error:
        fail(f"--config {error}")


def _ordinary_topics_of(given: list[str]) -> tuple[list[str], OrdinaryTopics]:
    """Splits off the settings of topics that Metadata requests create, and parses them."""
    own, others = _split(given, ORDINARY_NAMES.__contains__)
    try:
        return others, ordinary_topics_of({"num.partitions": "1", "default.replication.factor": "1"} | own)
    except SettingsError as error:
        fail(f"--config {error}")


def _listener_settings_of(
    path: Path | None,
    listen: str | None,
    advertise: str | None,
    listener_name: str | None,
    control_plane: str | None,
    authorizer: AclAuthorizerSettings | None,
) -> ZkBrokerListenerSettings:
    """The listener settings from the file; without a file, plaintext listeners from the options."""
    if path is not None:
        if any(each is not None for each in (listen, advertise, listener_name, control_plane, authorizer)):
            fail(f"--security {path}: the listeners and the authorizer are those of the file")
        return read_broker_listener_settings(path)
    where, name = Address(*address_of("--listen", listen or "127.0.0.1:9092")), listener_name or PLAINTEXT
    advertised = Address(*address_of("--advertise", advertise)) if advertise else None
    plane = _plane_of(control_plane)
    listeners = BrokerListeners((BrokerListener(name, where, advertised), *plane), name)
    return ZkBrokerListenerSettings(listeners, plane[0].name if plane else None, authorizer)


def _migration_of(given: list[str], protocol: str, directories: int) -> tuple[list[str], MigrationSettings | None]:
    """The settings that are not about the migration to KRaft, and the parsed migration settings."""
    own, others = _split(given, lambda name: name.startswith(MIGRATION_NAMES))
    if ENABLE not in own:
        return given, None
    try:
        found = migration_settings_of(own)
        if found is not None:
            feature_level(protocol, directories)
    except SettingsError as error:
        fail(f"--config {error}")
    return others, found


def _plane_of(given: str | None) -> list[BrokerListener]:
    if given is None:
        return []
    name, found, place = given.partition("://")
    if not (name and found):
        fail(f"--control-plane {given}: it takes NAME://HOST:PORT")
    return [BrokerListener(name, Address(*address_of("--control-plane", place)))]


def _config_of(broker_id: int, protocol: str, given: list[str]) -> BrokerConfig:
    """Makes the BrokerConfig from settings with Kafka's names; ends the command for an invalid setting."""
    known = [each.name for each in fields(BrokerConfig) if each.name not in NO_SETTINGS]
    settings: dict[str, Any] = {}
    for line in given:
        name, _, text = line.partition("=")
        field = name.strip().replace(".", "_")
        if field not in known:
            fail(f"--config {line}: it takes NAME=NUMBER of {', '.join(each.replace('_', '.') for each in known)}")
        if name.strip() in DEFINITIONS:
            settings[field] = option_value(name.strip(), text)
        elif text.strip().isdecimal() and len(text) < 20:
            settings[field] = int(text)
        else:
            fail(f"--config {line}: give a number from 0")
    try:
        request_versions(protocol)
        return BrokerConfig(broker_id, protocol, **settings)
    except UnsupportedVersionError as error:
        fail(f"--inter-broker-protocol: {error}")
