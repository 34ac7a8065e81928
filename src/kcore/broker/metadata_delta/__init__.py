"""Orders for a broker's replicas from the metadata log (Kafka's BrokerMetadataPublisher, ReplicaManager.applyDelta).

It has no code yet. `MetadataDelta` of `kcore.metadata` says which partitions and brokers changed between two offsets.
What goes here takes one together with the state after it, and calls the same orders as `zk_control/` does:

- partitions deleted or moved away from this broker: `ReplicaManager.stop`, with deletion of the log;
- partitions whose leader epoch rose and that this broker holds: `ReplicaManager.become`;
- brokers registered, fenced or gone, and topics' names and ids: `ReplicaManager.cluster`;
- the first image after a start: `ReplicaManager.hold_only`, as a log that the image does not list is a stray.

No broker epoch and no controller epoch is checked here: the order of the log takes their place.
"""
