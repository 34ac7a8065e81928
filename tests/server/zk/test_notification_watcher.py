"""A copy of data in ZooKeeper whose first read fails is read as a whole again; many changes are read in parts."""

from types import SimpleNamespace
from typing import Any

import pytest

from kcore.errors import ZookeeperError
from kcore.server.zk_node.notification_watcher import AT_ONCE, Notification, NotificationWatcher
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


@story
async def test_many_changes_are_read_in_parts() -> None:
    """A request that changes a hundred thousand settings makes as many notifications."""
    names: list[str] = []

    async def read_children(paths: list[str], on_watch: Any) -> list[list[str]]:
        return [names]

    async def read_nodes(paths: list[str]) -> list[Any]:
        return [SimpleNamespace(data=b"") for _ in paths]

    copy = Copy(failures=0)
    zookeeper: Any = SimpleNamespace(read_children=read_children, read_nodes=read_nodes)
    watcher = NotificationWatcher(zookeeper, copy)
    await watcher.open()
    names += [str(number) for number in range(2 * AT_ONCE + 1)]
    await watcher._update()
    assert copy.reads == ["all", f"{AT_ONCE} changes", f"{AT_ONCE} changes", "1 changes"]
