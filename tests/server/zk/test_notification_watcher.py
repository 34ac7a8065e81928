"""A copy of data in ZooKeeper whose first read fails is read as a whole again."""

from types import SimpleNamespace
from typing import Any

import pytest

from kcore.errors import ZookeeperError
from kcore.server.zk_node.notification_watcher import Notification, NotificationWatcher
from net.loops import story


class Copy(NotificationWatcher):
    """It notes what is read; a read of all data fails `failures` times."""

    parents = ("/changes",)

    def __init__(self, failures: int) -> None:
        async def read_children(paths: list[str], on_watch: Any) -> list[list[str]]:
            return [["1"]]

        async def read_nodes(paths: list[str]) -> list[Any]:
            return [SimpleNamespace(data=b"") for _ in paths]

        zookeeper: Any = SimpleNamespace(read_children=read_children, read_nodes=read_nodes)
        super().__init__(zookeeper)
        self.failures, self.reads = failures, list[str]()

    async def _read_all(self) -> None:
        self.reads.append("all")
        if self.failures:
            self.failures -= 1
            raise ZookeeperError("the session is lost")

    async def _read_changed(self, notifications: list[Notification]) -> None:
        self.reads.append(f"{len(notifications)} changes")


@story
async def test_what_was_not_read_as_a_whole_is_read_so_again() -> None:
    copy = Copy(failures=1)
    with pytest.raises(ZookeeperError):
        await copy.open()
    await copy._update()
    await copy._update()
    assert copy.reads == ["all", "all", "0 changes"]
