"""The settings that a node of ZooKeeper mode follows by notifications: users, quotas, ACLs and others."""

from collections.abc import Iterator
from typing import Final

from kcore.metadata.zookeeper import znode_tokens, znodes
from kcore.node.zk.acls import AclAuthorizer, AclAuthorizerSettings, ZkAcls
from kcore.server.zk_node.acl_reader import AclReader
from kcore.server.zk_node.client_quotas import ZkClientQuotas
from kcore.server.zk_node.credentials import ZkCredentials
from kcore.server.zk_node.notification_watcher import NotificationWatcher, NotifiedData
from kcore.zookeeper.client import ZookeeperClient


class WatchedSettings:
    """The settings of one node, and their watchers; users and ACLs are watched only if the node needs them."""

    def __init__(
        self,
        zookeeper: ZookeeperClient,
        *others: NotifiedData,
        settings: AclAuthorizerSettings | None,
        secret_key: str | None,
        has_users: bool,
    ) -> None:
        """`others`: data that only this kind of node follows. `settings`: of the authorizer; None: there is none.

        `secret_key`: delegation.token.secret.key; None: tokens are disabled. `has_users`: clients may authenticate as
        users stored in ZooKeeper.
        """
        self._zookeeper, self._has_tokens = zookeeper, secret_key is not None
        self.acls = ZkAcls()
        self.authorizer: Final = None if settings is None else AclAuthorizer(settings, self.acls)
        self.users = ZkCredentials(zookeeper, secret_key)
        self.quotas = ZkClientQuotas(zookeeper)
        followed = [self.quotas, *others, *([self.users] if has_users else [])]
        if settings is not None:
            followed.append(AclReader(zookeeper, self.acls))
        self._watchers = [NotificationWatcher(zookeeper, each) for each in followed]

    def __iter__(self) -> Iterator[NotificationWatcher]:
        return iter(self._watchers)

    async def make_paths(self) -> None:
        """Creates the persistent znodes that every node of a cluster needs."""
        for path in (*znodes.PERSISTENT_PATHS, *(znode_tokens.PERSISTENT_PATHS if self._has_tokens else ())):
            await self._zookeeper.make_path(path)

    async def open(self) -> None:
        """Reads all data; called before the server serves requests."""
        for watcher in self._watchers:
            await watcher.open()

    def session_lost(self) -> None:
        """All data is read again in the next session."""
        for watcher in self._watchers:
            watcher.session_lost()
