"""Keeps copies of data in ZooKeeper up to date: data is read again when a notification names it.

While ZooKeeper is unreachable, the last copy is used. Source: ZkNodeChangeNotificationListener of 3.9.1.
"""

import asyncio
import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple, Protocol

from kcore.errors import TableError, ZookeeperError
from kcore.metadata.zookeeper import znodes
from kcore.net.limits.work_in_parts import next_turn
from kcore.zookeeper.client import ZookeeperClient

logger = logging.getLogger(__name__)
AGAIN_S: Final = 0.3
AT_ONCE: Final = 250  # Notifications that are read together, in one turn of the event loop.


class Notification(NamedTuple):
    """A notification that another node created."""

    parent: str  # The path of the notification's parent.
    path: str
    data: bytes


def changed_entities(notifications: Iterable[Notification]) -> list[str]:
    """The paths under /config that notifications of changed settings name, each once; unreadable ones are skipped."""
    paths: dict[str, None] = {}
    for each in notifications:
        try:
            paths[znodes.decode_config_change(each.path, each.data)] = None
        except TableError as error:
            logger.warning("skipped an unreadable notification: %s", error)
    return [*paths]


async def read_configs(zookeeper: ZookeeperClient, paths: Sequence[str], otherwise: str) -> list[dict[str, str] | None]:
    """The settings in these znodes, which may be missing; None for an unreadable znode, which is logged.

    `otherwise`: a clause with the consequence of an unreadable znode.
    """
    found: list[dict[str, str] | None] = []
    for path, node in zip(paths, await zookeeper.read_nodes(paths), strict=True):
        try:
            found.append({} if node is None else znodes.decode_config(path, node.data))
        except TableError as error:
            logger.warning("%s; until the znode is repaired, %s", error, otherwise)
            found.append(None)
    return found


class NotifiedData(Protocol):
    """A copy of data in ZooKeeper that a NotificationWatcher keeps up to date."""

    @property
    def subject(self) -> str:
        """The name of the data in log lines."""

    @property
    def made_paths(self) -> Sequence[str]:
        """Parents of the data and of the notifications; they are created if missing."""

    @property
    def parents(self) -> Sequence[str]:
        """Paths of the znodes whose children are the notifications."""

    async def read_all(self) -> None:
        """Replaces the copy with the data in ZooKeeper."""

    async def read_changed(self, notifications: list[Notification]) -> None:
        """Reads the data again that these notifications name."""


class NotificationWatcher:
    """Reads all data in `open` and in each new session; then reads the data that notifications name."""

    def __init__(self, zookeeper: ZookeeperClient, data: NotifiedData) -> None:
        self._zookeeper, self.data = zookeeper, data
        self._seen: set[str] = set()  # Paths of known notifications.
        self._is_read = False
        self._changed = asyncio.Event()

    async def open(self) -> None:
        """Creates missing parents and reads all data; called before the server serves requests."""
        for path in self.data.made_paths:
            await self._zookeeper.make_path(path)
        await self._update()

    def session_lost(self) -> None:
        """Makes `follow` read all data again, because watches, and perhaps notifications, are lost."""
        self._is_read = False
        self._changed.set()

    async def follow(self) -> None:
        """Reads changed data until the task is cancelled."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            try:
                await self._update()
            except ZookeeperError as error:
                logger.info("%s are not read, and will be read again: %s", self.data.subject, error)
                self._changed.set()
                await asyncio.sleep(AGAIN_S)

    async def _update(self) -> None:
        """Watches for notifications, then reads all data, or the data that new notifications name."""
        found = await self._zookeeper.read_children([*self.data.parents], self._fired)
        parent_of = {
            f"{parent}/{name}": parent
            for parent, names in zip(self.data.parents, found, strict=True)
            for name in names or ()
        }
        if self._is_read:
            await next_turn()
            new = sorted(parent_of.keys() - self._seen)
            for begin in range(0, max(len(new), 1), AT_ONCE):
                await self._read_changed(parent_of, new[begin : begin + AT_ONCE])
        else:
            await self._read_first()
        self._seen = {*parent_of}

    async def _read_changed(self, parent_of: Mapping[str, str], new: Sequence[str]) -> None:
        """Reads the data that these notifications name."""
        nodes = await self._zookeeper.read_nodes(new)
        notifications = [
            Notification(parent_of[path], path, node.data)
            for path, node in zip(new, nodes, strict=True)
            if node is not None
        ]
        await self.data.read_changed(notifications)

    async def _read_first(self) -> None:
        """Reads all data. If the session is lost during the reads, `_is_read` is False again, and all is read again."""
        self._is_read = True
        try:
            await self.data.read_all()
        except BaseException:
            self._is_read = False
            raise

    def _fired(self, path: str, kind: str) -> None:
        self._changed.set()
