"""Checks zookeeper.connect: HOST:PORT,HOST:PORT/chroot (ZooKeeper's ConnectStringParser)."""

import re
from typing import Final

from kcore.errors import ZookeeperError

DEFAULT_PORT: Final = 2181
_SERVER: Final = re.compile(r"(\[[0-9A-Fa-f:.]+(%\w+)?\]|[^\s\[\]:/,@?#%\\]+)(:(\d{1,5}))?")
_MOST_PORT: Final = 65_535


def check_connect_string(text: str) -> None:
    """Raises ZookeeperError unless `text` is a valid zookeeper.connect."""
    servers, slash, chroot = text.partition("/")
    for server in servers.split(","):
        found = _SERVER.fullmatch(server.strip())
        if found is None or not 1 <= int(found[4] or DEFAULT_PORT) <= _MOST_PORT:
            raise ZookeeperError(f"ZooKeeper at {text!r}: {server!r} is not HOST:PORT")
    if slash and chroot and not all(chroot.split("/")):
        raise ZookeeperError(f"ZooKeeper at {text!r}: {slash + chroot!r} is not the path of a znode")
