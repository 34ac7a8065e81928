"""Finds the process on this machine that listens at an address."""

import socket
from collections.abc import Iterable

from kcore.errors import TargetError
from kcore.extras import needs

with needs("report"):
    import psutil


def listening_pids(addresses: Iterable[str]) -> list[int]:
    """The process ids that listen at these "host:port", without repeats; TargetError if one has no visible process."""
    ours = {each.address.partition("%")[0] for found in psutil.net_if_addrs().values() for each in found}
    listens = {
        each.laddr.port: each.pid
        for each in psutil.net_connections(kind="tcp")
        if each.status == psutil.CONN_LISTEN and each.pid is not None
    }
    pids = []
    for address in addresses:
        host, _, port = address.rpartition(":")
        if not _resolved(host.strip("[]")) & ours:
            raise TargetError(f"{address} is on another machine")
        if (pid := listens.get(int(port))) is None:
            raise TargetError(f"no process of this user listens at {address}")
        pids.append(pid)
    return list(dict.fromkeys(pids))


def _resolved(host: str) -> set[str]:
    try:
        return {str(found[4][0]).partition("%")[0] for found in socket.getaddrinfo(host, None)}
    except OSError:
        return set()
