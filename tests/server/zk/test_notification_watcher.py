"""A copy of data in ZooKeeper whose first read fails is read as a whole again."""

from types import SimpleNamespace
from typing import Any

import pytest

from kcore.errors import ZookeeperError
from kcore.server.zk_node.notification_watcher import Notification, NotificationWatcher
from net.loops import story


class Copy:
    """It notes what is read; a read of all data fails `failures` times."""

    subject, made_paths, parents = "data", (), ("/changes",)

    def __init__(self, failures: int) -> None:
        self.failures, self.reads = failures, list[str]()

    async def read_all(self) -> None:
        self.reads.append("all")
        if self.failures:
            self.failures -= 1
            raise ZookeeperError("the session is lost")

    async def read_changed(self, notifications: list[Notification]) -> None:
        self.reads.append(f"{len(notifications)} changes")


@story
async def test_a_copy_whose_first_read_fails_is_read_as_a_whole_again() -> None:
    async def read_children(paths: list[str], on_watch: Any) -> list[list[str]]:
        return [["1"]]

    async def read_nodes(paths: list[str]) -> list[Any]:
        return [SimpleNamespace(data=b"") for _ in paths]

    copy = Copy(failures=1)
    zookeeper: Any = SimpleNamespace(read_children=read_children, read_nodes=read_nodes)
    watcher = NotificationWatcher(zookeeper, copy)
    with pytest.raises(ZookeeperError):
        await watcher.open()
    await watcher._update()
    await watcher._update()
    assert copy.reads == ["all", "all", "0 changes"]
