"""Sends commands through /brokers/state/<id> (v2): after its watch fires, the broker reads and empties the znode."""

from collections.abc import Callable

from kcore.measure.designs.sessions import CountedClient, Work
from kcore.metadata.zookeeper.znode_operations import Create, SetData

STATE = "/brokers/state"


def queue_path(broker_id: int) -> str:
    """The path of the znode that holds commands for a broker."""
    return f"{STATE}/{broker_id}"


def queue_nodes(broker_ids: list[int]) -> list[Create]:
    """Creates for the empty queues of these brokers."""
    return [Create(STATE), *(Create(queue_path(broker_id)) for broker_id in broker_ids)]


async def command(client: CountedClient, broker_id: int, what: bytes) -> None:
    """The sender's half: one write."""
    await client.write([SetData(queue_path(broker_id), what)])


class QueueReader:
    """A broker's half. `taken` is called with each command once it is off the queue."""

    def __init__(self, client: CountedClient, broker_id: int, work: Work, taken: Callable[[bytes], None]) -> None:
        self._client, self._path, self._work, self._taken = client, queue_path(broker_id), work, taken
        self.is_open = True

    async def arm(self) -> None:
        """Watches for the next command; takes one that is there already at once."""
        [node] = await self._client.read_nodes([self._path], self._on_watch)
        assert node is not None
        if node.data:
            # The write that takes it away fires that watch, which arms again.
            await self._take(node.data, node.version)

    def _on_watch(self, path: str, kind: str) -> None:
        if self.is_open:
            self._work.start(self._read())

    async def _read(self) -> None:
        """One read, one write; then watch again."""
        [node] = await self._client.read_nodes([self._path])
        assert node is not None
        if node.data:
            await self._take(node.data, node.version)
        await self.arm()

    async def _take(self, what: bytes, version: int) -> None:
        await self._client.write([SetData(self._path, b"", version)])
        self._taken(what)
