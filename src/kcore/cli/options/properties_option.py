"""Reads server.properties for the commands of controllers and brokers."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from kcore.cli.console import fail
from kcore.cli.options.release_option import check_release
from kcore.errors import FileKindError, StorageError
from kcore.net.security.listener_security import ListenerSecurity
from kcore.server.kraft_broker.kraft_broker_settings import KraftBrokerSettings, broker_settings_of
from kcore.server.kraft_controller.kraft_controller_settings import KraftSettings, settings_of
from kcore.server.properties.security import client_security_of
from kcore.server.properties.values import SettingsError, value_of
from kcore.server.quorum_node.quorum_listener_settings import QuorumListenerSettings, quorum_listener_settings
from kcore.server.zk_broker.zk_broker_listener_settings import ZkBrokerListenerSettings, zk_broker_listener_settings
from kcore.server.zk_controller.zk_controller_listener_settings import ZkControllerSettings, zk_controller_settings
from kcore.storage.files import read_bytes
from kcore.storage.properties import parse_properties

Settings = TypeVar("Settings")


def read_settings(path: Path, release: str) -> KraftSettings:
    """Reads a KRaft controller's settings. Ends the command for a missing file, an invalid setting or release."""
    check_release(release)
    return _read(path, lambda given: settings_of(given, release))


def read_broker_settings(path: Path, release: str) -> KraftBrokerSettings:
    """Reads a KRaft broker's settings; errors as in `read_settings`."""
    check_release(release)
    return _read(path, lambda given: broker_settings_of(given, release))


def read_listener_settings(path: Path) -> ZkControllerSettings:
    """Reads the listener settings of a controller in ZooKeeper mode; errors as in `read_settings`."""
    return _read(path, zk_controller_settings)


def read_quorum_listener_settings(path: Path, listener: str) -> QuorumListenerSettings:
    """Reads the listener settings of a node of `kcore quorum serve`; errors as in `read_settings`."""
    return _read(path, lambda given: quorum_listener_settings(given, listener))


def read_broker_listener_settings(path: Path) -> ZkBrokerListenerSettings:
    """Reads the listener settings of a broker in ZooKeeper mode; errors as in `read_settings`."""
    return _read(path, zk_broker_listener_settings)


def read_client_security(path: Path) -> ListenerSecurity:
    """Reads the TLS and SASL settings of a client, such as Kafka's tools; errors as in `read_settings`."""
    return _read(path, client_security_of)


def option_value(name: str, text: str) -> Any:
    """Parses the value of Kafka's setting in `--config NAME=VALUE`; ends the command for an invalid value."""
    try:
        return value_of(name, text.strip())
    except SettingsError as error:
        fail(f"--config {error}")


def _read(path: Path, settings_from: Callable[[Mapping[str, str]], Settings]) -> Settings:
    try:
        return settings_from(parse_properties(read_bytes(path)))
    except (OSError, StorageError, FileKindError, SettingsError) as error:
        fail(str(error) if str(error).startswith(f"{path}: ") else f"{path}: {error}")
