"""Turns the metadata log into orders for a broker's replicas (BrokerMetadataPublisher, ReplicaManager.applyDelta).

- `loader.py`: applies committed records and snapshots to the broker's image.
- `publisher.py`: takes the changes between two offsets (`MetadataDelta`) and the image after them, and calls `become`,
  `stop` and `hold_only` of the replicas, as `zk_control/` does.

Broker epochs and controller epochs need no check, since the log has an order. Before a replica gets an order,
`ReplicaDirectories` creates or moves its log to the assigned directory.
"""
