"""The settings that a ZooKeeper-mode broker follows by notifications: users, quotas, ACLs, throttles and topics."""

from collections.abc import Callable, Iterator

from kcore.broker.replicas.replica_manager import ReplicaManager
from kcore.node.zk.acls import AclAuthorizer, ZkAcls
from kcore.server.clock import now_ms
from kcore.server.zk_broker.broker_throttles import BrokerThrottles
from kcore.server.zk_broker.topic_settings import ZkTopicSettings
from kcore.server.zk_broker.zk_broker_listener_settings import ZkBrokerListenerSettings
from kcore.server.zk_node.acl_reader import AclReader
from kcore.server.zk_node.client_quotas import ZkClientQuotas
from kcore.server.zk_node.credentials import ZkCredentials
from kcore.server.zk_node.notification_watcher import NotificationWatcher, NotifiedData
from kcore.zookeeper.client import ZookeeperClient


class WatchedSettings:
    """The settings of one broker, and their watchers; users and ACLs are watched only if the settings need them."""

    def __init__(
        self,
        zookeeper: ZookeeperClient,
        manager: ReplicaManager,
        listener_settings: ZkBrokerListenerSettings,
        perform: Callable[[], None],
    ) -> None:
        """`perform` performs the replicas' outputs."""
        settings, self.acls = listener_settings.authorizer, ZkAcls()
        self.authorizer = None if settings is None else AclAuthorizer(settings, self.acls)
        self.users = ZkCredentials(zookeeper, listener_settings.tokens.secret_key)
        self.quotas = ZkClientQuotas(zookeeper)
        self.topics = ZkTopicSettings(zookeeper, manager, now_ms, perform)
        followed: list[NotifiedData] = [self.quotas, self.topics, BrokerThrottles(zookeeper, manager)]
        if listener_settings.has_users:
            followed.append(self.users)
        if settings is not None:
            followed.append(AclReader(zookeeper, self.acls))
        self._watchers = [NotificationWatcher(zookeeper, each) for each in followed]

    def __iter__(self) -> Iterator[NotificationWatcher]:
        return iter(self._watchers)

    def session_lost(self) -> None:
        """All data is read again in the next session."""
        for watcher in self._watchers:
            watcher.session_lost()
