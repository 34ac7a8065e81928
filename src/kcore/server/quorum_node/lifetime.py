"""The begin, the end and the first failure of a node."""

import asyncio
import logging

from kcore.errors import KcoreError

logger = logging.getLogger(__name__)


class Lifetime:
    """The state of a node's life: whether it has begun, has stopped or has failed."""

    def __init__(self, node_id: int) -> None:
        self.has_begun = self.is_starting = False
        self.stopped = asyncio.Event()  # Set once the raft node has stopped.
        self._node_id = node_id
        self._failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    @property
    def has_failed(self) -> bool:
        return self._failed.done()

    def check(self) -> None:
        """Raises the error that has ended the node, if there is one."""
        if self._failed.done():
            self._failed.result()

    async def wait_failed(self) -> None:
        """Waits until the node fails, and raises the error."""
        await asyncio.shield(self._failed)

    def fail(self, error: Exception) -> None:
        """Ends the node with an error. kcore's own errors explain themselves; others are logged with a traceback.

        kcore's own error at the start is not logged, as the caller gets it.
        """
        is_ours = isinstance(error, KcoreError)
        if not (is_ours and self.is_starting):
            logger.critical("node %s cannot go on: %s", self._node_id, error, exc_info=None if is_ours else error)
            logger.debug("node %s: where it was", self._node_id, exc_info=error)
        if not self._failed.done():
            self._failed.set_exception(error)

    def close(self) -> None:
        """Ends all waits for a failure."""
        self._failed.cancel()
