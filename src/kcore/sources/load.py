"""Recognises the kind of a cluster's source, and loads the cluster."""

import asyncio
import re
from pathlib import Path
from typing import Final

from kcore.errors import ClusterFileError, KcoreError
from kcore.metadata.image.image import ClusterImage
from kcore.net.address import address_flaw
from kcore.net.security.listener_security import ListenerSecurity
from kcore.server.properties.security import client_security_of
from kcore.sources.cluster_files import image_of_path
from kcore.sources.from_brokers import Address, image_of_brokers
from kcore.storage.files import checked_path, is_there, read_bytes
from kcore.storage.properties import parse_properties

ZOOKEEPER: Final = "zk://"
_ADDRESS: Final = re.compile(r"\s*(?:\[([^\]]*)\]|([^/:,\s]+)):(\d{1,5})\s*")


def load_cluster(source: str | Path, *, command_config: str | Path | None = None) -> ClusterImage:
    """The cluster of a source: tables of partitions, topics, brokers and directories, settings, and what else it has.

    `source` is a path, zk://HOST:PORT,.../CHROOT, or HOST:PORT,... of brokers. A path leads to a KRaft snapshot or
    segment, a folder with a metadata log, a ZooKeeper dump, a shape file, or a raw control request. `command_config` is
    a file with a client's TLS and SASL settings, for brokers. Must not be called in an event loop. ClusterFileError
    names the source.
    """
    try:
        return _load(source, command_config)
    except (KcoreError, OSError) as error:
        text = error.strerror if type(error) is FileNotFoundError else str(error)
        raise ClusterFileError(text if str(source) in str(text) else f"{source}: {text}") from None


def is_running(source: str) -> bool:
    """True if the text names a running ZooKeeper or brokers, and not a path; ClusterFileError for a wrong port."""
    return source.startswith(ZOOKEEPER) or (not is_there(checked_path(source)) and bool(_addresses(source)))


def _load(source: str | Path, command_config: str | Path | None) -> ClusterImage:
    text = str(source)
    if not text:
        raise ClusterFileError("a source is a path, HOST:PORT,... or zk://HOST:PORT,.../CHROOT, and this one is empty")
    if text.startswith(ZOOKEEPER):
        from kcore.sources.from_zookeeper import image_of_zookeeper  # Imports kazoo, which other sources do not need.

        return asyncio.run(image_of_zookeeper(text.removeprefix(ZOOKEEPER)))
    path = checked_path(source)
    addresses = [] if is_there(path) else _addresses(text)
    if addresses:
        security = _security(command_config)
        return asyncio.run(image_of_brokers(addresses, security.outgoing(), security.protocol))
    return image_of_path(path)


def _addresses(text: str) -> list[Address]:
    """The addresses in HOST:PORT,...; none if the text is something else."""
    found = [_ADDRESS.fullmatch(each) for each in text.split(",")]
    addresses = [(each[1] or each[2], int(each[3])) for each in found if each]
    if len(addresses) < len(found):
        return []
    for host, port in addresses:
        if flaw := address_flaw(host, port):
            raise ClusterFileError(f"{text}: {flaw}")
    return addresses


def _security(command_config: str | Path | None) -> ListenerSecurity:
    if command_config is None:
        return ListenerSecurity()
    try:
        return client_security_of(parse_properties(read_bytes(command_config)))
    except (KcoreError, OSError) as error:
        raise ClusterFileError(f"--command-config {command_config}: {error}") from None
