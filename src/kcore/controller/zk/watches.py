"""Maps the watches that fire in ZooKeeper to events (the znode handlers of KafkaController 3.9.1)."""

from typing import Final, Literal, TypeAlias

from kcore.controller.zk import events
from kcore.metadata.zookeeper import znodes

Kind: TypeAlias = Literal["created", "changed", "deleted", "children"]

# The events of paths whose children change.
CHILDREN: Final[dict[str, type[events.Event]]] = {
    znodes.BROKER_IDS: events.BrokerChange,
    znodes.TOPICS: events.TopicChange,
    znodes.DELETE_TOPICS: events.TopicDeletion,
    znodes.ISR_CHANGE_NOTIFICATION: events.IsrChangeNotification,
    znodes.LOG_DIR_EVENT_NOTIFICATION: events.LogDirEventNotification,
    znodes.CONFIG_CHANGES: events.ConfigChange,
}
# The events of paths that are created.
CREATED: Final[dict[str, type[events.Event]]] = {
    znodes.REASSIGN_PARTITIONS: events.ZkPartitionReassignment,
    znodes.PREFERRED_REPLICA_ELECTION: events.ZkReplicaLeaderElection,
}


def event_of(path: str, kind: Kind) -> events.Event | None:
    """The event of a watch that fired. None for a deleted broker znode, because the watch on its parent fires, too."""
    if kind == "children":
        return CHILDREN[path]() if path in CHILDREN else None
    if kind == "created" and path in CREATED:
        return CREATED[path]()
    parent, _, name = path.rpartition("/")
    if kind == "changed" and parent == znodes.BROKER_IDS and name.isdecimal():
        return events.BrokerModifications(int(name))
    if kind == "changed" and parent == znodes.TOPICS:
        return events.PartitionModifications(name)
    return None
