"""A broker without logs that stores the states of control requests."""

from dataclasses import replace

from kcore.broker.replicas.cluster_view import ClusterView
from kcore.broker.replicas.outputs import NoticeKind
from kcore.broker.replicas.replica import Key, Replica
from kcore.broker.zk_control.control_requests import ControlRequests
from kcore.metadata.table.partition_table import PartitionTable
from kcore.protocol_errors import Errors
from kcore.types import ZERO_UUID, Uuid


class RememberedReplicas:
    """Stores the states of replicas, which have no logs; every order succeeds at once."""

    def __init__(self, broker_id: int, broker_epoch: int) -> None:
        self.broker_id, self.broker_epoch = broker_id, broker_epoch
        self.cluster = ClusterView()
        self.replicas: dict[Key, Replica] = {}

    def state(self, key: Key) -> Replica | None:
        """The last accepted state of the partition; None if the broker does not have it."""
        return self.replicas.get(key)

    def topic_id_on_disk(self, key: Key) -> Uuid:
        """Returns ZERO_UUID, because there are no logs."""
        return ZERO_UUID

    def become(self, key: Key, received: Replica, now_ms: int) -> Errors:
        """Stores the received state."""
        self.replicas[key] = received
        return Errors.NONE

    def assign_topic_id(self, key: Key, topic_id: Uuid) -> Errors:
        """Adds the topic id to a replica without one."""
        self.replicas[key] = replace(self.replicas[key], topic_id=topic_id)
        return Errors.NONE

    def stop(self, key: Key, delete: bool) -> Errors:
        """Marks the replica as stopped; with `delete` removes it."""
        known = self.replicas.get(key)
        if known is not None and delete:
            del self.replicas[key]
        elif known is not None:
            self.replicas[key] = replace(known, stopped=True)
        return Errors.NONE

    def hold_only(self, keys: set[Key]) -> None:
        """Does nothing: without logs there are no strays."""

    def cluster_changed(self) -> None:
        """Does nothing: no requests wait."""

    def notice(self, kind: NoticeKind, text: str) -> None:
        """Does nothing: no log lines are written."""


class Broker(ControlRequests):
    """Handles LeaderAndIsr, UpdateMetadata and StopReplica: refuses stale requests, and stores their states."""

    def __init__(self, broker_id: int, broker_epoch: int) -> None:
        """`broker_epoch`: the czxid of the znode that this incarnation of the broker created (KIP-380)."""
        self._remembered = RememberedReplicas(broker_id, broker_epoch)
        super().__init__(self._remembered)

    @property
    def broker_epoch(self) -> int:
        """The epoch of this incarnation (KIP-380)."""
        return self._remembered.broker_epoch

    @property
    def table(self) -> PartitionTable:
        """The cluster's partitions and brokers from UpdateMetadata."""
        return self._remembered.cluster.table

    @property
    def replicas(self) -> dict[Key, Replica]:
        """The broker's replicas, by (topic name, partition)."""
        return self._remembered.replicas
