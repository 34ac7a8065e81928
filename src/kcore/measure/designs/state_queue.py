"""v2's commands through /brokers/state/<id>: when its watch fires, the broker reads and empties the znode."""

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
    """Sends a command: one write by the sender."""
    await client.write([SetData(queue_path(broker_id), what)])


class QueueReader:
    """The broker's side of a queue. `taken` is called with each command after its removal from the queue."""

    def __init__(self, client: CountedClient, broker_id: int, work: Work, taken: Callable[[bytes], None]) -> None:
        self._client, self._path, self._work, self._taken = client, queue_path(broker_id), work, taken
        self.is_open = True

    async def arm(self) -> None:
        """Watches for the next command. If a command is there already, takes it immediately."""
        [node] = await self._client.read_nodes([self._path], self._on_watch)
        assert node is not None
        if node.data:
            # The write that removes the command fires the new watch, whose callback arms again.
            await self._take(node.data, node.version)

    def _on_watch(self, path: str, kind: str) -> None:
        if self.is_open:
            self._work.start(self._read())

    async def _read(self) -> None:
        """Reads and empties the queue, then watches again."""
        [node] = await self._client.read_nodes([self._path])
        assert node is not None
        if node.data:
            await self._take(node.data, node.version)
        await self.arm()

    async def _take(self, what: bytes, version: int) -> None:
        await self._client.write([SetData(self._path, b"", version)])
        self._taken(what)
