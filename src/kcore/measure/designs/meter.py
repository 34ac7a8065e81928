"""Reads ZooKeeper's own counts of its load with the four-letter word mntr."""

import asyncio
from typing import Final, NamedTuple

from kcore.errors import TargetError

_KINDS: Final = ("created", "deleted", "changed", "children")
_TIMEOUT_S: Final = 10.0


class Meter(NamedTuple):
    """The counts of a server since its start; the difference of two is the load between them."""

    watchers: int
    znodes: int
    events: int  # Watches that fired.
    packets: int  # Received and sent: requests, responses, events, heartbeats.
    bytes: int  # The size of requests and responses.

    def since(self, before: "Meter") -> "Meter":
        """The increase of each figure since `before`."""
        return Meter(*(now - then for now, then in zip(self, before, strict=True)))


async def read_meter(address: str) -> Meter:
    """Reads the counts of the server at HOST:PORT; TargetError if it forbids mntr or is older than 3.6."""
    text = await _ask(address, b"mntr")
    facts = dict(line.split("\t", 1) for line in text.splitlines() if "\t" in line)
    names = [f"zk_sum_node_{kind}_watch_count" for kind in _KINDS]
    try:
        return Meter(
            int(facts["zk_watch_count"]),
            int(facts["zk_znode_count"]),
            sum(int(facts[name]) for name in names),
            int(facts["zk_packets_received"]) + int(facts["zk_packets_sent"]),
            int(facts["zk_bytes_received_count"]) + int(facts["zk_response_bytes"]),
        )
    except (KeyError, ValueError):
        first = text.strip().partition("\n")[0][:100]
        raise TargetError(
            f"{address} does not answer mntr as ZooKeeper 3.6 and later do (4lw.commands.whitelist=mntr): {first!r}"
        ) from None


async def _ask(address: str, word: bytes) -> str:
    host, _, port = address.rpartition(":")
    try:
        async with asyncio.timeout(_TIMEOUT_S):
            reader, writer = await asyncio.open_connection(host, int(port))
            try:
                writer.write(word)
                return (await reader.read(-1)).decode(errors="replace")
            finally:
                writer.close()
    except (OSError, ValueError, TimeoutError) as error:
        raise TargetError(f"{address}: {word.decode()}: {error or type(error).__name__}") from error
