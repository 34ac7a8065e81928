"""What a node keeps of ZooKeeper beside its machine's state, and reads anew where notifications say that it changed.

Source: ZkNodeChangeNotificationListener of 3.9.1. While ZooKeeper cannot be reached what was read last counts.
"""

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Final, NamedTuple

from kcore.errors import ZookeeperError
from kcore.zookeeper.client import ZookeeperClient

logger = logging.getLogger(__name__)
AGAIN_S: Final = 0.3


class Notification(NamedTuple):
    """A notification: the znode that it is below, its own path, and what it says."""

    parent: str
    path: str
    data: bytes


class NotificationFollower(ABC):
    """Reads all when it is opened and in each new session, and then what notifications name."""

    what = "what notifications name"  # In the log.
    made_paths: Sequence[str] = ()  # Znodes above all that is read, which are made where they are missing.
    parents: Sequence[str] = ()  # Of the notifications.

    def __init__(self, zookeeper: ZookeeperClient) -> None:
        self._zookeeper = zookeeper
        self._seen: set[str] = set()  # Paths of notifications.
        self._is_read = False
        self._changed = asyncio.Event()

    async def open(self) -> None:
        """Makes the znodes above, and reads all: nobody is to be served before."""
        for path in self.made_paths:
            await self._zookeeper.make_path(path)
        await self._look()

    def session_lost(self) -> None:
        """All is to be read again: watches are gone, and notifications may be."""
        self._is_read = False
        self._changed.set()

    async def follow(self) -> None:
        """For ever."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            try:
                await self._look()
            except ZookeeperError as error:
                logger.info("%s: %s", self.what, error)
                self._changed.set()
                await asyncio.sleep(AGAIN_S)

    async def _look(self) -> None:
        """Watches for notifications, then reads all, or what new notifications name."""
        found = await self._zookeeper.read_children([*self.parents], self._fired)
        places = {
            f"{parent}/{name}": parent
            for parent, names in zip(self.parents, found, strict=True)
            for name in names or ()
        }
        if self._is_read:
            new = sorted(places.keys() - self._seen)
            nodes = await self._zookeeper.read_nodes(new)
            notes = [
                Notification(places[path], path, node.data)
                for path, node in zip(new, nodes, strict=True)
                if node is not None
            ]
            await self._read_noted(notes)
        else:
            await self._read_anew()
        self._seen = {*places}

    async def _read_anew(self) -> None:
        """A session that is lost before the last answer has come leaves `_is_read` False: all is read once more."""
        self._is_read = True
        try:
            await self._read_all()
        except BaseException:
            self._is_read = False
            raise

    def _fired(self, path: str, kind: str) -> None:
        self._changed.set()

    @abstractmethod
    async def _read_all(self) -> None:
        """Whatever is there counts from now on, and nothing else."""

    @abstractmethod
    async def _read_noted(self, notes: list[Notification]) -> None:
        """What these name is read anew."""
