"""Orders for a broker's replicas from the metadata log (Kafka's BrokerMetadataPublisher, ReplicaManager.applyDelta).

`publisher.py` takes the changes between two offsets (`MetadataDelta`) with the state after them, and calls the same
orders as `zk_control/` does: `become`, `stop`, `hold_only`. No broker epoch and no controller epoch is checked here:
the order of the log takes their place. `ReplicaDirectories` has each log where the log wants it before its replica is
given an order.
"""
