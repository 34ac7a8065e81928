"""Handles the requests of administrators that only the controller of ZooKeeper mode answers.

- `topics`: CreateTopics and DeleteTopics. `partitions`: CreatePartitions. `reassignments`: moves of replicas.
  `fit_brokers`: the brokers that may have new replicas.
- `features`: finalized features.
- `configs`, `quotas`, `tokens`: the controller's part of requests that `node/zk/admin/` answers on every node.
"""
